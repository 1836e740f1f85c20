"""README and docs/ tell the truth.

Each example is run as it stands, and where its output is shown, that is what it prints.

In a ```console block a line that begins with `$ ` is a command and the lines up to the next one are its
output, where a lone `…` stands for lines left out; `pytest -n0 -m "" --renew tests/test_readme.py` writes
what is printed now over what is shown (a lone `...` asks for it), as many lines where the last is `…`. Of a
profile some lines are shown, and their figures may differ. A block that begins with `# name.yaml` or
`# name.py` is a file that the examples find. An .svg that an example draws is the one in docs/pictures.
A ```python block runs; with `>>>` prompts, as a doctest.
"""

import doctest
import json
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from itertools import accumulate
from math import prod
from pathlib import Path
from typing import NamedTuple

import pytest

from archcli.cli import main
from examples import LEFT_OUT, is_shown
from hub.files import gpt2_file
from pages import DOCS, PAGES, READMES, ROOT, blocks, name
from table import every_row

NAMED = re.compile(r"# (\S+\.(?:yaml|py))\n")
FILES = [
    (NAMED.match(file)[1], file)
    for page in PAGES
    for file in [*blocks(page, "yaml"), *blocks(page, "python")]
    if NAMED.match(file)
]
SLOW = {"profile", "verify"}
LONG = {
    "archcli report deepseek-v3 -o deepseek-v3.html",
    'archcli fit --device rtx-3090 --context 32Ki --where "params>30B"',
    "archcli scale deepseek-v3 --compute 1e21",
    "archcli scale llama-3.1-8b --hours 24 --device 8xh100-sxm",
    "archcli memory qwen3-8b --set lora.rank=16 --set 'lora.targets=[q,v]' -s 4096 --fit devices",
    "archcli fit llama-3.1-70b 2xrtx-3090 --plot fit.svg",
    'archcli memory py:language_model:LanguageModel --input "ids=int64[8,1024]" --device rtx-4090',
    "archcli flops cvt.json",
    "archcli flops gpt2-download --by-class",
}
"""Examples that count for seconds, and so wait for the second stage."""
SEARCHES = re.compile(r"archcli (choose|export .* -o) | --(rate|ttft|concurrency) |archcli fit$")
"""What asks about many devices, classes or requests waits, too, but those of README."""
OF_A_MODULE = " py:"
"""What an example with a module of one's own has in it; it imports torch."""


class Example(NamedTuple):
    page: Path
    command: str
    shown: str


def examples(page):
    console = blocks(page, "console")
    steps = [step for block in console for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    return [Example(page, *step.partition("\n")[::2]) for step in steps]


EXAMPLES = [
    *{(found.command, found.shown): found for page in reversed(PAGES) for found in examples(page)}.values()
][::-1]
"""One of each, by the first page that shows it: README.zh.md shows those of README."""


def cases():
    """The examples by page and command; those that run a model take long."""
    for example in EXAMPLES:
        slow = shlex.split(example.command)[1] in SLOW or example.command in LONG
        slow |= example.page not in READMES and bool(SEARCHES.search(example.command))
        marks = [pytest.mark.long] if slow else [pytest.mark.torch] if OF_A_MODULE in example.command else []
        yield pytest.param(example, id=f"{name(example.page)}: {example.command}", marks=marks)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the files that examples name; `gpt2-download` is as the hub would give it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "profile.json").write_text((DOCS / "pictures" / "profile.json").read_text())
    for file, block in FILES:
        (tmp_path / file).write_text(block)
    (tmp_path / "cvt.json").write_text('{"model_type": "cvt"}')
    download = tmp_path / "gpt2-download"
    download.mkdir()
    config = json.loads((ROOT / "tests" / "oracle" / "configs" / "gpt2.json").read_text())
    config["architectures"] = ["GPT2LMHeadModel"]
    (download / "config.json").write_text(json.dumps(config, indent=2))
    write_header(download / "model.safetensors", gpt2_file(12, 768, 1024, 50257))
    return tmp_path


def write_header(path, shapes):
    """A file of these float32 tensors whose data is a hole: half a GB that takes no room."""
    ends = list(accumulate(4 * prod(shape) for shape in shapes.values()))
    places = zip(shapes.items(), [0, *ends], ends, strict=False)
    entries = {
        name: {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}
        for (name, shape), begin, end in places
    }
    header = json.dumps(entries).encode()
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + ends[-1])


