"""Completion of words on the command line: presets, files, changes of fields, columns, codes of rules.

Shells ask by environment variables, whose names are typer's. Nothing is fetched, and of files only MODEL is
read, for `--set`.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import typer

from archcli.errors import ArchError, either, quote
from archcli.plugins import optional

COMPLETE, BASH_WORDS, BASH_INDEX, OTHER_WORDS = (
    "_ARCHCLI_COMPLETE",
    "COMP_WORDS",
    "COMP_CWORD",
    "_TYPER_COMPLETE_ARGS",
)
SCRIPTS = ("--show-completion", "--install-completion")
NAMED_SHELL = "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION"
"""With it typer takes the name of a shell after SCRIPTS, in place of looking for the one that runs it."""
HEAD = "_ARCHCLI_COMPLETE_HEAD"
"""What stands before the last = or : of the word; bash takes it for words of its own."""
COUNT = re.compile(r"\d+ ?[xX×*] ?")
"""The number of devices before the name of one."""
SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")
# digits of the index in bash's words
LONGEST_INDEX = 9
# signs of bash's COMP_WORDBREAKS that fields, conditions and models hold
BREAKS = {"=", ":"}
# bytes of a file that completion reads: it answers at every press of the tab key
LARGEST = 1 << 20
MODEL_FILES = {".yaml", ".yml", ".json", ".gguf"}
OWN = "py:"
SWITCH = ("true", "false")
FAMILIES = {"layer": "block"}
"""Keys of the YAML whose module's family has another name."""


def is_asked() -> bool:
    """Whether this process was started by a shell that completes a word."""
    return bool(os.environ.get(COMPLETE))


def check_environment() -> None:
    """Raise ArchError for variables that no shell's script sets."""
    if not is_asked():
        return
    request, _, shell = os.environ[COMPLETE].partition("_")
    wrong = ""
    if request not in {"complete", "source"} or shell not in SHELLS:
        wrong = COMPLETE
    elif (request, shell) == ("complete", "bash") and not _bash_words():
        wrong = BASH_INDEX if BASH_WORDS in os.environ else BASH_WORDS
    if wrong:
        value = os.environ.get(wrong)
        what = f"{wrong} is {'missing' if value is None else quote(value)}: no shell completes so"
        raise ArchError(what, f"`archcli --show-completion SHELL` prints the script for {either(SHELLS)}")


def _bash_words() -> tuple[list[str], int] | None:
    """Bash's words and the index of the word to complete; None if the index is not of one of them."""
    line, index = os.environ.get(BASH_WORDS, "").split("\n"), os.environ.get(BASH_INDEX, "")
    # bounds int(), which refuses thousands of digits with a ValueError
    valid = index.isdecimal() and len(index) < LONGEST_INDEX and 1 <= int(index) <= len(line)
    return (line, int(index)) if valid else None


def finished_words() -> list[str]:
    """The words before the one that is completed, without the program's name."""
    if BASH_WORDS in os.environ:
        if (split := _bash_words()) is None:
            return []
        args, index = _joined(*split)
        # typer reads these variables later, and must find the words as they were typed
        os.environ[BASH_WORDS], os.environ[BASH_INDEX] = "\n".join(args), str(index)
        return args[1:index]
    line = os.environ.get(OTHER_WORDS, "")
    args = line.split()
    return args[1:] if line.endswith(" ") else args[1:-1]


def _joined(args: list[str], index: int) -> tuple[list[str], int]:
    """Undo bash's splitting at = and :, up to the completed word; returns the words and its index."""
    current, start, head = "".join(args[index : index + 1]), index, ""
    if current in BREAKS:
        current, start = "", index + 1
    while start - 1 > 1 and args[start - 1] in BREAKS:
        # the = of --set=d_ff=4: the option itself is no part of the word
        if args[start - 2].startswith("-"):
            start -= 1
            break
        head = args[start - 2] + args[start - 1] + head
        start -= 2
    os.environ[HEAD] = head
    return [*args[:start], current], start


