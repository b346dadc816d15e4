// What is the state of the cluster, what is wrong now, and what to do about it.

import { get, health, isLeft, call } from "./api.js";
import { badge, h, note, set } from "./dom.js";
import { count, moment, rate, words } from "./format.js";
import { Sparkline } from "./sparkline.js";

const EVERY_MS = 3_000;
const SEVERITIES = { not_ready: "Not ready", error: "Error", warning: "Warning" };

export async function show(root, { signal, poll }) {
  const wrong = h("section", { "aria-label": "Problems" });
  const cards = h("div", { class: "cards" });
  const history = h("section", { "aria-label": "Last changes of owners" });
  const rates = {
    in: figure("Received by this node"), out: figure("Sent by this node"), requests: figure("Requests of clients"),
  };
  const notAllowed = h("div");
  set(
    root,
    h("h1", {}, "Overview"), wrong, cards,
    h("h2", {}, "Rates"), notAllowed,
    h("div", { class: "cards" }, Object.values(rates).map((each) => each.card)), history,
  );
  let before = null;

  async function state() {
    const known = await health(signal);
    let cluster;
    try {
      cluster = await get("v1/cluster", {}, signal);
    } catch (error) {
      if (!isLeft(error)) set(wrong, listed(reasons(known)));
      throw error;
    }
    set(wrong, problems(known, cluster));
    set(cards, [
      card("Cluster", cluster.cluster_id || "unknown"),
      card("Nodes", count(cluster.nodes.length), "#/nodes"),
      card("Topics", count(cluster.topics), "#/topics"),
      card("Partitions", count(cluster.partitions)),
      card("Controller", cluster.controller_id < 0 ? "none" : `node ${cluster.controller_id}`),
      card("Partitions here", Object.entries(cluster.partition_states).map(([name, number]) => `${number} ${name}`).join(", ") || "none"),
    ]);
    const changes = (await get("v1/history", { limit: 10 }, signal)).changes;
    set(history, changes.length ? [h("h2", {}, "Last changes of owners"), h("ul", {}, changes.map(changed))] : null);
  }

  async function measure() {
    let text;
    try {
      text = await (await call("GET", "metrics", { signal, raw: true })).text();
    } catch (error) {
      if (isLeft(error)) throw error;
      set(notAllowed, note("warn", error.status === 403 ? "Not allowed: the rates need the right to describe the cluster." : error.message));
      return;
    }
    set(notAllowed);
    const now = { at: performance.now(), in: 0, out: 0, requests: 0 };
    const names = { bmq_received_bytes_total: "in", bmq_sent_bytes_total: "out", bmq_requests_total: "requests" };
    for (const line of text.split("\n")) {
      const found = /^(bmq_\w+)(?:\{[^}]*\})? (\S+)$/.exec(line);
      if (found && names[found[1]]) now[names[found[1]]] += Number(found[2]);
    }
    if (before !== null && now.at > before.at) {
      const seconds = (now.at - before.at) / 1_000;
      const per = (name) => Math.max(0, (now[name] - before[name]) / seconds);
      rates.in.add(per("in"), rate(per("in")));
      rates.out.add(per("out"), rate(per("out")));
      rates.requests.add(per("requests"), `${count(Math.round(per("requests")))}/s`);
    }
    before = now;
  }

  await poll(async () => {
    await state();
    await measure();
  }, EVERY_MS);
}

function card(what, value, href) {
  const shown = h("strong", {}, value);
  return h("div", { class: "card" }, h("span", { class: "what" }, what), href ? h("a", { href }, shown) : shown);
}

function figure(what) {
  const line = new Sparkline(what);
  const value = h("strong", {}, "measuring");
  return {
    card: h("div", { class: "card" }, h("span", { class: "what" }, what), value, line.element),
    add(number, text) {
      value.textContent = text;
      line.add(number, text);
    },
  };
}

function problems(known, cluster) {
  const found = reasons(known);
  if (cluster.controller_id < 0) {
    found.push(["error", "There is no active controller.", "Start a node with the role controller, and look whether ZooKeeper answers."]);
  }
  if (cluster.partitions_without_leader) {
    found.push([
      "error", `${words(cluster.partitions_without_leader, "partition has", "partitions have")} no owner.`,
      "Start the nodes that may own them; the page of each topic names them.",
    ]);
  }
  for (const node of cluster.nodes.filter((each) => each.is_draining)) {
    found.push(["warning", `Node ${node.node_id} is drained and gets no partitions.`, "Undrain it on the page Nodes when its work is done."]);
  }
  if (!found.length) return note("good", badge("good", "Nothing is wrong"), " All partitions have owners, and this node serves.");
  return listed(found);
}

/** [severity, what is wrong, what to do] of each reason that the node gives. */
function reasons({ ready, why }) {
  if (!ready && !why.length) return [["not_ready", "This node does not serve now.", "It starts or stops. If this stays, look at its log."]];
  return why.map((each) => [each.severity, each.what, each.what_to_do]);
}

function listed(found) {
  if (!found.length) return null;
  return [h("h2", {}, "Wrong now"), found.map(([severity, text, advice]) => {
    const kind = severity === "warning" ? "warn" : "bad";
    return note(kind, badge(kind, SEVERITIES[severity] ?? severity), " ", h("strong", {}, text), " ", advice);
  })];
}

function changed(change) {
  return h(
    "li", {},
    h("span", { class: "soft" }, moment(change.at)), " ",
    h("a", { href: `#/topics/${encodeURIComponent(change.topic)}` }, `${change.topic}-${change.partition}`),
    change.leader < 0 ? " has no owner: " : ` is owned by node ${change.leader}: `, change.reason,
  );
}
