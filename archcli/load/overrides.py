"""`--set KEY=VALUE`: a value put into the tree before it is built.

A path (`groups.0.layer.ffn.d_ff`) names one place, which need not be written yet. A bare name (`d_ff`) means every field of that name;
where their values differ, the one at the top of the file, if there is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from archcli.errors import ArchError, Problem
from archcli.load.build import build
from archcli.load.fields import fields, own_kind
from archcli.load.marks import SET, Node, Place, Source
from archcli.load.shared import expand, lifted
from archcli.load.text import text_of
from archcli.load.words import quoted, shown, suggest, written
from archcli.load.yaml import DEEPEST, parse
from archcli.modules import Module, settings
from archcli.modules.base import Spec
from archcli.registry import kinds
from archcli.units import parse_count


class Override(NamedTuple):
    """One KEY=VALUE, read: the steps of the key, the place of the key, the value as a node."""

    key: str
    place: Place
    node: Node

    @property
    def steps(self) -> list[str]:
        """The key, step by step."""
        return self.key.split(".")


def read(text: str) -> Override:
    """Parse one KEY=VALUE; ArchError where it is none."""
    key, equals, value = text.partition("=")
    lead = f"{SET} {key}=" + value[: len(value) - len(value.lstrip())]
    place = Place(Source(SET, [f"{SET} {text}"]), 0, len(SET) + 1, len(key))
    if not equals or not all(key.split(".")) or key.count(".") > DEEPEST:
        raise ArchError(Problem("KEY=VALUE is needed", "such as d_ff=11008 or groups.0.layer.ffn.d_ff=11008", place.mark()))
    document = parse(text_of(value.lstrip(), SET, lead))
    if document.root is None or document.problems:
        raise ArchError(document.problems or [Problem(f"no value for {quoted(key)}", "write null for none", place.mark())])
    return Override(key, Place(document.source, 0, place.column, place.width), _sized(document.root))


def _sized(node: Node) -> Node:
    """8k and 8K as the numbers they stand for."""
    if not node.text or node.text[-1] not in "kK" or not isinstance(node.value, str):
        return node
    try:
        return Node(parse_count(node.text), node.place, text=node.text)
    except ArchError:
        return node


def _is_branch(key: str) -> bool:
    """Whether a bare name is a part of the model rather than a setting in it: norm, embedding, groups, layer."""
    return key == "layer" or any(key in (found := fields(cls)) and found[key].want is None for cls in kinds("model").values())


def _put(node: Node | None, steps: Sequence[str], one: Override, part: Any = None) -> Node:
    """The node with the override below it.

    Mappings that are not there yet are made, of the same kind as the default `part` that was built in their place.
    """
    if not steps:
        return one.node.named(one.place)
    step, rest, inner = steps[0], steps[1:], _part(part, steps[0])
    so_far = ".".join(one.steps[: len(one.steps) - len(steps)])
    if node is None or node.value is None:
        kind = own_kind(type(part)) if isinstance(part, Spec) else ""
        node = Node({"kind": Node(kind, one.place, one.place)} if kind else {}, one.place, one.place)
    if isinstance(node.value, list):
        items = list(node.value)
        at = _index(step, len(items), so_far, one)
        items[at] = _put(items[at], rest, one, inner)
        return node.holding(items)
    whole = lifted(node)
    if not isinstance(whole.value, dict):
        raise ArchError(Problem(f"{so_far} is {shown(node)}, not a mapping", f"it has no {quoted(step)}", one.place.mark()))
    return whole.holding({**whole.value, step: _put(whole.value.get(step), rest, one, inner)})


def _index(step: str, length: int, path: str, one: Override) -> int:
    if step.isdecimal() and step.isascii() and len(step) <= len(str(length)) and int(step) < length:
        return int(step)
    entries = ("is empty", "has the entry 0 alone")[length] if length <= 1 else f"has the entries 0 to {length - 1}"
    raise ArchError(Problem(f"no entry {quoted(step)} in {path}", f"{path} {entries}", one.place.mark()))


def _put_everywhere(root: Node, model: Module, overrides: Sequence[Override], problems: list[Problem]) -> Node:
    """Each override in every place where the model has a field of that name."""
    now: dict[str, list[tuple[str, Any]]] = {}
    for path, value in settings(model):
        now.setdefault(path.rpartition(".")[2], []).append((path, value))
    for one in overrides:
        doubts = [*_doubts(one, now)]
        alone = [found for found in now.get(one.key, ()) if found[0] == one.key] if doubts else []
        problems += [] if alone else doubts
        for path, _ in alone if doubts else now[one.key]:
            steps = path.split(".")
            root = root if _is_inherited(root, steps, model, root) else _put(root, steps, one, model)
    return root


def _doubts(one: Override, now: dict[str, list[tuple[str, Any]]]) -> Iterable[Problem]:
    found = now.get(one.key)
    if found is None:
        yield Problem(f"no field is called {quoted(one.key)}", suggest(one.key, now), one.place.mark())
    elif any(type(value) is not type(found[0][1]) or value != found[0][1] for _, value in found):
        each = ", ".join(f"{path} ({written(value)})" for path, value in found)
        yield Problem(f"{one.key} stands for fields of different values", f"name one: {each}", one.place.mark())


def _is_inherited(node: Node | None, steps: Sequence[str], part: Any, root: Node) -> bool:
    """Whether a built value is not written at its path but taken from the top, where the override finds it too."""
    for step in steps:
        entries = _entries(node)
        field = fields(type(part)).get(step) if isinstance(part, Spec) else None
        if field and field.inherits and step not in entries:
            return field.inherits in _entries(root)
        node = node.value[int(step)] if node is not None and isinstance(node.value, list) else entries.get(step)
        part = _part(part, step)
    return False


def _part(whole: Any, step: str) -> Any:
    return whole[int(step)] if isinstance(whole, tuple) else getattr(whole, step, None)


def _entries(node: Node | None) -> dict[str, Node]:
    value = None if node is None else lifted(node).value
    return value if isinstance(value, dict) else {}


def apply(root: Node, texts: Iterable[str], problems: list[Problem]) -> Node:
    """The tree with shared layers expanded and all overrides in it; what is wrong with them is added to the problems.

    Those by path come first, whatever their order; bare names need the model, and are left out where there is none.
    """
    bare: list[Override] = []
    for text in texts if isinstance(root.value, dict) else ():
        try:
            one = read(text)
            if len(one.steps) > 1 or _is_branch(one.key):
                root = _put(root, one.steps, one)
            else:
                bare.append(one)
        except ArchError as error:
            problems += error.problems
    root = expand(root)
    return _put_everywhere(root, build(root, problems, []), bare, problems) if bare else root
