// What the user may do, so that a page offers nothing that would be refused. The API decides all the same.

import { get, isLeft } from "./api.js";

/** Rights on the cluster, and on what `of` names: { topic }, { group } or { transactional_id }. `may(operation)`, `may(operation, "topic")`. */
export async function rights(of, signal) {
  let known = null;
  try {
    known = await get("v1/rights", of, signal);
  } catch (error) {
    if (isLeft(error) || error.status === 401) throw error;
    // Not told: offer everything, and show what the API says.
  }
  return { may: (operation, kind = "cluster") => known === null || (known[kind] ?? []).includes(operation) };
}
