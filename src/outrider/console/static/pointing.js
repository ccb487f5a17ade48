// Selects a point on a canvas by a click or, while the canvas has the focus, by the arrow keys and Enter.

const STEP = 0.04;
const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const ARM = 9;

export class Pointing {
  // `onPoint(u, v)` gets the point in CSS pixels. `redraw` is called when the cross has moved.
  constructor(canvas, onPoint, redraw) {
    Object.assign(this, { canvas, onPoint, redraw, shares: null });
    canvas.addEventListener("click", ({ offsetX, offsetY }) => onPoint(offsetX, offsetY));
    canvas.addEventListener("keydown", (event) => this.onKey(event));
    canvas.addEventListener("blur", () => this.move(null));
  }

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = STEPS[event.key];
    if (step) {
      const within = (value) => Math.max(0, Math.min(1, value));
      this.move((this.shares ?? [0.5, 0.5]).map((share, i) => within(share + STEP * step[i])));
    } else if (event.key === "Enter" && this.shares && !event.repeat) {
      this.onPoint(...this.place);
    } else {
      return;
    }
    event.preventDefault();
  }

  move(shares) {
    this.shares = shares;
    this.redraw();
  }

  get place() {
    return [this.shares[0] * this.canvas.clientWidth, this.shares[1] * this.canvas.clientHeight];
  }

  // A light cross on a dark one is visible on any image.
  draw(context) {
    if (!this.shares) return;
    const [u, v] = this.place;
    for (const [style, width] of [["#000", 5], ["#fff", 2]]) {
      context.strokeStyle = style;
      context.lineWidth = width;
      context.beginPath();
      for (const [a, b] of [[ARM, 0], [0, ARM]]) {
        context.moveTo(u - a, v - b);
        context.lineTo(u + a, v + b);
      }
      context.stroke();
    }
  }
}
