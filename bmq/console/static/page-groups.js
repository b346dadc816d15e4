// The groups of all kinds.

import { listed } from "./api.js";
import { badge, choice, field, h, set } from "./dom.js";
import { words } from "./format.js";
import { VirtualTable } from "./table.js";

const EVERY_MS = 5_000;

export async function show(root, { signal, poll }) {
  let groups = [];
  const wanted = h("input", { type: "search", placeholder: "part of a name", autocomplete: "off" });
  const kind = choice([["", "all"], ["classic", "classic"], ["consumer", "consumer"], ["share", "share"], ["streams", "streams"]], "");
  const found = h("p", { role: "status", class: "soft" });
  const table = new VirtualTable("Groups", [
    { title: "Group", cell: (row) => h("a", { href: `#/groups/${encodeURIComponent(row.group)}` }, row.group) },
    { title: "Kind", cell: (row) => row.kind },
    { title: "State", cell: (row) => badge(/stable/i.test(row.state) ? "good" : "plain", row.state) },
    { title: "Used for", cell: (row) => row.protocol_type },
  ], "No group matches.");
  let shown = "";

  function draw() {
    const part = wanted.value.toLowerCase();
    const rows = groups.filter((each) => each.group.toLowerCase().includes(part) && (!kind.value || each.kind === kind.value));
    const state = JSON.stringify(rows);
    if (state === shown) return;
    shown = state;
    table.show(rows);
    found.textContent = words(rows.length, "group", "groups");
  }

  wanted.addEventListener("input", draw);
  kind.addEventListener("change", draw);
  set(root, h("h1", {}, "Groups"), h("div", { class: "row" }, field("Filter", wanted), field("Kind", kind)), found, table.element);
  table.show([]);
  await poll(async () => {
    groups = await listed("v1/groups", "groups", {}, signal, 10_000);
    draw();
  }, EVERY_MS);
}
