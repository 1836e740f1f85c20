/* The page "Try it": the model, the tabs with their forms, the answer, and the address that keeps the question. */

import { makeTabs, showForm } from "./form.js";
import { readLocally } from "./headers.js";
import { node, rendered } from "./markdown.js";
import { ask, progress, started } from "./python.js";
import { addressOf, argumentsOf, fileName, isFile, LONGEST_LINK, nameOfText, questionOf, shellLine } from "./questions.js";
import { busy, byId, complain, copy, say, size, waiting } from "./status.js";

const MOST_SHOWN = 200000;
const MOST_ANSWERS = 100;

const question = { tab: "", model: "", file: null, checkpoint: null, set: [], values: {} };
const kept = new Map(); // files of this visit, by key
const visit = Date.now().toString(36);
const answers = new Map(); // by arguments and file
let tabs = [];
let reveals = false; // whether the answer is to come into view on a phone
let asked = 0; // counts questions: an answer to an older one is dropped
let running = null; // the AbortController of the question that runs
let loaded = false;
let last = Promise.resolve(); // settles when that has ended

const tabNow = () => tabs.find(({ id }) => id === question.tab);

// --- the model: a preset, a text, files

const filesOf = () => {
  const files = {};
  for (const file of [question.file, question.checkpoint]) if (file) files[file.name] = file.content;
  return files;
};

const chip = (file, about, remove) => {
  const button = node("button", { type: "button", "aria-label": `Remove ${file.name}` }, "×");
  button.addEventListener("click", remove);
  return node("li", {}, node("span", { class: "name" }, file.name), ` ${about}`, button);
};

const showModel = () => {
  const { file, checkpoint } = question;
  byId("preset").value = file ? "" : question.model;
  const pasted = file?.pasted && typeof file.content === "string";
  if (pasted) byId("text").value = file.content;
  else byId("text").value = "";
  const chips = [];
  if (file && !pasted) chips.push(chip(file, aboutFile(file), () => choose({ model: "gpt2", file: null })));
  if (checkpoint) chips.push(chip(checkpoint, `${aboutFile(checkpoint)}, compared in Size`, () => choose({ checkpoint: null })));
  byId("files").replaceChildren(...chips);
  byId("set").value = question.set.join("\n");
  byId("changes").open ||= question.set.length > 0;
};

const aboutFile = ({ content, size: whole }) => {
  const read = typeof content === "string" ? new TextEncoder().encode(content).length : content.length;
  return whole && whole > read ? `header of ${size(read)} of ${size(whole)}` : size(read);
};

const choose = (changes) => {
  reveals = true;
  Object.assign(question, changes);
  showModel();
  return pose();
};

const same = (a, b) =>
  typeof a === "string" ? a === b : typeof b !== "string" && a.length === b.length && a.every((byte, i) => byte === b[i]);

/* A file of this visit, with a key for what no link holds; the one that is there where it was dropped before. */
const keep = (name, content, more) => {
  const known = [...kept.values()].find((file) => file.name === fileName(name) && same(file.content, content));
  if (known && (more.pasted || !known.pasted)) return known;
  const file = { name: fileName(name), content, key: `${visit}-${kept.size}`, ...more };
  kept.set(file.key, file);
  return file;
};

const takeText = async (text) => {
  if (!text.trim()) return question.file?.pasted ? choose({ file: null, model: "gpt2" }) : null;
  if (question.file?.pasted && question.file.content === text) return null;
  busy(true);
  return choose({ file: keep(nameOfText(text), text, { pasted: true }), model: "" });
};

const takeFiles = async (files) => {
  const changes = {};
  busy(true);
  try {
    for (const file of files) {
      const { content } = await readLocally(file);
      const taken = keep(file.name, content, { size: file.size });
      if (/\.safetensors$/i.test(file.name)) changes.checkpoint = taken;
      else Object.assign(changes, { file: taken, model: "" });
    }
  } catch (problem) {
    complain(`error: ${problem.message}`);
    busy(false);
    say("The file was not read.");
    return;
  }
  if (changes.checkpoint && !changes.file) question.tab = "size";
  show();
  await choose(changes);
};

// --- asking

const open = (id) => {
  reveals = true;
  question.tab = id;
  show();
  return pose();
};

/* The form of the tab that is open. */
const show = () => {
  const tab = tabNow();
  for (const [name, value] of Object.entries(tab.start)) question.values[name] ||= value;
  showForm(tab, question.values, (name, value) => {
    question.values[name] = value;
    pose();
  });
};

