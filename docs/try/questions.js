/* A question: what it is about, its tab and its options; as an address, as arguments, and as a line of a shell.

   {tab, model, file: {name, content, big}, checkpoint, set: [...], values: {option: text or true}} */

export const LONGEST_LINK = 16000;
const LARGEST_TEXT = 8 << 20;
const UNSAFE = /[^\w@%+=:,./-]/;

export const quoted = (word) => (word && !UNSAFE.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
export const shellLine = (argv) => ["archcli", ...argv].map(quoted).join(" ");

/* The name under which a file lies beside the program. */
export const fileName = (name) => {
  // a name is a path's last part, without control characters, and no option
  const last = name.split(/[\\/]/).pop().replace(/[\u0000-\u001f\u007f-\u009f]/g, "_").replace(/^-+/, "");
  return last === "" || /^\.+$/.test(last) ? "config.json" : last;
};
export const nameOfText = (text) => (/^\s*\{/.test(text) ? "config.json" : "model.yaml");

/* Whether a tab's answer is a file of its own: a drawing, or a page. */
export const isFile = (tab) => ["draw", "report"].includes(tab.command);

const options = (tab) => [...tab.first, ...tab.more];

/* The value of an option as it is used: none where the tab does not have such a choice. */
export const valueOf = (option, values) => {
  const value = values[option.name] ?? "";
  if (option.switch) return value === true;
  if (typeof value !== "string") return "";
  return option.choices.length && !option.choices.includes(value) ? "" : value.trim();
};

export const argumentsOf = (tab, question) => {
  const model = question.file ? question.file.name : question.model;
  const argv = [tab.command];
  if (model) argv.push(model.startsWith("-") ? `./${model}` : model);
  if (tab.command === "params" && question.checkpoint) argv.push("--against", question.checkpoint.name);
  for (const option of options(tab)) {
    const value = valueOf(option, question.values);
    if (value === true) argv.push(option.flag);
    else if (value) argv.push(...(option.flag ? spelt(option.flag, value) : [value]));
  }
  for (const change of question.set) argv.push(...spelt("--set", change));
  if (isFile(tab)) argv.push("-o", "-");
  return argv;
};

/* A value that begins with a dash would be read as an option. */
const spelt = (flag, value) => (value.startsWith("-") ? [`${flag}=${value}`] : [flag, value]);

const base64 = (bytes) => {
  let text = "";
  for (let i = 0; i < bytes.length; i += 8192) text += String.fromCharCode(...bytes.subarray(i, i + 8192));
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
};
const piped = (bytes, stream) => new Blob([bytes]).stream().pipeThrough(stream);
const packed = async (bytes) =>
  base64(new Uint8Array(await new Response(piped(bytes, new CompressionStream("deflate-raw"))).arrayBuffer()));

/* The text that a link holds; an exception where it holds none, or more than archcli reads. */
const unpacked = async (text) => {
  if (text.length > LONGEST_LINK) throw new Error("the link is longer than this page writes");
  const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
  const reader = piped(bytes, new DecompressionStream("deflate-raw")).getReader();
  const parts = [];
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    if (size > LARGEST_TEXT) throw new Error("the link holds more than a model");
    parts.push(value);
  }
  return new TextDecoder("utf-8", { fatal: true }).decode(await new Blob(parts).arrayBuffer());
};

/* The address of a question behind its #, and whether it holds all of it. */
export const addressOf = async (tab, question) => {
  const parts = new URLSearchParams();
  let whole = !(question.checkpoint && tab.command === "params");
  if (question.file) {
    parts.set("file", question.file.name);
    const { content } = question.file;
    const data = typeof content === "string" ? await packed(new TextEncoder().encode(content)) : "";
    if (data && data.length <= LONGEST_LINK) parts.set("data", data);
    else {
      parts.set("kept", question.file.key);
      whole = false;
    }
  } else if (question.model) parts.set("model", question.model);
  parts.set("tab", tab.id);
  for (const option of options(tab)) {
    const value = valueOf(option, question.values);
    if (value === true) parts.set(option.name, "yes");
    else if (value) parts.set(option.name, value);
  }
  for (const change of question.set) parts.append("set", change);
  return { hash: parts.toString(), whole };
};

/* The question of an address. `kept` finds a file that an earlier address of this visit stands for. */
export const questionOf = async (hash, tabs, kept) => {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const tab = tabs.find(({ id }) => id === parts.get("tab")) ?? tabs[0];
  const values = {};
  for (const option of options(tab)) {
    const value = parts.get(option.name);
    values[option.name] = option.switch ? value !== null : (value ?? tab.start[option.name] ?? "");
  }
  const question = { tab: tab.id, model: parts.get("model") ?? "", set: parts.getAll("set"), values };
  return { ...question, file: null, ...(parts.has("file") ? await fileOf(parts, kept) : {}) };
};

/* The file of an address, or the problem with it. */
const fileOf = async (parts, kept) => {
  const name = fileName(parts.get("file"));
  if (!parts.has("data")) {
    const file = kept(parts.get("kept"));
    return file ? { file } : { problem: `the link names ${name}, which is too large for a link; drop the file here` };
  }
  try {
    return { file: { name, content: await unpacked(parts.get("data")) } };
  } catch {
    return { problem: `the link is damaged: its ${name} cannot be read` };
  }
};
