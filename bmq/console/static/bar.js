// A bar that shows a part of a whole.

import { s } from "./dom.js";

const WIDTH = 240;
const HEIGHT = 12;

/** `text` says the same as the bar. */
export function bar(value, highest, text) {
  const width = highest > 0 ? Math.max(value > 0 ? 2 : 0, (value / highest) * WIDTH) : 0;
  return s(
    "svg", { class: "bar", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": text, preserveAspectRatio: "none" },
    s("rect", { class: "whole", width: WIDTH, height: HEIGHT }), s("rect", { class: "part", width: width.toFixed(1), height: HEIGHT }),
  );
}
