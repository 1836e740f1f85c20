// Charts, drawn at the width of their box, so that text has 12.5 px at any width.
const HEIGHT = 260;
const powers = (low, high) => {
  const found = [];
  for (let x = low; x < high; x *= 2) found.push(x);
  return [...found, high];
};
// three lengths between each two powers, so that a curve is none of straight pieces
const between = (xs) =>
  xs.flatMap((x, i) => (i ? [0.25, 0.5, 0.75].map((part) => Math.round(xs[i - 1] * (x / xs[i - 1]) ** part)).concat(x) : [x]));
const tokens = (x) => (x >= 2 ** 20 && x % 2 ** 20 === 0 ? `${x / 2 ** 20}M` : x >= 1024 && x % 1024 === 0 ? `${exact(x / 1024)}K` : exact(x));

// a scale of places for values, even or by powers
const linear = (low, high, from, to) => (value) => from + ((value - low) / (high - low || 1)) * (to - from);
const logarithmic = (low, high, from, to) => {
  const even = linear(Math.log2(low), Math.log2(high), from, to);
  return (value) => even(Math.log2(value));
};

// the numbers under a chart, as many as do not meet
const foot = (xs, place, left, right, y) => {
  const shapes = [];
  let free = left;
  for (const x of xs) {
    const text = tokens(x);
    const half = text.length * 4;
    const at = Math.min(Math.max(place(x), left + half), right - half);
    if (at - half < free) continue;
    shapes.push(label(at, y, text, { class: "soft", "text-anchor": "middle" }));
    free = at + half + 12;
  }
  return shapes;
};

// round numbers from 0: 1, 2 or 5 and zeros apart, four to seven of them
const even = (most) => {
  const ten = 10 ** Math.floor(Math.log10(most / 6));
  const step = [1, 2, 5, 10].find((factor) => factor * ten >= most / 6) * ten;
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, i) => i * step);
};
// round numbers of an axis by powers: of bytes those of two, else of ten, with more between them where few would stand
const byPowers = (least, most, unit) => {
  const base = unit === "bytes" ? 2 : 10;
  const [low, high] = [least, most].map((value) => Math.floor(Math.log(value) / Math.log(base)));
  const within = (steps) =>
    Array.from({ length: high - low + 1 }, (_, i) => steps.map((step) => step * base ** (low + i))).flat().filter((value) => value >= least && value <= most);
  const finer = unit === "bytes" ? [[1]] : [[1], [1, 2, 5], [1, 1.5, 2, 3, 4, 5, 7]];
  const ticks = within(finer.find((steps) => within(steps).length >= 4) ?? finer.at(-1));
  const apart = Math.ceil(ticks.length / 7);
  return ticks.filter((_, i) => i % apart === 0);
};
const three = (value) => (value >= 1000 ? exact(Math.round(value)) : fixed(value, decimals(value)));

// a treemap by repeated cuts along the longer side
const treemap = (width, entries, name) => {
  const height = 230;
  const shapes = [];
  const unlabelled = [];
  const total = entries.reduce((sum, entry) => sum + entry.stored, 0);
  let [x, y, w, h] = [0, 0, width, height];
  let rest = total;
  for (const entry of entries) {
    const share = entry.stored / rest;
    const [bw, bh] = w >= h ? [w * share, h] : [w, h * share];
    const [iw, ih] = [Math.max(bw - 1.5, 0.5), Math.max(bh - 1.5, 0.5)];
    const read = Math.min(entry.read / entry.stored, 1) * ih;
    const percent = `${fixed((100 * entry.stored) / total, 1)}%`;
    shapes.push(
      shape("g", { class: entry.hue }, titled(`${entry.name}: ${exact(entry.exact)} parameters, ${percent}; a token reads ${exact(entry.exactRead)}`),
        shape("rect", { x: fix(x), y: fix(y), width: fix(iw), height: fix(ih), class: "pale" }),
        shape("rect", { x: fix(x), y: fix(y + ih - read), width: fix(iw), height: fix(read), class: "solid" })));
    const lines = [[`${entry.name} ${percent}`, written(entry.exact, "count")], [entry.name, percent], [entry.name]].find((these) => these.every((text) => fits(text, iw - 12)) && Math.max(read, ih - read) >= 10 + 18 * these.length);
    if (lines) {
      const room = 10 + 18 * lines.length;
      const [top, on] = ih - read >= room ? [y, ""] : [y + ih - read, " on"];
      shapes.push(...lines.map((text, at) => label(x + 8, top + 20 + 18 * at, text, { class: `${at ? "" : "bold"}${on}`.trim() })));
    }
    if (!lines || lines.length === 1) unlabelled.push([`${entry.name} ${fixed((100 * entry.stored) / total, 2)}%, ${written(entry.exact, "count")}`, entry.hue]);
    if (w >= h) [x, w] = [x + bw, w - bw];
    else [y, h] = [y + bh, h - bh];
    rest -= entry.stored;
  }
  return [chart(width, height, `${name}: parameters by component`, ...shapes), unlabelled];
};

