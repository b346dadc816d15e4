// Talks to the REST API of the node that this page came from.

const LOGIN = "bmq.login";
const BASE = new URL(".", document.baseURI);

/** Tells app.js what happens: `offline`, `online`, `signin`. */
export const events = new EventTarget();

/** A request that was refused, or not answered (status 0). `message` is the API's sentence. */
export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Whether the error only says that the page was left. */
export function isLeft(error) {
  return error?.name === "AbortError";
}

export const login = {
  get isSet() {
    return sessionStorage.getItem(LOGIN) !== null;
  },
  basic(user, password) {
    const bytes = new TextEncoder().encode(`${user}:${password}`);
    sessionStorage.setItem(LOGIN, `Basic ${btoa(String.fromCharCode(...bytes))}`);
  },
  bearer(token) {
    sessionStorage.setItem(LOGIN, `Bearer ${token.trim()}`);
  },
  forget() {
    sessionStorage.removeItem(LOGIN);
  },
};

/** The address of a path of the API; `parts` are escaped. */
export function path(strings, ...parts) {
  return strings.reduce((whole, text, index) => whole + encodeURIComponent(String(parts[index - 1])) + text);
}

/** One request. Returns what JSON has, or with `raw` the Response, also one of a status in `taken`. Throws ApiError, or AbortError when `signal` ends it. */
export async function call(method, where, { query, body, signal, raw, taken = [] } = {}) {
  const address = new URL(where, BASE);
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== null && value !== undefined && value !== "") address.searchParams.set(name, String(value));
  }
  const headers = { accept: "application/json" };
  const known = sessionStorage.getItem(LOGIN);
  if (known !== null) headers.authorization = known;
  if (body !== undefined) headers["content-type"] = "application/json";
  let response;
  try {
    response = await fetch(address, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
      credentials: "omit", // else the browser asks for a login itself
      redirect: "manual",
      cache: "no-store",
    });
  } catch (error) {
    if (isLeft(error)) throw error;
    events.dispatchEvent(new Event("offline"));
    throw new ApiError(0, "This node does not answer.");
  }
  events.dispatchEvent(new Event("online"));
  if (response.type === "opaqueredirect") {
    throw new ApiError(307, "Only the active controller answers this. Open its console from the page Nodes.");
  }
  if (raw && (response.ok || taken.includes(response.status))) return response;
  if (response.ok) return response.json();
  if (response.status === 401) {
    events.dispatchEvent(new Event("signin"));
    throw new ApiError(401, "Sign in to see this.");
  }
  throw new ApiError(response.status, await sentence(response));
}

async function sentence(response) {
  try {
    const problem = await response.json();
    if (typeof problem.detail === "string") return problem.detail;
  } catch {
    // Not JSON: the status has to do.
  }
  return `The node answered with status ${response.status}.`;
}

export const get = (where, query, signal) => call("GET", where, { query, signal });
export const post = (where, body, query) => call("POST", where, { body, query });

/** All pages of a listing, up to `max` entries. */
export async function listed(where, key, query, signal, max = 20_000) {
  const found = [];
  let after = "";
  do {
    const page = await get(where, { ...query, limit: 1_000, after }, signal);
    found.push(...page[key]);
    after = page.next_after;
  } while (after && found.length < max);
  return found;
}

/** {ready, why}: the health, which is 503 while the node is not ready, and needs no login. `why`: {code, severity, what, what_to_do} each. */
export async function health(signal) {
  const response = await call("GET", "v1/health", { signal, raw: true, taken: [503] });
  const { ready, why = [] } = await response.json();
  return { ready, why };
}
