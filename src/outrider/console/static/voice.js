// Push to talk: while the button is held the microphone goes to the console; what was heard comes back into the
// box, to be corrected and sent. Answers are spoken on the console's side, where that is asked for; this page plays
// the sound. The browser's own voices are not used: some of them send the text away.

import { words } from "./words.js";

const RATE = 16000;
// The browser's own processing is made for calls: it cuts and distorts the first words that are said.
const MICROPHONE = { channelCount: 1, echoCancellation: false, autoGainControl: false, noiseSuppression: false };
const SPEAKS = "outrider.speaks";
const LONGEST = 300;

export class Voice {
  constructor(link, button, input, speaks, show, warn) {
    Object.assign(this, { link, button, input, speaks, show, warn });
    this.held = false;
    this.player = new Audio();
    button.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      this.begin();
    });
    for (const name of ["pointerup", "pointercancel", "pointerleave"]) button.addEventListener(name, () => this.end());
    button.addEventListener("contextmenu", (event) => event.preventDefault());
    button.addEventListener("keydown", (event) => {
      if ((event.key === " " || event.key === "Enter") && !event.repeat) this.begin();
    });
    button.addEventListener("keyup", () => this.end());
    button.addEventListener("blur", () => this.end());
    document.addEventListener("visibilitychange", () => document.hidden && this.end());
    speaks.checked = localStorage.getItem(SPEAKS) === "yes";
    speaks.addEventListener("change", () => localStorage.setItem(SPEAKS, speaks.checked ? "yes" : "no"));
    speaks.addEventListener("change", () => this.player.pause());
  }

  async begin() {
    if (this.held) return;
    this.held = true;
    this.button.classList.add("held");
    this.player.pause();
    try {
      await this.open();
    } catch (error) {
      this.end();
      this.show("bad", words("talk.refused", { reason: error.message }));
    }
  }

  async open() {
    if (!navigator.mediaDevices) throw new Error(words("talk.insecure"));
    this.stream = await navigator.mediaDevices.getUserMedia({ audio: MICROPHONE });
    this.context = new AudioContext({ sampleRate: RATE });
    await this.context.audioWorklet.addModule("static/recorder.js");
    const recorder = new AudioWorkletNode(this.context, "recorder", { numberOfOutputs: 0 });
    recorder.port.onmessage = ({ data }) => this.held && this.link.send({ do: "samples", samples: base64(data) });
    this.stream.getAudioTracks()[0].onended = () => {
      this.end();
      this.show("bad", words("talk.gone"));
    };
    this.context.createMediaStreamSource(this.stream).connect(recorder);
    if (!this.held) {
      this.close();
    } else if (this.link.send({ do: "listen" })) {
      this.listening = true;
      this.show("running", words("talk.listening"));
    } else {
      throw new Error(words("talk.unconnected"));
    }
  }

  end() {
    if (!this.held) return;
    this.held = false;
    this.button.classList.remove("held");
    if (this.listening && this.link.send({ do: "listened" })) this.show("running", words("talk.recognising"));
    this.listening = false;
    this.close();
  }

  close() {
    this.stream?.getTracks().forEach((track) => track.stop());
    this.context?.close();
    this.stream = this.context = undefined;
  }

  onHeard({ text, note, is_whole: isWhole }) {
    if (isWhole) this.end();
    if (text && note !== "stopped") {
      this.input.value = text;
      this.input.focus();
    }
    this.show(note && note !== "stopped" ? "bad" : "good", note || words("talk.heard"));
  }

  speak(text) {
    this.player.pause();
    if (!this.speaks.checked) return;
    const beginning = [...text].slice(0, LONGEST).join("");
    this.link.send({ do: "speak", text: beginning, language: document.documentElement.lang });
  }

  async onSpoken({ sound, note }) {
    if (note) return this.warn(note);
    if (!this.speaks.checked || this.held) return;
    URL.revokeObjectURL(this.player.src);
    const samples = Uint8Array.from(atob(sound), (letter) => letter.charCodeAt(0));
    this.player.src = URL.createObjectURL(new Blob([samples], { type: "audio/wav" }));
    try {
      await this.player.play();
    } catch (error) {
      if (error.name !== "AbortError") this.warn(words("talk.silent", { reason: error.message }));
    }
  }
}

const base64 = (samples) => btoa(String.fromCharCode(...new Uint8Array(samples.buffer)));
