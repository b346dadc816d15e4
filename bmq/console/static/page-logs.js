// The last log events of this node, with a filter, and followed.

import { get } from "./api.js";
import { refused } from "./dialog.js";
import { badge, button, choice, field, h, note, put, set } from "./dom.js";
import { moment, words } from "./format.js";

const EVERY_MS = 2_000;
const AT_A_TIME = 500;
const SHOWN_MAX = 1_000;
const KINDS = { error: "bad", critical: "bad", warning: "warn" };

export async function show(root, { signal, poll }) {
  const level = choice([["debug", "all"], ["info", "info"], ["warning", "warning"], ["error", "error"]], "debug", { on: { change: again } });
  const event = h("input", { type: "search", placeholder: "part of a name", autocomplete: "off", maxlength: "100", on: { input: again } });
  const following = button("Stop following", toggle, { "aria-pressed": "true" });
  const found = h("p", { role: "status", class: "soft" });
  const trouble = h("div");
  const list = h("div", { role: "log", "aria-label": "Log events", "aria-live": "off" });
  let after = -1;
  let isFollowing = true;
  let asked = 0;
  let title = "";
  set(
    root, h("h1", {}, "Logs"),
    h("p", { class: "soft" }, "What this node has logged last; other nodes show their own. The newest event is first."),
    h("div", { class: "row" }, field("Level and worse", level), field("Event", event), following), found, trouble, list,
  );

  function again() {
    after = -1;
    load().catch((error) => { if (error.status !== undefined) set(trouble, refused(error)); });
  }

  function toggle() {
    isFollowing = !isFollowing;
    following.textContent = isFollowing ? "Stop following" : "Follow";
    following.setAttribute("aria-pressed", String(isFollowing));
    if (isFollowing) load().catch(() => {}); // the next round shows it
  }

  async function load() {
    const mine = (asked += 1);
    let isEnd = false;
    while (!isEnd) {
      const page = await get("v1/logs", { level: level.value, event: event.value, after, limit: AT_A_TIME }, signal);
      if (mine !== asked) return; // a later choice is being read
      set(trouble);
      if (after < 0) set(list);
      else if (!page.is_complete) list.prepend(note("warn", "Events are missing here: more were logged than are kept, or the node was started again."));
      list.prepend(...page.events.map(line).reverse());
      while (list.childElementCount > SHOWN_MAX) list.lastElementChild.remove();
      after = page.next_after;
      isEnd = page.is_end || page.next_after < 0;
      title = `Node ${page.node_id}: ${words(list.querySelectorAll("details").length, "event", "events")}`;
    }
    if (found.textContent !== title) found.textContent = title;
  }
  await poll(async () => { if (isFollowing) await load(); }, EVERY_MS);
}

function line(each) {
  const names = Object.keys(each.fields);
  const brief = names.slice(0, 4).map((name) => `${name}=${text(each.fields[name])}`).join(" ");
  return h(
    "details", { class: "event" },
    h("summary", {}, h("span", { class: "soft" }, moment(each.at)), " ", badge(KINDS[each.level] ?? "plain", each.level), " ", h("strong", {}, each.event), " ", h("span", { class: "soft" }, brief.slice(0, 200))),
    put(h("dl", {}), names.length ? names.map((name) => [h("dt", {}, name), h("dd", {}, h("pre", { tabindex: "0", "aria-label": name }, text(each.fields[name])))]) : [h("dt", {}, "fields"), h("dd", {}, "none")]),
  );
}

function text(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}
