// The texts of the steps, newest first. The colour of a token shows its fate.

import { words } from "./words.js";

const KEPT = 30;
const REJECTED_SHOWN = 3;

export class Texts {
  constructor(list) {
    this.list = list;
    this.steps = new Map();
  }

  clear() {
    this.steps.clear();
    this.list.replaceChildren();
  }

  onText(text) {
    const step = this.step(text.session, text.step);
    step.text = text;
    if (text.state !== "decoding") step.ahead = [];
    this.draw(step);
  }

  onTokens(message) {
    const step = this.step(message.session, message.step);
    // After a gap in the tokens, show the plain text.
    if (message.first !== step.confirmed) step.broken = true;
    step.ahead = [];
    message.pieces.forEach((piece, i) => {
      const token = [piece, message.origins[i]];
      (token[1] === "d" ? step.ahead : step.tokens).push(token);
      if (token[1] === "a" || token[1] === "w") step.confirmed += 1;
    });
    if (step.text && step.text.state !== "decoding") step.ahead = [];
    this.draw(step);
  }

  onMotion(motion) {
    const step = this.steps.get(`${motion.session} ${motion.step}`);
    if (!step) return;
    step.motion = motion;
    this.draw(step);
  }

  // The action of the newest text; empty once its motion has ended, or without a text.
  get actionUnderWay() {
    const newest = [...this.steps.values()].at(-1);
    return newest?.text && newest.text.state !== "withdrawn" && !newest.motion ? newest.text.action : "";
  }

  step(session, number) {
    const key = `${session} ${number}`;
    if (!this.steps.has(key)) {
      const item = document.createElement("li");
      this.steps.set(key, { number, item, tokens: [], ahead: [], confirmed: 0 });
      this.list.prepend(item);
      while (this.list.children.length > KEPT) this.drop();
    }
    return this.steps.get(key);
  }

  drop() {
    const [key, step] = this.steps.entries().next().value;
    this.steps.delete(key);
    step.item.remove();
  }

  draw(step) {
    const { text } = step;
    const head = document.createElement("div");
    head.className = "head";
    head.append(span("step", words("texts.step", { n: step.number })));
    if (text?.note) head.append(span("note", text.note));
    if (step.motion) head.append(span(`outcome ${step.motion.outcome.replace(" ", "-")}`, words(`outcome.${step.motion.outcome}`)));
    if (step.motion?.message) head.append(span("note", step.motion.message));
    if (text?.tokens_per_round) {
      const figures = { ms: Math.round(text.latency_s * 1000), tokens: text.tokens_per_round.toFixed(1) };
      head.append(span("figures", words("texts.figures", figures)));
    }
    const body = document.createElement("p");
    const kept = step.tokens.filter(([, origin]) => origin !== "r").map(([piece]) => piece).join("");
    const plain = step.broken || !kept || (text && text.state !== "decoding" && kept !== text.text);
    const tokens = plain ? lines(text?.text ?? "") : [...step.tokens, ...step.ahead];
    paint(body, tokens);
    step.item.replaceChildren(head, body);
  }
}

const lines = (text) => text.split("\n").map((line, i, all) => [i < all.length - 1 ? `${line}\n` : line, "p"]);

// Highlights the first line, which moves the robot. Rejected tokens have a line of their own below each part; of those
// rejected in a row, only the first few are shown.
function paint(body, tokens) {
  const parts = [part("action-line"), part("rest")];
  let now = 0, rejected = 0;
  for (const [piece, origin] of tokens) {
    rejected = origin === "r" ? rejected + 1 : 0;
    if (rejected > REJECTED_SHOWN) continue;
    const shown = rejected === REJECTED_SHOWN ? `${piece.trimEnd()}…` : piece;
    const { line, below } = parts[now];
    if (origin === "r") below.append(span("token r", shown.trim().replaceAll("\n", "⏎")), " ");
    else line.append(span(`token ${origin}`, shown));
    if (origin !== "r" && piece.includes("\n")) now = 1;
  }
  for (const { line, below } of parts) {
    body.append(line);
    if (below.children.length) body.append(below);
  }
}

function part(className) {
  return { line: span(className, ""), below: span("rejected-line", "") };
}

function span(className, text) {
  const element = document.createElement("span");
  element.className = className;
  element.textContent = text;
  return element;
}
