// The frame of the console: pages, health, sign-in, light and dark.

import { events, health, isLeft, login, get } from "./api.js";
import { choice, field, h, note, put, set } from "./dom.js";

const PAGES = [
  ["", "Overview", () => import("./page-overview.js")],
  ["topics", "Topics", () => import("./page-topics.js")],
  ["groups", "Groups", () => import("./page-groups.js")],
  ["transactions", "Transactions", () => import("./page-transactions.js")],
  ["map", "Map", () => import("./page-map.js")],
  ["nodes", "Nodes", () => import("./page-nodes.js")],
  ["tasks", "Tasks", () => import("./page-tasks.js")],
  ["tables", "Tables", () => import("./page-tables.js")],
  ["databus", "Databus", () => import("./page-databus.js")],
  ["logs", "Logs", () => import("./page-logs.js")],
  ["configs", "Configs", () => import("./page-configs.js")],
  ["security", "Security", () => import("./page-security.js")],
];
const DETAILS = {
  topics: () => import("./page-topic.js"), groups: () => import("./page-group.js"), nodes: () => import("./page-node.js"),
  transactions: () => import("./page-transaction.js"), tables: () => import("./page-table.js"),
};
const HEALTH_MS = 4_000;
const RETRY_MS = 1_000;
const THEME = "bmq.theme";

const part = (id) => document.getElementById(id);
const main = part("main");
let leaving = new AbortController();
let isOffline = false;
let failure = null;
let isAsking = false;

// ---------------------------------------------------------------- pages

