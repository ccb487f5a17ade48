// Push to talk: while the button is held, the page sends the microphone's sound to the console. The recognised text
// appears in the box, where a person can correct and send it. If enabled, the console synthesizes speech for answers
// and this page plays it. The browser's own voices are not used: some of them send the text to a server.

import { keep, recall } from "./storage.js";
import { words } from "./words.js";

const RATE = 16000;
// The browser's own processing is made for calls: it cuts off and distorts the first words.
const MICROPHONE = { channelCount: 1, echoCancellation: false, autoGainControl: false, noiseSuppression: false };
const SPEAKS = "outrider.speaks";
const LONGEST = 300;

export class Voice {
  constructor(link, button, input, speaks, show, warn) {
    Object.assign(this, { link, button, input, speaks, show, warn });
    Object.assign(this, { held: false, press: 0, said: 0, listening: false, isAwaited: false, heard: "" });
    this.close = () => {};
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
    speaks.checked = recall("localStorage", SPEAKS) === "yes";
    speaks.addEventListener("change", () => keep("localStorage", SPEAKS, speaks.checked ? "yes" : "no"));
    speaks.addEventListener("change", () => this.player.pause());
  }

  async begin() {
    if (this.held) return;
    this.held = true;
    this.press += 1;
    const { press } = this;
    this.button.classList.add("held");
    this.player.pause();
    try {
      await this.open(press);
    } catch (error) {
      if (this.press !== press) return;
      this.end();
      this.show("bad", words("talk.refused", { reason: error.message }));
    }
  }

  // Whether this press is still held. It may end, and another begin, while the browser asks for the microphone.
  isHeld(press) {
    return this.held && this.press === press;
  }

  // Opens the microphone for a press. If the press has ended meanwhile, closes it again.
  async open(press) {
    if (!navigator.mediaDevices) throw new Error(words("talk.insecure"));
    const stream = await navigator.mediaDevices.getUserMedia({ audio: MICROPHONE });
    let context;
    const close = () => {
      stream.getTracks().forEach((track) => track.stop());
      context?.close();
      context = undefined;
    };
    try {
      if (!this.isHeld(press)) return close();
      this.close = close;
      context = new AudioContext({ sampleRate: RATE });
      await this.record(press, stream, context);
    } catch (error) {
      close();
      throw error;
    }
  }

  async record(press, stream, context) {
    await context.audioWorklet.addModule("static/recorder.js");
    if (!this.isHeld(press)) return;
    const recorder = new AudioWorkletNode(context, "recorder", { numberOfOutputs: 0 });
    recorder.port.onmessage = ({ data }) => {
      if (this.isHeld(press)) this.link.send({ do: "samples", samples: base64(data) });
    };
    stream.getAudioTracks()[0].onended = () => {
      if (!this.isHeld(press)) return;
      this.end();
      this.show("bad", words("talk.gone"));
    };
    context.createMediaStreamSource(stream).connect(recorder);
    if (!this.link.send({ do: "listen", press })) throw new Error(words("talk.unconnected"));
    this.listening = true;
    this.said = press;
    this.show("running", words("talk.listening"));
  }

  end() {
    if (!this.held) return;
    this.held = false;
    this.button.classList.remove("held");
    this.close();
    if (!this.listening) return;
    this.listening = false;
    this.isAwaited = this.link.send({ do: "listened" });
    if (this.isAwaited) this.show("running", words("talk.recognising"));
  }

  // The connection is lost. Of the sound that it has received, the console still obeys a stop, and ignores the rest.
  lost() {
    if (!this.listening && !this.isAwaited) return;
    this.end();
    this.isAwaited = false;
    this.show("bad", words("talk.lost"));
  }

  // Shows recognised text. The text of one press does not end another.
  onHeard({ text, note, is_whole: isWhole, press }) {
    if (isWhole && press === this.press) this.end();
    if (isWhole && press === this.said) this.isAwaited = false;
    if (text && note !== "stopped") this.write(text);
    if (press !== this.press && this.listening) return;
    this.show(note && note !== "stopped" ? "bad" : "good", note || words("talk.heard"));
  }

  // Appends recognised text to typed text; replaces earlier recognised text that is unchanged.
  write(text) {
    const typed = this.input.value.trim();
    this.input.value = typed && typed !== this.heard ? `${typed} ${text}` : text;
    this.heard = text;
    this.input.focus();
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
