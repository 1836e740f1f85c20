/* archcli in this page: questions go to a worker, in which CPython runs, one at a time.

   import {ask, started, offline, progress} from "./python.js";
   await ask(["params", "gpt2"])                                       the JSON that `archcli params gpt2 --json` prints
   await ask(["params", "config.json"], {"config.json": "{…}"})        the same of a file: text or a Uint8Array
   await ask(argv, files, {signal})                                    an AbortSignal stops it: the worker starts afresh

   What archcli refuses rejects with an Error; its message is the lines that the program prints. */

const HELD = 64 * 2 ** 20; // bytes of files that a question may bring: headers and configurations are far below
const HERE = new URL(".", import.meta.url);

let worker = null; // the worker that runs, or null
let ready = null; // a promise: it has loaded Python
let current = null; // the question that it answers: {id, resolve, reject}
let last = Promise.resolve(); // settles when the question before has ended
let count = 0;
let cached = null;
const listeners = new Set();

/** The text that the command prints: its JSON, or the SVG of `draw MODEL -o -`. */
export function ask(argv, files, how) {
  const answer = last.then(() => answered(argv, files ?? {}, how?.signal)); // null is as good as nothing
  last = answer.catch(() => {});
  return answer;
}

/** Resolves when Python is loaded and archcli can answer. */
export function started() {
  if (!ready) start();
  return ready;
}

/** Resolves when the page would open without a network; rejects where the browser keeps no pages. */
export async function offline() {
  await started();
  cached ??= keep();
  return cached;
}

/** Calls back with {received, total, doing} while files arrive: bytes, and what happens. Returns what ends it. */
export function progress(callback) {
  listeners.add(callback);
  return () => listeners.delete(callback);
}

async function answered(argv, files, signal) {
  refuse(argv, files);
  if (signal?.aborted) throw stopped();
  const stop = () => restart(stopped());
  signal?.addEventListener("abort", stop);
  try {
    await Promise.race([started(), aborted(signal)]);
    return await new Promise((resolve, reject) => {
      current = { id: ++count, resolve, reject };
      worker.postMessage({ id: count, argv: [...argv], files });
    });
  } finally {
    current = null;
    signal?.removeEventListener("abort", stop);
  }
}

function aborted(signal) {
  return new Promise((_, reject) => signal?.addEventListener("abort", () => reject(stopped()), { once: true }));
}

function stopped() {
  return new DOMException("the question was stopped", "AbortError");
}

function refuse(argv, files) {
  if (!Array.isArray(argv) || argv.some((word) => typeof word !== "string"))
    throw new Error("ask takes a list of words, as in ask([\"params\", \"gpt2\"])");
  let bytes = 0;
  for (const [name, held] of Object.entries(files)) {
    if (typeof held !== "string" && !(held instanceof Uint8Array))
      throw new Error(`${name}: a file is text or a Uint8Array`);
    if (!name || name === "." || name === ".." || name.includes("/") || name.includes("\0") || name.length > 200)
      throw new Error(`${name.slice(0, 80) || "a file"}: not a name of a file; it has at most 200 characters and no /`);
    bytes += held.length;
  }
  if (bytes > HELD)
    throw new Error(`the files have ${Math.ceil(bytes / 2 ** 20)} MiB, and the page takes 64; give the header alone`);
}

function start() {
  // A worker made of a blob is under the page's Content-Security-Policy; one from an address is not.
  const line = `import ${JSON.stringify(new URL("worker.js", HERE).href)};`;
  const address = URL.createObjectURL(new Blob([line], { type: "text/javascript" }));
  ready = new Promise((resolve, reject) => {
    const made = new Worker(address, { type: "module", name: "archcli" });
    worker = made;
    made.onmessage = ({ data }) => made === worker && heard(data, resolve, reject);
    made.onerror = (event) => {
      event.preventDefault();
      if (made === worker) lost("the page could not load archcli; load it again", reject);
    };
  });
  ready.then(keepLater, () => {}).finally(() => URL.revokeObjectURL(address));
}

function heard(data, resolve, reject) {
  if (data.progress) for (const listener of listeners) listener(data.progress);
  else if (data.started) resolve();
  else if (data.failed) lost(data.failed, reject);
  else if (current && data.id === current.id) {
    if (data.lost) restart(new Error(data.lost));
    else if (data.error !== undefined) current.reject(new Error(data.error));
    else current.resolve(data.text);
  }
}

function lost(line, reject) {
  reject(new Error(line));
  restart(new Error(line));
}

/** Ends the worker; the next question starts another. */
function restart(error) {
  worker?.terminate();
  worker = ready = null;
  current?.reject(error);
}

// Only now: a service worker that installs while Python arrives would fetch every file a second time.
function keepLater() {
  cached ??= keep();
  cached.catch(() => {});
}

async function keep() {
  if (!navigator.serviceWorker) throw new Error("this browser keeps no pages for use without a network");
  await navigator.serviceWorker.register(new URL("service.js", HERE));
  await navigator.serviceWorker.ready;
}

window.archcli = { ask, started, offline, progress };
