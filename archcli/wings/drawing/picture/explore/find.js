// Finding: what matches is framed, Enter goes to the next. The arrows go from element to element.
const candidates = [...svg.querySelectorAll("text, [data-value], *:has(> title)")].filter((it) => it !== svg && !it.closest("defs"));
const written = new Map(candidates.map((it) => {
  const paths = [it, ...it.querySelectorAll("[data-path]")].map((inner) => `${inner.dataset.path ?? ""} ${inner.dataset.key ?? ""}`);
  return [it, `${it.textContent} ${paths.join(" ")}`.toLowerCase()];
}));
let matches = [];
let turn = -1;

const show = (element) => {
  const box = partOf(element);
  if (box) unfold(box);
  element.scrollIntoView({ block: "center", inline: "nearest" });
  tell(element);
};
const find = () => {
  const wanted = byId("find").value.trim().toLowerCase();
  // a piece of a line that matches is in the line
  const all = wanted ? candidates.filter((it) => written.get(it).includes(wanted)) : [];
  matches = all.filter((it) => !all.includes(it.parentElement?.closest("text")));
  turn = -1;
  mark("hit", matches);
  byId("matches").textContent = wanted ? `${matches.length} found` : "";
};
const goTo = (step) => {
  if (!matches.length) return;
  turn = (turn + step + matches.length + (turn < 0 && step < 0 ? 1 : 0)) % matches.length;
  byId("matches").textContent = `${turn + 1} of ${matches.length}`;
  show(matches[turn]);
};

const detail = byId("detail");
let told = null;
const tell = (element) => {
  told = element;
  mark("at", element ? [element] : []);
  detail.hidden = !element;
  if (!element) return;
  const { number, label, command } = said(element);
  byId("value").textContent = number;
  byId("label").textContent = label;
  byId("command").textContent = command;
  byId("copy-command").hidden = !command;
  byId("copied").textContent = "";
};

// one element of the drawing is in the order of Tab: the arrows choose which
const stops = candidates.filter((it) => it.matches("[data-value], *:has(> title)"));
let stop = null;
const stand = (element) => {
  for (const name of ["tabindex", "role", "aria-label"]) stop?.removeAttribute(name);
  stop = element;
  const { number, label } = said(element);
  const named = { tabindex: "0", role: "button", "aria-label": `${number} ${label}: copy its command` };
  for (const [name, value] of Object.entries(named)) element.setAttribute(name, value);
};
const DIRECTIONS = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 };
const move = (key) => {
  const step = DIRECTIONS[key];
  const isBox = key === "ArrowDown" || key === "ArrowUp";
  let place = stops.indexOf(stop) + step;
  while (stops[place] && (!isShown(stops[place]) || (isBox && partOf(stops[place]) === partOf(stop)))) place += step;
  if (!stops[place]) return;
  stand(stops[place]);
  stop.focus({ preventScroll: true });
  stop.scrollIntoView({ block: "nearest", inline: "nearest" });
};
