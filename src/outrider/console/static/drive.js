// Press and hold: velocity commands are sent while a key or button is held, and a zero velocity on release. Keys
// drive only while the pad has the focus: other parts of the page use the keys themselves.

const PERIOD_MS = 50;
const KEYS = {
  KeyW: ["forward", 1], ArrowUp: ["forward", 1], KeyS: ["forward", -1], ArrowDown: ["forward", -1],
  KeyA: ["turn", 1], ArrowLeft: ["turn", 1], KeyD: ["turn", -1], ArrowRight: ["turn", -1],
  KeyQ: ["left", 1], KeyE: ["left", -1],
};
const PRESSES = [" ", "Enter"];

export class Drive {
  constructor(link, pad) {
    Object.assign(this, { link, pad, timer: null });
    this.held = new Map();
    pad.addEventListener("keydown", (event) => this.onKey(event));
    pad.addEventListener("focusout", ({ relatedTarget }) => pad.contains(relatedTarget) || this.releaseAll());
    document.addEventListener("keyup", (event) => this.release(event.code));
    // Some systems report no release of other keys while the Meta key is held.
    document.addEventListener("keydown", (event) => event.metaKey && this.releaseAll());
    // A context menu swallows the release of a held key.
    document.addEventListener("contextmenu", () => this.releaseAll());
    for (const button of pad.querySelectorAll("[data-drive]")) this.watch(button);
    // A page in the background must not drive.
    window.addEventListener("blur", () => this.releaseAll());
    document.addEventListener("visibilitychange", () => document.hidden && this.releaseAll());
    window.addEventListener("pagehide", () => this.releaseAll());
  }

  watch(button) {
    const [axis, value] = button.dataset.drive.split(",");
    const begin = () => {
      button.classList.add("held");
      this.hold(button, axis, Number(value));
    };
    const end = () => {
      button.classList.remove("held");
      this.release(button);
    };
    button.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      if (!this.pad.contains(document.activeElement)) this.pad.focus({ preventScroll: true });
      button.setPointerCapture(event.pointerId);
      begin();
    });
    for (const name of ["pointerup", "pointercancel", "lostpointercapture", "blur"]) button.addEventListener(name, end);
    button.addEventListener("keydown", (event) => {
      if (!PRESSES.includes(event.key) || isModified(event)) return;
      event.preventDefault();
      if (!event.repeat) begin();
    });
    button.addEventListener("keyup", (event) => PRESSES.includes(event.key) && end());
    // A long touch would open a context menu: suppress it, and keep driving.
    button.addEventListener("contextmenu", (event) => {
      event.preventDefault();
      event.stopPropagation();
    });
  }

  onKey(event) {
    const key = KEYS[event.code];
    if (!key || isModified(event)) return;
    event.preventDefault();
    if (!event.repeat) this.hold(event.code, ...key);
  }

  hold(source, axis, value) {
    this.held.set(source, [axis, value]);
    this.tell();
    this.timer ??= setInterval(() => this.tell(), PERIOD_MS);
  }

  release(source) {
    if (this.held.delete(source) && this.held.size === 0) this.stop();
  }

  releaseAll() {
    if (this.held.size === 0) return;
    this.held.clear();
    this.stop();
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    this.send({ forward: 0, left: 0, turn: 0 });
  }

  tell() {
    if (!this.link.isFresh) return this.releaseAll();
    const sum = { forward: 0, left: 0, turn: 0 };
    for (const [axis, value] of this.held.values()) sum[axis] = Math.max(-1, Math.min(1, sum[axis] + value));
    this.send(sum);
  }

  send(axes) {
    this.link.send({ do: "drive", ...axes, beat: this.link.beat });
  }
}

const isModified = ({ ctrlKey, metaKey, altKey }) => ctrlKey || metaKey || altKey;
