// Channels of Databus, and the agents that asked this node for them.

import { get, isLeft } from "./api.js";
import { refused } from "./dialog.js";
import { badge, h, set } from "./dom.js";
import { count, duration, moment, words } from "./format.js";
import { VirtualTable } from "./table.js";

const EVERY_MS = 5_000;
const SHOWN_MAX = 10_000;

export async function show(root, { signal, poll }) {
  const channelText = h("p", { role: "status", class: "soft" });
  const agentText = h("p", { class: "soft" });
  const trouble = h("div");
  const channels = new VirtualTable("Channels", [
    { title: "Channel", cell: (row) => row.name },
    { title: "Topic", cell: (row) => (row.topic ? h("a", { href: `#/topics/${encodeURIComponent(row.topic)}` }, row.topic) : "") },
    { title: "State", cell: (row) => (row.problem ? badge("bad", row.problem) : badge("good", "usable")) },
    { title: "Changed", cell: (row) => moment(row.altered_at) },
    { title: "Version", cell: (row) => count(row.version), isNumber: true },
    { title: "Settings", cell: (row) => row.settings },
  ], "There is none. `bmq databus channel set` makes one.");
  const agents = new VirtualTable("Agents", [
    { title: "Agent", cell: (row) => row.id },
    { title: "Address", cell: (row) => row.address },
    { title: "Version", cell: (row) => (row.applied_version === null ? "not told" : count(row.applied_version)), isNumber: true },
    { title: "State", cell: (row) => agentState(row) },
    { title: "Seen", cell: (row) => (row.is_waiting ? "now" : `${duration(row.seen_ms_ago)} ago`) },
  ], "No agent has asked this node within the last hour.");
  set(root, h("h1", {}, "Databus"), trouble, h("h2", {}, "Channels"), channelText, channels.element, h("h2", {}, "Agents"), agentText, agents.element);
  let version = 0;
  let shown = "";
  const agentState = (row) => (row.applied_version === version ? badge("good", "up to date") : badge("warn", row.applied_version === null ? "not told" : "behind"));

  await poll(async () => {
    const [known, seen] = await Promise.all([
      get("v1/channels", {}, signal),
      get("v1/channels/agents", { limit: SHOWN_MAX }, signal).catch((error) => {
        if (isLeft(error)) throw error;
        set(trouble, refused(error));
        return null;
      }),
    ]);
    const state = JSON.stringify([known, seen?.agents.map((each) => [each.id, each.applied_version, each.is_waiting, Math.round(each.seen_ms_ago / 60_000)])]);
    if (state === shown) return; // keeps the focus where it is
    shown = state;
    version = known.version;
    channels.show([...known.channels.map((each) => channelRow(each, known.states[each.name])), ...Object.entries(known.unreadable).map(([name, why]) => ({ name, topic: "", problem: why, altered_at: null, version: null, settings: "" }))]);
    channelText.textContent = `${words(known.channels.length, "channel", "channels")}, version ${count(known.version)}`;
    if (seen === null) return;
    agents.show(seen.agents);
    agentText.textContent = `${words(seen.count, "agent", "agents")} asked node ${seen.node_id} within the last hour; other nodes know others.`;
  }, EVERY_MS);
}

function channelRow(channel, state) {
  const { name, topic, ...rest } = channel;
  const settings = Object.entries(rest).filter(([, value]) => value !== null && value !== undefined && value !== "").map(([key, value]) => `${key}=${typeof value === "object" ? JSON.stringify(value) : value}`).join(" ");
  return { name, topic, problem: state?.topic_problem ?? null, altered_at: state?.altered_at ?? null, version: state?.version ?? null, settings };
}
