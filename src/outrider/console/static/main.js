// Connects the parts of the page: passes the console's messages to them, and the person's actions to the console.

import "./stop.js";
import { Camera } from "./camera.js";
import { Chart } from "./charts.js";
import { Commands } from "./commands.js";
import { Drive } from "./drive.js";
import { Link } from "./link.js";
import { FloorMap } from "./map.js";
import { Seat } from "./seat.js";
import { Switches } from "./switches.js";
import { Texts } from "./texts.js";
import { Voice } from "./voice.js";
import { words } from "./words.js";

const SLOW_MS = 300;
const ACCEPTANCE_OVER = 10;
const TOAST_MS = 6000;
const $ = (id) => document.getElementById(id);

const camera = new Camera($("camera"), $("camera-empty"), (picture, across, down) => {
  point({ do: "go_to_seen", picture, across, down });
});
const texts = new Texts($("texts"));
const map = new FloorMap($("map"), (place) => {
  if (!place) commands.show("bad", words("map.unknown"));
  else if (point({ do: "go_to", x: place[0], y: place[1] })) map.setTarget(place);
});
const milliseconds = (value) => words("unit.ms", { n: Math.round(value) });
const percent = (value) => words("unit.percent", { n: Math.round(value) });
const charts = {
  roundTrip: new Chart($("round-trip"), $("round-trip-now"), { name: "accent", format: milliseconds, kept: 80 }),
  acceptance: new Chart($("acceptance"), $("acceptance-now"), { name: "accepted", format: percent, kept: 80, top: 105 }),
  speed: new Chart($("speed"), $("speed-now"), { name: "goal", format: (v) => v.toFixed(0), kept: 30 }),
};
const drafts = [];
let state = {};
let toastTimer;

const link = new Link({
  event: onEvent, picture: (blob, number) => camera.show(blob, number), state: onLink, delay: onDelay,
});
window.outrider.link = link;
const commands = new Commands(link, $("command"), $("words"), $("quick"), $("cancel"), $("answer"), $("meant"), $("plan"),
  $("history"));
const switches = new Switches(link, $("switches"), {
  link: $("link"), slider: $("round-trip-ms"), value: $("round-trip-value"), strategy: $("strategy"), emulated: $("emulated"),
});
const voice = new Voice(link, $("talk"), $("words"), $("speaks"), (kind, text) => commands.show(kind, text),
  (text) => toast("warning", text));
const seat = new Seat(link, $("seat"), $("driver"), $("unseated"), $("pad"), (asked) => commands.deliver(asked));
const drive = new Drive(link, $("pad"));

const handlers = {
  welcome(message) {
    seat.me = message.name;
    commands.isLost = true;  // the end of a command may have been missed
    camera.clearBoxes();
    texts.clear();
    map.clear();
    Object.values(charts).forEach((chart) => chart.clear());
    message.texts.forEach(handlers.text);
    message.rounds.forEach(handlers.round);
    message.motions.forEach((motion) => texts.onMotion(motion));
    showAction(texts.actionUnderWay);
    commands.onPlan(message.plan);
    commands.setPast(message.ended);
    switches.show(message.switches);
    map.addTrail(message.trail.points);
    map.addWalls(message.walls.cell_m, message.walls.cells);
    map.setSights(message.sights);
    map.setMemories(message.memories.things);
    handlers.state(message.state);
  },
  state(message) {
    state = message;
    $("stop-heard").hidden = true;
    if (message.pose) map.setPose(message.pose);
    showState();
    commands.setRunning(message.goal);
  },
  text(message) {
    texts.onText(message);
    showAction(message.state === "withdrawn" ? "" : message.action);
    if (message.state === "finished" && message.tokens_per_s) charts.speed.add(message.tokens_per_s);
  },
  tokens: (message) => texts.onTokens(message),
  round(message) {
    charts.roundTrip.add(message.round_trip_s * 1000);
    if (message.drafted) showAcceptance(message);
  },
  motion(message) {
    texts.onMotion(message);
    showAction("");
  },
  goal(message) {
    commands.onGoal(message);
    if (message.state !== "running") map.setTarget(null);
    if (message.state !== "running" && message.message) voice.speak(message.message);
  },
  halt: (message) => commands.onHalt(message),
  spoken: (message) => voice.onSpoken(message),
  heard: (message) => voice.onHeard(message),
  plan: (message) => commands.onPlan(message),
  sights: (message) => map.setSights(message),
  boxes: (message) => camera.setBoxes(message),
  memories: (message) => map.setMemories(message.things),
  trail: (message) => map.addTrail(message.points),
  walls: (message) => map.addWalls(message.cell_m, message.cells),
  switches: (message) => switches.show(message),
  unseated({ asked }) {
    const { target } = map;
    map.setTarget(null);
    seat.ask(asked, () => map.setTarget(target));
  },
  notice: (message) => toast(message.level, message.text),
};

