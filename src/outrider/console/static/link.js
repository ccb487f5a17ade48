// The websocket: sends messages, receives events and camera images, and reconnects after a loss.

import { keep, recall } from "./storage.js";

const RETRY_MS = [300, 600, 1200, 2500];
const PING_MS = 1000;
const SILENT_MS = 2000;
// A connection that is silent for this long is replaced by a new one.
const REDIAL_MS = 6000;
const REPLACED = 4001;
const AWAY = 4002;
const FULL = 1013;
const UNREADABLE = 1008;
const UNAVAILABLE = 503;
const SECRET = "outrider.viewer";
// Unicode characters that change the direction in which text is displayed.
const REORDERING = /[\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]/g;

export class Link {
  // `on` has event(message), picture(blob, number), delay(ms) and state(name, reason). The names are "open", "lost",
  // "away", "full" and "silent"; the reason is the console's if it refused the connection.
  constructor(on) {
    this.on = on;
    this.beat = 0;
    this.tries = 0;
    this.heardMs = 0;
    this.pingMs = 0;
    this.unanswered = [];
    this.stopHeard = false;
    this.secret = recall("sessionStorage", SECRET);
    this.connect();
    setInterval(() => this.watch(), PING_MS);
  }

  get isOpen() {
    return this.socket.readyState === WebSocket.OPEN;
  }

  // Whether a message arrived recently. Only then may a held key move the robot.
  get isFresh() {
    return this.isOpen && performance.now() - this.heardMs < SILENT_MS;
  }

  connect() {
    const address = new URL("ws", location.href);
    address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(address);
    socket.binaryType = "arraybuffer";
    this.dialledMs = performance.now();
    // Send a pending cancel before the hello: a full console accepts a cancel, but no hello. The answer to the hello,
    // or to any later ping, confirms the cancel.
    socket.onopen = () => {
      if (this.isCancelOwed && this.send({ do: "cancel" })) this.cancelMs = 0;
      this.send({ do: "hello", resume: this.secret });
    };
    socket.onmessage = ({ data }) => this.receive(data);
    socket.onclose = ({ code, reason }) => this.closed(code, reason);
    this.socket = socket;
  }

  send(message) {
    if (this.isOpen) this.socket.send(JSON.stringify(message));
    return this.isOpen;
  }

  receive(data) {
    this.heardMs = performance.now();
    if (data instanceof ArrayBuffer) {
      const number = new DataView(data).getUint32(0);
      this.send({ do: "seen", picture: number });
      this.on.picture(new Blob([new Uint8Array(data, 4)], { type: "image/jpeg" }), number);
      return;
    }
    const message = JSON.parse(data, asWritten);
    if (message.is === "state") this.told(message);
    if (message.is === "pong") this.answered(message.sent_ms);
    if (message.is === "welcome") this.welcomed(message);
    this.on.event(message);
    if (message.is === "welcome") this.helloAnswered();
  }

  told(state) {
    this.beat = state.beat;
    this.stopHeard ||= state.e_stop;
  }

  welcomed(message) {
    this.tries = 0;
    this.told(message.state);
    this.secret = message.secret;
    keep("sessionStorage", SECRET, this.secret);
    this.on.state("open");
    this.ping();
  }

  // Sends a ping with a unique number. Its answer confirms all messages that were sent before it.
  ping() {
    this.pingMs = Math.max(performance.now(), this.pingMs + 0.01);
    this.send({ do: "ping", sent_ms: this.pingMs });
    return this.pingMs;
  }

  // Handles a pong. The console works in order: it has all messages that were sent before the ping.
  answered(sentMs) {
    this.on.delay(performance.now() - sentMs);
    if (this.cancelMs <= sentMs) this.isCancelOwed = false;
    this.unanswered = this.unanswered.filter(({ pingMs, resolve }) => sentMs < pingMs || resolve(true));
  }

  // The console has the cancel that was sent before the hello, when it could not report back. Report it here.
  helloAnswered() {
    if (!this.isCancelOwed || this.cancelMs !== 0) return;
    this.isCancelOwed = false;
    this.on.event({ is: "halt", stands: false });
  }

  // Sends a message and resolves to whether the console got it. Only the answer to a ping proves that: a socket that
  // looks open may be dead.
  async deliver(message) {
    const { isFresh } = this;
    if (!this.send(message)) return false;
    const pingMs = this.ping();
    return isFresh && new Promise((resolve) => {
      this.unanswered.push({ pingMs, resolve });
      setTimeout(resolve, SILENT_MS, false);
    });
  }

  watch() {
    if (this.socket.readyState > WebSocket.OPEN) return;
    const silentMs = performance.now() - Math.max(this.heardMs, this.dialledMs);
    if (silentMs > REDIAL_MS) this.giveUp();
    else if (this.isOpen) {
      this.ping();
      if (!this.isFresh) this.on.state("silent");
    }
  }

  // Replaces the connection. A broken link delivers no close event, so do not wait for one.
  giveUp() {
    const { socket } = this;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
    this.closed();
  }

  async closed(code, reason) {
    if (code === FULL) this.helloAnswered();
    this.unanswered.forEach(({ resolve }) => resolve(false));
    this.unanswered = [];
    // Another tab, opened from this one, has taken over this viewer: reconnect as a new viewer.
    if (code === REPLACED) this.secret = "";
    const isRefused = code === FULL || code === UNREADABLE;
    this.on.state({ [AWAY]: "away", [FULL]: "full" }[code] ?? "lost", isRefused ? reason : "");
    const wait = RETRY_MS[Math.min(this.tries, RETRY_MS.length - 1)];
    this.tries += 1;
    await new Promise((resolve) => setTimeout(resolve, wait));
    if (await this.mustLogIn()) location.assign("/login");
    else this.connect();
  }

  // Resolves to whether the session has ended. A refused connection does not show whether that is the reason or the
  // console is full; a request for the page does.
  async mustLogIn() {
    try {
      const { status, url } = await fetch(".", { method: "HEAD", signal: AbortSignal.timeout(SILENT_MS) });
      if (status === UNAVAILABLE) this.on.state("full", "");
      return url.endsWith("/login");
    } catch {
      return false;
    }
  }

  // The message that releases the emergency stop. The console refuses it if `beat` is older than the stop.
  get release() {
    return { do: "e_stop", engaged: false, beat: this.beat };
  }

  // Cancels the goal and resolves to whether the console got it. Until then, each new connection sends it again.
  async cancel() {
    this.isCancelOwed = true;
    const delivery = this.deliver({ do: "cancel" });
    this.cancelMs = this.pingMs;
    return delivery;
  }

  // Sends an emergency stop. Returns whether it was sent on a working connection. `stopHeard` is set once a state
  // reports that the stop is engaged.
  sendStop() {
    this.stopHeard = false;
    return this.send({ do: "e_stop", engaged: true }) && this.isFresh;
  }
}

const asWritten = (name, value) => (typeof value === "string" ? value.replace(REORDERING, "") : value);
