// The topics: a list with a filter, and a form for new ones.

import { listed, post } from "./api.js";
import { refused } from "./dialog.js";
import { button, field, h, note, put, set } from "./dom.js";
import { count, words } from "./format.js";
import { rights } from "./rights.js";
import { VirtualTable } from "./table.js";

const EVERY_MS = 10_000;

export async function show(root, { signal, poll }) {
  const { may } = await rights({}, signal);
  let topics = [];
  const wanted = h("input", { type: "search", placeholder: "part of a name", autocomplete: "off" });
  const internal = h("input", { type: "checkbox" });
  const found = h("p", { role: "status", class: "soft" });
  const table = new VirtualTable("Topics", [
    { title: "Name", cell: (row) => h("a", { href: `#/topics/${encodeURIComponent(row.name)}` }, row.name) },
    { title: "Partitions", cell: (row) => count(row.partitions), isNumber: true },
    { title: "Replicas", cell: (row) => count(row.replication_factor), isNumber: true },
    { title: "Kind", cell: (row) => (row.is_internal ? "internal" : "topic") },
  ], "No topic matches.");

  function draw() {
    const part = wanted.value.toLowerCase();
    const rows = topics.filter((each) => (internal.checked || !each.is_internal) && each.name.toLowerCase().includes(part));
    table.show(rows);
    const text = `${words(rows.length, "topic", "topics")}, ${words(rows.reduce((sum, each) => sum + each.partitions, 0), "partition", "partitions")}`;
    if (found.textContent !== text) found.textContent = text;
  }

  async function load() {
    topics = await listed("v1/topics", "topics", {}, signal);
    draw();
  }

  wanted.addEventListener("input", draw);
  internal.addEventListener("change", draw);
  set(
    root,
    h("h1", {}, "Topics"),
    h(
      "div", { class: "row" },
      field("Filter", wanted), h("label", { class: "check" }, internal, "internal topics"),
      may("CREATE") ? button("Create a topic", () => create(load), { class: "primary" }) : null,
    ),
    found, table.element,
  );
  await poll(load, EVERY_MS);
}

/** `name=value` lines as an object; throws with a sentence. */
export function configsOf(text) {
  const found = {};
  for (const line of text.split("\n").map((each) => each.trim()).filter(Boolean)) {
    const at = line.indexOf("=");
    if (at < 1) throw new Error(`"${line}" is not NAME=VALUE.`);
    found[line.slice(0, at).trim()] = line.slice(at + 1).trim();
  }
  return found;
}

function create(done) {
  const name = h("input", { type: "text", required: true, pattern: "[a-zA-Z0-9._\\-]+", maxlength: "249", autocomplete: "off" });
  const partitions = h("input", { type: "number", min: "1", max: "10000", placeholder: "default" });
  const replicas = h("input", { type: "number", min: "1", max: "32767", placeholder: "default" });
  const configs = h("textarea", { placeholder: "retention.ms=86400000", spellcheck: "false" });
  const trouble = h("div");
  const go = h("button", { type: "submit", class: "primary" }, "Create");
  const tryIt = button("Try without creating", () => send(true));
  const dialog = h(
    "dialog", { "aria-label": "Create a topic" },
    h(
      "form", { on: { submit } },
      h("h2", {}, "Create a topic"),
      field("Name", name), field("Partitions", partitions), field("Replicas", replicas, "Nodes that may own a partition."),
      field("Configs, one NAME=VALUE a line", configs), trouble,
      h(
        "div", { class: "row" },
        go, tryIt, button("Cancel", () => dialog.close()),
      ),
    ),
  );
  async function send(isTry) {
    go.disabled = tryIt.disabled = true; // a second click would ask twice
    try {
      const made = await post("v1/topics", {
        name: name.value,
        partitions: partitions.value ? Number(partitions.value) : null,
        replication_factor: replicas.value ? Number(replicas.value) : null,
        configs: configsOf(configs.value),
      }, { dry_run: isTry });
      if (isTry) {
        set(trouble, note("good", `It can be created: ${words(made.partitions, "partition", "partitions")}, ${words(made.replication_factor, "replica", "replicas")}.`));
        return;
      }
      dialog.close();
      await done();
    } catch (error) {
      set(trouble, refused(error));
    } finally {
      go.disabled = tryIt.disabled = false;
    }
  }
  function submit(event) {
    event.preventDefault();
    send(false);
  }
  dialog.addEventListener("close", () => dialog.remove());
  put(document.body, dialog);
  dialog.showModal();
}
