// A table of many rows that only makes the rows in view.

import { h, set } from "./dom.js";

const ROW_PX = 36;
const SPARE_ROWS = 8;

/** Columns: { title, cell(row), isNumber, width }. The rows are replaced by `show`. */
export class VirtualTable {
  constructor(label, columns, emptyText) {
    this.columns = columns;
    this.emptyText = emptyText;
    this.rows = [];
    this.first = -1;
    this.last = -1;
    this.body = h("tbody");
    const head = columns.map((each) => h("th", { scope: "col", class: each.isNumber ? "number" : null }, each.title));
    this.table = h("table", { class: "virtual" }, h("caption", {}, label), h("thead", {}, h("tr", { "aria-rowindex": 1 }, head)), this.body);
    this.element = h("div", { class: "wide tall", tabindex: "0", role: "region", "aria-label": label }, this.table);
    this.element.addEventListener("scroll", () => this.#draw(), { passive: true });
    this.watcher = new ResizeObserver(() => this.#draw());
    this.watcher.observe(this.element);
  }

  show(rows) {
    this.rows = rows;
    this.first = -1;
    this.table.setAttribute("aria-rowcount", String(rows.length + 1));
    this.#draw();
  }

  #draw() {
    const height = this.element.clientHeight || 600;
    const first = Math.max(0, Math.floor(this.element.scrollTop / ROW_PX) - SPARE_ROWS);
    const last = Math.min(this.rows.length, first + Math.ceil(height / ROW_PX) + 2 * SPARE_ROWS);
    if (first === this.first && last === this.last) return;
    this.first = first;
    this.last = last;
    if (!this.rows.length) {
      set(this.body, h("tr", {}, h("td", { colspan: this.columns.length }, this.emptyText)));
      return;
    }
    const lines = [];
    for (let index = first; index < last; index += 1) lines.push(this.#line(index));
    set(this.body, this.#space(first), lines, this.#space(this.rows.length - last));
  }

  #line(index) {
    const row = this.rows[index];
    const cells = this.columns.map((each) => h("td", { class: each.isNumber ? "number" : null }, each.cell(row)));
    return h("tr", { "aria-rowindex": index + 2 }, cells);
  }

  #space(rowCount) {
    if (rowCount <= 0) return null;
    const cell = h("td", { colspan: this.columns.length });
    cell.style.height = `${rowCount * ROW_PX}px`;
    return h("tr", { class: "space", "aria-hidden": "true" }, cell);
  }
}