/* Ask the question as it stands; its address becomes that of the page. */
const pose = async (replace = false) => {
  const tab = tabNow();
  busy(true);
  asked += 1;
  const mine = asked;
  if (!question.file && !question.model) {
    showTrouble("error: no model\n  = help: choose a preset, paste a config.json, or drop a file");
    return;
  }
  const { hash, whole } = await addressOf(tab, question);
  if (mine !== asked) return;
  if (`#${hash}` !== location.hash) history[replace ? "replaceState" : "pushState"](null, "", `#${hash}`);
  noteLink(whole);
  await answer(tab, mine);
};

const noteLink = (whole) => {
  byId("link-note").hidden = whole;
  const limit = `${LONGEST_LINK / 1000} kB`;
  byId("link-note").textContent = whole ? "" : `The link does not hold the file: it holds texts up to ${limit}, packed. Send the file along.`;
};

const answer = async (tab, mine) => {
  const argv = argumentsOf(tab, question);
  byId("command").textContent = shellLine(argv);
  complain("");
  document.title = `${tab.title} of ${question.file?.name ?? question.model} – Try archcli`;
  busy(true);
  const since = performance.now();
  say(`Asking: ${shellLine(argv)}`);
  const wait = loaded ? waiting() : null; // before, the clock is that of loading
  const deaf = progress(({ received, total, doing }) => {
    if (!loaded || mine !== asked) return;
    if (doing === "loading") wait?.arrived(`${size(received)} of ${size(total)}`);
    const what = doing === "loading" ? "Loading sympy for formulas, once" : "Starting sympy: the first formula takes some 10 seconds more";
    if (byId("status").textContent !== what) say(what);
  });
  const late = setTimeout(() => { byId("stop").hidden = false; }, 1000);
  try {
    const text = await answerOf(argv, isFile(tab) ? [] : ["--format", "md"]);
    if (mine === asked) showAnswer(tab, argv, text, (performance.now() - since) / 1000);
  } catch (problem) {
    if (mine === asked) showTrouble(problem.name === "AbortError" ? "Stopped. Ask again: archcli starts afresh." : problem.message);
  }
  clearTimeout(late);
  deaf();
  wait?.end();
  if (mine === asked) {
    byId("stop").hidden = true;
    busy(false);
  }
};

/* The program's answer; null where a newer question was asked before this one's turn came. */
const answerOf = (argv, form) => {
  const mine = asked;
  const files = filesOf();
  const key = JSON.stringify([argv, form, question.file?.key, question.checkpoint?.key]);
  const turn = last.then(async () => {
    if (answers.has(key)) return answers.get(key);
    if (mine !== asked) return null;
    running = new AbortController();
    const text = await ask([...argv, ...form], files, { signal: running.signal });
    if (answers.size >= MOST_ANSWERS) answers.delete(answers.keys().next().value);
    answers.set(key, text);
    return text;
  });
  last = turn.catch(() => {});
  return turn;
};

const showTrouble = (message) => {
  byId("answer").replaceChildren();
  byId("json").hidden = true;
  const ofHub = !question.file && /^(hf:\/\/)?[\w.-]+\/[\w.-]+/.test(question.model);
  complain(message, ofHub ? "This page does not ask the Hugging Face hub: paste the model's config.json." : "");
  busy(false);
  say("No answer.");
};

const showAnswer = (tab, argv, text, seconds) => {
  complain("");
  if (tab.command === "draw") showDrawing(text);
  else if (tab.command === "report") showReport(text);
  else byId("answer").replaceChildren(...rendered(text));
  byId("json").hidden = isFile(tab);
  byId("json").open = false;
  byId("json-text").textContent = "";
  if (reveals && matchMedia("(max-width: 640px)").matches) byId("answer").scrollIntoView();
  reveals = false;
  const title = byId("answer").querySelector("h2")?.textContent ?? tab.title;
  say(`Answered in ${seconds.toFixed(1)} s: ${title}`);
};

const showDrawing = (svg) => {
  URL.revokeObjectURL(byId("answer").querySelector("img")?.src ?? "");
  const url = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
  const name = question.file?.name ?? question.model;
  const picture = node("img", { src: url, alt: `Drawing of ${name}: its layers and their parts, to scale` });
  const scroll = node("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Drawing" }, picture);
  const save = node("a", { href: url, download: `${name.replace(/\.[^.]*$/, "")}.svg` }, "Download the drawing");
  byId("answer").replaceChildren(node("h2", {}, `${name}: drawing`), scroll, node("p", {}, save));
};

/* A page of one file. It is saved, as this page's policy lets no scripts but its own run. */
const showReport = (html) => {
  const name = question.file?.name ?? question.model;
  const url = URL.createObjectURL(new Blob([html], { type: "text/html" }));
  const save = node("a", { href: url, download: `${name.replace(/\.[^.]*$/, "")}.html` }, `Download the page (${size(html.length)})`);
  const what = "One file that calculates: key figures, the drawing, memory, speed, rules and formulas, with a field for every size. It opens without a network.";
  byId("answer").replaceChildren(node("h2", {}, `${name}: report`), node("p", {}, what), node("p", {}, save));
};

