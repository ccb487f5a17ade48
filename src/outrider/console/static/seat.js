// The driver's seat: shows the driver, with a button to take or leave the seat. A person who gives a command without
// the seat gets a second button, which takes the seat and repeats the command.

import { words } from "./words.js";

const SHOWN_MS = 15000;

export class Seat {
  constructor(link, button, driver, unseated, pad, deliver) {
    Object.assign(this, { link, button, driver, unseated, pad, deliver, me: "", state: {}, isWanted: false });
    [this.why, this.take] = unseated.children;
    button.addEventListener("click", () => this.onButton());
    this.take.addEventListener("click", () => this.takeAndAsk());
    // Ignore key repeats: the Enter that sent the command may still be held.
    this.take.addEventListener("keydown", (event) => event.repeat && event.preventDefault());
  }

  get isMine() {
    return this.state.driver === this.me;
  }

  onButton() {
    this.isWanted = !this.isMine;
    this.link.send({ do: this.isMine ? "leave" : "take" });
  }

  // `state` is empty while the page has no current state.
  show(state) {
    this.state = state;
    const { driver, driver_yields: yields } = state;
    this.driver.textContent = words(`drive.${this.isMine ? "you" : driver ? "other" : driver === "" ? "nobody" : "unknown"}`, { name: driver });
    this.button.textContent = words(this.isMine ? "drive.leave" : "drive.take");
    this.button.disabled = driver === undefined || (Boolean(driver) && !this.isMine && !yields);
    if (this.button.disabled || this.isMine) this.hide();
    this.goToPad();
  }

  // Moves the focus to the pad after this page has taken the seat, so that the keys drive at once.
  goToPad() {
    if (!this.isWanted || !this.isMine) return;
    this.isWanted = false;
    if ([this.button, document.body].includes(document.activeElement)) this.pad.focus({ preventScroll: true });
  }

  // Offers the seat after a refused request. The button takes the seat and repeats the request, except for driving:
  // the person presses the key again.
  ask(asked, onTake) {
    Object.assign(this, { asked, onTake });
    const { driver } = this.state;
    this.why.textContent = words(driver ? "unseated.agent" : "unseated", { name: driver });
    const said = asked.text ?? (asked.do === "drive" ? "" : words(`unseated.${asked.do}`));
    this.take.textContent = words(said ? "drive.take.and" : "drive.take", { said });
    this.unseated.hidden = false;
    this.before ??= document.activeElement;
    // Focus the button, so that Enter presses it, unless the person is typing the next words.
    if (asked.do !== "drive" && !this.before.value) this.take.focus();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.hide(), SHOWN_MS);
  }

  takeAndAsk() {
    this.link.send({ do: "take" });
    if (this.asked.do === "e_stop") this.deliver(this.link.release);
    else if (this.asked.do !== "drive") this.deliver(this.asked);
    this.onTake();
    this.hide();
  }

  hide() {
    if (this.unseated.hidden) return;
    if (document.activeElement === this.take) this.before.focus();
    this.unseated.hidden = true;
    this.before = undefined;
  }
}
