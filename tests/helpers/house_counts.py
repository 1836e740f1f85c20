"""Counts of the house: what makes a package hard to live in, as functions of parsed source.

Like `house.py`: each function returns its offences as `module:line: what`, and runs no archcli code. As a
program it prints the figures of the whole: `python tests/helpers/house_counts.py`. With `--json` those that
need no run of archcli: files and lines by part, and the imports that cross from the core outwards.
"""

import ast
import json
import re
import subprocess
import sys
from collections import defaultdict

import house
import parts
from own_source import ROOT, nodes, parsed, sources

MOST_IN_A_FOLDER = 14
MOST_AT_THE_TOP = 20
LIBRARIES = (
    "archcli.load.huggingface.families",
    "archcli.rules",
)
"""Folders of many files alike, one idea each: as many as there are ideas."""

FIRST_LINE = 100
BELOW = ("ops", "modules", "load", "graph")
"""Where a module or an operation may be told by its class: the library itself, and what builds it."""


def crowded(parsed):
    """Folders with more files and packages than a newcomer looks through."""
    packages = {name.rpartition(".")[0] for name in parsed}
    sizes = defaultdict(int)
    for name in parsed:
        sizes[name if name in packages else name.rpartition(".")[0]] += 1
        if name in packages and "." in name:
            sizes[name.rpartition(".")[0]] += 1
    return [
        f"{folder} has {size} files and packages"
        for folder, size in sorted(sizes.items())
        if not house.as_in_the_core(folder).startswith(LIBRARIES)
        and size > (MOST_AT_THE_TOP if folder == "archcli" else MOST_IN_A_FOLDER)
    ]


