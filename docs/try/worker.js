/* The worker of the page: loads CPython, PyYAML and archcli, and answers one question after the other. */

const HERE = new URL(".", import.meta.url);
const FOLDER = "/model"; // the working directory of a question; a config.json is named after its folder
const fetched = self.fetch.bind(self);
let received = 0;
let total = 0;

// Pyodide fetches its files by itself: the bytes of all are counted here, of a copy, so that compiled code can be cached.
self.fetch = async (...request) => {
  const response = await fetched(...request);
  if (response.ok && response.body) tally(response.clone().body.getReader());
  return response;
};

async function tally(reader) {
  for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
    received += piece.value.length;
    if (total) tell("loading");
  }
}

function tell(doing) {
  self.postMessage({ progress: { received: Math.min(received, total), total, doing } });
}

async function bytes(name) {
  const response = await self.fetch(new URL(name, HERE));
  if (!response.ok) throw new Error(`${name}: the server answers ${response.status}`);
  return new Uint8Array(await response.arrayBuffer());
}

/** Bytes of a file that the page does not need at first; kept for the next time. */
async function later(name, size) {
  const kept = await self.caches?.open(manifest.cache);
  const known = await kept?.match(new URL(name, HERE));
  if (known) return new Uint8Array(await known.arrayBuffer());
  [received, total] = [0, size];
  const file = await bytes(name);
  await kept?.put(new URL(name, HERE), new Response(file));
  return file;
}

async function load() {
  const loading = bytes(manifest.archcli);
  loading.catch(() => {}); // told when it is awaited
  const { loadPyodide } = await import(new URL(`${manifest.pyodide}pyodide.mjs`, HERE));
  const python = await loadPyodide({
    indexURL: new URL(manifest.pyodide, HERE).href,
    lockFileContents: JSON.stringify(manifest.lock),
    stdout: () => {},
    stderr: () => {},
    env: { NO_COLOR: "1", HF_HUB_OFFLINE: "1" },
  });
  const archive = await loading;
  total = received; // all there
  tell("starting");
  python.unpackArchive(archive, "zip", { extractDir: "/archcli" });
  python.runPython("import sys; sys.path.insert(0, '/archcli'); sys.dont_write_bytecode = True");
  return { python, answer: python.pyimport("answer").answer };
}

async function answered({ argv, files }) {
  for (;;) {
    write(files);
    const result = loaded.answer(argv, FOLDER);
    const { kind, text } = result.toJs({ dict_converter: Object.fromEntries });
    result.destroy();
    if (kind !== "needs") return { [kind]: text };
    const packed = await later(manifest.later[text], manifest.later_bytes[text]);
    tell("starting");
    loaded.python.unpackArchive(packed, "zip", { extractDir: "/archcli" });
    loaded.python.runPython("import importlib; importlib.invalidate_caches()");
  }
}

function write(files) {
  const { FS } = loaded.python;
  FS.mkdirTree(FOLDER);
  for (const [name, held] of Object.entries(files)) FS.writeFile(`${FOLDER}/${name}`, held);
}

self.onmessage = async ({ data }) => {
  try {
    self.postMessage({ id: data.id, ...(await answered(data)) });
  } catch (problem) {
    self.postMessage({ id: data.id, lost: line(problem) });
  }
};

/** One line of what befell Python itself or a download: never a stack. */
function line(problem) {
  const said = String(problem?.message ?? problem).trim().split("\n").at(-1).slice(0, 200);
  if (/memory|call stack|recursion|unreachable/i.test(said))
    return "a model that this page cannot hold; archcli on your computer can";
  if (/fetch|network|the server answers/i.test(said)) return `a file of the page did not arrive: ${said}`;
  return `archcli failed inside: ${said}; please report it`;
}

let manifest, loaded;
try {
  manifest = JSON.parse(new TextDecoder().decode(await bytes("manifest.json")));
  total = manifest.bytes;
  loaded = await load();
  self.postMessage({ started: true });
} catch (problem) {
  self.postMessage({ failed: line(problem) });
}
