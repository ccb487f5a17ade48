// The newest picture, and the action drawn into it.

import { fit } from "./canvas.js";
import { words } from "./words.js";

const SILENT_MS = 1500;

export class Camera {
  constructor(canvas, empty) {
    this.canvas = canvas;
    this.empty = empty;
    this.next = null;
    this.busy = false;
    this.bitmap = null;
    this.action = "";
    this.shownMs = 0;
    setInterval(() => this.watch(), 500);
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  // Where pictures come faster than they can be decoded, those in between are left out.
  async show(blob) {
    this.next = blob;
    if (this.busy) return;
    this.busy = true;
    while (this.next) {
      const newest = this.next;
      this.next = null;
      try {
        const bitmap = await createImageBitmap(newest);
        this.bitmap?.close();
        this.bitmap = bitmap;
        this.shownMs = performance.now();
        this.watch();
        this.draw();
      } catch {
        // A picture that does not decode is left out.
      }
    }
    this.busy = false;
  }

  // A picture that stands still must not look like a live one.
  watch() {
    const silentMs = performance.now() - this.shownMs;
    const silent = silentMs > SILENT_MS;
    this.empty.hidden = Boolean(this.bitmap) && !silent;
    this.canvas.classList.toggle("old", silent);
    if (this.bitmap && silent) this.empty.textContent = words("camera.old", { s: Math.round(silentMs / 1000) });
  }

  setAction(action) {
    this.action = action;
    this.draw();
  }

  draw() {
    const { context, width, height } = fit(this.canvas);
    if (this.bitmap) {
      const scale = Math.max(width / this.bitmap.width, height / this.bitmap.height);
      const w = this.bitmap.width * scale, h = this.bitmap.height * scale;
      context.drawImage(this.bitmap, (width - w) / 2, (height - h) / 2, w, h);
    }
    drawAction(context, width, height, this.action);
  }
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
