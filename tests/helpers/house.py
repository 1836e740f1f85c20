"""The rules of the house as functions of parsed source; no archcli code is run.

Each returns its offences as `module:line: what`.

A house is a dict from a module's dotted name to its parsed source, so that tests/test_house.py can also try
the rules on forged houses.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import takewhile
from typing import NamedTuple

from own_source import nodes

STOREYS = (
    ("__main__",),
    ("cli",),
    ("commands",),
    ("api",),
    ("load", "rules", "measure", "render", "runtime"),
    ("query",),
    ("launches",),
    ("recording", "recorded"),
    ("modules",),
    ("ops",),
    ("graph",),
    ("arith", "units", "errors", "lazy", "plugins", "interrupts"),
)
RANK = {room: rank for rank, rooms in enumerate(STOREYS) for room in rooms}
GROUND = RANK["errors"]
ACROSS = {("rules", "measure")}

# Rooms whose files do not know each other, and the files of theirs that all of them may use.
APART = {
    "archcli.commands": {"line"},
    "archcli.measure": {"notes", "passes", "report", "state_dict"},
    "archcli.rules": {"base", "diagnostics", "evidence", "lint"},
    "archcli.ops": {"attention", "base", "places"},
    "archcli.load.huggingface.families": set(),
}

# Package -> the rooms that may import it.
DOORS = {
    "torch": {"runtime"},
    "fvcore": {"runtime"},
    "transformers": {"runtime"},
    "rich": {"render"},
    "pandas": {"measure", "render"},  # in measure for the type of Report.to_pandas alone
    "typer": {"cli", "commands"},
    "mcp": {"commands"},  # archcli mcp alone: see tests/commands/mcp
    "click": set(),  # typer carries its own since 0.26, so it may not be there
    "yaml": {"load"},
    "sympy": {"arith", "measure"},
    "numpy": {"arith", "measure"},
    "urllib": {"load"},
    "http": {"load"},
    "socket": {"load"},
    "requests": {"load"},
    "huggingface_hub": {"load"},
    "multiprocessing": {"load"},  # load/cluster.py, with ray and distributed
    "ray": {"load"},
    "distributed": {"load"},
}
READERS, WRITERS = {"load"}, {"render"}
SYSTEM = {
    "archcli.wings.serving.recorded.machine",  # reads /proc and /sys, which the kernel writes
    "archcli.plugins",  # and entry points, which pip writes
}
READING = {"read_text", "read_bytes", "urlopen", "fdopen"}
WRITING = {"write_text", "write_bytes", "mkdir", "makedirs", "unlink", "rmtree", "touch"}

WINGS = "archcli.wings"
ROOMS_OF_WINGS = {
    **dict.fromkeys(("devices", "families", "huggingface"), "load"),
    **dict.fromkeys(
        ("anatomy", "memory", "predict", "profile", "queueing", "scale", "symbolic", "weights"), "measure"
    ),
    **dict.fromkeys(("drawn", "recorded"), "recording"),
    "export": "api",  # between what is loaded and what is measured
    "line": "commands",
    **dict.fromkeys(("picture", "pictures", "report"), "render"),
}
"""Folders of wings that have another name than the room of the core whose rules they keep."""

House = dict[str, ast.Module]


class Import(NamedTuple):
    """One imported name: by whom, what, on which line.

    `lazy` inside a function, `typing` under TYPE_CHECKING.
    """

    source: str
    target: str
    line: int
    lazy: bool
    typing: bool


def room(module: str) -> str:
    """The folder or file right below the package, `ops` of archcli.ops.dense; of the package empty.

    A wing has the rooms of the core: `commands` of archcli.wings.serving.commands.fit.
    """
    return [*as_in_the_core(module).split("."), ""][1]


def as_in_the_core(module: str) -> str:
    """A wing's module as if its rooms stood in the core: archcli.commands.fit."""
    if not module.startswith(f"{WINGS}."):
        return module.removesuffix(".wings")
    package, _, _, *steps = module.split(".")
    if steps and steps[0] in ROOMS_OF_WINGS:
        steps.insert(0, ROOMS_OF_WINGS[steps[0]])
    return ".".join([package, *steps])


