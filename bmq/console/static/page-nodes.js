// The nodes: roles and load; drain, undrain, rebalance and scale with a plan first.

import { get, path, post } from "./api.js";
import { confirm, refused } from "./dialog.js";
import { badge, button, field, h, note, plainTable, set } from "./dom.js";
import { count, rate, words } from "./format.js";

const EVERY_MS = 3_000;

export async function show(root, { signal, poll }) {
  const body = h("section", { "aria-label": "Nodes" });
  const elsewhere = h("div");
  set(
    root, h("h1", {}, "Nodes"), elsewhere, body,
    h(
      "div", { class: "row" },
      button("Rebalance", () => order("Rebalance", "v1/rebalance")),
      button("Scale", scale),
      h("a", { href: "#/tasks" }, "Tasks"),
    ),
  );
  let shown = "";
  await poll(async () => {
    const cluster = await get("v1/cluster", {}, signal);
    const state = JSON.stringify(cluster.nodes);
    if (state === shown) return; // keeps the focus where it is
    shown = state;
    const here = cluster.nodes.find((each) => each.is_controller);
    const isHere = !here || here.load !== null;
    set(elsewhere, isHere ? null : note("warn", `Node ${here.node_id} is the active controller: loads are known there, and orders are given there. `, isSafe(cluster.controller_rest) ? h("a", { href: `${cluster.controller_rest}/#/nodes` }, "Open its console") : null));
    set(body, plainTable("Nodes", [
      ["Node", (each) => [String(each.node_id), each.is_controller ? " (controller)" : ""]],
      ["Roles", (each) => each.roles.join(", ")],
      ["Clients", (each) => (each.host === null ? "none" : `${each.host}:${each.port}`)],
      ["Rack", (each) => each.rack ?? "none"],
      ["State", (each) => (each.is_draining ? badge("warn", "drained") : badge("good", "serves"))],
      ["Partitions", (each) => count(each.partitions_led), true],
      ["In", (each) => (each.load ? rate(each.load.bytes_in_s) : "unknown"), true],
      ["Out", (each) => (each.load ? rate(each.load.bytes_out_s) : "unknown"), true],
      ["Order", (each) => (each.is_draining
        ? button("Undrain", () => order(`Undrain node ${each.node_id}`, path`v1/nodes/${each.node_id}/undrain`))
        : button("Drain", () => order(`Drain node ${each.node_id}`, path`v1/nodes/${each.node_id}/drain`, `node ${each.node_id}`)))],
    ], cluster.nodes));
  }, EVERY_MS);
}

const isSafe = (address) => typeof address === "string" && /^https?:\/\//.test(address);

function scale() {
  const brokers = h("input", { type: "number", min: "1", max: "10000", value: "1" });
  const plan = h("div");
  confirm({
    title: "Scale",
    text: [
      h("p", {}, "Nodes are started or stopped until there are so many brokers."), field("Brokers", brokers),
      h("div", { class: "row" }, button("Show the plan", () => showPlan(plan, "v1/scale", { brokers: Number(brokers.value) }))), plan,
    ],
    action: "Scale",
    name: "scale",
    isDangerous: true,
    act: async () => follow(await post("v1/scale", { brokers: Number(brokers.value) })),
  });
}

async function order(title, where, name) {
  const plan = h("div", {}, "Making the plan…");
  showPlan(plan, where, undefined);
  await confirm({
    title, text: plan, action: title.split(" ")[0], name, isDangerous: name !== undefined,
    act: async () => follow(await post(where)),
  });
}

async function showPlan(place, where, body) {
  try {
    const plan = await post(where, body, { dry_run: true });
    set(place, h("p", {}, plan.summary), plan.moves.length ? plainTable("Moves", [
      ["Partition", (each) => `${each.topic}-${each.partition}`], ["From", (each) => each.from_node, true],
      ["To", (each) => each.to_node, true], ["Why", (each) => each.reason],
    ], plan.moves.slice(0, 200)) : h("p", {}, "No partition moves."), plan.move_count > 200 ? h("p", {}, `${words(plan.move_count, "move", "moves")} in all.`) : null);
  } catch (error) {
    set(place, refused(error));
  }
}

function follow(task) {
  location.hash = `#/tasks?id=${task.id}`;
}
