// Orders and redrives, and how far they are.

import { get } from "./api.js";
import { badge, h, note, set } from "./dom.js";
import { moment } from "./format.js";

const EVERY_MS = 2_000;
const KINDS = { succeeded: "good", failed: "bad", running: "plain" };

export async function show(root, { signal, poll }) {
  const body = h("section", { "aria-label": "Tasks" });
  set(root, h("h1", {}, "Tasks"), body);
  let shown = "";
  await poll(async () => {
    const found = await Promise.allSettled([get("v1/tasks", {}, signal), get("v1/redrives", {}, signal)]);
    const tasks = found.flatMap((each) => each.value?.tasks ?? []).sort((one, other) => (one.started_at < other.started_at ? 1 : -1));
    const reason = found.every((each) => each.status === "rejected") ? found[0].reason : null;
    if (reason) throw reason;
    const state = JSON.stringify(tasks);
    if (state === shown) return;
    shown = state;
    const open = new Set([...body.querySelectorAll("details[open]")].map((each) => each.dataset.id));
    set(body, tasks.length ? tasks.map((each) => line(each, open)) : note("plain", "There is no task. Drains, moves and redrives are shown here."));
  }, EVERY_MS);
}

function line(task, open) {
  return h(
    "details", { class: "card", "data-id": task.id, open: open.has(task.id) || task.state === "running" },
    h("summary", {}, badge(KINDS[task.state] ?? "plain", task.state), ` ${task.kind} ${task.subject} `, h("progress", { max: "1", value: task.progress, "aria-label": `Progress of ${task.kind} ${task.subject}` }), h("span", { class: "soft" }, ` since ${moment(task.started_at)}`)),
    task.error ? note("bad", task.error) : null,
    h("ol", {}, task.steps.map((each) => h("li", {}, h("span", { class: "soft" }, moment(each.at)), " ", each.text))),
  );
}
