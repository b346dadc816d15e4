// One topic: its partitions, records, a form to write one, and its configs.

import { call, get, isLeft, path, post } from "./api.js";
import { confirm, refused } from "./dialog.js";
import { badge, button, choice, field, h, note, put, set } from "./dom.js";
import { count, size, words } from "./format.js";
import { records } from "./records.js";
import { rights } from "./rights.js";
import { VirtualTable } from "./table.js";
import { configTable } from "./configs.js";

const EVERY_MS = 5_000;
const OFFSETS_MS = 30_000; // to ask for offsets starts idle partitions
const OFFSETS_PARTITIONS_MAX = 1_000; // of a topic with more, a click asks
const TABS = [["", "Partitions"], ["records", "Records"], ["produce", "Produce"], ["transactions", "Transactions"], ["configs", "Configs"]];

export async function show(root, context) {
  const [name, tab = ""] = context.names;
  const shownTab = tab === "partitions" ? "" : tab;
  const body = h("section", { "aria-label": TABS.find(([each]) => each === shownTab)?.[1] ?? "Unknown" });
  set(
    root,
    h("h1", {}, "Topic ", name),
    h(
      "nav", { class: "tabs", "aria-label": "Parts of the topic" },
      TABS.map(([each, title]) => h("a", { href: `#/topics/${encodeURIComponent(name)}${each ? `/${each}` : ""}`, "aria-current": each === shownTab ? "page" : null }, title)),
    ),
    body,
  );
  if (tab === "records") return records(body, name, context);
  if (tab === "produce") return produce(body, name, context);
  if (tab === "configs") return configs(body, name, context);
  if (tab === "transactions") return (await import("./topic-transactions.js")).transactions(body, name, context);
  if (tab === "partitions") return (await import("./page-partition.js")).partition(body, name, context.names[2] ?? "0", context);
  return partitions(body, name, context);
}

// ---------------------------------------------------------------- partitions

async function partitions(body, name, { signal, poll }) {
  const { may } = await rights({ topic: name }, signal);
  let isInternal = false;
  const summary = h("p", { role: "status", class: "soft" });
  const table = new VirtualTable(`Partitions of ${name}`, [
    { title: "Partition", cell: (row) => h("a", { href: `#/topics/${encodeURIComponent(name)}/partitions/${row.partition}`, "aria-label": `Partition ${row.partition}` }, String(row.partition)), isNumber: true },
    { title: "Owner", cell: (row) => (row.leader < 0 ? badge("bad", "none") : `node ${row.leader}`) },
    { title: "Epoch", cell: (row) => count(row.leader_epoch), isNumber: true },
    { title: "May own it", cell: (row) => row.replicas.join(", ") },
    { title: "Alive", cell: (row) => row.isr.join(", ") },
    { title: "First offset", cell: (row) => count(row.offsets?.start_offset), isNumber: true },
    { title: "End offset", cell: (row) => count(row.offsets?.end_offset), isNumber: true },
    { title: "Size", cell: (row) => (row.offsets?.size_bytes === null ? "not here" : size(row.offsets?.size_bytes)), isNumber: true },
  ], "The topic has no partitions.");
  let offsets = null;
  let offsetsAt = -Infinity;
  const trouble = h("div");
  const ask = button("Show the offsets", () => renew().catch((error) => { if (!isLeft(error)) set(trouble, refused(error)); }), { hidden: true });
  put(
    body, summary, trouble, table.element,
    h(
      "div", { class: "row" }, ask,
      may("ALTER", "topic") ? button("Add partitions", () => addPartitions(name, renew)) : null,
      may("DELETE", "topic") ? button("Delete the topic", () => remove(name, isInternal), { class: "danger" }) : null,
    ),
  );
  let shown = "";
  async function askOffsets() {
    offsetsAt = performance.now();
    try {
      offsets = (await get(path`v1/topics/${name}/offsets`, {}, signal)).partitions;
      set(trouble);
    } catch (error) {
      if (error.status === undefined) throw error;
      set(trouble, note("warn", `The offsets are not known: ${error.message}`));
    }
  }
  const renew = () => refresh(true);
  async function refresh(isAsked = false) {
    const topic = await get(path`v1/topics/${name}`, {}, signal);
    isInternal = topic.is_internal;
    const isLarge = topic.partitions.length > OFFSETS_PARTITIONS_MAX;
    ask.hidden = !isLarge;
    if (isAsked || (!isLarge && performance.now() - offsetsAt >= OFFSETS_MS)) await askOffsets();
    const byNumber = new Map(offsets?.map((each) => [each.partition, each]));
    const rows = topic.partitions.map((each) => ({ ...each, offsets: byNumber.get(each.partition) }));
    const state = JSON.stringify(rows);
    if (state === shown) return; // keeps the focus where it is
    shown = state;
    table.show(rows);
    const total = offsets?.reduce((sum, each) => sum + Math.max(0, (each.end_offset ?? 0) - (each.start_offset ?? 0)), 0);
    const used = offsets === null ? "" : `, ${words(total, "offset", "offsets")} in use`;
    summary.textContent = `${words(topic.partitions.length, "partition", "partitions")}${used}, id ${topic.topic_id}`;
  }
  await poll(() => refresh(), EVERY_MS);
}

