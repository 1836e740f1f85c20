// Elements of the drawing: their boxes, the frames around them, and what is said of one.
const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);
const svg = document.querySelector("#drawing > svg");
// as archcli wrote it, before the page adds anything
const drawn = new XMLSerializer().serializeToString(svg);
const shape = (name, attributes, ...children) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
};
const node = (name, text, ...children) => {
  const made = document.createElement(name);
  made.append(...(text ? [text] : []), ...children);
  return made;
};
const marks = shape("g", { class: "marks", "aria-hidden": "true" });

const isShown = (element) => element.getClientRects().length > 0;
// the place of an element in units of the drawing, wherever folding has moved it
const placeOf = (element) => {
  const box = element.getBoundingClientRect();
  const back = svg.getScreenCTM().inverse();
  const [from, to] = [[box.left, box.top], [box.right, box.bottom]].map(([x, y]) => new DOMPoint(x, y).matrixTransform(back));
  return { left: from.x, top: from.y, right: to.x, bottom: to.y };
};
// frames around elements; those of the same name before are removed
const marked = {};
const mark = (name, elements) => {
  marked[name] = elements;
  for (const frame of marks.querySelectorAll(`.${name}`)) frame.remove();
  for (const element of elements.filter(isShown)) {
    const { left, top, right, bottom } = placeOf(element);
    const place = { x: left - 2, y: top - 2, width: right - left + 4, height: bottom - top + 4, rx: 4 };
    marks.append(shape("rect", { ...place, class: name }));
  }
};
const markAgain = () => Object.entries(marked).forEach(([name, elements]) => mark(name, elements));

// the models of the drawing by name; a tower is drawn like one
const names = [...new Set([...svg.querySelectorAll("g[data-model]")].map((group) => group.dataset.model))];
const columnOf = (element) => Math.max(0, names.indexOf(element.closest("g[data-model]")?.dataset.model));
const scopes = (column) => (names.length ? [...svg.querySelectorAll("g[data-model]")].filter((group) => group.dataset.model === names[column]) : [svg]);
const inColumn = (column, selector) => scopes(column).flatMap((scope) => [...scope.querySelectorAll(selector)]);

const titleOf = (element) => element.querySelector(":scope > title")?.textContent ?? "";
// of a box that stands for many rows the first
const SOME = 2;
const shortened = (title) => {
  const pieces = title.split(", ");
  return pieces.length > SOME + 1 ? `${pieces.slice(0, SOME).join(", ")} and ${pieces.length - SOME} more` : title;
};
// the element that a pointer or the focus stands for: the nearest with a number or a tooltip
const meant = (element) => element.closest("svg [data-value], svg *:has(> title)");
const partOf = (element) => element.closest("g[data-part], g[data-kind]");
// what is said of an element: its number, where it stands, and the command that prints it
const said = (element) => {
  const { value = "", path = "", key = "", command = "" } = (element.closest("[data-key]") ?? element).dataset;
  const number = value.replace(/^\d+/, (digits) => digits.replace(/\B(?=(\d{3})+$)/g, ","));
  const title = titleOf(element) || titleOf(element.parentElement);
  const where = key ? [path || "totals", key].join(" · ") : "";
  const label = [where, title === path ? "" : shortened(title)].filter(Boolean).join(" · ") || element.textContent;
  const model = data.models[columnOf(element)];
  // a profile measures anew, and no command prints a tower by itself
  const printed = model && command !== "profile" && (command || path || title);
  return { number, label, command: printed ? `archcli ${command || "show"} ${model} --json` : "" };
};
