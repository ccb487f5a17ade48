// A small chart: the newest values as a line over a filled area, starting at zero.

import { color, fit } from "./canvas.js";


export class Chart {
  // `kept`: the number of values to show. `top`: the upper end of the scale (0: fit the largest value).
  constructor(canvas, label, { name, format, kept, top = 0 }) {
    Object.assign(this, { canvas, label, name, format, kept, top, values: [] });
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  clear() {
    this.values = [];
  }

  add(value) {
    this.values.push(value);
    if (this.values.length > this.kept) this.values.shift();
    this.label.textContent = this.format(value);
    this.due ??= requestAnimationFrame(() => {
      this.due = null;
      this.draw();
    });
  }

  draw() {
    const { context, width, height } = fit(this.canvas);
    if (this.values.length < 2) return;
    const top = this.top || Math.max(...this.values) * 1.15 || 1;
    const step = width / (this.kept - 1), start = width - (this.values.length - 1) * step;
    const line = new Path2D();
    this.values.forEach((value, i) => line.lineTo(start + i * step, height - 2 - (value / top) * (height - 6)));
    const area = new Path2D(line);
    area.lineTo(width, height);
    area.lineTo(start, height);
    const ink = color(this.name);
    context.fillStyle = `${ink}26`;
    context.fill(area);
    context.strokeStyle = ink;
    context.lineWidth = 1.8;
    context.lineJoin = "round";
    context.stroke(line);
  }
}
