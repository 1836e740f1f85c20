"""Trees of tuples, lists and dicts whose leaves are tensors: taken apart, named by their shape, and put together of other leaves."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from operator import itemgetter
from typing import Any

import torch

PLAIN = frozenset({type(None), bool, int, float, str})


def shape_of(tree: Any, leaves: list[torch.Tensor]) -> Hashable:
    """Append the tensors of a tree to `leaves`; what is returned is equal for trees that differ in the contents of their tensors alone.

    Raises TypeError where that cannot be said: of a size that is not a number, of an object of another kind.
    """
    if isinstance(tree, torch.Tensor):
        leaves.append(tree)
        return tree.shape
    kind = type(tree)
    if isinstance(tree, tuple | list):
        return (kind, *[shape_of(item, leaves) for item in tree])
    if isinstance(tree, dict):
        return (kind, *tree, *[shape_of(item, leaves) for item in tree.values()])
    if kind not in PLAIN:
        raise TypeError(f"a {kind.__name__} says nothing by which to know it again")
    return kind, tree


def rebuilder(tree: Any, kind: type, leaves: list[Any]) -> Callable[[Sequence[Any]], Any]:
    """Append the leaves of a kind to `leaves`; what is returned makes the same tree of what stands in their places in another list."""
    if isinstance(tree, kind):
        leaves.append(tree)
        return itemgetter(len(leaves) - 1)
    if not isinstance(tree, tuple | list | dict):
        return lambda _: tree
    parts = [rebuilder(item, kind, leaves) for item in (tree.values() if isinstance(tree, dict) else tree)]
    make = _maker(tree)
    return lambda values: make([part(values) for part in parts])


def _maker(tree: Any) -> Callable[[list[Any]], Any]:
    """What makes such a node of its children."""
    if isinstance(tree, dict):
        return lambda values: dict(zip(tree, values, strict=True))
    return type(tree)._make if hasattr(tree, "_fields") else type(tree)