def _offered(candidates: Iterable[str], incomplete: str) -> list[str]:
    """Candidates for the typed beginning, cut at the shell's own word breaks."""
    head = os.environ.get(HEAD, "")
    return sorted({word[len(head) :] for word in candidates if word.startswith(head + incomplete)})


def models(incomplete: str) -> list[str]:
    """Presets, model files and folders; empty where no preset fits, so that the shell lists files."""
    from archcli.load.presets import presets, workloads

    names = _offered([*presets(), *workloads()], incomplete)
    return [*names, *_offered(_files(), incomplete)] if names else []


def _files() -> Iterator[str]:
    """Model files and folders in the current folder whose names no shell needs quoted."""
    from archcli.load.source import CONFIGS

    for path in Path().iterdir():
        plain = path.name.replace("_", "").replace("-", "").replace(".", "")
        if plain.isalnum() and path.name[0] not in ".-":
            if path.is_dir() and any((path / name).is_file() for name in CONFIGS):
                yield f"{path.name}/"
            elif path.suffix in MODEL_FILES:
                yield path.name


def overrides(ctx: typer.Context, incomplete: str) -> list[str]:
    """KEY=VALUE for --set: every field of MODEL with its present value, and every kind for it."""
    # typer leaves MODEL among the arguments that are not parsed where a value is missing after it
    named = [ctx.params.get("model"), *(ctx.params.get("models") or ()), *ctx.args]
    changes = [change for name in named if name for change in _changes(name)]
    return _offered([*changes, *_kinds()], incomplete)


def _changes(name: str) -> Iterator[str]:
    """KEY=VALUE of a preset or a small file; nothing for a model that must be fetched or is invalid."""
    from archcli.load.presets import preset_file
    from archcli.load.source import load
    from archcli.load.spec.written import to_mapping

    path = Path(name)
    if not preset_file(name).is_file() and not (path.is_file() and path.stat().st_size <= LARGEST):
        return
    try:
        mapping = to_mapping(load(name, strict=False).model)
    except ArchError:
        return
    values: dict[str, set[str]] = {}
    for key, value in _leaves(mapping):
        values.setdefault(key, set()).add(value)
    # a field of several values is not offered, as one KEY=VALUE would make them equal
    yield from (f"{key}={value}" for key, held in values.items() if len(held) == 1 for value in held)
    yield from (f"{key}={word}" for key, held in values.items() if held <= set(SWITCH) for word in SWITCH)


def _leaves(value: Any) -> Iterator[tuple[str, str]]:
    """(name, value) of every number, word and switch of a mapping, at any depth."""
    from archcli.errors import format_setting
    from archcli.load.source import ABOUT

    items = value.items() if isinstance(value, dict) else (("", item) for item in value)
    for key, item in items:
        if key in ABOUT:
            continue
        if isinstance(item, dict | list | tuple):
            yield from _leaves(item)
        elif key:
            yield key, format_setting(item)


def _kinds() -> Iterator[str]:
    """KEY.kind=KIND of every kind of every family; of an activation its name alone."""
    from archcli.modules.spec.kinds import KINDS

    keys = {family: key for key, family in FAMILIES.items()}
    for family, kinds in KINDS.items():
        key = keys.get(family, family) + ("" if family == "activation" else ".kind")
        yield from (f"{key}={kind}" for kind in kinds)


def columns(incomplete: str) -> list[str]:
    """Columns that may begin a condition; if only one fits, that column with each comparison sign."""
    from archcli.measure.survey.columns import CONDITIONS
    from archcli.query.condition import signs_of

    fitting = [column for column in CONDITIONS if column.key.startswith(incomplete)]
    exact = [column for column in fitting if column.key == incomplete] or fitting
    if len(exact) != 1:
        return [column.key for column in fitting]
    return [f"{exact[0].key}{sign}" for sign in signs_of(exact[0].unit)]


def orders(incomplete: str) -> list[str]:
    """Columns to sort by, upwards or downwards."""
    from archcli.measure.survey.columns import CONDITIONS

    return _offered([f"{column.key}{order}" for column in CONDITIONS for order in ("", ":desc")], incomplete)


