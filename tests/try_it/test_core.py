"""The page's archcli answers as the command does, fetches little, and works without a network."""

import gzip
import json
from itertools import pairwise
from pathlib import Path
from random import Random
from time import monotonic
from zipfile import ZipFile

import pytest

from trying import BUILD, answer, ask, chromium, needs_page, site, visit

pytestmark = needs_page
ROOT = BUILD.parents[2]
PRESETS = sorted(path.stem for path in (ROOT / "presets").glob("*.yaml"))
CONFIGS = sorted((ROOT / "tests" / "oracle" / "configs").glob("*.json"))
FIRST_VISIT = 9_000_000
LINES = (
    ["params", "--depth", "5"],
    ["flops", "--seq-len", "512", "--mask", "dense"],
    ["flops", "--phase", "decode", "--past", "300"],
    ["flops", "--phase", "train", "--batch-size", "2"],
    ["kvcache", "--context", "8192", "--device", "h100-sxm"],
    ["memory", "--phase", "train", "--device", "h100-sxm"],
    ["predict", "--device", "h100-sxm"],
    ["predict", "--device", "b200", "--phase", "prefill", "--seq-len", "4096"],
    ["fit", "--device", "rtx-4090"],
    ["check"],
    ["show"],
)
LISTS = "".join(f"{b}: &{b} [*{a}, *{a}, *{a}, *{a}]\n" for a, b in pairwise("abcdefghijklmno"))
BOMB = "a: &a [x, x, x, x]\n" + LISTS
WRONG = (
    (["parms", "gpt2"], {}),
    (["params"], {}),
    (["params", "gpt-2x"], {}),
    (["params", "gpt2", "--dtype", "fp7"], {}),
    (["kvcache", "gpt2", "--context", "-1"], {}),
    (["predict", "gpt2", "--device", "h1000"], {}),
    (["params", "config.json"], {"config.json": '{"model_type": "llama", "hidden_size": NaN}'}),
    (["params", "config.json"], {"config.json": '{"model_type": "llama", "hidden_size": 1e400}'}),
    (["params", "config.json"], {"config.json": "[" * 100_000}),
    (["params", "config.json"], {"config.json": ""}),
    (["params", "a.yaml"], {"a.yaml": BOMB}),
    (["params", "a.yaml"], {"a.yaml": "model: !!python/object/apply:os.system [ls]\n"}),
    (["params", "a.yaml"], {"a.yaml": "kind: decoder\nlayers: 1e9\n"}),
    (["params", "a.gguf"], {"a.gguf": "GGUF\x03"}),
)


def questions():
    """20 questions, half of them of files, the same in every run."""
    random = Random(31)  # noqa: S311 - a sample, not a secret
    for number in range(20):
        command, *options = random.choice(LINES)
        if number % 2:
            config = random.choice(CONFIGS)
            yield [command, "config.json", *options], {"config.json": config.read_text()}
        else:
            yield [command, random.choice(PRESETS), *options], {}


def asked(archcli, folder, argv, files):
    """The command itself, with the files in a folder of the name that the page gives."""
    folder = folder / "model"
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return archcli(*argv, cwd=folder)


def test_questions_are_answered_as_by_the_command(page, archcli, tmp_path):
    differ = []
    for number, (argv, files) in enumerate(questions()):
        told = asked(archcli, tmp_path / str(number), [*argv, "--json"], files)
        got = answer(page, argv, files)
        # 1 is that of `check` with findings, which are its answer
        expected = {"text": told.stdout} if told.returncode < 2 else {"error": told.stderr.strip()}
        if got != expected:
            differ.append((argv, got, expected))
    assert differ == []


def test_errors_are_those_of_the_command(page, archcli, tmp_path):
    differ = []
    for number, (argv, files) in enumerate(WRONG):
        told = asked(archcli, tmp_path / str(number), argv, files)
        got = answer(page, argv, files)
        if told.returncode == 0 or got != {"error": told.stderr.strip()}:
            differ.append((argv, got, told.stderr))
    assert differ == []


@pytest.mark.parametrize(
    ("files", "line"),
    [
        ({"../a.json": "{}"}, "../a.json: not a name of a file"),
        ({"n" * 300: "{}"}, "not a name of a file"),
        ({"": "{}"}, "a file: not a name of a file"),
    ],
    ids=["in another folder", "long name", "no name"],
)
def test_names_of_files(page, files, line):
    got = answer(page, ["params", "a.json"], files)
    assert line in got["error"]
    assert "\n" not in got["error"]


def test_no_files_and_no_signal_may_be_null(page):
    script = """
      const done = arguments[0];
      archcli.ask(["params", "gpt2"], null, null).then(done, (error) => done(String(error)));"""
    assert json.loads(page.execute_async_script(script))["totals"]["params"] == 124_439_808


def test_a_file_of_200_mb_is_refused_at_once(page):
    script = """
      const done = arguments[0], begun = performance.now();
      archcli.ask(["params", "a.json"], {"a.json": new Uint8Array(2e8)})
        .then(done, (error) => done([error.message, performance.now() - begun]));"""
    line, took = page.execute_async_script(script)
    assert line == "the files have 191 MiB, and the page takes 64; give the header alone"
    assert took < 5_000  # nothing of it is read