def imports(house: House) -> list[Import]:
    """Every import of every module; `from package import submodule` names the submodule."""
    return [
        Import(name, target, node.lineno, lazy, typing)
        for name, tree in house.items()
        for node, lazy, typing in _importing(tree)
        for target in _targets(house, name, node)
    ]


IMPORTERS = {"import_module", "__import__"}


@cache
def _importing(tree: ast.Module) -> tuple[tuple[ast.AST, bool, bool], ...]:
    """Every node that imports, and whether it is lazy or for types alone."""
    return tuple(_walk(tree, lazy=False, typing=False))


def _walk(node: ast.AST, *, lazy: bool, typing: bool) -> Iterator[tuple[ast.AST, bool, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom) or called(child) in IMPORTERS:
            yield child, lazy, typing
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            yield from _walk(ast.Module(child.body, []), lazy=lazy, typing=True)
            yield from _walk(ast.Module(child.orelse, []), lazy=lazy, typing=typing)
        else:
            inside = lazy or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _walk(child, lazy=inside, typing=typing)


def called(node: ast.AST) -> str:
    """The last name of what a node calls, `open` of `path.open()`; of any other node empty."""
    function = getattr(node, "func", None)
    return getattr(function, "attr", getattr(function, "id", ""))


def _targets(house: House, name: str, node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        above = name.split(".")[: -node.level] if node.level else []
        base = ".".join([*above, *filter(None, [node.module])])
        yield from dict.fromkeys(
            f"{base}.{alias.name}" if f"{base}.{alias.name}" in house else base for alias in node.names
        )
    elif isinstance(node, ast.Call):
        yield from (arg.value for arg in node.args[:1] if isinstance(arg, ast.Constant))


def not_downwards(house: House) -> list[str]:
    """Imports point down a storey or more, or stay in their room.

    The ground floor's files may use each other.
    """
    offences = []
    for one in imports(house):
        here, there = room(one.source), room(one.target)
        if (
            one.typing
            or not one.target.startswith("archcli")
            or here in {"", there}
            or (here, there) in ACROSS
        ):
            continue
        lowest = RANK[there] - (RANK[there] != GROUND) if there else RANK["commands"]
        if RANK[here] > lowest:
            offences.append(f"{one.source}:{one.line}: {here} may not import {one.target}")
    return offences


def sideways(house: House) -> list[str]:
    """Two commands, measures, rule families, ops or importer families do not import each other.

    A package's table of contents may.
    """
    offences = []
    for one in imports(house):
        parent, _, file = as_in_the_core(one.source).rpartition(".")
        apart, _, other = as_in_the_core(one.target).rpartition(".")
        if (
            not one.typing
            and parent == apart in APART
            and file != other
            and file not in APART[parent]
            and other not in APART[parent]
        ):
            offences.append(f"{one.source}:{one.line}: sideways to {one.target}")
    return offences


def wrong_doors(house: House) -> list[str]:
    """Each heavy or worldly package is imported in its own room only, for typing too."""
    offences = []
    for one in imports(house):
        package = one.target.split(".")[0]
        if room(one.source) not in DOORS.get(package, {room(one.source)}):
            offences.append(
                f"{one.source}:{one.line}: {package} enters through "
                f"{', '.join(sorted(DOORS[package])) or 'no room'}"
            )
    return offences


def wrong_files(house: House) -> list[str]:
    """Untrusted input is read in load/, what the kernel says of the machine in SYSTEM.

    Files are written in render/.
    """
    offences = []
    for name, tree in house.items():
        for call in (node for node in nodes(tree) if isinstance(node, ast.Call)):
            verb = called(call)
            writes = verb in WRITING or (verb == "open" and _mode_writes(call))
            if (writes and room(name) not in WRITERS) or (
                not writes and verb in READING | {"open"} and room(name) not in READERS and name not in SYSTEM
            ):
                offences.append(f"{name}:{call.lineno}: {verb} {'writes' if writes else 'reads'} here")
    return offences


def _mode_writes(call: ast.Call) -> bool:
    if "O_WRONLY" in ast.unparse(call) or "O_RDWR" in ast.unparse(call):
        return True
    after_path = ast.unparse(call.func) in {"open", "io.open", "gzip.open"}
    modes = [*call.args[after_path:], *(keyword.value for keyword in call.keywords if keyword.arg == "mode")]
    return any(
        re.fullmatch(r"[rwaxbt+]*[wax+][rwaxbt+]*", str(mode.value))
        for mode in modes
        if isinstance(mode, ast.Constant)
    )


def circles(house: House) -> list[str]:
    """Modules that import each other, for types and inside functions included."""
    needs: dict[str, set[str]] = {name: set() for name in house}
    for one in imports(house):
        if one.target in house:
            needs[one.source].add(one.target)
    return [" <-> ".join(group) for group in _knots(needs)]


BOTH_WAYS = {
    # a family has names of weights, and those of towers go by its rows
    frozenset({"archcli.load.huggingface.family", "archcli.load.huggingface.weights"}),
}
"""Neighbours that still import each other."""


def both_ways(house: House) -> list[str]:
    """Neighbours in a folder, files or folders, that import each other by whatever lies in them."""
    first: dict[tuple[str, str], Import] = {}
    for one in imports(house):
        if one.target in house:
            first.setdefault(_neighbours(one.source, one.target), one)
    return [
        f"{one.source}:{one.line}: {here} and {there} import each other"
        for (here, there), one in first.items()
        if here < there and (there, here) in first and frozenset({here, there}) not in BOTH_WAYS
    ]


def _neighbours(source: str, target: str) -> tuple[str, str]:
    """The two of one folder in which modules lie: archcli.load.yaml and archcli.load.spec."""
    ours, theirs = source.split("."), target.split(".")
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(ours, theirs, strict=False)))
    # of a folder and what lies in it the former is a table of contents
    is_within = same in {len(ours), len(theirs)}
    return (source, source) if is_within else (".".join(ours[: same + 1]), ".".join(theirs[: same + 1]))