def in_a_process(args):
    """(exit code, everything a person sees) of a command line that runs a model."""
    done = subprocess.run(
        [sys.executable, "-m", "archcli", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout


def in_this_process(args, monkeypatch):
    """The same of any other command line."""
    monkeypatch.setattr(sys, "argv", ["archcli", *args])
    printed, code = StringIO(), 0
    with redirect_stdout(printed), redirect_stderr(printed):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    return code, printed.getvalue()


@pytest.mark.sample(len(EXAMPLES), whole=True)
@pytest.mark.parametrize("example", list(cases()))
def test_an_example_prints_what_is_shown(example, folder, monkeypatch, renew):
    verb, *args = shlex.split(example.command)
    assert verb == "archcli"
    code, printed = in_a_process(args) if args[0] in SLOW else in_this_process(args, monkeypatch)
    assert "Traceback" not in printed
    if not example.shown.strip():
        assert code == 0, printed
    elif args[0] in SLOW:
        assert {*words(example.shown)} <= {*words(printed)}
    elif renew:
        write(example, printed)
    else:
        assert is_shown(printed, example.shown), printed
    compare_pictures(folder, renew)


@every_row(
    ("shown", "is_so"),
    [
        ("a\nb\nc", True),
        ("a\n…", True),
        ("…\nc", True),
        ("a\n…\nc", True),
        ("a\nb", False),
        ("b\n…", False),
        ("a\n…\nb", False),
        ("a\nb\nc\n…", False),
        ("a\n…\nb\nc", False),
    ],
)
def test_what_a_page_may_leave_out(shown, is_so):
    assert is_shown("a\nb\nc\n", shown) == is_so


def compare_pictures(folder, renew):
    """Hold what an example draws against the picture of this name that the pages show."""
    for drawn in folder.glob("*.svg"):
        kept = DOCS / "pictures" / drawn.name
        if renew:
            kept.write_text(drawn.read_text())
        assert contents(drawn) == contents(kept)


def contents(picture):
    """The picture; of a terminal, which rich draws, the texts: its releases may space them otherwise."""
    text = picture.read_text()
    return re.findall(r">([^<]+)</text>", text) if 'class="archcli-terminal"' in text else text


def words(output):
    """Lines without their figures: what of a profile is the same on every machine."""
    lines = output.replace(": NOT RELIABLE, see the notes", "").strip().splitlines()
    return [" ".join(re.sub(r"\d[\d.,]*( [mµn]?s\b)?", "#", line).split()) for line in lines]


def write(example, printed):
    """Put what is printed now in place of what a page shows, as many lines where the last is `…`."""
    if is_shown(printed, example.shown):
        return
    kept, left_out, _ = f"{example.shown.strip(chr(10))}\n".rpartition(LEFT_OUT)
    assert LEFT_OUT not in kept, "lines are left out in the middle: renew it by hand"
    if left_out:
        printed = "".join(printed.splitlines(keepends=True)[: kept.count("\n")]) + LEFT_OUT
    old, new = (f"$ {example.command}\n" + text.rstrip("\n") + "\n" for text in (example.shown, printed))
    for page in PAGES:
        page.write_text(page.read_text().replace(old, new))


def snippets(*, prompts):
    """(page, block) of every Python example, with prompts or without."""
    found = [(page, block) for page in PAGES for block in blocks(page, "python")]
    return [pytest.param(*each, id=name(each[0])) for each in found if (">>> " in each[1]) == prompts]


@pytest.mark.parametrize(("page", "block"), snippets(prompts=True))
def test_a_python_session_prints_what_is_shown(page, block, folder):
    test = doctest.DocTestParser().get_doctest(block, {}, name(page), str(page), 0)
    assert doctest.DocTestRunner().run(test).failed == 0


@pytest.mark.long
@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize(("page", "block"), snippets(prompts=False))
def test_a_python_example_runs(page, block, folder):
    subprocess.run([sys.executable, "-c", block], check=True, timeout=300)


def test_no_two_pages_show_different_files_of_one_name():
    assert FILES
    assert len(dict(FILES)) == len({*FILES})


def test_examples_that_wait_are_shown():
    assert {example.command for example in EXAMPLES} >= LONG


def test_every_command_has_an_example():
    files = {path.stem for path in (ROOT / "archcli" / "commands").glob("*.py")}
    commands = {stem.rstrip("_") for stem in files if not stem.startswith("_")} - {"base", "options"}
    assert commands
    assert commands <= {shlex.split(example.command)[1] for example in EXAMPLES}


@every_row("page", READMES, ids=name)
def test_readme_opens_with_the_two_commands(page):
    run_it, test_it = blocks(page, "sh")[:2]
    assert all(f"archcli {verb} " in run_it for verb in ("params", "flops", "kvcache"))
    last = run_it.strip().rpartition("archcli ")[2]
    assert f"archcli {last}" in {example.command for example in examples(page)}, "with its output"
    assert "pytest" in test_it
