"""Build a model from a YAML tree: `kind` picks a class, the other keys are its fields.

Expand shared layers. A `layer` at the top is the base of all layers, one beside a `pattern` that of its
entries.

Mappings are merged key by key; the inner one wins. Where both state a `kind` and the kinds differ, the inner
mapping is taken alone, as the fields of another class mean nothing in it.

Problems are collected, not raised one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from archcli.errors import ArchError, Problem
from archcli.load.spec.fields import USUAL_MODEL, choices, chosen, fields, implied, leaves_out, unstated
from archcli.load.spec.messages import (
    belonged_to_another_kind,
    hint,
    missing,
    missing_kind,
    no_mapping,
    unknown_key,
    unknown_kind,
)
from archcli.load.yaml.nodes import MOST_PROBLEMS, Node, at, locate, plain, shown
from archcli.modules import Model, Module
from archcli.modules.blocks.block import MIXING as SYNONYMS
from archcli.modules.blocks.block import Block
from archcli.modules.spec.base import Spec
from archcli.modules.spec.fields import Field, too_few
from archcli.modules.spec.kinds import kind_of
from archcli.modules.spec.values import Refusal, ValueType


def expand(root: Node) -> Node:
    """The tree with shared layers merged into every layer.

    Values of the wrong shape are left for `build` to refuse.
    """
    if (
        not isinstance(root.value, dict)
        or not isinstance(groups := root.value.get("groups"), Node)
        or not isinstance(groups.value, list)
    ):
        return root
    base = root.value.get("layer")
    entries = {key: node for key, node in root.value.items() if key != "layer"}
    entries["groups"] = groups.holding([_group(group, base) for group in groups.value])
    return root.holding(entries)


def _group(group: Node, base: Node | None) -> Node:
    if not isinstance(group.value, dict):
        return group
    entries = dict(group.value)
    layer, pattern = entries.get("layer"), entries.get("pattern")
    shared = merge(base, layer)
    if pattern is not None and isinstance(pattern.value, list):
        entries.pop("layer", None)
        entries["pattern"] = pattern.holding([merge(shared, entry) or entry for entry in pattern.value])
    elif shared is not None:
        entries["layer"] = shared
    return group.holding(entries)


def merge(base: Node | None, over: Node | None) -> Node | None:
    """`over` on top of `base`; either may be absent."""
    if base is None or over is None:
        return base if over is None else over
    lower, upper = lifted(base), lifted(over)
    both_short = isinstance(base.value, str) and isinstance(over.value, str)
    if both_short or not isinstance(lower.value, dict) or not isinstance(upper.value, dict):
        return over
    kinds = [kind for node in (lower, upper) if (kind := _kind(node.value))]
    if len(kinds) == 2 and kinds[0] != kinds[1]:  # noqa: PLR2004
        return over
    below = {_key_in(upper.value, key): node for key, node in lower.value.items()}
    keys = dict.fromkeys([*below, *upper.value])
    return upper.holding({key: merge(below.get(key), upper.value.get(key)) for key in keys})


def _kind(entries: Mapping[str, Node]) -> Any:
    """The kind that a mapping states, or that one of its keys implies."""
    return entries["kind"].value if "kind" in entries else implied(Block.family, entries)


def _key_in(entries: Mapping[str, Node], key: str) -> str:
    """The synonym of a key that the inner mapping uses, else the key itself."""
    return next((name for name in SYNONYMS if name in entries), key) if key in SYNONYMS else key


def lifted(node: Node, key: str = "kind") -> Node:
    """Expand the short form: `silu` to `{kind: silu}`."""
    return node.holding({key: node.named(node.place)}) if isinstance(node.value, str) else node


FAILED = object()


def build(
    root: Node,
    problems: Iterable[Problem] = (),
    conflicts: list[Problem] | None = None,
    notes: list[str] | None = None,
) -> Module:
    """The model of a tree whose shared layers are expanded.

    With a list of `conflicts`, values that contradict each other are put there and the model is built all the
    same: nothing can be counted of it, but rules can judge its shape. `notes` receives what was left out
    because an override changed a kind. Raises ArchError with `problems` and all new ones.
    """
    builder = _Builder(root, [*problems], conflicts)
    model = builder.model()
    if notes is not None:
        # layers that share a mapping say the same of it
        notes += dict.fromkeys(builder.left_out)
    if builder.problems or not isinstance(model, Module):
        raise ArchError(in_order(builder.problems, root.place.source.name))
    return model


def built_part(base: type[Spec], part: Node, root: Node) -> Any:
    """`part` as a module of class `base` in the model of `root`; ArchError with why it is none."""
    builder = _Builder(root, [], None)
    module = builder.spec(base, part, "")
    if builder.problems:
        raise ArchError(builder.problems)
    return module


def in_order(problems: Iterable[Problem], file: str) -> list[Problem]:
    """The distinct problems in the order of the file, then those of other sources such as --set."""
    once: dict[Any, Problem] = {}
    for problem in problems:
        once.setdefault((problem.what, problem.mark or problem.path), problem)
    return sorted(once.values(), key=lambda problem: _position(problem, file))


def _position(problem: Problem, file: str) -> tuple[bool, int, int]:
    mark = problem.mark
    return (False, mark.line, mark.column) if mark and mark.file == file else (True, 0, 0)


def _join(path: str, step: str) -> str:
    return f"{path}.{step}" if path else step


class _Builder:
    def __init__(self, root: Node, problems: list[Problem], conflicts: list[Problem] | None) -> None:
        self.root, self.problems, self.conflicts = root, problems, conflicts
        self.top: Mapping[str, Node] = root.value if isinstance(root.value, dict) else {}
        self.top_fields: Mapping[str, Field] = {}
        self.built: dict[tuple[int, type], Any] = {}
        self.left_out: list[str] = []

    def model(self) -> Any:
        """Build the model of the top-level mapping; without a `kind` it is a decoder."""
        if not isinstance(self.root.value, dict):
            self._problem(
                "an architecture is a mapping of keys to values", f"this is {shown(self.root)}", self.root
            )
            return FAILED
        cls = self._class(self.root, "", Model, chosen(Model, USUAL_MODEL))
        if cls is None:
            return FAILED
        self.top_fields = fields(cls)
        return self._instance(cls, self.root, "", Model)

    def spec(self, base: type[Spec], node: Node, path: str) -> Any:
        """Build the module for a field of class `base`; FAILED where the node has problems.

        A node that is inherited or aliased is built once and shared.
        """
        seen = (id(node.value), base)
        if seen in self.built:
            return self.built[seen]
        whole = lifted(node, base.short) if base.short else node
        if not isinstance(whole.value, dict):
            self._problem(*no_mapping(path, node, choices(base)), node, path)
            return FAILED
        cls = self._class(whole, path, base, unstated(base, whole.value))
        module = FAILED if cls is None else self._beneath(cls, whole, path, base)
        # not for texts: Python may hold equal texts as one object, and each has a place of its own
        if isinstance(node.value, dict):
            self.built[seen] = module
        return module

    def _beneath(self, cls: type[Spec], node: Node, path: str, base: type[Spec]) -> Any:
        """Build an instance; if it is a model, such as a tower's encoder, its parts inherit from it."""
        if not issubclass(cls, Model):
            return self._instance(cls, node, path, base)
        before = self.top, self.top_fields
        self.top, self.top_fields = node.value, fields(cls)
        module = self._instance(cls, node, path, base)
        self.top, self.top_fields = before
        return module

    def _class(
        self, node: Node, path: str, base: type[Spec], default: type[Spec] | None
    ) -> type[Spec] | None:
        """The class that a mapping states, or else `default`; a problem and None where there is neither."""
        kind = node.value.get("kind")
        if default is not None and (kind is None or not base.family):
            return default
        if kind is None:
            self._problem(*missing_kind(node, choices(base)), node, path)
            return None
        cls = chosen(base, kind.value) if isinstance(kind.value, str) else None
        if cls is None:
            self._problem(*unknown_kind(kind, base.family, choices(base)), kind, _join(path, "kind"))
        return cls

    def _instance(self, cls: type[Spec], node: Node, path: str, base: type[Spec]) -> Any:
        known = fields(cls)
        meant: set[str] = set()
        for key in node.value:
            if key in known or (key == "kind" and base.family):
                continue
            if belonged_to_another_kind(node, key, base):
                self.left_out.append(f"{kind_of(cls)} has no {key}: what the file says of it was left out.")
            else:
                what, help_, close = unknown_key(key, cls, takes_kind=bool(base.family))
                self.problems.append(
                    Problem(what, help_, (node.value[key].key or node.place).mark(), _join(path, key))
                )
                self._stop_early()
                meant.update(close)
        values = {
            name: self._field(cls, field, node, path, quiet=name in meant) for name, field in known.items()
        }
        if any(value is FAILED for value in values.values()):
            return FAILED
        return self._instance_of(cls, values, node, path)

    def _field(self, cls: type[Spec], field: Field, node: Node, path: str, *, quiet: bool) -> Any:
        child, place = node.value.get(field.name), _join(path, field.name)
        if child is None and field.inherits:
            child, place = self.top.get(field.inherits), field.inherits
            # null at the top states nothing, as if the key were left out
            child = None if child is not None and child.value is None else child
        if child is None:
            return self._left_out(field, node, path, quiet=quiet) if field.required else field.default
        if field.type is not None:
            return self._value(field, field.type, child, place)
        if field.many:
            return self._list(field, child, place)
        if field.named:
            return self._mapping(field, child, place)
        return None if leaves_out(field, child.value) else self.spec(field.spec, child, place)

    def _left_out(self, field: Field, node: Node, path: str, *, quiet: bool) -> Any:
        above = self.top_fields.get(field.inherits)
        # the top reports a required key once, rather than every layer that inherits it
        reported_above = above is not None and above.required
        if not quiet and not reported_above:
            self._problem(*missing(field), node, path)
        return FAILED

    def _value(self, field: Field, accepted: ValueType, node: Node, path: str) -> Any:
        try:
            return accepted.convert(plain(node))
        except Refusal as refusal:
            wrong = at(node, refusal.path)
            help_ = hint(wrong, accepted) or field.advice
            if node.value is None and not field.required:
                help_ = "leave the key out"
            what = f"{field.name}{refusal.path} {refusal.reason(shown(wrong))}"
            self._problem(what, help_, wrong, path + refusal.path)
            return FAILED

    def _list(self, field: Field, node: Node, path: str) -> Any:
        if not isinstance(node.value, list):
            self._problem(
                f"{field.name} must be a list, not {shown(node)}", "begin each entry with '- '", node, path
            )
            return FAILED
        if len(node.value) < field.least:
            self._problem(f"{field.name} {too_few(field.least)}", "", node, path)
            return FAILED
        items = [self.spec(field.spec, item, f"{path}.{i}") for i, item in enumerate(node.value)]
        return FAILED if any(item is FAILED for item in items) else tuple(items)

    def _mapping(self, field: Field, node: Node, path: str) -> Any:
        if not isinstance(node.value, dict):
            what, help_ = f"{field.name} must be a mapping, not {shown(node)}", "write NAME: {…} for each"
            self._problem(what, help_, node, path)
            return FAILED
        items = {name: self.spec(field.spec, item, f"{path}.{name}") for name, item in node.value.items()}
        return FAILED if any(item is FAILED for item in items.values()) else items

    def _instance_of(self, cls: type[Spec], values: dict[str, Any], node: Node, path: str) -> Any:
        module = cls.unchecked(**values)
        conflicts = [
            replace(it, mark=locate(node, it.path).mark(), path=_join(path, it.path))
            for it in module.conflicts()
        ]
        if self.conflicts is not None:
            self.conflicts += conflicts
            return module
        self.problems += conflicts
        self._stop_early()
        return FAILED if conflicts else module

    def _problem(self, what: str, help_: str, node: Node, path: str = "") -> None:
        self.problems.append(Problem(what, help_, node.where.mark(), path))
        self._stop_early()

    def _stop_early(self) -> None:
        if len(self.problems) >= MOST_PROBLEMS:
            raise ArchError(in_order(self.problems, self.root.place.source.name))