def repeated_classes(parsed):
    """Class names that mean two things."""
    places = defaultdict(list)
    for name, tree in parsed.items():
        for node in nodes(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{name}:{node.lineno}")
    return [f"{name}: {', '.join(where)}" for name, where in places.items() if len(where) > 1]


def long_first_lines(parsed):
    """Docstrings whose first line is a paragraph."""
    offences = []
    for name, tree in parsed.items():
        for node in nodes(tree):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
                continue
            first = (ast.get_docstring(node) or "").partition("\n")[0]
            if len(first) > FIRST_LINE:
                offences.append(
                    f"{name}:{getattr(node, 'lineno', 1)}: {len(first)} characters: {first[:60]}…"
                )
    return offences


def upward_for_types(parsed):
    """Imports from `measure` to `runtime`, those for types included: plain records stand in `recording`."""
    return [
        f"{line.source}:{line.line}: {line.target}"
        for line in house.imports(parsed)
        if house.room(line.source) == "measure" and house.room(line.target) == "runtime"
    ]


def looks_through(parsed):
    """Reads of an attribute of a block's attention outside `modules/`: a mixer answers by its facts."""
    return [
        f"{name}:{node.lineno}: {ast.unparse(node)}"
        for name, tree in parsed.items()
        if house.room(name) != "modules"
        for node in nodes(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Attribute)
        and re.search(r"\bblock\.(attention|mixer)$", ast.unparse(node.value))
    ]


def type_tests(parsed):
    """Questions above the library which class an operation or a module has, or whether a thing has a name.

    `isinstance(x, Class)` of a class of ops or modules, and every `getattr(x, name, default)`: the first is
    a place that a new kind must visit, the second one that mypy does not see.
    """
    classes = {
        node.name
        for name, tree in parsed.items()
        if house.room(name) in {"ops", "modules"}
        for node in nodes(tree)
        if isinstance(node, ast.ClassDef)
    }
    for name, tree in parsed.items():
        if house.room(name) in BELOW or parts.part_of(name) == "media":
            continue
        for node in nodes(tree):
            if isinstance(node, ast.Call) and _asks(node, classes):
                yield name, node.lineno, ast.unparse(node)


def _asks(call, classes):
    """Whether a call is `isinstance` of one of the classes, or `getattr` with a default."""
    function = call.func.id if isinstance(call.func, ast.Name) else ""
    if function == "getattr":
        return len(call.args) > 2
    return function in {"isinstance", "issubclass"} and bool(classes & _names(call.args[1]))


def _names(node):
    """The class names of a type, `X`, `X | Y` or `(X, Y)`; those of another package, `nn.X`, are none."""
    if isinstance(node, ast.Name):
        return {node.id}
    if isinstance(node, ast.BinOp):
        return _names(node.left) | _names(node.right)
    return {name for item in getattr(node, "elts", ()) for name in _names(item)}


VAGUE = {
    *("other", "given", "words", "asked", "stated", "found"),
    *("own", "made", "beside", "told", "each", "one"),
}
"""Words that say nothing of what a value is."""


def vague_names(parsed):
    """Functions, arguments, variables and attributes called by one of the `VAGUE` words."""
    return [
        f"{name}:{node.lineno}: {word}"
        for name, tree in parsed.items()
        for node in nodes(tree)
        if (word := _given_name(node)).strip("_") in VAGUE
    ]


def _given_name(node):
    """The name that a node gives; empty for one that gives none."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return node.name
    if isinstance(node, ast.arg):
        return node.arg
    if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
        return node.id if isinstance(node, ast.Name) else node.attr
    return ""


COMMANDS = (
    "params llama-3.1-8b",
    "flops llama-3.1-8b",
    "kvcache llama-3.1-8b",
    "memory llama-3.1-8b",
    "sweep gpt2 --vary d_ff=1024:2048:512",
    "predict llama-3.1-8b --device h100-sxm",
    "profile gpt2 -s 16 --layers 1 --pairs 1 --no-ceilings --allocator system",
    "scale llama-3.1-8b --params 3e9",
)
TRACED = """
import contextlib, io, sys
from archcli.cli import main

seen = set()
sys.setprofile(lambda frame, event, _: seen.add((frame.f_code.co_filename, frame.f_code.co_name)))
try:
    with contextlib.redirect_stdout(io.StringIO()):
        main()
except SystemExit:
    pass
finally:
    sys.setprofile(None)
print(len({file for file, name in seen if "/archcli/" in file and name != "<module>"}))
"""
"""Runs a command line and prints of how many files of archcli it runs a function."""


def files_run(command):
    """Of how many files a command runs something."""
    line = [sys.executable, "-c", TRACED, *command.split()]
    done = subprocess.run(line, capture_output=True, text=True, check=True, timeout=300)
    return int(done.stdout)


def comment_lines(texts):
    """Lines that are a comment and nothing else."""
    return sum(line.lstrip().startswith("#") for text in texts for line in text.splitlines())


def figures():
    """Files, lines, comments of the whole; files and lines of each part; imports of the core from wings."""
    texts, crossing = sources("archcli"), parts.outwards(parsed("archcli"))
    by_part = {name: {"files": 0, "lines": 0} for name in parts.NAMES}
    for name, text in texts.items():
        sums = by_part[parts.part_of(name)]
        sums["files"] += 1
        sums["lines"] += text.count("\n")
    return {
        "files": len(texts),
        "lines": sum(text.count("\n") for text in texts.values()),
        "comments": comment_lines(texts.values()),
        "by_part": by_part,
        "imports_of_the_core": len(parts.imports_of_the_core(parsed("archcli"))),
        "outwards": len(crossing),
        "crossing": [f"{one.source}:{one.line}: {one.target} ({one.wing})" for one in crossing],
    }


def cases():
    """Cases of tests, both stages together."""
    asked = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n0", "-m", ""]
    done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=300)
    return re.findall(r"^(\d+)(?:/\d+)? tests? collected", done.stdout, re.MULTILINE)[-1]


def table():
    """The figures of the house, a line each."""
    texts = list(sources("archcli").values())
    lengths = sorted(text.count("\n") for text in texts)
    yield "files", len(texts)
    yield "lines", sum(lengths)
    yield "median lines of a file", lengths[len(lengths) // 2]
    yield "lines that are comments", comment_lines(texts)
    yield "words of CONTRIBUTING", len((ROOT / "CONTRIBUTING.md").read_text().split())
    yield "names such as `other` and `given`", len(vague_names(parsed("archcli")))
    yield "isinstance of modules, getattr by default", len(list(type_tests(parsed("archcli"))))
    for command in COMMANDS:
        yield f"files that {command.split()[0]} runs", files_run(command)
    yield "cases of tests", cases()


def main(arguments):
    """Print the figures, as a table or as JSON."""
    if "--json" in arguments:
        sys.stdout.write(json.dumps(figures(), indent=1) + "\n")
        return
    for what, figure in table():
        sys.stdout.write(f"{what:40} {figure}\n")


if __name__ == "__main__":  # python tests/helpers/house_counts.py [--json]
    main(sys.argv[1:])
