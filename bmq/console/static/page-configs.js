// The configs of a node's broker, and where each value comes from.

import { get, path } from "./api.js";
import { configTable } from "./configs.js";
import { refused } from "./dialog.js";
import { choice, field, h, set } from "./dom.js";

export async function show(root, { signal }) {
  const nodes = await get("v1/nodes", {}, signal);
  const body = h("section", { "aria-label": "Configs" });
  const node = choice(nodes.map((each) => [String(each.node_id), `node ${each.node_id}`]), String(nodes[0]?.node_id ?? ""), { on: { change: load } });
  set(root, h("h1", {}, "Configs"), h("div", { class: "row" }, field("Of", node)), body);
  async function load() {
    if (!node.value) return;
    try {
      const page = await get(path`v1/nodes/${node.value}/configs`, {}, signal);
      set(body, configTable(`Configs of node ${node.value}`, page.configs));
    } catch (error) {
      if (error.status === undefined) throw error;
      set(body, refused(error));
    }
  }
  await load();
}
