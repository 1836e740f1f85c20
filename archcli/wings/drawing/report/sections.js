// The sections of the page that follow the inputs, each a function of the models' states.
// A state: {model, sizes, dtype, now, before}; `now` and `before` are key figures, of the inputs and of the model.
// each with the condition that it holds at
const sequences = ({ sizes }) => (sizes.batch_size === 1n ? "" : `${exact(sizes.batch_size)} × `);
const HEADLINE = [
  ["params", "parameters", "count", "", () => "stored"],
  ["active", "active parameters", "count", "", ({ now }) => (now.active === now.params ? "all of them, for a token" : `${fixed(100 * ratio(now.active, now.params), 1)}%, read for a token`)],
  ["cache", "cache", "bytes", " bytes", (state) => `of ${sequences(state)}${exact(state.sizes.context)} tokens in ${state.dtype}`],
  ["flops", "FLOPs, forward", "flops", "", (state) => `of ${sequences(state)}${exact(state.sizes.seq_len)} tokens`],
  ["decode", "FLOPs, a decoded token", "flops", "", (state) => `${sequences(state)}behind ${exact(state.sizes.context - 1n)} tokens`],
];

const moved = (now, before) => {
  if (now === before) return "";
  if (before === 0n) return "none in the model";
  const change = Number(((now - before) * 10000n) / before) / 100;
  return `${change < 0 ? "−" : "+"}${fixed(Math.abs(change), 1)}% against the model`;
};

const keyCards = (states) =>
  states.flatMap((state) => {
    const cards = HEADLINE.filter(([name]) => state.now[name] !== null).map(([name, title, unit, of, condition]) =>
      node("div", { class: "key", "data-figure": name, "data-value": String(state.now[name]) },
        node("span", { class: "soft" }, title), node("b", {}, written(state.now[name], unit)),
        node("div", { class: "exact" }, `${exact(state.now[name])}${of}`), node("div", { class: "exact" }, condition(state)), node("div", { class: "moved" }, moved(state.now[name], state.before[name]))));
    const keys = node("div", { class: "keys", "data-model": state.model.number }, ...cards);
    return states.length > 1 ? [node("h2", {}, state.model.name), keys] : [keys];
  });

const ofModel = (states, state) => (states.length > 1 ? [node("h3", {}, state.model.name)] : []);

const paramCharts = (states, width) =>
  states.flatMap((state) => {
    const value = state.model.at(state.sizes);
    const entries = state.model.groups.map((group) => {
      const [whole, read] = [value(group.stored), value(group.read)];
      return { name: group.title, hue: group.hue, exact: whole, exactRead: read, stored: Number(whole), read: Number(read) };
    });
    const kept = entries.filter((entry) => entry.stored > 0).sort((a, b) => b.stored - a.stored);
    const [drawn, unlabelled] = treemap(width, kept, state.model.name);
    return [...ofModel(states, state), drawn, legend(unlabelled)];
  });

const SCORES = "attention_scores";
const perToken = (state, place, x) => Number(state.model.at({ ...state.sizes, batch_size: 1n, seq_len: BigInt(x) })(place)) / x;

// from how many tokens on attention's scores are more than all else; null where they never are
const overtakes = (state, longest) => {
  const scores = state.model.components.find((one) => one.name === SCORES);
  if (!scores) return null;
  const exceeds = (x) => {
    const value = state.model.at({ ...state.sizes, batch_size: 1n, seq_len: x });
    return 2n * value(scores.flops) > value(state.model.figures.flops);
  };
  if (!exceeds(longest)) return null;
  let [below, above] = [0n, longest];
  while (above - below > 1n) {
    const middle = (below + above) / 2n;
    if (exceeds(middle)) above = middle;
    else below = middle;
  }
  return above;
};

const flopCharts = (states, width) => {
  const most = Math.max(131072, ...states.map((state) => Number(state.sizes.seq_len)));
  const ticks = powers(512, Math.min(most, 2 ** 40));
  if (states.length > 1) {
    const xs = ticks;
    const series = states.map((state, i) => ({ name: state.model.name, hue: LINES[i], thick: true, values: xs.map((x) => perToken(state, state.model.figures.flops, x)) }));
    return [curves(width, xs, series, "flops", "FLOPs of a token by sequence length", "tokens of the sequence, log axes")];
  }
  const [state] = states;
  const xs = between(ticks);
  const series = state.model.components.map((one) => ({ name: one.title, hue: one.hue, pale: one.name === SCORES, values: xs.map((x) => perToken(state, one.flops, x)) }));
  // the largest at the bottom, and on top what grows with the length
  series.sort((a, b) => a.pale - b.pale || b.values[0] - a.values[0]);
  const from = overtakes(state, BigInt(xs.at(-1)));
  const words = from === null ? "Attention scores stay below all else at these lengths." : `Attention scores are more than all else from ${exact(from)} tokens on.`;
  const named = [...series].reverse().map((one) => [one.name, `${one.hue}${one.pale ? " light" : ""}`]);
  return [areas(width, xs, ticks, series, "FLOPs of a token by sequence length"), legend(named), ...(state.model.components.some((one) => one.name === SCORES) ? [node("p", { class: "soft" }, words)] : [])];
};
const LINES = ["attention", "experts", "recurrent", "shared"];
const KIND_LINES = { mha: "experts", gqa: "dense", mqa: "recurrent", mla: "shared", "attention only": "plain" };

