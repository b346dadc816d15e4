// ACLs, users and quotas, to read.

import { get, isLeft } from "./api.js";
import { h, note, set } from "./dom.js";
import { count, words } from "./format.js";
import { VirtualTable } from "./table.js";

export async function show(root, { signal }) {
  set(root, h("h1", {}, "Security"), h("p", {}, "To change these, use ", h("code", {}, "bmq acl"), ", ", h("code", {}, "bmq user"), " or Kafka's tools."));
  await Promise.all([
    part(root, "ACLs", "v1/acls", "acls", signal, [
      { title: "Principal", cell: (row) => row.principal }, { title: "May", cell: (row) => `${row.permission} ${row.operation}` },
      { title: "On", cell: (row) => `${row.resource_type} ${row.resource_name}` }, { title: "Pattern", cell: (row) => row.pattern },
      { title: "From address", cell: (row) => row.host },
    ]),
    part(root, "Users", "v1/users", "users", signal, [
      { title: "User", cell: (row) => row.user },
      { title: "Mechanisms", cell: (row) => row.mechanisms.map((each) => `${each.mechanism} (${count(each.iterations)} iterations)`).join(", ") },
    ]),
    part(root, "Quotas", "v1/quotas", "quotas", signal, [
      { title: "Of", cell: (row) => Object.entries(row.entity).map(([kind, name]) => `${kind} ${name ?? "by default"}`).join(", ") },
      { title: "Limits", cell: (row) => Object.entries(row.values).map(([name, value]) => `${name} = ${count(value)}`).join(", ") },
    ]),
  ]);
}

async function part(root, title, where, key, signal, columns) {
  const body = h("section", { "aria-label": title }, h("h2", {}, title));
  root.append(body);
  try {
    const page = await get(where, {}, signal);
    const table = new VirtualTable(title, columns, "There is none.");
    body.append(h("p", { class: "soft" }, words(page.count, "entry", "entries"), page.count > page[key].length ? `, the first ${count(page[key].length)} are shown` : ""), table.element);
    table.show(page[key]);
  } catch (error) {
    if (isLeft(error)) throw error;
    body.append(note("warn", error.status === 403 ? `Not allowed: ${error.message}` : error.message));
  }
}