def _knots(needs: dict[str, set[str]]) -> list[list[str]]:
    """Groups of two or more of which each reaches every other."""
    reached = {name: _reached(needs, name) for name in needs}
    knots = {
        tuple(sorted(there for there in reached[name] if name in reached.get(there, ()))) for name in needs
    }
    return [[*knot] for knot in sorted(knots) if len(knot) > 1]


def _reached(needs: dict[str, set[str]], start: str) -> set[str]:
    """Every module that is reached from a module."""
    reached, ahead = set(), [start]
    while ahead:
        more = needs[ahead.pop()] - reached
        reached |= more
        ahead += more
    return reached


def long_functions(house: House, most: int = 40) -> list[str]:
    """Functions whose body has more lines than that, docstring included.

    Parameters stand one a line and are no body.
    """
    functions = [
        (name, node, node.end_lineno - node.body[0].lineno + 1)
        for name, tree in house.items()
        for node in nodes(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return [
        f"{name}:{node.lineno}: {node.name} has {size} lines" for name, node, size in functions if size > most
    ]


def undocumented(house: House) -> list[str]:
    """Public modules, classes and functions without a docstring.

    A method whose name says it all needs none, nor does a function that stands in for torch's.
    """
    return [f"{name}: {what}" for name, tree in house.items() for what in _silent(tree, "")]


def _silent(node: ast.AST, path: str) -> Iterator[str]:
    if not ast.get_docstring(node):
        yield f"{path or 'the module'} has no docstring"
    inner = (
        (ast.ClassDef,)
        if isinstance(node, ast.ClassDef)
        else (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    )
    for item in node.body:
        if isinstance(item, inner) and not item.name.startswith("_"):
            yield from (
                _silent(item, f"{path}{item.name}.")
                if isinstance(item, ast.ClassDef)
                else _silent_function(item, path)
            )


STAND_INS = {"in_torch", "method", "operation", "overload"}
"""Decorators of functions that are documented elsewhere: in torch, or where they are not overloaded."""


def _silent_function(node: ast.FunctionDef | ast.AsyncFunctionDef, path: str) -> Iterator[str]:
    if STAND_INS & {name.id for name in node.decorator_list if isinstance(name, ast.Name)}:
        return
    if not ast.get_docstring(node):
        yield f"{path}{node.name} has no docstring"
