// One table or index: its job, how far it is in each partition, and its definition.

import { get, path } from "./api.js";
import { badge, h, note, set } from "./dom.js";
import { count, moment, size } from "./format.js";
import { card } from "./page-node.js";
import { jobState, lagText } from "./page-tables.js";
import { VirtualTable } from "./table.js";

const EVERY_MS = 5_000;

export async function show(root, { signal, names, poll }) {
  const [name] = names;
  const head = h("div", { class: "cards" });
  const trouble = h("div");
  const definition = h("pre", { tabindex: "0", "aria-label": "Definition" });
  const table = new VirtualTable(`Partitions of ${name}`, [
    { title: "Partition", cell: (row) => row.partition, isNumber: true },
    { title: "Next offset", cell: (row) => (row.offset === null ? "none yet" : count(row.offset)), isNumber: true },
    { title: "End offset", cell: (row) => count(row.end_offset), isNumber: true },
    { title: "Behind", cell: (row) => count(row.lag), isNumber: true },
  ], "No job has reported to this node.");
  set(root, h("h1", {}, "Table ", name), trouble, head, h("h2", {}, "Partitions"), table.element, h("h2", {}, "Definition"), definition);
  const view = await get(path`v1/tables/${name}`, {}, signal);
  definition.textContent = JSON.stringify(view.definition, null, 2);
  await poll(async () => {
    let known = null;
    try {
      known = await get(path`v1/tables/${name}/status`, {}, signal);
    } catch (error) {
      if (error.status === undefined) throw error;
      set(trouble, note("warn", error.message));
      set(head, [card("Version", count(view.version)), card("Altered", moment(view.altered_at))]);
      return;
    }
    set(trouble, known.error ? note("bad", known.error) : null, known.topic_exists ? null : note("bad", "Its topic is gone."));
    set(head, [
      card("Job", jobState(known)), card("Topic", h("a", { href: `#/topics/${encodeURIComponent(known.topic)}` }, known.topic)),
      card("Behind", lagText(known) || "not known"), card("Last commit", known.committed_at ? moment(known.committed_at) : "none"),
      card("Rows", count(known.rows)), card("Files", `${count(known.files)}, ${size(known.bytes)}`),
      card("Dead letters", known.dead_letter_rows ? badge("warn", count(known.dead_letter_rows)) : count(known.dead_letter_rows)),
      card("Version", count(known.version)),
    ]);
    table.show(known.partitions);
  }, EVERY_MS);
}
