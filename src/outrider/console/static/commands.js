// Commands in words: an input box with a history, buttons for frequent commands, and the results.

import { keep, recallTexts } from "./storage.js";
import { list, words } from "./words.js";

const HISTORY = "outrider.history";
const KEPT = 50;

const pastCommand = ({ state, instruction, message }) => {
  const item = document.createElement("li");
  item.className = state === "done" ? "good" : "bad";
  const said = instruction || words("history.other");
  item.textContent = words(`goal.${state}`, { said }) + (message ? ` (${message})` : "");
  return item;
};

export class Commands {
  constructor(link, form, input, quick, cancel, answer, meant, plan, past) {
    Object.assign(this, { link, input, answer, cancel, meant, plan, past });
    Object.assign(this, { running: "", isLost: false, isUnsent: false, ended: [] });
    this.history = recallTexts("localStorage", HISTORY);
    this.at = this.history.length;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.say(input.value.trim())) input.value = "";
      // Close the on-screen keyboard, which hides the robot.
      if (matchMedia("(pointer: coarse)").matches) input.blur();
    });
    input.addEventListener("keydown", (event) => this.onKey(event));
    cancel.addEventListener("click", async () => {
      if (!await link.cancel()) this.showUnsent(words("command.uncancelled"));
    });
    meant.addEventListener("click", () => this.say(meant.dataset.said));
    for (const said of list("command.quick.list")) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = said;
      button.addEventListener("click", () => this.say(said));
      quick.append(button);
    }
  }

  // Returns whether the command was sent; if not, shows the reason.
  say(said) {
    if (!said) return true;
    this.remember(said);
    const most = Number(this.input.dataset.most), characters = [...said].length;
    const why = characters > most ? words("command.long", { characters, most })
      : said.isWellFormed?.() === false ? words("command.broken")
      : this.link.isFresh ? ""
      : words("command.unsent");
    this.isUnsent = false;
    if (why) this.showUnsent(why);
    else this.deliver({ do: "say", text: said });
    return !why;
  }

  // Sends a message. If the console does not answer, reports that, and restores the words if the box is empty.
  async deliver(message) {
    if (await this.link.deliver(message)) return;
    if (message.text && !this.input.value) this.input.value = message.text;
    this.showUnsent(words(message.do === "e_stop" ? "stop.unreleased" : "command.unanswered"));
  }

  // The reason stays visible even if the connection is lost or restored.
  showUnsent(why) {
    this.isUnsent = true;
    this.show("bad", why);
  }

  remember(said) {
    this.history = [...this.history.filter((old) => old !== said), said].slice(-KEPT);
    this.at = this.history.length;
    keep("localStorage", HISTORY, JSON.stringify(this.history));
  }

  onKey(event) {
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    this.at = Math.max(0, Math.min(this.history.length, this.at + step));
    this.input.value = this.history[this.at] ?? "";
  }

  onGoal({ state, instruction, message }) {
    this.showGoal({ state, instruction, message });
    if (state !== "running") this.addPast({ state, instruction, message });
  }

  showGoal({ state, instruction, message }) {
    this.running = state === "running" ? instruction : "";
    this.isUnsent = false;
    const kind = { running: "running", done: "good", failed: "bad" }[state];
    this.show(kind, words(message ? "goal.said" : `goal.${state}`, { said: instruction, message }));
    this.offer(message?.match(/did you mean "(.+)"\?$/)?.[1] ?? "");
  }

  // Offers a corrected command. A misspelt command runs only after a person confirms it.
  offer(said) {
    this.meant.hidden = !said;
    this.meant.dataset.said = said;
    this.meant.textContent = said ? words("command.meant", { said }) : "";
  }

  onHalt({ stands }) {
    this.isUnsent = false;
    this.show(stands ? "good" : "running", words(`halt.${stands ? "stands" : "asked"}`));
  }

  // Lists past commands, newest first.
  setPast(ended) {
    this.ended = ended;
    this.past.replaceChildren(...ended.map(pastCommand).reverse());
    this.past.parentElement.hidden = !ended.length;
  }

  addPast(ended) {
    this.past.prepend(pastCommand(ended));
    while (this.past.children.length > KEPT) this.past.lastElementChild.remove();
    this.past.parentElement.hidden = false;
  }

  onPlan({ steps, current, running }) {
    this.plan.hidden = !steps.length;
    this.plan.replaceChildren(...steps.map((step, index) => {
      const item = document.createElement("li");
      const kind = index < current ? "done" : index > current ? "ahead" : running ? "now" : "failed";
      item.className = kind;
      item.textContent = step;
      if (kind === "now") item.setAttribute("aria-current", "step");
      return item;
    }));
  }

  // Without a connection, the state of a running command is unknown.
  lost() {
    this.cancel.classList.remove("running");
    if (this.running && !this.isLost && !this.isUnsent) this.show("bad", words("goal.unknown", { said: this.running }));
    this.isLost = true;
  }

  setRunning(goal) {
    this.cancel.classList.toggle("running", Boolean(goal));
    if (this.isUnsent && this.isLost) this.running = goal;
    else if (goal && (this.isLost || !this.answer.textContent)) this.showGoal({ state: "running", instruction: goal });
    else if (this.isLost && this.running) this.showMissed();
    this.isLost = false;
  }

  // The command ended while the page was disconnected.
  showMissed() {
    const last = this.ended.at(-1);
    if (last?.instruction === this.running) this.showGoal(last);
    else this.show("", words("goal.over", { said: this.running }));
    this.running = "";
  }

  show(kind, text) {
    this.answer.className = `answer ${kind}`;
    this.answer.textContent = text;
  }
}
