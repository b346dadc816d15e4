// One transactional id: what is open, where, and its abort with a plan first.

import { get, path, post } from "./api.js";
import { confirm, refused } from "./dialog.js";
import { button, h, note, set } from "./dom.js";
import { count, duration, moment, words } from "./format.js";
import { card } from "./page-node.js";
import { state } from "./page-transactions.js";
import { rights } from "./rights.js";
import { VirtualTable } from "./table.js";

const EVERY_MS = 4_000;

export async function show(root, { signal, names, poll }) {
  const [id] = names;
  const { may } = await rights({ transactional_id: id }, signal);
  const head = h("div", { class: "cards" });
  const trouble = h("div");
  const orders = h("div", { class: "row" });
  const table = new VirtualTable("Partitions", [
    { title: "Partition", cell: (row) => h("a", { href: `#/topics/${encodeURIComponent(row.topic)}/partitions/${row.partition}` }, `${row.topic}-${row.partition}`) },
  ], "It has no partitions now.");
  set(root, h("h1", {}, "Transactional id ", id), trouble, head, orders, h("h2", {}, "Partitions"), table.element);
  let shown = "";
  await poll(async () => {
    const known = await get(path`v1/transactions/${id}`, {}, signal);
    set(head, [
      card("State", state(known)), card("Producer", String(known.producer_id)), card("Epoch", count(known.producer_epoch)),
      card("Began", known.started_ms < 0 ? "none" : moment(known.started_ms)), card("Age", known.age_ms === null ? "none" : duration(known.age_ms)),
      card("Time-out", duration(known.timeout_ms)),
    ]);
    const lines = known.topics.flatMap((each) => each.partitions.map((partition) => ({ topic: each.topic, partition })));
    const now = JSON.stringify([known.state, known.is_hanging, known.started_ms, lines]);
    if (now === shown) return; // keeps the focus where it is
    shown = now;
    set(trouble, known.is_hanging ? note("bad", `It has no end though its time-out has passed. ${known.is_open ? "" : "Owners of its partitions do not take their markers; look whether they serve."}`) : null);
    table.show(lines);
    set(orders, known.is_open && may("WRITE", "transactional_id") ? button("Abort the transaction", () => abort(id, known), { class: "danger" }) : null);
  }, EVERY_MS);
}

async function abort(id, known) {
  const named = { producer_id: known.producer_id, producer_epoch: known.producer_epoch, started_ms: known.started_ms };
  const where = path`v1/transactions/${id}/abort`;
  const plan = h("div", {}, "Making the plan…");
  post(where, named, { dry_run: true }).then((found) => {
    const partitions = found.topics.flatMap((each) => each.partitions.map((number) => `${each.topic}-${number}`));
    set(plan, h("p", {}, found.summary), h("p", {}, partitions.length > 20 ? words(partitions.length, "partition", "partitions") : partitions.join(", ")));
  }, (error) => set(plan, refused(error)));
  await confirm({
    title: `Abort the transaction of ${id}`,
    text: [h("p", {}, "Its records are never shown to readers of committed records, and its producer gets an error. It cannot be undone."), plan],
    action: "Abort",
    name: id,
    isDangerous: true,
    act: () => post(where, named),
  });
}
