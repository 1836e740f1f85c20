"""`--set KEY=VALUE`: a value put into the tree before it is built.

A path (`groups.0.layer.ffn.d_ff`) names one place, which need not be written yet. A bare name (`d_ff`) means
every field of that name, and the end of a path (`ffn.activation`, `layer.kind`) every place whose path ends
so. Where their values differ, it means the one at the top of the file, if there is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from archcli.errors import SET, ArchError, Problem, either, format_value, quote, suggest
from archcli.load.spec.build import build, expand, lifted
from archcli.load.spec.fields import fields
from archcli.load.yaml.nodes import Node, Place, Source, shown
from archcli.load.yaml.reader import DEEPEST, parse
from archcli.load.yaml.text import text_of
from archcli.modules import Module
from archcli.modules.spec.base import Spec, children, ends_in, full_paths
from archcli.modules.spec.kinds import kind_of, kinds
from archcli.units import parse_count

AMOUNT = re.compile(r"\d[\d_.]*([eE]\+?\d+|[kKMGBT]i?)", re.ASCII)
TEXTS = ("name", "series", "source", "kind", "match", "activation")
"""Fields of texts: `series=8B` is no number."""


class Override(NamedTuple):
    """A parsed KEY=VALUE: the steps of the key, the place of the key, the value as a node."""

    key: str
    place: Place
    node: Node

    @property
    def steps(self) -> list[str]:
        """The steps of the key."""
        return self.key.split(".")


def read(text: str) -> Override:
    """Parse one KEY=VALUE; ArchError where it is none."""
    key, equals, value = text.partition("=")
    lead = f"{SET} {key}=" + value[: len(value) - len(value.lstrip())]
    place = Place(Source(SET, [f"{SET} {text}"]), 0, len(SET) + 1, len(key))
    if not equals or not all(key.split(".")) or key.count(".") > DEEPEST:
        raise ArchError(
            Problem(
                "KEY=VALUE is needed", "such as d_ff=11008 or groups.0.layer.ffn.d_ff=11008", place.mark()
            )
        )
    document = parse(text_of(value.lstrip(), SET, lead))
    if document.root is None or document.problems:
        raise ArchError(
            document.problems or [Problem(f"no value for {quote(key)}", "write null for none", place.mark())]
        )
    return Override(key, Place(document.source, 0, place.column, place.width), _sized(document.root, key))


def _sized(node: Node, key: str) -> Node:
    """The node with 8k, 8K, 1M or 1e9 converted to the number, unless the key is one of a text."""
    if not AMOUNT.fullmatch(node.text or "") or key.rpartition(".")[2] in TEXTS:
        return node
    try:
        # the text stays, so that messages show the value as it was written
        return Node(parse_count(node.text), node.place, text=node.text)
    except ArchError:
        return node


def _is_place(override: Override, root: Node) -> bool:
    """Whether the key is a path from the top level, or a module of the model such as norm or groups."""
    first = override.steps[0]
    if first == "layer":
        return first in _entries(root)
    matches = [fields(cls)[first] for cls in kinds("model").values() if first in fields(cls)]
    return bool(matches) if len(override.steps) > 1 else any(field.type is None for field in matches)


def _put(
    node: Node | None, steps: Sequence[str], override: Override, part: Any = None, top: Node | None = None
) -> Node:
    """The node with the override's value put at its path.

    A mapping that is not written yet is made: of the kind of the default `part` in its place, or, of an
    inherited field, with what the `top` has.
    """
    if not steps:
        return override.node.named(override.place)
    step, rest, inner = steps[0], steps[1:], _part(part, steps[0])
    so_far = ".".join(override.steps[: len(override.steps) - len(steps)])
    if node is None or node.value is None:
        kind = kind_of(type(part)) if isinstance(part, Spec) else ""
        node = Node(
            {"kind": Node(kind, override.place, override.place)} if kind else {},
            override.place,
            override.place,
        )
    if isinstance(node.value, list):
        items = list(node.value)
        at = _index(step, len(items), so_far, override)
        items[at] = _put(items[at], rest, override, inner, top)
        return node.holding(items)
    whole = lifted(node)
    if not isinstance(whole.value, dict):
        raise ArchError(
            Problem(
                f"{so_far} is {shown(node)}, not a mapping", f"it has no {quote(step)}", override.place.mark()
            )
        )
    below = whole.value.get(step) or _entries(top).get(_inherits(part, step))
    return whole.holding({**whole.value, step: _put(below, rest, override, inner, top)})


def _index(step: str, length: int, path: str, override: Override) -> int:
    # isdecimal is true of digits of other scripts; the length bounds what int() reads
    if step.isdecimal() and step.isascii() and len(step) <= len(str(length)) and int(step) < length:
        return int(step)
    entries = (
        ("is empty", "has the entry 0 alone")[length] if length <= 1 else f"has the entries 0 to {length - 1}"
    )
    raise ArchError(Problem(f"no entry {quote(step)} in {path}", f"{path} {entries}", override.place.mark()))


def _put_everywhere(
    root: Node, model: Module, overrides: Sequence[Override], problems: list[Problem]
) -> Node:
    """Put each override at every place of the model that its key matches."""
    now: dict[str, list[tuple[str, Any]]] = {}
    for path, value in _places(model):
        now.setdefault(path.rpartition(".")[2], []).append((path, value))
    for override in overrides:
        matches = {
            path: value for path, value in now.get(override.steps[-1], ()) if ends_in(path, override.steps)
        }
        ambiguities = [*_ambiguities(override, matches, now)]
        meant = (
            {path: value for path, value in matches.items() if path == override.key}
            if ambiguities
            else matches
        )
        problems += [] if meant else ambiguities
        for path in meant:
            steps = path.split(".")
            # what it inherits from is among the places meant: it is changed there, and not copied to here
            root = (
                root if _written_at(root, steps, model) in meant else _put(root, steps, override, model, root)
            )
    return root


def _places(spec: Spec, path: str = "") -> Iterator[tuple[str, Any]]:
    """(full path, value) of every field below a spec, fields that hold specs included."""
    yield from ((path + field, getattr(spec, field)) for field in spec.fields)
    for step, child in children(spec):
        yield from _places(child, f"{path}{step}.")


def with_full_paths(error: ArchError, root: Node, texts: Iterable[str]) -> ArchError:
    """The error of these overrides; of a key that leaves steps of a path out, the hint says the full path."""
    try:
        paths = [path for path, _ in _places(build(expand(root)))]
    except ArchError:  # of a file with mistakes of its own
        return error
    keys = {f"{SET} {text}": text.partition("=")[0].split(".") for text in texts}
    problems = tuple(_with_full_path(problem, keys, paths) for problem in error.problems)
    return error if problems == error.problems else ArchError(problems)


def _with_full_path(problem: Problem, keys: Mapping[str, Sequence[str]], paths: Iterable[str]) -> Problem:
    steps = keys.get(problem.mark.text, ()) if problem.mark else ()
    full = full_paths(paths, steps)
    if not full or any(ends_in(path, steps) for path in full):
        return problem
    return replace(problem, hint=f"did you mean {either(full)}?")


def _ambiguities(override: Override, matches: dict[str, Any], now: Iterable[str]) -> Iterable[Problem]:
    values = [*matches.values()]
    if not values:
        what = "field is called" if len(override.steps) == 1 else "path ends in"
        yield Problem(
            f"no {what} {quote(override.key)}", suggest(override.steps[-1], now), override.place.mark()
        )
    elif any(type(value) is not type(values[0]) or value != values[0] for value in values):
        listed = ", ".join(f"{path} ({_format(value)})" for path, value in matches.items())
        yield Problem(
            f"{override.key} stands for fields of different values",
            f"name one: {listed}",
            override.place.mark(),
        )


def _format(value: Any) -> str:
    return kind_of(type(value)) if isinstance(value, Spec) else format_value(value)


def _written_at(root: Node, steps: Sequence[str], part: Any) -> str:
    """The top-level path that a value is inherited from; empty without inheritance."""
    node: Node | None = root
    for i, step in enumerate(steps):
        entries, above = _entries(node), _inherits(part, step)
        if above and step not in entries:
            return ".".join([above, *steps[i + 1 :]]) if above in _entries(root) else ""
        items = node.value if node is not None and isinstance(node.value, list) else ()
        node = dict(_numbered(items)).get(step) if items else entries.get(step)
        part = _part(part, step)
    return ""


def _numbered(items: Iterable[Node]) -> Iterator[tuple[str, Node]]:
    """The entries of a list by the steps that lead to them."""
    yield from ((str(index), item) for index, item in enumerate(items))


def _inherits(part: Any, step: str) -> str:
    """The top-level key whose value a field inherits when left out; empty for none."""
    field = fields(type(part)).get(step) if isinstance(part, Spec) else None
    return field.inherits if field else ""


def _part(whole: Any, step: str) -> Any:
    if isinstance(whole, Mapping):
        return whole.get(step)
    return whole[int(step)] if isinstance(whole, tuple) else getattr(whole, step, None)


def _entries(node: Node | None) -> dict[str, Node]:
    value = None if node is None else lifted(node).value
    return value if isinstance(value, dict) else {}


def apply(root: Node, texts: Iterable[str], problems: list[Problem]) -> Node:
    """The tree with its shared layers expanded and all overrides applied.

    Mistakes of overrides are added to `problems`. Full paths are applied first. Names and ends of paths are
    looked up in the model, and left out where no model can be built.
    """
    bare: list[Override] = []
    for text in texts if isinstance(root.value, dict) else ():
        try:
            override = read(text)
            if _is_place(override, root):
                root = _put(root, override.steps, override)
            else:
                bare.append(override)
        except ArchError as error:
            problems += error.problems
    root = expand(root)
    # conflicts are let pass, as an override may be what resolves them
    return _put_everywhere(root, build(root, problems, []), bare, problems) if bare else root