const showJson = async () => {
  if (!byId("json").open || byId("json-text").textContent) return;
  byId("json-note").textContent = "Asking …";
  const mine = asked;
  try {
    const text = await answerOf(argumentsOf(tabNow(), question), ["--json"]);
    if (text === null || mine !== asked) return;
    URL.revokeObjectURL(byId("save").href);
    byId("save").href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    const cut = text.length > MOST_SHOWN;
    byId("json-text").textContent = cut ? text.slice(0, MOST_SHOWN) : text;
    byId("json-note").textContent = cut ? `${size(text.length)}; its start is shown.` : size(text.length);
  } catch (problem) {
    byId("json-note").textContent = problem.message;
  }
};

// --- the address

const read = async () => {
  reveals ||= location.hash.length > 1;
  busy(true);
  asked += 1;
  const mine = asked;
  const { problem, ...next } = await questionOf(location.hash, tabs, (key) => kept.get(key) ?? null);
  const file = next.file && (next.file.key ? next.file : keep(next.file.name, next.file.content, { pasted: true }));
  if (mine !== asked) return;
  // the address is the whole question: options of an earlier one are no part of it
  Object.assign(question, next, { file });
  if (!file && !next.model && !problem) question.model = "gpt2";
  showModel();
  show();
  if (problem) showTrouble(`error: ${problem}`);
  else await pose(true);
};

// --- events

const dropping = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");

const listen = () => {
  // the address holds the question: the skip link must not take its place
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    byId("answer").focus();
  });
  byId("preset").addEventListener("change", () => {
    const model = byId("preset").value.trim();
    if (model) choose({ model, file: null });
  });
  byId("text").addEventListener("change", () => takeText(byId("text").value));
  byId("text").addEventListener("paste", () => setTimeout(() => takeText(byId("text").value)));
  byId("file").addEventListener("change", async () => {
    await takeFiles([...byId("file").files]);
    byId("file").value = "";
  });
  byId("set").addEventListener("change", () => {
    choose({ set: byId("set").value.split("\n").map((line) => line.trim()).filter(Boolean) });
  });
  byId("form").addEventListener("submit", (event) => {
    event.preventDefault();
    reveals = true;
    pose();
  });
  byId("stop").addEventListener("click", () => running?.abort());
  byId("json").addEventListener("toggle", showJson);
  byId("copy").addEventListener("click", () => copy(byId("command").textContent, "The command"));
  byId("copy-link").addEventListener("click", () => copy(location.href, "The link"));
  for (const name of ["dragenter", "dragover"]) {
    addEventListener(name, (event) => {
      if (!dropping(event)) return;
      event.preventDefault();
      document.body.classList.add("dropping");
    });
  }
  addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) document.body.classList.remove("dropping");
  });
  addEventListener("drop", (event) => {
    document.body.classList.remove("dropping");
    if (!dropping(event)) return;
    event.preventDefault();
    takeFiles([...event.dataTransfer.files]);
  });
  addEventListener("popstate", read);
};

// --- starting

const list = (id, names) => node("datalist", { id }, ...names.map((name) => node("option", { value: name })));

const short = (count) => {
  const steps = [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "K"]];
  const [unit, letter] = steps.find(([least]) => count >= least) ?? [1, ""];
  return `${(count / unit).toPrecision(3)}${letter}`;
};

const main = async () => {
  if (typeof WebAssembly === "undefined" || typeof Worker === "undefined") {
    showTrouble("This browser has no WebAssembly, in which the page runs Python: archcli on your computer answers the same questions.");
    return;
  }
  const known = await (await fetch("questions.json")).json();
  tabs = known.tabs;
  byId("presets").replaceChildren(...known.presets.map(([name, params]) => node("option", { value: name }, short(params))));
  byId("n-presets").textContent = known.presets.length;
  byId("version").textContent = `archcli ${known.version}`;
  for (const id of ["devices", "dtypes", "cache_dtypes"]) document.body.append(list(id, known[id]));
  makeTabs(tabs, open);
  listen();
  read();
  await load();
};

const load = async () => {
  const wait = waiting();
  const deaf = progress(({ received, total, doing }) => {
    byId("bar").hidden = false;
    byId("bar").max = total;
    byId("bar").value = received;
    const all = doing === "starting" || received >= total;
    const what = all ? "Starting Python" : "Loading Python and archcli, once";
    if (byId("status").textContent !== what) say(what);
    wait.arrived(all ? size(total) : `${size(received)} of ${size(total)}`);
  });
  await started().catch((problem) => showTrouble(problem.message));
  deaf();
  wait.end();
  loaded = true;
  byId("bar").hidden = true;
};

main();
