// Open transactions as a topic's partitions have them; those that no coordinator knows can be ended here.

import { get, path, post } from "./api.js";
import { confirm, refused } from "./dialog.js";
import { badge, button, h, note, put, set } from "./dom.js";
import { count, moment, words } from "./format.js";
import { rights } from "./rights.js";
import { VirtualTable } from "./table.js";

const AT_A_TIME = 200;

export async function transactions(body, name, { signal }) {
  const { may } = await rights({}, signal);
  const found = h("p", { role: "status", class: "soft" });
  const trouble = h("div");
  const more = button("Look into more partitions", () => read(next), { hidden: true });
  const columns = [
    { title: "Partition", cell: (row) => row.partition, isNumber: true },
    { title: "Known to", cell: (row) => (row.transactional_id === null ? "no coordinator" : h("a", { href: `#/transactions/${encodeURIComponent(row.transactional_id)}` }, row.transactional_id)) },
    { title: "State", cell: (row) => (row.is_hanging ? badge("bad", "hangs") : row.is_hanging === null ? "not known" : badge("plain", "open")) },
    { title: "Producer", cell: (row) => String(row.producer_id), isNumber: true },
    { title: "Epoch", cell: (row) => count(row.producer_epoch), isNumber: true },
    { title: "First offset", cell: (row) => count(row.start_offset), isNumber: true },
    { title: "Last record", cell: (row) => moment(row.last_ms) },
  ];
  if (may("ALTER")) columns.push({ title: "Order", cell: (row) => (row.is_hanging ? button("Abort", () => abort(name, row, () => read(0)), { class: "danger", "aria-label": `Abort in partition ${row.partition}` }) : "") });
  const table = new VirtualTable(`Open transactions of ${name}`, columns, "No transaction is open.");
  let rows = [];
  let next = null;
  put(body, found, trouble, table.element, h("div", { class: "row" }, more, button("Look again", () => read(0))));

  async function read(skip) {
    try {
      const page = await get(path`v1/topics/${name}/transactions`, { skip, limit: AT_A_TIME }, signal);
      rows = skip ? [...rows, ...page.transactions] : page.transactions;
      next = page.next_skip;
      const silent = Object.entries(page.problems);
      set(trouble, silent.length ? note("warn", `Not looked into: ${silent.map(([number, why]) => `partition ${number}: ${why}`).join(", ")}`) : null);
      const hanging = rows.filter((each) => each.is_hanging).length;
      found.textContent = `${words(rows.length, "open transaction", "open transactions")}${hanging ? `, ${count(hanging)} hanging` : ""}${next === null ? "" : `, in the first ${count(next)} partitions`}`;
      table.show(rows);
      more.hidden = next === null;
    } catch (error) {
      if (error.status === undefined) throw error;
      set(trouble, refused(error));
    }
  }
  await read(0);
}

async function abort(topic, row, done) {
  const named = { producer_id: row.producer_id, producer_epoch: row.producer_epoch, start_offset: row.start_offset };
  const where = path`v1/topics/${topic}/partitions/${row.partition}/transactions/abort`;
  const plan = h("div", {}, "Making the plan…");
  post(where, named, { dry_run: true }).then((found) => set(plan, h("p", {}, found.summary)), (error) => set(plan, refused(error)));
  const isDone = await confirm({
    title: `Abort the transaction in ${topic}-${row.partition}`,
    text: [h("p", {}, "Its records are never shown to readers of committed records. It cannot be undone."), plan],
    action: "Abort",
    name: `${topic}-${row.partition}`,
    isDangerous: true,
    act: () => post(where, named),
  });
  if (isDone) await done();
}
