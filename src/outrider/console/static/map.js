// The floor from above. x, the robot's initial direction, points up; y points left. A click reports its point.

import { color, fit } from "./canvas.js";
import { Pointing } from "./pointing.js";
import { words } from "./words.js";

const MARGIN_M = 0.7;
const FIELD_OF_VIEW = 1.27;

export class FloorMap {
  // `onPoint(place)`: x and y of the point that a person chose; null while the robot's pose is unknown.
  constructor(canvas, onPoint) {
    this.canvas = canvas;
    this.clear();
    this.pointing = new Pointing(canvas, (u, v) => onPoint(this.pose && this.pointAt(u, v)), () => this.later());
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  clear() {
    this.trail = [];
    this.walls = [];
    this.cell = 0.1;
    this.things = [];
    this.memories = [];
    this.goal = null;
    this.pose = null;
    this.target = null;
    this.bounds = [-1, -1, 1, 1];
  }

  addTrail(points) {
    this.trail.push(...points);
    this.stretch(points);
  }

  addWalls(cell, cells) {
    this.cell = cell;
    this.walls.push(...cells);
    this.stretch(cells.map(([i, j]) => [i * cell, j * cell]));
  }

  stretch(points) {
    const [x0, y0, x1, y1] = this.bounds;
    this.bounds = points.reduce(
      ([a, b, c, d], [x, y]) => [Math.min(a, x), Math.min(b, y), Math.max(c, x), Math.max(d, y)], [x0, y0, x1, y1]);
    this.later();
  }

  setPose(pose) {
    this.pose = pose;
    this.later();
  }

  setSights({ things, goal }) {
    this.things = things;
    this.goal = goal;
    this.later();
  }

  // Sets the point that a person chose; null once its goal has ended.
  setTarget(point) {
    this.target = point;
    this.later();
  }

  setMemories(things) {
    this.memories = things;
    this.later();
  }

  later() {
    this.due ??= requestAnimationFrame(() => {
      this.due = null;
      this.draw();
    });
  }

  // Returns the pixels per metre, and the point in the middle.
  scene(width, height) {
    const [x0, y0, x1, y1] = this.bounds;
    const scale = Math.min(width / (y1 - y0 + 2 * MARGIN_M), height / (x1 - x0 + 2 * MARGIN_M));
    return [scale, (x0 + x1) / 2, (y0 + y1) / 2];
  }

  pointAt(u, v) {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const [scale, x, y] = this.scene(width, height);
    return [x + (height / 2 - v) / scale, y + (width / 2 - u) / scale];
  }

  draw() {
    const { context, width, height } = fit(this.canvas);
    const [scale, x0, y0] = this.scene(width, height);
    const at = (x, y) => [width / 2 - (y - y0) * scale, height / 2 - (x - x0) * scale];
    this.drawWalls(context, at, scale);
    this.drawTrail(context, at);
    this.labels = [];
    if (this.goal) this.mark(context, at, this.goal, "goal", "ring");
    for (const thing of this.memories) this.mark(context, at, thing, "memory", "diamond");
    for (const thing of this.things) this.mark(context, at, thing, "dim", "dot");
    if (this.target) drawCross(context, ...at(...this.target));
    if (this.pose) this.drawRobot(context, at, scale);
    drawScale(context, scale, height);
    this.pointing.draw(context);
  }

  drawWalls(context, at, scale) {
    context.fillStyle = color("wall");
    const size = this.cell * scale + 0.6;
    for (const [i, j] of this.walls) {
      const [u, v] = at((i + 1) * this.cell, (j + 1) * this.cell);
      context.fillRect(u, v, size, size);
    }
  }

  drawTrail(context, at) {
    if (this.trail.length < 2) return;
    context.strokeStyle = color("trail");
    context.lineWidth = 2;
    context.lineJoin = "round";
    context.beginPath();
    this.trail.forEach(([x, y], i) => context[i ? "lineTo" : "moveTo"](...at(x, y)));
    if (this.pose) context.lineTo(...at(this.pose[0], this.pose[1]));
    context.stroke();
  }

  mark(context, at, { what, x, y }, name, shape) {
    const [u, v] = at(x, y);
    context.fillStyle = context.strokeStyle = color(name);
    context.lineWidth = 2;
    context.beginPath();
    if (shape === "diamond") for (const [a, b] of [[0, -5], [5, 0], [0, 5], [-5, 0]]) context.lineTo(u + a, v + b);
    else context.arc(u, v, shape === "ring" ? 8 : 3, 0, 2 * Math.PI);
    if (shape === "ring") context.stroke();
    else context.fill();
    this.label(context, what, u + 9, v + 4);
  }

  // Draws a label, unless it would overlap an earlier one.
  label(context, text, u, v) {
    context.font = "11px system-ui, sans-serif";
    const right = u + context.measureText(text).width;
    if (this.labels.some(([a, b, c]) => u < c && a < right && Math.abs(b - v) < 12)) return;
    this.labels.push([u, v, right]);
    context.fillText(text, u, v);
  }

  drawRobot(context, at, scale) {
    const [x, y, yaw] = this.pose;
    const [u, v] = at(x, y);
    context.save();
    context.translate(u, v);
    context.rotate(-yaw);
    const reach = 1.2 * scale;
    const glow = context.createRadialGradient(0, 0, 0, 0, 0, reach);
    glow.addColorStop(0, "#4cc2ff66");
    glow.addColorStop(1, "#4cc2ff00");
    context.fillStyle = glow;
    context.beginPath();
    context.moveTo(0, 0);
    context.arc(0, 0, reach, -Math.PI / 2 - FIELD_OF_VIEW / 2, -Math.PI / 2 + FIELD_OF_VIEW / 2);
    context.fill();
    context.fillStyle = color("accent");
    context.strokeStyle = color("card");
    context.lineWidth = 2;
    context.beginPath();
    for (const [a, b] of [[0, -10], [7, 8], [0, 4], [-7, 8]]) context.lineTo(a, b);
    context.closePath();
    context.stroke();
    context.fill();
    context.restore();
  }
}

function drawCross(context, u, v) {
  context.strokeStyle = color("goal");
  context.lineWidth = 2.5;
  context.beginPath();
  for (const [a, b] of [[-6, -6], [-6, 6]]) {
    context.moveTo(u + a, v + b);
    context.lineTo(u - a, v - b);
  }
  context.stroke();
}

function drawScale(context, scale, height) {
  context.fillStyle = color("dim");
  context.fillRect(12, height - 14, scale, 2);
  context.font = "11px system-ui, sans-serif";
  context.fillText(words("map.scale"), 12, height - 19);
}
