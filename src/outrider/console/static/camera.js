// Shows the newest camera image, with boxes of known objects and the action. A click reports its point in the image.

import { color, fit } from "./canvas.js";
import { Pointing } from "./pointing.js";
import { words } from "./words.js";

const SILENT_MS = 1500;
const DASH = [7, 4];

export class Camera {
  constructor(canvas, empty, onPoint) {
    Object.assign(this, { canvas, empty, next: null, busy: false, bitmap: null, action: "", shownMs: 0 });
    this.number = 0;
    this.boxes = [{ picture: 0, boxes: [] }];
    this.pointing = new Pointing(canvas, (u, v) => this.point(u, v, onPoint), () => this.draw());
    setInterval(() => this.watch(), 500);
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  // Images that arrive while one is being decoded are skipped, except the newest.
  async show(blob, number) {
    this.next = [blob, number];
    if (this.busy) return;
    this.busy = true;
    while (this.next) {
      const [newest, shown] = this.next;
      this.next = null;
      try {
        const bitmap = await createImageBitmap(newest);
        this.bitmap?.close();
        this.bitmap = bitmap;
        this.number = shown;
        this.shownMs = performance.now();
        this.watch();
        this.draw();
      } catch {
        // Skip an image that cannot be decoded.
      }
    }
    this.busy = false;
  }

  // Mark an old image: it must not look live.
  watch() {
    const silentMs = performance.now() - this.shownMs;
    const silent = silentMs > SILENT_MS;
    this.empty.hidden = Boolean(this.bitmap) && !silent;
    this.canvas.classList.toggle("old", silent);
    if (this.bitmap && silent) this.empty.textContent = words("camera.old", { s: Math.round(silentMs / 1000) });
  }

  clearBoxes() {
    this.boxes = [{ picture: 0, boxes: [] }];
    this.draw();
  }

  // Boxes arrive before their image, and apply until the next boxes.
  setBoxes(message) {
    this.boxes.push(message);
  }

  boxesNow() {
    while (this.boxes.length > 1 && this.boxes[1].picture <= this.number) this.boxes.shift();
    return this.boxes[0].boxes;
  }

  // The image covers the whole canvas; what does not fit is cropped.
  frame(width, height) {
    const scale = Math.max(width / this.bitmap.width, height / this.bitmap.height);
    const w = this.bitmap.width * scale, h = this.bitmap.height * scale;
    return [(width - w) / 2, (height - h) / 2, w, h];
  }

  point(u, v, onPoint) {
    if (!this.bitmap) return;
    const [x, y, w, h] = this.frame(this.canvas.clientWidth, this.canvas.clientHeight);
    const share = (value) => Math.max(0, Math.min(1, value));
    onPoint(this.number, share((u - x) / w), share((v - y) / h));
  }

  setAction(action) {
    this.action = action;
    this.draw();
  }

  draw() {
    const { context, width, height } = fit(this.canvas);
    if (this.bitmap) {
      const frame = this.frame(width, height);
      context.drawImage(this.bitmap, ...frame);
      for (const box of this.boxesNow()) drawBox(context, frame, box);
    }
    drawAction(context, width, height, this.action);
    this.pointing.draw(context);
  }
}

// Dashed, because the box is an estimate: the position comes from words, and the size is a typical one.
function drawBox(context, [x, y, w, h], { what, left, top, right, bottom }) {
  const u = x + left * w, v = y + top * h;
  context.save();
  context.strokeStyle = color("goal");
  context.lineWidth = 2;
  context.setLineDash(DASH);
  context.strokeRect(u, v, (right - left) * w, (bottom - top) * h);
  context.font = "600 13px system-ui, sans-serif";
  const label = words("camera.estimate", { what });
  const wide = context.measureText(label).width + 8, high = 18;
  const at = Math.max(high, v);
  context.fillStyle = "#07131ccc";
  context.fillRect(u, at - high, wide, high);
  context.fillStyle = color("goal");
  context.fillText(label, u + 4, at - 5);
  context.restore();
}

const SIZES = { small: 1, medium: 2, large: 3 };

function drawAction(context, width, height, action) {
  const said = action.split(" ");
  const count = SIZES[said.at(-1)];
  if (!count) return;
  const unit = Math.min(width, height) / 14;
  context.save();
  context.translate(width / 2, height * 0.86);
  if (said[1] === "left") context.rotate(-Math.PI / 2);
  if (said[1] === "right") context.rotate(Math.PI / 2);
  context.lineCap = context.lineJoin = "round";
  for (const [style, line] of [["#0b1f2ccc", unit * 0.62], ["#5cf0b0", unit * 0.34]]) {
    context.strokeStyle = style;
    context.lineWidth = line;
    for (let i = 0; i < count; i += 1) {
      const y = -i * unit * 0.95;
      context.beginPath();
      context.moveTo(-unit, y);
      context.lineTo(0, y - unit * 0.8);
      context.lineTo(unit, y);
      context.stroke();
    }
  }
  context.restore();
}
