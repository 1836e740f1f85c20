// The page: what stands still is made once, what follows the inputs whenever they change.
const data = JSON.parse(byId("data").textContent);
const models = data.models.map((record, i) => new ModelFigures(record, SCRIPTS[i]));
const inputs = new Inputs(data, models);
let states = [];

const usualSizes = (model) => ({ ...model.values, ...Object.fromEntries(inputs.pass.map((field) => [field.size.name, field.usual])) });

// the state of a model; null where the inputs say no model: the figures before stay
const stateOf = (model) => {
  const sizes = inputs.sizes(model);
  const unmet = sizes === null ? [] : model.unmet(sizes);
  for (const field of model.fields) {
    const need = field.changed ? unmet.find((it) => it.names.includes(field.size.name)) : undefined;
    field.mark(need ? need.text : "");
  }
  if (sizes === null || unmet.length) return { refused: unmet.map((it) => (models.length > 1 ? `${model.name}: ${it.text}` : it.text)) };
  const dtype = inputs.dtype.value;
  return { model, sizes, dtype, now: model.headline(sizes, dtype), before: model.headline(usualSizes(model), data.dtypes[0]) };
};

const widthOf = (id) => Math.max(charts(id).clientWidth, 240);
const SECTIONS = {
  params: (width) => paramCharts(states, width),
  flops: (width) => flopCharts(states, width),
  cache: (width) => cacheCharts(states, width),
  speed: (width) => speedCharts(inputs.runs.rows, width),
  strips: (width) => stripCharts(data, width),
};

const drawCharts = () => {
  for (const [id, draw] of Object.entries(SECTIONS)) charts(id).replaceChildren(...draw(widthOf(id)));
  if (data.measured.length) charts("measured").replaceChildren(shares(widthOf("measured"), data.measured, "measured time by class"));
  for (const box of document.querySelectorAll(".scroll, .lists pre")) box.classList.toggle("more", box.scrollWidth > box.clientWidth + 1);
};

const showCommands = () => {
  byId("same").replaceChildren(...models.map((model) => node("code", {}, commandsOf(model, inputs)[0])));
  lists("commands").replaceChildren(...models.map((model) => node("pre", { tabindex: "0" }, commandsOf(model, inputs).join("\n"))));
};

const showRuns = () => {
  byId("speed").querySelector(".of-runs").textContent = inputs.runs.words;
  byId("fit").querySelector(".scroll").replaceChildren(fitTable(inputs.runs.rows, states));
};

const showFigures = () => {
  const found = models.map(stateOf);
  for (const field of inputs.pass) field.mark("");
  const refused = found.flatMap((state) => state.refused ?? []);
  byId("refusal").hidden = !refused.length;
  if (refused.length) byId("inputs").open = true;
  byId("refusal").textContent = refused.length ? `The figures stay: ${refused.join("; ")}.` : "";
  byId("reset").disabled = inputs.isUsual;
  if (found.some((state) => state.refused)) return;
  states = found;
  const altered = models.some((model) => model.fields.some((field) => field.changed));
  for (const note of document.querySelectorAll(".holds")) note.hidden = !altered;
  if (data.redraws) document.querySelector("#drawing .holds").hidden = true;
  byId("keys").replaceChildren(...keyCards(states));
  showRuns();
  drawCharts();
  drawAgain(states);
  showCommands();
};

// the drawing for other sizes, by the script of its layout
const drawAgain = (current) => {
  if (!data.redraws) return;
  const [state] = current;
  const value = state.model.at(state.sizes);
  // a figure without a closed form is that of the model
  const usual = (i) => (Number.isInteger(data.drawn[i]) ? BigInt(data.drawn[i]) : data.drawn[i]);
  REDRAW(state.model.drawn.map((place, i) => value(place) ?? usual(i)), document.querySelector("#drawing svg"));
};

const fromAddress = () => {
  inputs.address = location.hash.slice(1);
  showFigures();
};
const toAddress = () => {
  const asked = inputs.address;
  if (location.protocol === "about:") return; // a frame of a notebook has no address
  if (asked !== location.hash.slice(1)) history.pushState(null, "", asked ? `#${asked}` : location.pathname + location.search);
};

for (const control of [...inputs.fields.map((field) => field.input), ...inputs.selects.map(([, select]) => select)]) {
  control.addEventListener("input", showFigures);
  control.addEventListener("change", toAddress);
}
byId("reset").addEventListener("click", () => {
  inputs.reset();
  showFigures();
  toAddress();
});
addEventListener("popstate", fromAddress);
addEventListener("hashchange", fromAddress);
let drawnAt = innerWidth;
addEventListener("resize", () => {
  if (innerWidth !== drawnAt && states.length) drawCharts();
  drawnAt = innerWidth;
});
addEventListener("beforeprint", () => {
  for (const folded of document.querySelectorAll("#formulas details")) folded.open = true;
});
// several models are a wide drawing, which is printed across a page of its own
const extent = document.querySelector("#drawing svg").viewBox.baseVal;
byId("drawing").classList.toggle("across", models.length > 1 && extent.width > extent.height);
if (matchMedia("(max-width: 999.98px)").matches) byId("inputs").open = false;
lists("findings").replaceChildren(...findingLists(data));
lists("formulas").replaceChildren(...formulaLists(data));
byId("parts").hidden = !data.parts.length;
byId("parts").querySelector(".soft").textContent = `${[...new Set(data.parts.map((row) => row.media))].join("; ")}, beside the text.`.replace(/^./, (first) => first.toUpperCase());
byId("parts").querySelector(".scroll").replaceChildren(partTable(data));
byId("strips-note").textContent = data.words.strips;
byId("cache-note").textContent = data.words.cache;
byId("measured").hidden = !data.measured.length;
byId("measured-note").textContent = data.words.measured;
byId("unreliable").textContent = data.words.unreliable;
byId("unreliable").hidden = !data.words.unreliable;
byId("made").textContent = data.made;
byId("note").textContent = data.note;
byId("note").hidden = !data.note;
for (const id of ["strips", "speed", "fit"]) byId(id).hidden = !(id === "strips" ? data.strips : data.speeds).length;
fromAddress();
if (!states.length) {
  // an address that no model can answer: the figures are the model's, the fields say what is wrong
  states = models.map((model) => ({ model, sizes: usualSizes(model), dtype: data.dtypes[0], now: model.headline(usualSizes(model), data.dtypes[0]), before: model.headline(usualSizes(model), data.dtypes[0]) }));
  byId("keys").replaceChildren(...keyCards(states));
  showRuns();
  drawCharts();
  showCommands();
}
// links by script: the address behind # is the question
byId("contents").append(...[...document.querySelectorAll(".card:not([hidden])")].map((card) => {
  const link = node("a", { href: `#${card.id}` }, card.querySelector("h2").textContent);
  card.tabIndex = -1;
  link.addEventListener("click", (event) => {
    event.preventDefault();
    card.scrollIntoView();
    card.focus({ preventScroll: true });
  });
  return link;
}));
byId("copy-link").hidden = location.protocol === "about:";
byId("copy-link").addEventListener("click", () => {
  const said = (text) => { byId("copied").textContent = text; };
  const refused = () => said("The browser does not let the page copy: the address of this window is the link.");
  if (navigator.clipboard) navigator.clipboard.writeText(location.href).then(() => said("Copied."), refused);
  else refused();
});