const side = (ticks, place, left, right, unit) =>
  ticks.flatMap((value) => [
    rule(left, place(value), right, place(value), "axis"),
    label(left - 6, place(value) + 4, written(value, unit), { class: "soft", "text-anchor": "end" }),
  ]);

// what components add up to, one on the other
const areas = (width, xs, ticks, series, name) => {
  const [left, right, top, bottom] = [84, width - 8, 12, HEIGHT - 40];
  const sums = xs.map((_, i) => series.reduce((sum, one) => sum + one.values[i], 0));
  const most = Math.max(...sums);
  const [px, py] = [logarithmic(xs[0], xs.at(-1), left, right), linear(0, most, bottom, top)];
  const shapes = side(even(most), py, left, right, "flops");
  let low = xs.map(() => 0);
  for (const one of series) {
    const high = low.map((value, i) => value + one.values[i]);
    const forth = xs.map((x, i) => `${fix(px(x))} ${fix(py(high[i]))}`);
    const back = xs.map((x, i) => `${fix(px(x))} ${fix(py(low[i]))}`).reverse();
    shapes.push(shape("path", { d: `M${[...forth, ...back].join("L")}Z`, class: `${one.hue} ${one.pale ? "pale" : "solid"}` }, titled(one.name)));
    low = high;
  }
  shapes.push(...foot(ticks, px, left, right, HEIGHT - 20), label(right, HEIGHT - 3, "tokens, log axis", { class: "soft", "text-anchor": "end" }));
  return chart(width, HEIGHT, name, ...shapes);
};

// several curves by powers of two on both sides, each named at its end
const curves = (width, xs, series, unit, name, below) => {
  const room = Math.min(Math.max(...series.map((one) => one.name.length)) * 8 + 8, width * 0.3);
  const [left, right, top, bottom] = [84, width - room, 12, HEIGHT - 40];
  const all = series.flatMap((one) => one.values).filter((value) => value > 0);
  const [least, most] = [Math.min(...all), Math.max(...all)];
  const [px, py] = [logarithmic(xs[0], xs.at(-1), left, right), logarithmic(least, most === least ? most * 2 : most, bottom, top)];
  const ticks = byPowers(least, most, unit);
  const shapes = side(ticks, py, left, right, unit);
  const ends = apart(series.map((one) => py(Math.max(one.values.at(-1), least)) + 4), 16, bottom + 4);
  series.forEach((one, i) => {
    const points = xs.map((x, at) => [x, one.values[at]]).filter(([, value]) => value > 0);
    const path = points.map(([x, value]) => `${fix(px(x))} ${fix(py(value))}`).join("L");
    shapes.push(shape("path", { d: `M${path}`, class: `line stroked ${one.hue}${one.thick ? " thick" : ""}` }, titled(one.name)));
    shapes.push(label(right + 6, ends[i], one.name, { class: one.thick ? "bold" : "" }));
  });
  shapes.push(...foot(xs, px, left, right, HEIGHT - 20), label(width, HEIGHT - 3, below, { class: "soft", "text-anchor": "end" }));
  return chart(width, HEIGHT, name, ...shapes);
};

