"""Names of operators in tables: paths with layers folded, and fused groups of paths.

`layers.0.ffn_norm` is shown as `layers.*.ffn_norm`, a kernel of two operators as
`layers.*.{attention_residual, ffn_norm}`.
"""

from __future__ import annotations

from typing import Any

from archcli.modules.models.layers import folded_path
from archcli.wings.serving.recorded.operations import JOIN

GRADIENT_SUMS = "(gradient sums)"
"""The name of additions that accumulate gradients, which belong to no single operator."""


def members(path: str, depth: int = 0) -> list[str]:
    """The operators of a group, or the operator of a path, folded to `depth` steps (0: all)."""
    return list(dict.fromkeys(folded_path(step, depth or None) for step in path.split(JOIN)))


def operator_name(path: str, depth: int = 0) -> str:
    """The name of a path or a group on its line of a table."""
    tree: dict[str, Any] = {}
    for member in members(path, depth):
        node = tree
        for step in member.split("."):
            node = node.setdefault(step, {})
    return _braced(tree)


def _braced(tree: dict[str, Any]) -> str:
    names = [f"{step}.{_braced(below)}" if below else step for step, below in tree.items()]
    return names[0] if len(names) == 1 else f"{{{', '.join(names)}}}"
