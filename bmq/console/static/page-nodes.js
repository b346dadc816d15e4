// The nodes: roles and load; drain, undrain, rebalance and scale with a plan first.

import { get } from "./api.js";
import { badge, button, h, plainTable, set } from "./dom.js";
import { count, rate } from "./format.js";
import { drain, elsewhere, rebalance, scale, undrain } from "./orders.js";
import { rights } from "./rights.js";

const EVERY_MS = 3_000;

export async function show(root, { signal, poll }) {
  const body = h("section", { "aria-label": "Nodes" });
  const away = h("div");
  const { may } = await rights({}, signal);
  const orders = may("ALTER") ? [button("Rebalance", rebalance), button("Scale", scale)] : null;
  set(root, h("h1", {}, "Nodes"), away, body, h("div", { class: "row" }, orders, h("a", { href: "#/map" }, "Map"), h("a", { href: "#/tasks" }, "Tasks")));
  const columns = [
    ["Node", (each) => [h("a", { href: `#/nodes/${each.node_id}` }, String(each.node_id)), each.is_controller ? " (controller)" : ""]],
    ["Roles", (each) => each.roles.join(", ")],
    ["Clients", (each) => (each.host === null ? "none" : `${each.host}:${each.port}`)],
    ["Rack", (each) => each.rack ?? "none"],
    ["State", (each) => (each.is_draining ? badge("warn", "drained") : badge("good", "serves"))],
    ["Partitions", (each) => count(each.partitions_led), true],
    ["In", (each) => (each.load ? rate(each.load.bytes_in_s) : "unknown"), true],
    ["Out", (each) => (each.load ? rate(each.load.bytes_out_s) : "unknown"), true],
  ];
  if (may("ALTER")) columns.push(["Order", (each) => (each.is_draining ? button("Undrain", () => undrain(each.node_id)) : button("Drain", () => drain(each.node_id)))]);
  let shown = "";
  await poll(async () => {
    const cluster = await get("v1/cluster", {}, signal);
    const state = JSON.stringify(cluster.nodes);
    if (state === shown) return; // keeps the focus where it is
    shown = state;
    set(away, elsewhere(cluster, "nodes"));
    set(body, plainTable("Nodes", columns, cluster.nodes));
  }, EVERY_MS);
}
