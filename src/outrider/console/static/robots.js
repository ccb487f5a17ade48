// Lists the robots of this relay. Each has a link to its console and its connection state, as the relay reports it.

import { words } from "./words.js";

const PERIOD_MS = 2000;
const list = document.getElementById("robots");
let robots = {};
let shown = "";

function item([name, isHere]) {
  const link = document.createElement("a");
  link.href = `robots/${name}/`;
  link.textContent = name;
  const state = document.createElement("span");
  const is = { true: "here", false: "away" }[isHere] ?? "unknown";
  state.className = `pill ${{ here: "good", away: "bad" }[is] ?? "warn"}`;
  state.textContent = words(`robots.${is}`);
  const line = document.createElement("li");
  line.append(link, state);
  return line;
}

function show(isAnswered) {
  document.getElementById("asking").hidden = isAnswered;
  document.getElementById("none").hidden = !isAnswered || Object.keys(robots).length > 0;
  if (shown === JSON.stringify(robots)) return;
  shown = JSON.stringify(robots);
  list.replaceChildren(...Object.entries(robots).map(item));
}

async function ask() {
  try {
    const answer = await fetch("robots", { signal: AbortSignal.timeout(PERIOD_MS) });
    if (answer.url.endsWith("/login")) return location.assign("/login");
    robots = await answer.json();
    show(true);
  } catch {
    // An old answer is no longer valid.
    for (const name of Object.keys(robots)) robots[name] = null;
    show(false);
  }
  setTimeout(ask, PERIOD_MS);
}

ask();
