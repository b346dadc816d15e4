// Orders to the cluster: the plan first, then the name is typed, then the task is followed.

import { path, post } from "./api.js";
import { confirm, refused } from "./dialog.js";
import { button, choice, field, h, note, plainTable, set } from "./dom.js";
import { words } from "./format.js";

const MOVES_SHOWN_MAX = 200;

/** Ask with the plan shown. `name` has to be typed; `body` is what the order says. */
export async function order({ title, where, name, body }) {
  const plan = h("div", {}, "Making the plan…");
  showPlan(plan, where, body);
  await confirm({
    title, text: plan, action: title.split(" ")[0], name, isDangerous: true,
    act: async () => follow(await post(where, body)),
  });
}

export const drain = (id) => order({ title: `Drain node ${id}`, where: path`v1/nodes/${id}/drain`, name: `node ${id}` });
export const undrain = (id) => order({ title: `Undrain node ${id}`, where: path`v1/nodes/${id}/undrain`, name: `node ${id}` });
export const rebalance = () => order({ title: "Rebalance", where: "v1/rebalance", name: "rebalance" });

export function scale() {
  const brokers = h("input", { type: "number", min: "1", max: "10000", value: "1" });
  planned({
    title: "Scale", where: "v1/scale", name: "scale",
    text: [h("p", {}, "Nodes are started or stopped until there are so many brokers."), field("Brokers", brokers)],
    body: () => ({ brokers: Number(brokers.value) }),
  });
}

/** Give one partition to a node. */
export function move(topic, partition, owner, nodes) {
  const others = nodes.filter((each) => each.roles.includes("broker") && each.node_id !== owner);
  const to = choice(others.map((each) => [String(each.node_id), `node ${each.node_id}${each.is_draining ? " (drained)" : ""}`]), String(others[0]?.node_id ?? ""));
  planned({
    title: `Move ${topic}-${partition}`, where: path`v1/topics/${topic}/partitions/${partition}/move`, name: `${topic}-${partition}`,
    text: [
      h("p", {}, owner < 0 ? "It has no owner now." : `It is owned by node ${owner} now.`),
      others.length ? field("To", to) : note("warn", "There is no other broker."),
    ],
    body: () => ({ to: Number(to.value) }),
  });
}

/** Ask for an order whose plan depends on what is chosen: the plan of the very same choice has to be seen first. */
function planned({ title, where, name, text, body }) {
  const plan = h("div");
  let seen = null;
  async function look() {
    const asked = JSON.stringify(body());
    seen = (await showPlan(plan, where, body())) ? asked : null;
  }
  confirm({
    title, text: [text, h("div", { class: "row" }, button("Show the plan", look)), plan],
    action: title.split(" ")[0], name, isDangerous: true,
    act: async () => {
      if (seen !== JSON.stringify(body())) throw new Error("Look at the plan of this order first.");
      follow(await post(where, body()));
    },
  });
}

/** Whether there is a plan. */
async function showPlan(place, where, body) {
  try {
    const plan = await post(where, body, { dry_run: true });
    set(
      place, h("p", {}, plan.summary),
      plan.moves.length ? plainTable("Moves", [
        ["Partition", (each) => `${each.topic}-${each.partition}`], ["From", (each) => each.from_node, true],
        ["To", (each) => each.to_node, true], ["Why", (each) => each.reason],
      ], plan.moves.slice(0, MOVES_SHOWN_MAX)) : h("p", {}, "No partition moves."),
      plan.move_count > MOVES_SHOWN_MAX ? h("p", {}, `${words(plan.move_count, "move", "moves")} in all.`) : null,
    );
    return true;
  } catch (error) {
    set(place, refused(error));
    return false;
  }
}

function follow(task) {
  location.hash = `#/tasks?id=${task.id}`;
}

const isSafe = (address) => typeof address === "string" && /^https?:\/\//.test(address);

/** Where another node is the active controller: a note with the way to its console; else null. `here`: the page's address. `what`: is there. */
export function elsewhere(cluster, here, what = "loads are known there, and orders are given there. ") {
  const controller = cluster.nodes.find((each) => each.is_controller);
  if (!controller || controller.node_id === cluster.answered_by) return null;
  return note(
    "warn", `Node ${controller.node_id} is the active controller: ${what}`,
    isSafe(cluster.controller_rest) ? h("a", { href: `${cluster.controller_rest}/#/${here}` }, "Open its console") : null,
  );
}