def several_columns(incomplete: str) -> list[str]:
    """Columns of a survey, behind the columns already typed, separated by commas."""
    from archcli.measure.survey.columns import COLUMNS

    before, comma, _ = incomplete.rpartition(",")
    return [f"{before}{comma}{key}" for key in COLUMNS]


def codes(incomplete: str) -> list[str]:
    """Codes of design rules, whatever the case they are typed in."""
    from archcli.rules import all_rules

    return [code for code in all_rules() if code.startswith(incomplete)]


def dtypes(incomplete: str) -> list[str]:
    """Names of data types and of stored formats."""
    from archcli.arith import ELEMENT_BITS
    from archcli.modules.stored.formats import FORMATS

    return [name for name in (*ELEMENT_BITS, *FORMATS) if name.startswith(incomplete)]


def cache_dtypes(incomplete: str) -> list[str]:
    """Names of data types, and of formats that engines keep a cache in."""
    from archcli.arith import ELEMENT_BITS
    from archcli.modules.stored.formats import CACHE_PACKINGS, FP8_OF_LATENTS

    known = (*ELEMENT_BITS, *CACHE_PACKINGS, FP8_OF_LATENTS)
    return [name for name in known if name.startswith(incomplete)]


def devices(incomplete: str) -> list[str]:
    """Devices behind a count that is typed already: h100-sxm, 8xh100-sxm."""
    names = optional("serving.device_names", tuple)()
    count = COUNT.match(incomplete)
    return _offered([f"{count[0] if count else ''}{name}" for name in names], incomplete)


def _of_words(*choices: str) -> Callable[[str], list[str]]:
    def offered(incomplete: str) -> list[str]:
        return _offered(choices, incomplete)

    return offered


offloads = _of_words(
    "auto", "experts", "experts:", "layers:", "optimizer", "parameters", "activations", "all"
)
recomputes = _of_words("none", "attention", "layer", "layers.*.ffn", "keep:")
losses = _of_words("plain", "fused", "chunked:")
speeds = _of_words("5", "10", "20", "50")
bits = _of_words("3", "4", "5", "6", "8")
"""Beginnings of what these options take: without any a shell offers the files around it."""


def optimizers(incomplete: str) -> list[str]:
    """Optimizers by name."""
    return _offered(optional("serving.optimizers", ()), incomplete)


def own_modules(incomplete: str) -> list[str]:
    """Python files of this folder behind py:, then their functions and classes, without an import of any."""
    module, colon, _ = incomplete.removeprefix(OWN).partition(":")
    begin = OWN if incomplete.startswith(OWN) else ""
    if not colon:
        return _offered((f"{begin}{path.stem}:" for path in Path().glob("*.py")), incomplete)
    path = Path(f"{module.replace('.', '/')}.py")
    return _offered((f"{begin}{module}:{name}" for name in _defined(path)), incomplete)


def _defined(path: Path) -> list[str]:
    """The names of the functions and classes of a Python file; empty if it cannot be parsed."""
    from archcli.load.yaml.text import read_start

    if not path.is_file() or path.stat().st_size > LARGEST:
        return []
    try:
        body = ast.parse(read_start(path, str(path))).body
    except (ArchError, SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)]


def engines(incomplete: str) -> list[str]:
    """Engines by name."""
    return _offered(optional("serving.engines", tuple)(), incomplete)


def trainers(incomplete: str) -> list[str]:
    """Trainers by name."""
    return _offered(optional("serving.trainers", tuple)(), incomplete)


def torch_devices(incomplete: str) -> list[str]:
    """Devices that torch runs on."""
    return _offered(("cpu", "cuda"), incomplete)


def variants(ctx: typer.Context, incomplete: str) -> list[str]:
    """Changes of a variant behind those already typed: of fields as --set takes them, and of the run."""
    before, comma, last = incomplete.rpartition(",")
    changes = optional("running.run_changes", {})
    runs = _offered((f"{key}={value}" for key, values in changes.items() for value in values), last)
    return [f"{before}{comma}{change}" for change in sorted({*runs, *overrides(ctx, last)})]
