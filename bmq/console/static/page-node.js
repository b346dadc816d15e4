// One node: its load and the partitions that it owns, each of which can be moved.

import { get, path } from "./api.js";
import { badge, button, h, set } from "./dom.js";
import { count, rate, size, words } from "./format.js";
import { drain, elsewhere, move, undrain } from "./orders.js";
import { rights } from "./rights.js";
import { VirtualTable } from "./table.js";

const EVERY_MS = 5_000;
const PARTITIONS_MAX = 10_000;

export async function show(root, { signal, names, poll }) {
  const id = names[0];
  const { may } = await rights({}, signal);
  const head = h("div", { class: "cards" });
  const away = h("div");
  const orders = h("div", { class: "row" });
  const found = h("p", { role: "status", class: "soft" });
  let nodes = [];
  const columns = [
    { title: "Partition", cell: (row) => h("a", { href: `#/topics/${encodeURIComponent(row.topic)}/partitions/${row.partition}` }, `${row.topic}-${row.partition}`) },
    { title: "Epoch", cell: (row) => count(row.leader_epoch), isNumber: true },
    { title: "Size", cell: (row) => (row.size_bytes === null ? "not known here" : size(row.size_bytes)), isNumber: true },
  ];
  if (may("ALTER")) columns.push({ title: "Order", cell: (row) => button("Move", () => move(row.topic, row.partition, Number(id), nodes), { "aria-label": `Move ${row.topic}-${row.partition}` }) });
  const table = new VirtualTable(`Partitions of node ${id}`, columns, "It owns no partition.");
  set(root, h("h1", {}, "Node ", id), away, head, orders, h("h2", {}, "Partitions"), found, table.element);
  let shown = "";
  await poll(async () => {
    const [cluster, page] = await Promise.all([
      get("v1/cluster", {}, signal),
      get(path`v1/nodes/${id}/partitions`, { limit: PARTITIONS_MAX }, signal),
    ]);
    const state = JSON.stringify([cluster.nodes, page]);
    if (state === shown) return; // keeps the focus where it is
    shown = state;
    nodes = cluster.nodes;
    const node = nodes.find((each) => String(each.node_id) === id);
    set(away, elsewhere(cluster, `nodes/${encodeURIComponent(id)}`));
    set(head, node ? [
      card("State", node.is_draining ? badge("warn", "drained") : badge("good", "serves")),
      card("Roles", node.roles.join(", ")),
      card("Clients", node.host === null ? "none" : `${node.host}:${node.port}`),
      card("Rack", node.rack ?? "none"),
      card("Partitions", count(page.count)),
      card("Stored", page.stored_bytes === null ? "not known here" : size(page.stored_bytes)),
      card("In, out", node.load ? `${rate(node.load.bytes_in_s)}, ${rate(node.load.bytes_out_s)}` : "not known here"),
    ] : null);
    set(orders, node && may("ALTER") ? (node.is_draining ? button("Undrain", () => undrain(node.node_id)) : button("Drain", () => drain(node.node_id))) : null);
    const text = `${words(page.count, "partition", "partitions")}${page.next_skip === null ? "" : `, the first ${count(page.partitions.length)} are shown`}`;
    if (found.textContent !== text) found.textContent = text;
    table.show(page.partitions);
  }, EVERY_MS);
}

export function card(what, value) {
  return h("div", { class: "card" }, h("span", { class: "what" }, what), h("strong", {}, value));
}
