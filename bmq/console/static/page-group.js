// One group: members, lag with its last minutes, why nothing is delivered, a reset with a plan first.

import { call, get, path, post } from "./api.js";
import { confirm, refused } from "./dialog.js";
import { badge, button, choice, field, h, note, plainTable, set } from "./dom.js";
import { count, words } from "./format.js";
import { rights } from "./rights.js";
import { Sparkline } from "./sparkline.js";
import { VirtualTable } from "./table.js";

const EVERY_MS = 4_000;
const PARTITIONS_MAX = 1_000;

export async function show(root, { signal, names, poll }) {
  const [name] = names;
  const { may } = await rights({ group: name }, signal);
  const head = h("div", { class: "cards" });
  const members = h("section", { "aria-label": "Members" });
  const line = new Sparkline("Lag, since this page was opened");
  const lag = h("strong", {}, "measuring");
  const table = new VirtualTable("Partitions", [
    { title: "Partition", cell: (row) => h("a", { href: `#/topics/${encodeURIComponent(row.topic)}` }, `${row.topic}-${row.partition}`) },
    { title: "Next offset", cell: (row) => count(row.next_offset), isNumber: true },
    { title: "End offset", cell: (row) => count(row.high_watermark), isNumber: true },
    { title: "Lag", cell: (row) => count(row.lag), isNumber: true },
    { title: "Members", cell: (row) => row.members.join(", ") },
    { title: "What holds it", cell: (row) => row.reasons.map((each) => each.text).join(" ") },
  ], "The group has no partitions.");
  const trouble = h("div");
  let known = null;
  set(
    root, h("h1", {}, "Group ", name), trouble, head,
    h("div", { class: "card" }, h("span", { class: "what" }, "Lag, since this page was opened"), lag, line.element),
    h("h2", {}, "Partitions"), table.element, members,
    h(
      "div", { class: "row" },
      may("READ", "group") ? button("Move the offsets", () => reset(name, known)) : null,
      may("DELETE", "group") ? button("Delete the group", () => remove(name), { class: "danger" }) : null,
    ),
  );

  async function refresh() {
    try {
      known = await get(path`v1/groups/${name}/explain`, { limit: PARTITIONS_MAX }, signal);
    } catch (error) {
      if (error.status !== 404) throw error;
      set(trouble, note("warn", `${error.message}. A streams group is in the list of groups only.`));
      return;
    }
    set(trouble);
    const lags = known.partitions.map((each) => each.lag).filter((each) => each !== null);
    const total = lags.reduce((sum, each) => sum + each, 0);
    lag.textContent = lags.length ? words(total, "record", "records") : "unknown";
    if (lags.length) line.add(total, count(total));
    set(head, [
      ["Kind", known.kind], ["State", badge(/stable/i.test(known.state) ? "good" : "plain", known.state)],
      ["Members", count(known.members.length)], ["Partitions", count(known.partition_count)],
    ].map(([what, value]) => h("div", { class: "card" }, h("span", { class: "what" }, what), h("strong", {}, value))));
    table.show(known.partitions);
    set(members, h("h2", {}, "Members"), known.members.length ? plainTable("Members", [
      ["Member", (each) => each.member_id], ["Client", (each) => each.client_id], ["Address", (each) => each.host],
      ["Partitions", (each) => count(each.partitions), true],
    ], known.members) : h("p", {}, "It has no members."));
  }
  await poll(refresh, EVERY_MS);
}

function reset(name, known) {
  const topics = [...new Set((known?.partitions ?? []).map((each) => each.topic))].sort();
  const topic = h("input", { type: "text", required: true, list: "topics-of-group", value: topics[0] ?? "", autocomplete: "off" });
  const to = choice([["earliest", "the oldest record"], ["latest", "the end"], ["offset", "an offset"], ["time", "a time"]], "earliest", { on: { change: arrange } });
  const offset = h("input", { type: "number", min: "0", value: "0" });
  const time = h("input", { type: "datetime-local", step: "1" });
  const ofOffset = field("Offset", offset);
  const ofTime = field("Time", time);
  const plan = h("div");
  let planned = null;
  function arrange() {
    ofOffset.hidden = to.value !== "offset";
    ofTime.hidden = to.value !== "time";
  }
  function order() {
    return {
      topic: topic.value, to: to.value, offset: Number(offset.value),
      time_ms: to.value === "time" ? new Date(time.value || 0).getTime() : 0,
    };
  }
  async function look() {
    try {
      planned = order();
      const view = await post(path`v1/groups/${name}/offsets`, planned, { dry_run: true });
      set(plan, plainTable("The plan", [
        ["Partition", (each) => each.partition, true], ["Now", (each) => (each.before === null ? "none" : count(each.before)), true],
        ["Then", (each) => count(each.after), true],
        ["What that means", (each) => (each.before === null ? "begins there" : each.after < each.before ? `${words(each.before - each.after, "offset", "offsets")} again` : each.after > each.before ? `${words(each.after - each.before, "offset", "offsets")} left out` : "no change")],
      ], view.moves));
    } catch (error) {
      planned = null;
      set(plan, refused(error));
    }
  }
  confirm({
    title: `Move the offsets of ${name}`,
    text: [
      h("p", {}, "The group must have no members. Look at the plan first."),
      h("datalist", { id: "topics-of-group" }, topics.map((each) => h("option", { value: each }))),
      field("Topic", topic), field("To", to), ofOffset, ofTime,
      h("div", { class: "row" }, button("Show the plan", look)), plan,
    ],
    action: "Move",
    name,
    isDangerous: true,
    act: async () => {
      if (planned === null || JSON.stringify(planned) !== JSON.stringify(order())) throw new Error("Look at the plan of this change first.");
      await post(path`v1/groups/${name}/offsets`, planned);
    },
  });
  arrange();
}

async function remove(name) {
  const isDone = await confirm({
    title: `Delete group ${name}`,
    text: h("p", {}, "Its offsets are lost. It cannot be undone. The group must have no members."),
    action: "Delete",
    name,
    isDangerous: true,
    act: () => call("DELETE", path`v1/groups/${name}`),
  });
  if (isDone) location.hash = "#/groups";
}