function point(message) {
  const { isFresh } = link;
  if (isFresh) commands.deliver(message);
  else commands.show("bad", words("command.unsent"));
  return isFresh;
}

function onEvent(message) {
  handlers[message.is]?.(message);
}

// Without a connection the last state is no longer valid: release the controls and clear it.
function onLink(name, reason) {
  const isOpen = name === "open";
  pill("page-link", words(`page.${name}`), isOpen ? "good" : "bad");
  document.body.classList.toggle("stale", !isOpen);
  if (reason) toast("error", reason);
  if (isOpen) return;
  drive.releaseAll();
  if (name !== "silent") voice.lost();
  state = {};
  showState();
  commands.lost();
}

function onDelay(ms) {
  pill("page-link", words("page.delay", { ms: Math.round(ms) }), ms < SLOW_MS ? "good" : "warn");
  document.body.classList.remove("stale");
}

function showState() {
  const { link: robot, viewers, e_stop: stopped = false } = state;
  const kind = { connected: "good", local: "good", lost: "bad", refused: "bad", mismatched: "bad" }[robot] ?? "warn";
  pill("robot-link", words(`link.${robot || "unknown"}`), kind);
  pill("motion", words(`motion.${motionNow()}`), { stopped: "bad", moving: "warn" }[motionNow()]);
  $("viewers").hidden = viewers === undefined;
  pill("viewers", viewers === undefined ? "" : words(`viewers.${viewers === 1 ? "one" : "other"}`, { n: viewers }));
  seat.show(state);
  document.body.classList.toggle("stopped", stopped);
  showBanner();
}

// Returns the state of motion. Without odometry it is unknown.
function motionNow() {
  const { e_stop: stopped, moving, stands } = state;
  return stopped ? "stopped" : moving ? "moving" : stands ? "standing" : "unknown";
}

function showBanner() {
  const { e_stop: stopped = false, unheard, warning = "" } = state;
  const banner = $("banner");
  banner.hidden = !stopped && !warning;
  banner.classList.toggle("bad", stopped);
  banner.firstElementChild.textContent = !stopped ? warning : words(unheard ? "stop.unheard" : "stop.engaged");
  banner.lastElementChild.hidden = !stopped;
}

// Shows the acceptance rate over the last few verifications: the rate of a single one varies too much.
function showAcceptance(round) {
  drafts.push(round);
  if (drafts.length > ACCEPTANCE_OVER) drafts.shift();
  const sum = (name) => drafts.reduce((total, one) => total + one[name], 0);
  charts.acceptance.add((100 * sum("accepted")) / sum("drafted"));
}

function showAction(action) {
  camera.setAction(action);
  $("action").hidden = !action;
  $("action").lastElementChild.textContent = action;
}

function pill(id, text, kind = "") {
  const element = $(id);
  if (element.textContent !== text) element.textContent = text;
  element.className = `pill ${kind}`;
}

// Shows a notice. A repeated one stays visible; screen readers do not announce it again.
function toast(level, text) {
  let line = $("toasts").firstElementChild;
  if (line?.textContent !== text) {
    line = document.createElement("p");
    line.textContent = text;
    $("toasts").replaceChildren(line);
  }
  line.className = level;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => line.remove(), TOAST_MS);
}

$("banner").lastElementChild.addEventListener("click", () => commands.deliver(link.release));
$("unstarted").hidden = true;
