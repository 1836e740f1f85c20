// What the script of a drawing (redraw.py) calls: arithmetic as Python's, and changes of elements.
const modulo = (a, b) => a - b * Math.floor(a / b);
const where = (a, b, then, other) => (a < b ? then : other);
const trimmed = (number, places) => fixed(number, places).replace(/\.0$/, "");

// an element's attribute, its line of text beside a tooltip, or its tooltip
const set = (element, name, value) => {
  const title = element.querySelector(":scope>title");
  if (name === "title") title.textContent = value;
  else if (name === "text") {
    element.textContent = value;
    if (title) element.prepend(title);
  } else element.setAttribute(name, EXTENTS.has(name) && value.startsWith("-") ? "0" : value);
};
// what is narrower than the gap behind it has no width, and no negative one
const EXTENTS = new Set(["width", "height", "r"]);

// as many like elements as a figure says: each is a copy of the first with changes [place within it, name, value]
const patterns = new WeakMap();
const many = (group, count, change) => {
  const pattern = patterns.get(group) ?? group.firstElementChild;
  if (!pattern) return;
  patterns.set(group, pattern);
  const copies = Array.from({ length: Math.max(0, count) }, (_, i) => {
    const copy = pattern.cloneNode(true);
    const inner = [copy, ...copy.querySelectorAll("*:not(title)")];
    for (const [place, name, value] of change(i)) set(inner[place], name, value);
    return copy;
  });
  group.replaceChildren(...copies);
};