// rows of a limit, a range and an expected value
const ranges = (width, rows, name) => {
  const most = Math.max(...rows.map((row) => row.rate?.floor ?? 0), 1);
  const [left, right] = [2, width - 12];
  const place = linear(0, most, left, right);
  const spoken = (row) => {
    if (!row.rate) return row.words;
    const floor = exact(Math.round(row.rate.floor));
    const how = `${row.format}, ${row.engine}: `;
    return `${how}${row.rate.expected === null ? `no kernels measured, limit ${floor}` : `${exact(Math.round(row.rate.expected))} expected, at most ${floor}`}`;
  };
  // on a phone the words stand below the name
  const step = rows.every((row) => fits(`${row.name}   ${spoken(row)}`, width)) ? 0 : 18;
  const pitch = 50 + step;
  const shapes = rows.flatMap((row, i) => {
    const y = i * pitch;
    const words = step ? label(0, y + 34, spoken(row), { class: "soft" }) : label(right, y + 16, spoken(row), { class: "soft", "text-anchor": "end" });
    const told = [label(0, y + 16, row.name, { class: "bold" }), words];
    if (!row.rate) return told;
    const mid = y + 32 + step;
    told.push(rule(left, mid, right, mid, "axis"));
    told.push(shape("g", { class: "tick" }, titled(`limit of the datasheet: ${fixed(row.rate.floor, 1)}`), rule(place(row.rate.floor), mid - 7, place(row.rate.floor), mid + 7, "tick")));
    if (row.rate.expected === null) return told;
    told.push(shape("g", { class: "attention" }, titled(`${fixed(row.rate.low, 1)} to ${fixed(row.rate.high, 1)}`), rule(place(row.rate.low), mid, place(row.rate.high), mid, "range"),
      shape("circle", { cx: fix(place(row.rate.expected)), cy: fix(mid), r: 5, class: "solid" })));
    return told;
  });
  const end = rows.length * pitch;
  const ticks = even(most).flatMap((value) => [rule(place(value), end, place(value), end + 5, "axis"), label(Math.min(Math.max(place(value), 20), right - 20), end + 18, exact(value), { class: "soft", "text-anchor": "middle" })]);
  return chart(width, end + 40, name, rule(left, end, right, end, "axis"), ...ticks, label(right, end + 35, "tokens a second", { class: "soft", "text-anchor": "end" }), ...shapes);
};

// a dot for each preset, the median, and the models of the page
const strip = (width, entry) => {
  const values = [...entry.others.map(([, value]) => value), ...entry.own.map(([, value]) => value)];
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const place = logarithmic(low, high === low ? low * 2 : high, 8, width - 8);
  const sorted = entry.others.map(([, value]) => value).sort((a, b) => a - b);
  const median = sorted.length % 2 ? sorted[(sorted.length - 1) / 2] : (sorted[sorted.length / 2 - 1] + sorted[sorted.length / 2]) / 2;
  const short = (value) => (value >= 1000 ? written(Math.round(value), "count") : fixed(value, decimals(value)));
  const shapes = [rule(8, 34, width - 8, 34, "axis")];
  shapes.push(...entry.others.map(([name, value]) => shape("circle", { cx: fix(place(value)), cy: 34, r: 4, class: "other" }, titled(`${name}: ${short(value)}`))));
  shapes.push(rule(place(median), 24, place(median), 44, "median"));
  entry.own.forEach(([name, value]) => shapes.push(shape("circle", { cx: fix(place(value)), cy: 34, r: 6, class: "experts solid" }, titled(`${name}: ${short(value)}`))));
  // several models are named below
  const own = entry.own.length > 1 ? "" : `${short(entry.own[0][1])}; `;
  shapes.push(label(0, 14, entry.name, { class: "bold" }));
  shapes.push(label(width, 14, `${own}median ${short(median)}`, { class: "soft", "text-anchor": "end" }));
  shapes.push(label(8, 58, short(low), { class: "soft" }), label(width - 8, 58, short(high), { class: "soft", "text-anchor": "end" }));
  const drawn = chart(width, 66, `${entry.name} among the presets`, ...shapes);
  if (entry.own.length === 1) return [drawn];
  return [drawn, node("p", { class: "soft" }, entry.own.map(([name, value]) => `${name} ${short(value)}`).join(" · "))];
};

const shares = (width, entries, name) => {
  const shapes = entries.flatMap((entry, i) => {
    const y = i * 36;
    return [label(0, y + 13, entry.name), label(width, y + 13, `${fixed(100 * entry.share, 1)}%`, { class: "soft", "text-anchor": "end" }),
      shape("rect", { x: 0, y: y + 18, width: fix(Math.max(entry.share, 0) * width), height: 9, class: `${entry.rest ? "plain" : "attention"} solid` })];
  });
  return chart(width, entries.length * 36, name, ...shapes);
};