const cacheCharts = (states, width) => {
  const cached = states.filter((state) => state.now.cache !== null);
  if (!cached.length) return [node("p", {}, "An encoder has no cache.")];
  const longest = Math.max(...cached.map((state) => Number(state.sizes.context)));
  const xs = powers(1024, Math.min(Math.max(longest, 2048), 2 ** 52));
  const curve = (state, place) => xs.map((x) => Number(state.model.at({ ...state.sizes, context: BigInt(x) })(place)));
  const own = cached.map((state, i) => ({ name: cached.length > 1 ? state.model.name : "this model", hue: LINES[i], thick: true, values: curve(state, state.model.figures[`cache ${state.dtype}`]) }));
  const [first] = cached;
  const others = cached.length > 1 ? [] : first.model.kinds.map((kind) => ({ name: kind.name, hue: KIND_LINES[kind.name] ?? "plain", values: curve(first, kind[first.dtype]) }));
  return [curves(width, xs, [...own, ...others], "bytes", "cache over the context", "tokens of context, log axes")];
};

const speedCharts = (rows, width) => [ranges(width, rows.map((row) => ({ ...row, name: data.models.length > 1 ? `${row.model} on ${row.device}` : row.device })), "decoded tokens a second by device")];

const tableOf = (head, rows) => {
  const line = (cells, name) => node("tr", {}, ...cells.map((cell) => node(name, name === "th" ? { scope: "col" } : {}, cell)));
  return node("table", {}, node("thead", {}, line(head, "th")), node("tbody", {}, ...rows.map((row) => line(row, "td"))));
};

const partTable = (data) => {
  const several = data.models.length > 1;
  const count = (text, unit) => (text === null ? "" : `${written(BigInt(text), unit)}`);
  const rows = data.parts.map((row) => [...(several ? [row.model] : []), row.part, exact(BigInt(row.params)), count(row.params, "count"), count(row.flops, "flops")]);
  return tableOf([...(several ? ["model"] : []), "part", "parameters", "", "FLOPs of an image or sound"], rows);
};

// weights of a row and the cache: in bf16 by closed forms, in another format as the model is
const neededNow = (row, state) => {
  const bf16 = state.model.at(state.sizes)(state.model.figures.bytes);
  const isAltered = state.model.fields.some((field) => field.changed);
  const weights = row.format === "bf16" ? bf16 : row.weights === null || isAltered ? null : BigInt(row.weights);
  return weights === null ? "–" : written(weights + (state.now.cache ?? 0n), "bytes");
};

const fitTable = (rows, states) => {
  const several = states.length > 1;
  const head = [...(several ? ["model"] : []), "device", "engine", "memory", "format", "context", "tokens/s", "needed now"];
  return tableOf(head, rows.map((row) => {
    const state = states.find((one) => one.model.number === row.number);
    const fit = row.fits ? [row.format + (row.verdict === "tight" ? ", tight" : ""), exact(row.context)] : [row.words, ""];
    const speed = row.rate ? (row.rate.expected === null ? `at most ${three(row.rate.floor)}` : three(row.rate.expected)) : "";
    return [...(several ? [row.model] : []), row.device, row.engine ?? "", row.memory === null ? "" : written(row.memory, "bytes"), ...fit, speed, row.fits ? neededNow(row, state) : ""];
  }));
};

const stripCharts = (data, width) => data.strips.flatMap((entry) => strip(width, entry));

const findingLists = (data) =>
  data.models.flatMap((model) => [
    ...(data.models.length > 1 ? [node("h3", {}, model.name)] : []),
    model.findings.length
      ? node("ul", {}, ...model.findings.map((it) => node("li", {}, node("span", { class: "severity" }, it.severity), node("code", {}, it.code), ` ${it.title}: ${it.message}`)))
      : node("p", {}, "Nothing to remark."),
  ]);

const FOLDED = 160;
const formulaLists = (data) =>
  data.models.flatMap((model) => model.formulas.flatMap((formula) => {
    const title = node("h3", {}, data.models.length > 1 ? `${formula.title}, ${model.name}` : formula.title);
    return [title, ...formula.components.map((one) => {
      const math = new DOMParser().parseFromString(one.mathml, "text/html").querySelector("math");
      const line = node("div", { class: "formula", tabindex: "0", role: "group", "aria-label": one.name }, node("span", {}, one.name), document.importNode(math, true));
      return one.length > FOLDED ? node("details", {}, node("summary", {}, one.name), line) : line;
    })];
  }));
