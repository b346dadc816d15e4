// The message browser: records from a place on, with filters, decoders and a live tail.

import { call, get, isLeft, path } from "./api.js";
import { DECODERS, brief, decoded } from "./decode.js";
import { refused } from "./dialog.js";
import { button, choice, copy, download, field, h, note, plainTable, put, set } from "./dom.js";
import { count, moment, size, words } from "./format.js";

const SHOWN_MAX = 1_000;
const TAIL_WAIT_MS = 8_000;
const AGAIN_MS = 2_000;
const QUICK_MS = 1_000; // a wait that was shorter than this was none

export async function records(body, name, { signal, query }) {
  const topic = await get(path`v1/topics/${name}`, {}, signal);
  const from = choice([["newest", "newest"], ["earliest", "oldest"], ["offset", "offset"], ["time", "time"]], query.get("from") ?? "newest", { on: { change: arrange } });
  const offset = h("input", { type: "number", min: "0", value: query.get("offset") ?? "0" });
  const time = h("input", { type: "datetime-local", step: "1" });
  const partition = choice([["", "all"], ...topic.partitions.map((each) => [String(each.partition), String(each.partition)])], query.get("partition") ?? "");
  const limit = choice(["20", "50", "100", "500"].map((each) => [each, each]), "50");
  const key = h("input", { type: "text", autocomplete: "off", spellcheck: "false" });
  const value = h("input", { type: "text", autocomplete: "off", spellcheck: "false" });
  const header = h("input", { type: "text", placeholder: "NAME or NAME=PART", autocomplete: "off", spellcheck: "false" });
  const uncommitted = h("input", { type: "checkbox" });
  const decoder = choice(DECODERS, "auto", { on: { change: redraw } });
  const ofOffset = field("Offset", offset);
  const ofTime = field("Time", time);
  const status = h("p", { role: "status", class: "soft" });
  const trouble = h("div");
  const list = h("div", { role: "list", "aria-label": "Records" });
  const more = button("Read on", () => read(next), { hidden: true });
  const tailing = button("Live tail", toggleTail, { "aria-pressed": "false" });
  const head = h("div", { class: "columns", "aria-hidden": "true", hidden: true }, ["Place", "Time", "Key", "Value"].map((each) => h("span", {}, each)));
  let shown = [];
  let next = null;
  let tail = null;
  let unread = {};

  function arrange() {
    ofOffset.hidden = from.value !== "offset";
    ofTime.hidden = from.value !== "time";
  }

  function asked(extra) {
    return {
      partition: partition.value, limit: limit.value, key: key.value, value: value.value, header: header.value,
      uncommitted: uncommitted.checked || "", ...extra,
    };
  }

  function beginning() {
    return {
      from: from.value,
      offset: from.value === "offset" ? offset.value : "",
      time_ms: from.value === "time" ? new Date(time.value || 0).getTime() : "",
    };
  }

  async function read(at) {
    set(trouble);
    try {
      const page = await get(path`v1/topics/${name}/records`, asked(at ? { at } : beginning()), signal);
      if (!at) shown = [];
      take(page, Boolean(at));
      tellProblems(page, !at);
      more.hidden = page.is_end;
    } catch (error) {
      if (isLeft(error)) return;
      set(trouble, refused(error));
    }
  }

  function take(page, isMore) {
    next = page.next;
    const found = page.records;
    shown = isMore ? [...shown, ...found].slice(-SHOWN_MAX) : found;
    if (from.value === "newest" || tail) shown.sort((one, other) => other.timestamp_ms - one.timestamp_ms || other.offset - one.offset);
    const filtered = key.value || value.value || header.value;
    status.textContent = `${words(shown.length, "record", "records")} shown${filtered ? `, ${count(page.scanned)} looked at` : ""}${page.is_end ? ", this is the end" : ""}${tail ? ", waiting for new ones" : ""}`;
    redraw();
  }

  /** Partitions that are not in `next` of a first page are left out from then on. */
  function tellProblems(page, isFirst) {
    if (isFirst) {
      const going = new Set(page.next.split(",").map((each) => each.split(":")[0]));
      unread = Object.fromEntries(Object.entries(page.problems).filter(([number]) => !going.has(number)));
    }
    const problems = Object.entries({ ...unread, ...page.problems }).map(([number, text]) => `partition ${number}: ${text}`);
    const text = problems.length ? `Not read: ${problems.join("; ")}` : "";
    if (trouble.textContent !== text) set(trouble, text ? note("warn", text) : null);
  }

  function redraw() {
    const open = new Set([...list.querySelectorAll("details[open]")].map((each) => each.dataset.place));
    set(list, shown.map((each) => line(name, each, decoder.value, open)));
    head.hidden = !shown.length;
  }

  async function toggleTail() {
    if (tail) {
      tail.abort();
      tail = null;
      tailing.setAttribute("aria-pressed", "false");
      tailing.textContent = "Live tail";
      status.textContent = `${words(shown.length, "record", "records")} shown`;
      return;
    }
    const mine = new AbortController();
    tail = mine;
    signal.addEventListener("abort", () => mine.abort());
    tailing.setAttribute("aria-pressed", "true");
    tailing.textContent = "Stop the tail";
    status.textContent = "waiting for new records";
    more.hidden = true;
    let at = null;
    while (!mine.signal.aborted) {
      const began = performance.now();
      try {
        const where = at ? { at } : { from: "latest" };
        const page = await get(path`v1/topics/${name}/records`, asked({ ...where, wait_ms: at ? TAIL_WAIT_MS : "" }), mine.signal);
        const isFirst = at === null;
        tellProblems(page, !at);
        at = page.next;
        if (page.records.length) take(page, true);
        else if (!isFirst && performance.now() - began < QUICK_MS) await pause();
      } catch (error) {
        if (isLeft(error)) return;
        if (error.status !== 0 && error.status < 500) {
          set(trouble, refused(error));
          if (tail === mine) toggleTail();
          return;
        }
        await pause();
      }
    }
  }

  function save() {
    const lines = shown.map((each) => `${JSON.stringify(each)}\n`);
    download(`${name}.jsonl`, lines, "application/x-ndjson");
  }

  function asKcat(control) {
    const place = { newest: `-o -${limit.value} -e`, earliest: "-o beginning -e", offset: `-o ${offset.value} -e`, time: `-o s@${beginning().time_ms} -e` }[from.value];
    const one = partition.value === "" ? "" : ` -p ${partition.value}`;
    copy(`kcat -b ${broker} -C -t ${name}${one} ${place} -f '%p %o %k %s\\n'`, control);
  }

  let broker = `${location.hostname}:9092`;
  get("v1/cluster", {}, signal).then((cluster) => {
    const node = cluster.nodes.find((each) => each.host !== null);
    if (node) broker = `${node.host}:${node.port}`;
  }).catch(() => {});

  const kcat = button("Copy as kcat", () => asKcat(kcat));
  const form = h(
    "form", { on: { submit: (event) => { event.preventDefault(); read(null); } } },
    h("div", { class: "row" }, field("From", from), ofOffset, ofTime, field("Partition", partition), field("At most", limit)),
    h(
      "div", { class: "row" }, field("Key has", key), field("Value has", value), field("Header has", header),
      h("label", { class: "check" }, uncommitted, "uncommitted too"),
    ),
    h("div", { class: "row" }, h("button", { type: "submit", class: "primary" }, "Read"), tailing, field("Show as", decoder), kcat, button("Download", save)),
  );
  arrange();
  put(body, form, trouble, status, head, list, more);
  await read(null);
}

