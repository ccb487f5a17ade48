// The websocket: strict messages out, events and pictures in, and a new connection whenever one is lost.

import { keep, recall } from "./storage.js";

const RETRY_MS = [300, 600, 1200, 2500];
const PING_MS = 1000;
const SILENT_MS = 2000;
// After so long without a word a connection is given up for a new one.
const REDIAL_MS = 6000;
const REPLACED = 4001;
const AWAY = 4002;
const FULL = 1013;
const UNREADABLE = 1008;
const UNAVAILABLE = 503;
const SECRET = "outrider.viewer";
// Signs that make what stands after them, or around them, read in another order than it is written.
const REORDERING = /[\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]/g;

export class Link {
  // `on` has: event(message), picture(blob, number), delay(ms), and state("open" | "lost" | "away" | "full" | "silent",
  // the console's reason where it has closed the connection).
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

  // Heard from just now: only then may a held key move the robot.
  get isFresh() {
    return this.isOpen && performance.now() - this.heardMs < SILENT_MS;
  }

  connect() {
    const address = new URL("ws", location.href);
    address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(address);
    socket.binaryType = "arraybuffer";
    this.dialledMs = performance.now();
    // A console without room takes a stop, and no hello. Its answer to the hello, and to any ping, says that it has.
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

  // Each ping is a number of its own, by which it is known what came before it.
  ping() {
    this.pingMs = Math.max(performance.now(), this.pingMs + 0.01);
    this.send({ do: "ping", sent_ms: this.pingMs });
    return this.pingMs;
  }

  // The console answers in order: with a ping it has whatever went out before that.
  answered(sentMs) {
    this.on.delay(performance.now() - sentMs);
    if (this.cancelMs <= sentMs) this.isCancelOwed = false;
    this.unanswered = this.unanswered.filter(({ pingMs, resolve }) => sentMs < pingMs || resolve(true));
  }

  // The console has the cancel that went ahead of the hello; the page was not here to be told so.
  helloAnswered() {
    if (!this.isCancelOwed || this.cancelMs !== 0) return;
    this.isCancelOwed = false;
    this.on.event({ is: "halt", stands: false });
  }

  // Whether the console has it, which shows by its answer: a socket that looks open may lead nowhere.
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

  // No end of a connection comes over a link that is broken.
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
    // Another tab, which was opened from this one, goes on as this viewer: this one comes back as a new one.
    if (code === REPLACED) this.secret = "";
    const isRefused = code === FULL || code === UNREADABLE;
    this.on.state({ [AWAY]: "away", [FULL]: "full" }[code] ?? "lost", isRefused ? reason : "");
    const wait = RETRY_MS[Math.min(this.tries, RETRY_MS.length - 1)];
    this.tries += 1;
    await new Promise((resolve) => setTimeout(resolve, wait));
    if (await this.mustLogIn()) location.assign("/login");
    else this.connect();
  }

  // A session that has ended, or a console without room, looks like any refused connection; the page itself says
  // which it is.
  async mustLogIn() {
    try {
      const { status, url } = await fetch(".", { method: "HEAD", signal: AbortSignal.timeout(SILENT_MS) });
      if (status === UNAVAILABLE) this.on.state("full", "");
      return url.endsWith("/login");
    } catch {
      return false;
    }
  }

  // The message that releases the emergency stop; the console refuses it where its news are older than the stop.
  get release() {
    return { do: "e_stop", engaged: false, beat: this.beat };
  }

  // Whether the console has it; until it has, it goes out by each new connection.
  async cancel() {
    this.isCancelOwed = true;
    const delivery = this.deliver({ do: "cancel" });
    this.cancelMs = this.pingMs;
    return delivery;
  }

  // Whether it has gone out on a connection that works; `stopHeard`, whether the robot's news have told of it since.
  sendStop() {
    this.stopHeard = false;
    return this.send({ do: "e_stop", engaged: true }) && this.isFresh;
  }
}

const asWritten = (name, value) => (typeof value === "string" ? value.replace(REORDERING, "") : value);
