// One partition: its files with their DataNodes, and its owners over time.

import { get, path } from "./api.js";
import { refused } from "./dialog.js";
import { badge, button, h, note, plainTable, put, set } from "./dom.js";
import { count, duration, moment, size, words } from "./format.js";
import { move } from "./orders.js";
import { card } from "./page-node.js";
import { rights } from "./rights.js";

const AT_A_TIME = 200;
const EVERY_MS = 5_000;

export async function partition(body, name, number, { signal, poll }) {
  const head = h("div", { class: "cards" });
  const orders = h("div", { class: "row" });
  const owners = h("div");
  const files = h("div", {}, "Reading the store…");
  const more = button("More segments", () => read(next), { hidden: true });
  put(body, h("h2", {}, `Partition ${number}`), head, orders, h("h2", {}, "Segments"), files, h("div", { class: "row" }, more, button("Read again", () => read(0))), owners);
  const { may } = await rights({}, signal);
  let rows = [];
  let next = null;
  let nodes = [];
  let shown = "";

  async function read(skip) {
    more.disabled = true;
    try {
      const page = await get(path`v1/topics/${name}/partitions/${number}/segments`, { skip, limit: AT_A_TIME }, signal);
      rows = skip ? [...rows, ...page.segments] : page.segments;
      next = page.next_skip;
      const bytes = rows.reduce((sum, each) => sum + each.valid_bytes, 0);
      set(
        files,
        h("p", { role: "status" }, `${words(page.count, "segment", "segments")}, ${rows.length < page.count ? `the first ${count(rows.length)} have ` : ""}${size(bytes)}; the log begins at offset ${count(page.log_start_offset)}`),
        rows.length ? plainTable("Segments", [
          ["First offset", (each) => count(each.base_offset), true], ["End", (each) => (each.is_open ? "open" : count(each.end_offset)), true],
          ["Size", (each) => size(each.valid_bytes), true],
          ["File", (each) => [each.path.split("/").at(-1), each.file_bytes > each.valid_bytes && !each.is_open ? [" ", badge("warn", `${size(each.file_bytes - each.valid_bytes)} more in the file`)] : null]],
          ["Epoch", (each) => each.leader_epoch, true], ["DataNodes", (each) => each.nodes.join(", ") || "none (a local file)"],
        ], rows) : note("plain", "Nothing was written yet."),
      );
      more.hidden = next === null;
    } catch (error) {
      if (error.status === undefined) throw error;
      set(files, refused(error));
    } finally {
      more.disabled = false;
    }
  }

  async function follow() {
    const [known, history] = await Promise.all([
      get(path`v1/topics/${name}/partitions/${number}`, {}, signal),
      get(path`v1/topics/${name}/partitions/${number}/history`, {}, signal),
    ]);
    if (may("ALTER") && may("DESCRIBE") && !nodes.length) nodes = await get("v1/nodes", {}, signal);
    const state = JSON.stringify([known, history.terms.map((each) => [each.leader_epoch, each.until])]);
    if (state === shown) return; // keeps the focus where it is
    shown = state;
    set(head, [
      card("Owner", known.owner < 0 ? badge("bad", "none") : `node ${known.owner}`), card("Epoch", count(known.leader_epoch)),
      card("May own it", known.replicas.join(", ")), card("Alive", known.isr.join(", ") || "none"),
      card("High watermark", known.high_watermark === null ? "not known here" : count(known.high_watermark)),
      card("Without an owner", duration(history.without_owner_ms)),
    ]);
    set(orders, may("ALTER") ? button("Move", () => move(name, Number(number), known.owner, nodes)) : null);
    set(owners, h("h2", {}, "Owners over time"), plainTable("Owners over time", [
      ["Owner", (each) => (each.leader < 0 ? badge("bad", "none") : `node ${each.leader}`)], ["Epoch", (each) => each.leader_epoch, true],
      ["Since", (each) => (each.since === null ? "not known" : moment(each.since))], ["Until", (each) => (each.until === null ? "now" : moment(each.until))],
      ["Without an owner before", (each) => duration(each.without_owner_ms), true], ["Why", (each) => each.reason],
    ], history.terms), history.earlier_epochs > 0 ? h("p", { class: "soft" }, `${words(history.earlier_epochs, "earlier epoch is", "earlier epochs are")} not kept.`) : null);
  }
  await poll(follow, EVERY_MS);
  await read(0);
}
