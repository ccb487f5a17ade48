// The websocket: strict messages out, events and pictures in, and a new connection whenever one is lost.

import { words } from "./words.js";

const RETRY_MS = [300, 600, 1200, 2500];
const PING_MS = 1000;
const SILENT_MS = 2000;
const STOP_RETRY_MS = 500;
const HEARD_MS = 300;
const REPLACED = 4001;
const AWAY = 4002;
const SECRET = "outrider.viewer";

export class Link {
  // `on` has: event(message), picture(blob, number), state("open" | "lost" | "away" | "silent" | "replaced"), delay(ms),
  // stop("" | why nobody is known to have heard it).
  constructor(on) {
    this.on = on;
    this.beat = 0;
    this.tries = 0;
    this.heardMs = 0;
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
    socket.onopen = () => {
      this.send({ do: "hello", resume: sessionStorage.getItem(SECRET) ?? "" });
      if (this.cancelOwed) this.send({ do: "cancel" });
    };
    socket.onmessage = ({ data }) => this.receive(data);
    socket.onclose = ({ code }) => this.closed(code);
    this.socket = socket;
  }

  send(message) {
    if (this.isOpen) this.socket.send(JSON.stringify(message));
    return this.isOpen;
  }

  receive(data) {
    this.heardMs = performance.now();
    this.cancelOwed = false;
    if (data instanceof ArrayBuffer) {
      const number = new DataView(data).getUint32(0);
      this.send({ do: "seen", picture: number });
      this.on.picture(new Blob([new Uint8Array(data, 4)], { type: "image/jpeg" }), number);
      return;
    }
    const message = JSON.parse(data);
    if (message.is === "state") this.told(message);
    if (message.is === "pong") this.on.delay(performance.now() - message.sent_ms);
    if (message.is === "welcome") this.welcomed(message);
    this.on.event(message);
  }

  told(state) {
    this.beat = state.beat;
    this.stopHeard ||= state.e_stop;
  }

  welcomed(message) {
    this.tries = 0;
    this.told(message.state);
    sessionStorage.setItem(SECRET, message.secret);
    this.on.state("open");
    this.ping();
  }

  ping() {
    this.send({ do: "ping", sent_ms: performance.now() });
  }

  watch() {
    if (!this.isOpen) return;
    this.ping();
    if (!this.isFresh) this.on.state("silent");
  }

  async closed(code) {
    this.on.state({ [REPLACED]: "replaced", [AWAY]: "away" }[code] ?? "lost");
    if (code === REPLACED) return;
    const wait = RETRY_MS[Math.min(this.tries, RETRY_MS.length - 1)];
    this.tries += 1;
    await new Promise((resolve) => setTimeout(resolve, wait));
    if (await this.mustLogIn()) location.assign("/login");
    else this.connect();
  }

  // A session that has ended looks like any refused connection; the page itself says which it is.
  async mustLogIn() {
    try {
      return (await fetch(".", { method: "HEAD" })).url.endsWith("/login");
    } catch {
      return false;
    }
  }

  release() {
    this.send({ do: "e_stop", engaged: false, beat: this.beat });
  }

  // Whether it has gone out on a connection that works; if not, it goes out by the next one.
  cancel() {
    this.cancelOwed = !(this.send({ do: "cancel" }) && this.isFresh);
    return !this.cancelOwed;
  }

  // By both ways, unless the robot's own news soon say that it is engaged: a socket that looks open may lead
  // nowhere, here or behind a relay.
  async eStop() {
    this.stopHeard = false;
    if (this.send({ do: "e_stop", engaged: true }) && this.isFresh) {
      await new Promise((resolve) => setTimeout(resolve, HEARD_MS));
    }
    if (!this.stopHeard) this.postStop();
  }

  // Until it is heard, by this way or by a connection that has come back.
  async postStop() {
    if (this.stopping) return;
    this.stopping = true;
    while (!(await this.posted())) {
      this.on.stop(words("stop.unsent"));
      await new Promise((resolve) => setTimeout(resolve, STOP_RETRY_MS));
    }
    this.stopping = false;
    this.on.stop("");
  }

  async posted() {
    try {
      const signal = AbortSignal.timeout(SILENT_MS);
      return (await fetch("e_stop", { method: "POST", signal })).ok;
    } catch {
      return false;
    }
  }
}
