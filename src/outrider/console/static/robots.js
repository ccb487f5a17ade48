// The robots of this relay, each a link to its console, and whether it is connected.

import { words } from "./words.js";

const PERIOD_MS = 2000;
const list = document.getElementById("robots");

function item([name, isHere]) {
  const link = document.createElement("a");
  link.href = `robots/${name}/`;
  link.textContent = name;
  const state = document.createElement("span");
  state.className = `pill ${isHere ? "good" : "bad"}`;
  state.textContent = words(isHere ? "robots.here" : "robots.away");
  const line = document.createElement("li");
  line.append(link, state);
  return line;
}

async function show() {
  const robots = await (await fetch("robots")).json();
  const now = JSON.stringify(robots);
  if (list.dataset.shown === now) return;
  list.dataset.shown = now;
  list.replaceChildren(...Object.entries(robots).map(item));
  document.getElementById("none").hidden = list.children.length > 0;
}

setInterval(() => show().catch(() => {}), PERIOD_MS);
show();
