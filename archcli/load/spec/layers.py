"""Expand shared layers.

A `layer` at the top is the base of all layers, one beside a `pattern` that of its entries.

Mappings are merged key by key; the inner one wins. Where both state a `kind` and the kinds differ, the inner
mapping is taken alone, as the fields of another class mean nothing in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from archcli.load.spec.fields import implied
from archcli.load.yaml.nodes import Node
from archcli.modules.blocks.block import MIXING as SYNONYMS
from archcli.modules.blocks.block import Block


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
    """The kind that a mapping states, or that a key of a layer tells."""
    return entries["kind"].value if "kind" in entries else implied(Block.family, entries)


def _key_in(entries: Mapping[str, Node], key: str) -> str:
    """The synonym of a key that the inner mapping uses, else the key itself."""
    return next((name for name in SYNONYMS if name in entries), key) if key in SYNONYMS else key


def lifted(node: Node) -> Node:
    """Expand the short form: `silu` to `{kind: silu}`."""
    return node.holding({"kind": node.named(node.place)}) if isinstance(node.value, str) else node
