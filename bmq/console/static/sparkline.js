// A small line of the last values, as SVG.

import { s, set } from "./dom.js";

const WIDTH = 240;
const HEIGHT = 48;

/** Keeps the last values of one figure, and draws them. */
export class Sparkline {
  constructor(label, pointsMax = 120) {
    this.values = [];
    this.pointsMax = pointsMax;
    this.label = label;
    this.element = s("svg", { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", preserveAspectRatio: "none" });
  }

  add(value, text) {
    this.values.push(value);
    if (this.values.length > this.pointsMax) this.values.shift();
    const highest = Math.max(1, ...this.values);
    const step = WIDTH / Math.max(1, this.pointsMax - 1);
    const first = WIDTH - step * (this.values.length - 1);
    const points = this.values.map((each, index) => {
      const y = HEIGHT - 2 - (each / highest) * (HEIGHT - 4);
      return `${(first + index * step).toFixed(1)},${y.toFixed(1)}`;
    });
    this.element.setAttribute("aria-label", `${this.label}: now ${text}`);
    set(this.element, s("polyline", { points: points.join(" "), fill: "none" }));
  }
}
