// Commands in words: a box with a history, a few for one click, and what came of them.

const HISTORY = "outrider.history";
const KEPT = 50;
const QUICK = [
  "find the silver bottle", "find the red chair", "turn left", "turn right", "move forward",
  "where did you last see the silver bottle?",
];

export class Commands {
  constructor(link, form, input, quick, cancel, answer, meant, plan) {
    Object.assign(this, { link, input, answer, cancel, meant, plan });
    this.history = JSON.parse(localStorage.getItem(HISTORY) ?? "[]");
    this.at = this.history.length;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.say(input.value.trim());
      input.value = "";
      // The keyboard on the screen hides the robot.
      if (matchMedia("(pointer: coarse)").matches) input.blur();
    });
    input.addEventListener("keydown", (event) => this.onKey(event));
    cancel.addEventListener("click", () => link.send({ do: "cancel" }));
    meant.addEventListener("click", () => this.say(meant.dataset.words));
    for (const words of QUICK) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = words;
      button.addEventListener("click", () => this.say(words));
      quick.append(button);
    }
  }

  say(words) {
    if (!words) return;
    if (!this.link.send({ do: "say", text: words })) {
      this.show("bad", "not connected: the command was not sent");
      return;
    }
    this.history = [...this.history.filter((old) => old !== words), words].slice(-KEPT);
    this.at = this.history.length;
    localStorage.setItem(HISTORY, JSON.stringify(this.history));
  }

  onKey(event) {
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    this.at = Math.max(0, Math.min(this.history.length, this.at + step));
    this.input.value = this.history[this.at] ?? "";
  }

  onGoal({ state, instruction, message }) {
    const kind = { running: "running", done: "good", failed: "bad" }[state];
    this.show(kind, message ? `${instruction}: ${message}` : `${instruction}: ${state}`);
    this.offer(message?.match(/did you mean "(.+)"\?$/)?.[1] ?? "");
  }

  // A misspelt order is carried out only once a person has said yes to it.
  offer(words) {
    this.meant.hidden = !words;
    this.meant.dataset.words = words;
    this.meant.textContent = words ? `Yes: ${words}` : "";
  }

  onPlan({ steps, current, running }) {
    this.plan.hidden = !steps.length;
    this.plan.replaceChildren(...steps.map((words, index) => {
      const item = document.createElement("li");
      const kind = index < current ? "done" : index > current ? "ahead" : running ? "now" : "failed";
      item.className = kind;
      item.textContent = words;
      if (kind === "now") item.setAttribute("aria-current", "step");
      return item;
    }));
  }

  setRunning(goal) {
    this.cancel.classList.toggle("running", Boolean(goal));
    if (goal && !this.answer.textContent) this.show("running", `${goal}: running`);
  }

  show(kind, text) {
    this.answer.className = `answer ${kind}`;
    this.answer.textContent = text;
  }
}
