// Press and hold: commands go out while something is held, and one that takes the hand off when it is not.

const PERIOD_MS = 50;
const KEYS = {
  KeyW: ["forward", 1], ArrowUp: ["forward", 1], KeyS: ["forward", -1], ArrowDown: ["forward", -1],
  KeyA: ["turn", 1], ArrowLeft: ["turn", 1], KeyD: ["turn", -1], ArrowRight: ["turn", -1],
  KeyQ: ["left", 1], KeyE: ["left", -1],
};

const isTyping = (event) => event.target.matches("input, textarea");

export class Drive {
  constructor(link, buttons) {
    this.link = link;
    this.held = new Map();
    this.timer = null;
    document.addEventListener("keydown", (event) => this.onKey(event));
    document.addEventListener("keyup", (event) => this.release(event.code));
    // A menu takes the release of a held key.
    document.addEventListener("contextmenu", () => this.releaseAll());
    for (const button of buttons) this.watch(button);
    // A page that nobody looks at must not drive.
    window.addEventListener("blur", () => this.releaseAll());
    document.addEventListener("visibilitychange", () => document.hidden && this.releaseAll());
    window.addEventListener("pagehide", () => this.releaseAll());
  }

  watch(button) {
    const [axis, value] = button.dataset.drive.split(",");
    const end = () => {
      button.classList.remove("held");
      this.release(button);
    };
    button.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      button.setPointerCapture(event.pointerId);
      button.classList.add("held");
      this.hold(button, axis, Number(value));
    });
    for (const name of ["pointerup", "pointercancel", "lostpointercapture"]) button.addEventListener(name, end);
    // A long touch asks for a menu: there is none here, and the hand stays on.
    button.addEventListener("contextmenu", (event) => {
      event.preventDefault();
      event.stopPropagation();
    });
  }

  onKey(event) {
    // While it is held, some systems tell no release of the other keys.
    if (event.metaKey) this.releaseAll();
    const key = KEYS[event.code];
    if (!key || event.repeat || isTyping(event) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.hold(event.code, ...key);
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
