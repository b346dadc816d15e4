// The transactions: what is open under each transactional id, for how long, and which hang.

import { get } from "./api.js";
import { badge, button, choice, field, h, set } from "./dom.js";
import { count, duration, words } from "./format.js";
import { VirtualTable } from "./table.js";

const EVERY_MS = 5_000;
const AT_A_TIME = 500;

export async function show(root, { signal, poll }) {
  let pages = 1;
  let asked = 0;
  const kind = choice([["open", "without an end"], ["hanging", "hanging"], ["all", "all"]], "open", { on: { change: again } });
  const prefix = h("input", { type: "search", placeholder: "beginning of an id", autocomplete: "off", maxlength: "1000", on: { change: again } });
  const found = h("p", { role: "status", class: "soft" });
  const more = button("More", () => { pages += 1; return load().catch(() => {}); }, { hidden: true });
  const topic = h("input", { type: "text", required: true, autocomplete: "off", pattern: "[a-zA-Z0-9._\\-]+" });
  const table = new VirtualTable("Transactions", [
    { title: "Transactional id", cell: (row) => h("a", { href: `#/transactions/${encodeURIComponent(row.transactional_id)}` }, row.transactional_id) },
    { title: "State", cell: (row) => state(row) },
    { title: "Producer", cell: (row) => String(row.producer_id), isNumber: true },
    { title: "Epoch", cell: (row) => count(row.producer_epoch), isNumber: true },
    { title: "Age", cell: (row) => (row.age_ms === null ? (row.problem ?? "") : duration(row.age_ms)), isNumber: true },
    { title: "Time-out", cell: (row) => duration(row.timeout_ms), isNumber: true },
    { title: "Partitions", cell: (row) => count(row.partition_count), isNumber: true },
  ], "No transaction matches.");
  set(
    root, h("h1", {}, "Transactions"),
    h("div", { class: "row" }, field("Show", kind), field("Ids that begin with", prefix)),
    found, table.element, h("div", { class: "row" }, more),
    h("h2", {}, "In the partitions of a topic"),
    h("p", {}, "A transaction can be open in a partition though no coordinator knows it. Readers of committed records wait at it."),
    h("form", { class: "row", on: { submit: look } }, field("Topic", topic), h("button", { type: "submit" }, "Look for open transactions")),
  );
  table.show([]);

  function look(event) {
    event.preventDefault();
    location.hash = `#/topics/${encodeURIComponent(topic.value)}/transactions`;
  }

  function again() {
    pages = 1;
    load().catch(() => {}); // the next round shows it
  }

  async function load() {
    const mine = (asked += 1);
    const rows = [];
    let after = "";
    for (let page = 0; page < pages && after !== null; page += 1) {
      const part = await get("v1/transactions", { show: kind.value, prefix: prefix.value, after, limit: AT_A_TIME }, signal);
      rows.push(...part.transactions);
      after = part.next_after;
    }
    if (mine !== asked) return; // a later choice is being read
    table.show(rows);
    more.hidden = after === null;
    const hanging = rows.filter((each) => each.is_hanging).length;
    const text = `${words(rows.length, "transactional id", "transactional ids")}${hanging ? `, ${count(hanging)} hanging` : ""}${after === null ? "" : ", there are more"}`;
    if (found.textContent !== text) found.textContent = text;
  }
  await poll(load, EVERY_MS);
}

export function state(row) {
  if (row.is_hanging) return badge("bad", `${row.state}, hangs`);
  return badge(row.is_open ? "warn" : "plain", row.state);
}