def test_files_are_gone_after_their_question(page):
    config = CONFIGS[0].read_text()
    assert "text" in answer(page, ["params", "mine.json"], {"mine.json": config})
    assert "mine.json" in answer(page, ["params", "mine.json"])["error"]


def test_a_question_can_be_stopped(page):
    script = """
      const done = arguments[0], stop = new AbortController();
      const until = {signal: stop.signal};
      const first = archcli.ask(["fit", "--device", "rtx-4090"], {}, until).then(String, (e) => e.name);
      const second = archcli.ask(["params", "llama-3.1-405b"], {}, until).then(String, (e) => e.name);
      const next = archcli.ask(["params", "gpt2"]).then((text) => JSON.parse(text).totals.params, String);
      setTimeout(() => stop.abort(), 500);
      Promise.all([first, second, next]).then(done);"""
    assert page.execute_async_script(script) == ["AbortError", "AbortError", 124_439_808]


def test_first_visit_second_visit_and_no_network(folder, tmp_path):
    with site(folder) as served, chromium(tmp_path, served.proxy) as browser:
        begun = monotonic()
        visit(browser, served)
        ask(browser, ["params", "gpt2"])
        took = monotonic() - begun
        first = {path for path, size in served.fetched if size}
        sizes = {path: zipped(folder, path) for path in first}
        assert not [path for path in first if "sympy" in path]
        assert sum(sizes.values()) <= FIRST_VISIT, sizes
        print(f"\nfirst visit: {sum(sizes.values()):,} bytes gzipped, answered after {took:.1f} s")  # noqa: T201
        kept(browser)

        served.fetched.clear()
        begun = monotonic()
        visit(browser, served)
        ask(browser, ["params", "gpt2"])
        print(f"second visit: answered after {monotonic() - begun:.1f} s")  # noqa: T201
        assert sum(size for _, size in served.fetched) == 0, served.fetched

        # the package that derives formulas comes when it is asked for, once
        formula = ask(browser, ["explain", "gpt2"])
        assert len([path for path, _ in served.fetched if "sympy" in path]) == 1
        assert ask(browser, ["explain", "gpt2"]) == formula

        served.close()
        visit(browser, served)
        assert ask(browser, ["params", "gpt2"])["totals"]["params"] == 124_439_808
        assert ask(browser, ["explain", "gpt2"]) == formula


def zipped(folder, path):
    """Bytes of a file as a server would send it by gzip."""
    file = folder / path.lstrip("/").partition("?")[0]
    return len(gzip.compress((file / "index.html" if file.is_dir() else file).read_bytes(), 9))


def kept(browser):
    """Wait until the page would open without a network."""
    script = "archcli.offline().then(() => arguments[0]('kept'), (error) => arguments[0](error.message));"
    assert browser.execute_async_script(script) == "kept"


ELSEWHERE = """
const done = arguments[0], seen = [];
addEventListener("securitypolicyviolation", (event) => seen.push(event.effectiveDirective));
const script = `addEventListener("securitypolicyviolation", (event) => postMessage(event.effectiveDirective));
  fetch("http://elsewhere.test/").catch(() => {});`;
const worker = new Worker(URL.createObjectURL(new Blob([script], {type: "text/javascript"})));
const told = new Promise((resolve) => { worker.onmessage = ({data}) => resolve(data); });
const image = new Image();
image.src = "http://elsewhere.test/a.png";
fetch("http://elsewhere.test/").catch(() => {}).then(() => told).then((data) => done([...seen, data].sort()));
"""


def test_nothing_is_asked_elsewhere(folder, tmp_path):
    """By the browser's own log of all requests and who began them, workers among them."""
    log = tmp_path / "requests.json"
    with site(folder) as served:
        origin = served.address.removesuffix("/try/")
        with chromium(tmp_path / "profile", served.proxy, f"--log-net-log={log}") as browser:
            visit(browser, served)
            for line in ("params gpt2", "explain gpt2", "draw gpt2 -o -", "params org/name"):
                answer(browser, line.split())
            kept(browser)
            assert browser.execute_async_script(ELSEWHERE) == ["connect-src", "connect-src", "img-src"]
    asked = [event.get("params", {}) for event in json.loads(log.read_text())["events"]]
    of_page = [params["url"] for params in asked if str(params.get("initiator", "")).startswith(origin)]
    assert len({url for url in of_page if url.endswith((".wasm", ".zip", ".mjs"))}) == 6, of_page
    assert [url for url in of_page if not url.startswith((f"{origin}/try/", f"blob:{origin}/"))] == []


def test_the_archives_hold_what_is_installed(folder):
    """No test, no bytecode; PyYAML and its licence beside archcli."""
    [program] = (folder / "try").glob("archcli-*.zip")
    names = ZipFile(program).namelist()
    assert {"answer.py", "archcli/__init__.py", "archcli/presets/gpt2.yaml", "yaml/loader.py"} <= {*names}
    assert [name for name in names if name.endswith((".pyc", ".so")) or "/tests/" in name] == []
    assert [name for name in names if Path(name).name.startswith("LICENSE")]
