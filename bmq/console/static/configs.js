// A table of configs: value, and where it comes from.

import { button, field, h } from "./dom.js";
import { VirtualTable } from "./table.js";

/** `alter`: is called with a config to change; without it nothing can be changed. */
export function configTable(label, configs, alter) {
  const wanted = h("input", { type: "search", placeholder: "part of a name", autocomplete: "off" });
  const changed = h("input", { type: "checkbox" });
  const columns = [
    { title: "Name", cell: (row) => h("span", { title: row.documentation ?? "" }, row.name) },
    { title: "Value", cell: (row) => (row.is_secret ? "secret, not shown" : row.value ?? "not set") },
    { title: "Comes from", cell: (row) => row.source },
    { title: "Without that", cell: (row) => row.synonyms.slice(1).map((each) => `${row.is_secret ? "secret" : each.value} (${each.source})`).join(", ") },
  ];
  if (alter) {
    columns.push({ title: "Change", cell: (row) => (row.is_read_only ? "read only" : button("Change", () => alter(row), { "aria-label": `Change ${row.name}` })) });
  }
  const table = new VirtualTable(label, columns, "No config matches.");
  function draw() {
    const part = wanted.value.toLowerCase();
    table.show(configs.filter((each) => each.name.toLowerCase().includes(part) && (!changed.checked || each.source !== "default")));
  }
  wanted.addEventListener("input", draw);
  changed.addEventListener("change", draw);
  draw();
  return h("div", {}, h("div", { class: "row" }, field("Filter", wanted), h("label", { class: "check" }, changed, "not the default")), table.element);
}
