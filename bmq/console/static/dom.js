// Builds elements. Data only ever becomes text or an attribute, never markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element. Properties: `on` has listeners by event, `class` and other names are attributes; false and null leave out. */
export function h(tag, properties, ...children) {
  return filled(document.createElement(tag), properties, children);
}

/** The same for SVG. */
export function s(tag, properties, ...children) {
  return filled(document.createElementNS(SVG, tag), properties, children);
}

function filled(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else if (name === "value") {
      element.value = value;
    } else if (/^on/i.test(name)) {
      throw new Error(`${name}: listeners belong into "on"`);
    } else if (value === true) {
      element.setAttribute(name, "");
    } else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, String(value));
    }
  }
  put(element, ...children);
  return element;
}

/** Append children: nodes, texts, numbers, lists of them; null and false leave out. */
export function put(parent, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return parent;
}

/** Replace all children. */
export function set(parent, ...children) {
  parent.replaceChildren();
  return put(parent, ...children);
}

let fields = 0;

/** A control with its label, and a hint below it. */
export function field(label, control, hint) {
  fields += 1;
  control.id = `field-${fields}`;
  const below = hint ? h("small", { id: `hint-${fields}` }, hint) : null;
  if (hint) control.setAttribute("aria-describedby", below.id);
  return h("div", { class: "field" }, h("label", { for: control.id }, label), control, below);
}

/** A list to choose from. Options: [value, text] each. */
export function choice(options, value, properties) {
  const control = h("select", properties, options.map(([each, text]) => h("option", { value: each }, text)));
  control.value = value;
  return control;
}

/** A button. */
export function button(text, click, properties) {
  return h("button", { type: "button", ...properties, on: { click } }, text);
}

/** A small word with a kind that is told by its text and sign as well as by colour: good, warn, bad or plain. */
export function badge(kind, text) {
  const sign = { good: "✓ ", warn: "! ", bad: "✗ " }[kind] ?? "";
  return h("span", { class: `badge ${kind}` }, sign, text);
}

/** A message on a page. */
export function note(kind, ...children) {
  return h("p", { class: `note ${kind}`, role: kind === "bad" ? "alert" : "status" }, ...children);
}

/** A table that is shown whole: columns are [title, cell of a row, is it a number]. */
export function plainTable(caption, columns, rows) {
  const head = columns.map(([title, , isNumber]) => h("th", { scope: "col", class: isNumber ? "number" : null }, title));
  const line = (row) =>
    h("tr", {}, columns.map(([, cell, isNumber]) => h("td", { class: isNumber ? "number" : null }, cell(row))));
  return h(
    "div", { class: "wide", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {}, h("caption", {}, caption), h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows.map(line))),
  );
}

/** Save bytes as a file. */
export function download(name, parts, type) {
  const address = URL.createObjectURL(new Blob(parts, { type }));
  const link = h("a", { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** Copy a text, and say so on the button. */
export async function copy(text, control) {
  const before = control.textContent;
  try {
    await navigator.clipboard.writeText(text);
    control.textContent = "Copied";
  } catch {
    control.textContent = "Cannot copy: the browser does not allow it";
  }
  setTimeout(() => { control.textContent = before; }, 2_000);
}