function addPartitions(name, done) {
  const wanted = h("input", { type: "number", min: "1", max: "10000", required: true });
  confirm({
    title: `Add partitions to ${name}`,
    text: [h("p", {}, "Keys go to other partitions from then on."), field("Partitions in all", wanted)],
    action: "Add",
    act: async () => {
      await post(path`v1/topics/${name}/partitions`, { count: Number(wanted.value) });
      await done();
    },
  });
}

async function remove(name, isInternal) {
  const isDone = await confirm({
    title: `Delete ${name}`,
    text: h("p", {}, "All its records are lost. It cannot be undone.", isInternal ? " This topic is internal: the cluster needs it." : ""),
    action: "Delete",
    name,
    isDangerous: true,
    act: () => call("DELETE", path`v1/topics/${name}`),
  });
  if (isDone) location.hash = "#/topics";
}

// ---------------------------------------------------------------- produce

async function produce(body, name, { signal }) {
  const { may } = await rights({ topic: name }, signal);
  if (!may("WRITE", "topic")) {
    put(body, note("warn", "Not allowed: writing records needs the right to write to the topic."));
    return;
  }
  const topic = await get(path`v1/topics/${name}`, {}, signal);
  const partition = choice([["", "by the key, else in turn"], ...topic.partitions.map((each) => [String(each.partition), String(each.partition)])], "");
  const form = ["text", "base64"].map((each) => [each, each]);
  const keyForm = choice(form, "text", { "aria-label": "Form of the key" });
  const valueForm = choice(form, "text", { "aria-label": "Form of the value" });
  const key = h("input", { type: "text", autocomplete: "off", spellcheck: "false" });
  const isTombstone = h("input", { type: "checkbox" });
  const value = h("textarea", { spellcheck: "false" });
  const headers = h("textarea", { placeholder: "trace=abc", spellcheck: "false" });
  const outcome = h("div");
  const go = h("button", { type: "submit", class: "primary" }, "Write the record");
  async function send(event) {
    event.preventDefault();
    go.disabled = true; // a second click would write it twice
    try {
      const made = await post(path`v1/topics/${name}/records`, {
        records: [{
          key: key.value ? { [keyForm.value]: key.value } : null,
          value: isTombstone.checked ? null : { [valueForm.value]: value.value },
          headers: headers.value.split("\n").map((each) => each.trim()).filter(Boolean).map(header),
          partition: partition.value ? Number(partition.value) : null,
        }],
      });
      const [written] = made.written;
      set(outcome, note("good", badge("good", "Written"), ` Partition ${written.partition}, offset ${written.offset}. `, h("a", { href: `#/topics/${encodeURIComponent(name)}/records?from=offset&partition=${written.partition}&offset=${written.offset}` }, "Show it")));
    } catch (error) {
      set(outcome, refused(error));
    } finally {
      go.disabled = false;
    }
  }
  put(body, h(
    "form", { on: { submit: send } },
    h("div", { class: "row" }, field("Key", key, "Empty: no key."), field("Key is", keyForm), field("Partition", partition)),
    field("Value", value),
    h("div", { class: "row" }, field("Value is", valueForm), h("label", { class: "check" }, isTombstone, "no value (a tombstone)")),
    field("Headers, one NAME=VALUE a line", headers),
    h("div", { class: "row" }, go), outcome,
  ));
}

function header(line) {
  const at = line.indexOf("=");
  return at < 0 ? { name: line, value: null } : { name: line.slice(0, at), value: { text: line.slice(at + 1) } };
}

// ---------------------------------------------------------------- configs

async function configs(body, name, { signal }) {
  const { may } = await rights({ topic: name }, signal);
  const where = path`v1/topics/${name}/configs`;
  async function draw() {
    const page = await get(where, {}, signal);
    set(body, configTable(`Configs of ${name}`, page.configs, may("ALTER_CONFIGS", "topic") ? (config) => alter(config) : undefined));
  }
  async function alter(config) {
    const value = h("input", { type: "text", value: config.value ?? "", autocomplete: "off", spellcheck: "false" });
    const isReset = h("input", { type: "checkbox" });
    await confirm({
      title: `Change ${config.name}`,
      text: [
        h("p", {}, config.documentation ?? ""),
        field("New value", value), h("label", { class: "check" }, isReset, "back to the cluster's value"),
      ],
      action: "Change",
      act: () => call("PATCH", where, {
        body: isReset.checked ? { reset: [config.name] } : { set: { [config.name]: value.value } },
      }),
    });
    await draw();
  }
  await draw();
}