function pause() {
  return new Promise((resolve) => { setTimeout(resolve, AGAIN_MS); });
}

function line(topic, record, decoder, open) {
  const place = `${record.partition}-${record.offset}`;
  const details = h("details", { class: "record", "data-place": place });
  const whole = h("div");
  let isFilled = false;
  function fill() {
    if (isFilled) return;
    isFilled = true;
    set(
      whole,
      h("p", {}, `Partition ${record.partition}, offset ${record.offset}, time ${moment(record.timestamp_ms)}`),
      part("Key", record.key, decoder), part("Value", record.value, decoder),
      record.headers.length ? plainTable(`Headers of ${place}`, [["Header", (each) => each.name], ["Value", (each) => brief(each.value, 300)]], record.headers) : null,
      record.header_count > record.headers.length ? note("warn", `${count(record.header_count)} headers in all; the first ${record.headers.length} are shown.`) : null,
      record.value?.is_cut ? button("Download the whole value", (event) => save(event.target)) : null,
    );
  }
  async function save(control) {
    try {
      const response = await call("GET", path`v1/topics/${topic}/partitions/${record.partition}/records/${record.offset}/value`, { raw: true });
      download(`${topic}-${place}`, [await response.blob()], "application/octet-stream");
    } catch (error) {
      control.after(refused(error));
    }
  }
  details.addEventListener("toggle", () => { if (details.open) fill(); });
  put(
    details,
    h("summary", {}, h("span", {}, place), h("span", {}, moment(record.timestamp_ms)), h("code", {}, brief(record.key, 60)), h("code", {}, brief(record.value, 200))),
    whole,
  );
  if (open.has(place)) {
    details.open = true;
    fill();
  }
  return h("div", { role: "listitem" }, details);
}

function part(title, value, decoder) {
  const text = decoded(value, decoder);
  const control = button("Copy", () => copy(value === null ? "" : value.text ?? decoded(value, "hex"), control), { "aria-label": `Copy the ${title.toLowerCase()}` });
  return h(
    "div", {},
    h("div", { class: "row" }, h("strong", {}, title), h("span", { class: "soft" }, value === null ? "none" : size(value.size_bytes)), control),
    h("pre", { tabindex: "0", "aria-label": title }, text),
  );
}
