// Elements of the page. All text goes in as text: a name that holds HTML stays a name.
const node = (name, attributes, ...children) => {
  const made = document.createElement(name);
  return filled(made, attributes, children);
};
const shape = (name, attributes, ...children) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  return filled(made, attributes, children);
};
const filled = (made, attributes, children) => {
  for (const [name, value] of Object.entries(attributes)) if (value !== null) made.setAttribute(name, value);
  made.append(...children.filter((child) => child !== null));
  return made;
};
const byId = (id) => document.getElementById(id);
const charts = (id) => byId(id).querySelector(".charts");
const lists = (id) => byId(id).querySelector(".lists");

const chart = (width, height, label, ...shapes) =>
  shape("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label }, ...shapes);
const label = (x, y, text, attributes = {}) => shape("text", { x: fix(x), y: fix(y), ...attributes }, text);
const rule = (x1, y1, x2, y2, name) => shape("line", { x1: fix(x1), y1: fix(y1), x2: fix(x2), y2: fix(y2), class: name });
const titled = (text) => shape("title", {}, text);
const fix = (number) => Number(number.toFixed(2));

const legend = (entries) =>
  node("ul", { class: "legend" }, ...entries.map(([name, hue]) => node("li", { class: hue }, node("i", {}), name)));

// characters of 12.5 px that a width holds, in a wide font
const fits = (text, width) => text.length * 8 <= width;

// places along a line, pushed apart to `gap` and kept above `end`
const apart = (places, gap, end) => {
  const order = places.map((_, i) => i).sort((a, b) => places[a] - places[b]);
  const moved = [...places];
  order.forEach((at, i) => {
    if (i) moved[at] = Math.max(moved[at], moved[order[i - 1]] + gap);
  });
  [...order].reverse().forEach((at, i, backwards) => {
    const most = i ? moved[backwards[i - 1]] - gap : end;
    moved[at] = Math.min(moved[at], most);
  });
  return moved;
};
