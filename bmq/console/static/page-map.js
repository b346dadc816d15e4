// The cluster at a glance: each node with its share of the partitions, and the moves as they happen.

import { get, isLeft } from "./api.js";
import { bar } from "./bar.js";
import { badge, button, h, note, set } from "./dom.js";
import { count, moment, rate, words } from "./format.js";
import { elsewhere, rebalance, scale } from "./orders.js";
import { rights } from "./rights.js";

const EVERY_MS = 2_000;
const CHANGES_SHOWN = 30;

export async function show(root, { signal, poll }) {
  const { may } = await rights({}, signal);
  const away = h("div");
  const trouble = h("div");
  const summary = h("p", { role: "status", class: "soft" });
  const nodes = h("section", { class: "cards", "aria-label": "Nodes" });
  const running = h("section", { "aria-label": "Orders under way" });
  const moves = h("ol", { class: "lines" });
  set(
    root, h("h1", {}, "Map"), away, summary, trouble, nodes,
    h("div", { class: "row" }, may("ALTER") ? [button("Rebalance", rebalance), button("Scale", scale)] : null, h("a", { href: "#/tasks" }, "Tasks")),
    running, h("h2", {}, "Last changes of owners"), h("div", { role: "log", "aria-label": "Last changes of owners" }, moves),
  );
  const opened = new Date().toISOString();
  let shownNodes = "";
  let shownMoves = "";

  async function map() {
    const cluster = await get("v1/cluster", {}, signal);
    const state = JSON.stringify(cluster);
    if (state === shownNodes) return; // keeps the focus where it is
    shownNodes = state;
    set(away, elsewhere(cluster, "map"));
    summary.textContent = `${words(cluster.nodes.length, "node", "nodes")}, ${words(cluster.topics, "topic", "topics")}, ${words(cluster.partitions, "partition", "partitions")}`;
    const lost = cluster.partitions_without_leader;
    set(trouble, lost ? note("bad", badge("bad", "No owner"), ` ${words(lost, "partition has", "partitions have")} no owner. The last changes below say why.`) : null);
    const highest = Math.max(0, ...cluster.nodes.map((each) => each.partitions_led));
    set(nodes, cluster.nodes.map((each) => nodeCard(each, highest, cluster.partitions)));
  }

  async function changes() {
    const found = (await get("v1/history", { limit: CHANGES_SHOWN }, signal)).changes;
    const state = JSON.stringify(found);
    if (state === shownMoves) return;
    shownMoves = state;
    set(moves, found.length ? found.map((each) => change(each, each.at > opened)) : h("li", {}, "No change is known."));
  }

  async function orders() {
    let tasks = [];
    try {
      tasks = (await get("v1/tasks", { limit: 20 }, signal)).tasks.filter((each) => each.state === "running");
    } catch (error) {
      if (isLeft(error)) throw error; // else the active controller knows them, and the note above says where it is
    }
    set(running, tasks.length ? [h("h2", {}, "Orders under way"), tasks.map((each) => h(
      "p", {}, h("a", { href: "#/tasks" }, `${each.kind} ${each.subject}`), " ",
      h("progress", { max: "1", value: each.progress, "aria-label": `Progress of ${each.kind} ${each.subject}` }),
      h("span", { class: "soft" }, ` ${each.steps.at(-1)?.text ?? ""}`),
    ))] : null);
  }

  await poll(async () => {
    await map();
    await changes();
    await orders();
  }, EVERY_MS);
}

function nodeCard(node, highest, partitions) {
  const share = partitions ? Math.round((100 * node.partitions_led) / partitions) : 0;
  const text = `${words(node.partitions_led, "partition", "partitions")}, ${share} %`;
  return h(
    "div", { class: "card" },
    h("a", { href: `#/nodes/${node.node_id}` }, h("strong", {}, `Node ${node.node_id}`)),
    h("p", {}, node.is_draining ? badge("warn", "drained") : badge("good", "serves"), node.is_controller ? [" ", badge("plain", "controller")] : null, ` ${node.roles.join(", ")}`),
    bar(node.partitions_led, highest, text), h("span", {}, text),
    h("p", { class: "soft" }, node.load ? `in ${rate(node.load.bytes_in_s)}, out ${rate(node.load.bytes_out_s)}, ${count(Math.round(node.load.requests_s))} requests/s` : "its load is known at the active controller"),
  );
}

function change(each, isNew) {
  return h(
    "li", {}, isNew ? [badge("warn", "new"), " "] : null, h("span", { class: "soft" }, moment(each.at)), " ",
    h("a", { href: `#/topics/${encodeURIComponent(each.topic)}/partitions/${each.partition}` }, `${each.topic}-${each.partition}`),
    each.leader < 0 ? " has no owner: " : ` is owned by node ${each.leader}: `, each.reason,
  );
}