/** The page that the address names, and its arguments. */
function route() {
  const [where, query] = location.hash.replace(/^#\/?/, "").split("?");
  const names = where.split("/").filter(Boolean).map(decodeURIComponent);
  return { names, query: new URLSearchParams(query ?? "") };
}

async function show() {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  let names;
  let query;
  try {
    ({ names, query } = route());
  } catch {
    set(main, h("h1", {}, "No such page"), note("bad", "The address cannot be read."));
    return;
  }
  const [kind = "", ...rest] = names;
  const found = PAGES.find(([name]) => name === kind);
  for (const link of part("nav").querySelectorAll("a")) {
    if (link.dataset.page === kind) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  close(part("nav"));
  failure = null;
  isAsking = false;
  const load = rest.length ? DETAILS[kind] : found?.[2];
  if (!load) {
    set(main, h("h1", {}, "No such page"), h("p", {}, h("a", { href: "#/" }, "Overview")));
    return;
  }
  document.title = `${rest[0] ?? found[1]} · bmq`;
  const root = h("div");
  set(main, root);
  try {
    const page = await load();
    if (!signal.aborted) await page.show(root, { signal, names: rest, query, poll: (work, ms) => poll(work, ms, signal) });
  } catch (error) {
    if (isLeft(error) || signal.aborted) return;
    failure = error;
    if (isAsking) return;
    put(root, note("bad", error.status === 403 ? `Not allowed: ${error.message}` : error.message));
  }
}

/** Do some work now, and again every so often until the page is left; not while it is hidden. Its first failure is thrown. */
async function poll(work, ms, signal) {
  await work();
  const again = async () => {
    if (signal.aborted) return;
    try {
      if (!document.hidden && !isOffline) await work();
    } catch (error) {
      if (isLeft(error)) return;
      // A later round may do better; whether the node answers at all is shown by the banner.
    }
    if (!signal.aborted) setTimeout(again, ms);
  };
  setTimeout(again, ms);
}

function close(nav) {
  nav.classList.remove("open");
  part("menu").setAttribute("aria-expanded", "false");
}

// ---------------------------------------------------------------- health

async function watch() {
  try {
    if (!document.hidden) {
      const found = await health();
      const problems = found.why.filter((each) => each.severity !== "warning").length;
      const text = !found.ready ? "! not ready" : problems ? `! ${problems} ${problems === 1 ? "problem" : "problems"}` : "✓ ready";
      tell(text, found.ready && !problems ? "good" : "warn");
      if (found.ready && isPassing(failure) && !isAsking && !document.querySelector("dialog")) show();
    }
  } catch {
    tell("✗ no answer", "bad");
  }
  setTimeout(watch, isOffline ? RETRY_MS : HEALTH_MS);
}

/** Whether the page failed because the node did not answer, or could not. */
function isPassing(error) {
  return error !== null && (error.status === 0 || error.status >= 500);
}

function tell(text, kind) {
  const status = part("status");
  if (status.textContent !== text) status.textContent = text;
  status.className = `badge ${kind}`;
}

events.addEventListener("offline", () => {
  isOffline = true;
  const banner = part("banner");
  banner.textContent = "This node does not answer. The page goes on by itself when it is back.";
  banner.hidden = false;
});
events.addEventListener("online", () => {
  if (!isOffline) return;
  isOffline = false;
  part("banner").hidden = true;
  if (failure) show();
});

// ---------------------------------------------------------------- sign-in

events.addEventListener("signin", () => {
  if (isAsking) return;
  isAsking = true;
  const wasWrong = login.isSet;
  login.forget();
  part("signout").hidden = true;
  leaving.abort();
  set(main, signIn(wasWrong));
  main.querySelector("input")?.focus();
});

function signIn(wasWrong) {
  const user = h("input", { type: "text", autocomplete: "username", required: true });
  const password = h("input", { type: "password", autocomplete: "current-password" });
  const token = h("input", { type: "password", autocomplete: "off" });
  const how = choice([["basic", "User and password"], ["bearer", "Bearer token"]], "basic", {
    on: { change: () => arrange() },
  });
  const ofUser = h("div", {}, field("User", user), field("Password", password));
  const ofToken = h("div", { hidden: true }, field("Token", token));
  const trouble = h("div", {}, wasWrong ? note("bad", "The login is wrong, or has expired.") : null);
  function arrange() {
    ofUser.hidden = how.value !== "basic";
    ofToken.hidden = how.value !== "bearer";
    user.required = how.value === "basic";
    token.required = how.value === "bearer";
  }
  async function enter(event) {
    event.preventDefault();
    if (how.value === "basic") login.basic(user.value, password.value);
    else login.bearer(token.value);
    isAsking = true;
    try {
      await get("v1/topics", { limit: 1 });
    } catch (error) {
      if (error.status === 401) {
        login.forget();
        set(trouble, note("bad", "The login is wrong, or has expired."));
        return;
      }
    }
    part("signout").hidden = false;
    isAsking = false;
    show();
  }
  return h(
    "form", { class: "card narrow", on: { submit: enter } },
    h("h1", {}, "Sign in"),
    h("p", {}, "This node asks who you are. The browser forgets the login when this tab is closed."),
    field("With", how), ofUser, ofToken, trouble,
    h("div", { class: "row" }, h("button", { type: "submit", class: "primary" }, "Sign in")),
  );
}

// ---------------------------------------------------------------- light and dark

function dress(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  const isDark = theme === "dark" || (!theme && matchMedia("(prefers-color-scheme: dark)").matches);
  part("theme").textContent = isDark ? "Light" : "Dark";
  part("theme").setAttribute("aria-label", isDark ? "Use light colours" : "Use dark colours");
  return isDark;
}

part("theme").addEventListener("click", () => {
  const next = dress(localStorage.getItem(THEME)) ? "light" : "dark";
  localStorage.setItem(THEME, next);
  dress(next);
});

// ---------------------------------------------------------------- start

set(part("nav"), PAGES.map(([name, title]) => h("a", { href: `#/${name}`, "data-page": name }, title)));
part("menu").addEventListener("click", () => {
  const isOpen = part("nav").classList.toggle("open");
  part("menu").setAttribute("aria-expanded", String(isOpen));
});
part("signout").hidden = !login.isSet;
part("signout").addEventListener("click", () => {
  login.forget();
  part("signout").hidden = true;
  show();
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("hashchange", () => {
  show();
  main.focus({ preventScroll: true });
});
dress(localStorage.getItem(THEME));
show();
watch();
