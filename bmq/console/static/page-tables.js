// Tables and indexes of topics, and the state of the Spark jobs that fill them.

import { get, isLeft, listed, path } from "./api.js";
import { badge, choice, field, h, set } from "./dom.js";
import { count, moment, words } from "./format.js";
import { elsewhere } from "./orders.js";
import { VirtualTable } from "./table.js";

const EVERY_MS = 10_000;
const STATES_MAX = 200; // one request for each
const AT_ONCE = 8;

export async function show(root, { signal, poll }) {
  let tables = [];
  const states = new Map();
  const wanted = h("input", { type: "search", placeholder: "part of a name or topic", autocomplete: "off" });
  const kind = choice([["", "all"], ["table", "tables"], ["index", "indexes"]], "");
  const away = h("div");
  const found = h("p", { role: "status", class: "soft" });
  const table = new VirtualTable("Tables and indexes", [
    { title: "Name", cell: (row) => h("a", { href: `#/tables/${encodeURIComponent(row.name)}` }, row.name) },
    { title: "Kind", cell: (row) => (row.definition_error ? badge("bad", "not readable") : row.is_index ? "index" : "table") },
    { title: "Topic", cell: (row) => (row.topic ? h("a", { href: `#/topics/${encodeURIComponent(row.topic)}` }, row.topic) : (row.definition_error ?? "")) },
    { title: "Format", cell: (row) => row.format ?? "" },
    { title: "Columns", cell: (row) => (row.fields === null ? "" : count(row.fields)), isNumber: true },
    { title: "Job", cell: (row) => jobState(states.get(row.name)) },
    { title: "Behind", cell: (row) => lagText(states.get(row.name)), isNumber: true },
    { title: "Last commit", cell: (row) => (states.get(row.name)?.committed_at ? moment(states.get(row.name).committed_at) : "") },
  ], "There is none. `bmq table create` and `bmq index create` make them.");
  let shown = "";

  function draw() {
    const part = wanted.value.toLowerCase();
    const rows = tables.filter((each) => `${each.name} ${each.topic ?? ""}`.toLowerCase().includes(part) && (!kind.value || (kind.value === "index") === each.is_index));
    const state = JSON.stringify([rows, [...states]]);
    if (state === shown) return; // keeps the focus where it is
    shown = state;
    table.show(rows);
    found.textContent = words(rows.length, "table or index", "tables and indexes") + (tables.length > STATES_MAX ? `; jobs of the first ${STATES_MAX} are asked for` : "");
  }

  wanted.addEventListener("input", draw);
  kind.addEventListener("change", draw);
  set(root, h("h1", {}, "Tables"), away, h("div", { class: "row" }, field("Filter", wanted), field("Kind", kind)), found, table.element);
  await poll(async () => {
    tables = await listed("v1/tables", "tables", {}, signal);
    draw();
    const cluster = await get("v1/cluster", {}, signal);
    const other = elsewhere(cluster, "tables", "the state of jobs is known there. ");
    set(away, other);
    if (other) return;
    const names = tables.slice(0, STATES_MAX).map((each) => each.name);
    for (let start = 0; start < names.length; start += AT_ONCE) {
      await Promise.all(names.slice(start, start + AT_ONCE).map(async (name) => {
        try {
          states.set(name, await get(path`v1/tables/${name}/status`, {}, signal));
        } catch (error) {
          if (isLeft(error)) throw error;
          states.set(name, { problem: error.message });
        }
      }));
    }
    draw();
  }, EVERY_MS);
}

export function jobState(known) {
  if (!known) return "not known here";
  if (known.problem) return known.problem;
  if (known.state === null) return badge("warn", "no job reports");
  if (known.silent_s !== null) return badge("bad", `silent for ${count(known.silent_s)} s`);
  return badge({ running: "good", failed: "bad" }[known.state] ?? "plain", known.state);
}

export function lagText(known) {
  return known?.lag === null || known?.lag === undefined ? "" : words(known.lag, "record", "records");
}
