"""Mutants of a router and of the mixture that it serves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from archcli.modules.spec.base import Spec
from parity.alterations import altered, plus, times, to


def score_kinds(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """Other scores.

    A softmax over all experts, normalized over the chosen, is a softmax over the chosen: no mutant.
    """
    same = {"softmax", "softmax_after"} if spec.normalized else {"softmax"}
    same = same if spec.scores in same else {spec.scores}
    for scores in sorted({"softmax", "sigmoid", "softmax_after", "sqrtsoftplus"} - same):
        yield f"scores={scores}", altered(spec, scores=scores)


def normalization(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """Weights that sum to 1, or not; a softmax over the chosen does by itself."""
    return to(True, False)(spec, field) if spec.scores in ("softmax", "sigmoid", "sqrtsoftplus") else iter(())


def nearness(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """Another bound on what is about as good."""
    return times(9)(spec, field) if spec.scores == "sparsemixer" else iter(())


def ranking(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """Ranked by logits or scores, which differ by a correction alone."""
    return to("scores", "logits")(spec, field) if spec.correction else iter(())


def grouping(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """Groups of experts: none, more kept, valued otherwise."""
    if spec.n_groups > 1:
        yield "no groups", altered(spec, n_groups=1, top_k_groups=1)
        yield "top_k_groups+1", altered(spec, top_k_groups=spec.top_k_groups + 1)
        yield from to("max", "top2")(spec, "group_score")


def top_k(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """One expert more, one fewer; weights on the input are defined for one alone."""
    stored = spec.router.token_table is not None  # so many experts for each id
    return plus(1, -1)(spec, field) if spec.weigh == "output" and not stored else iter(())


def weighing(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """Weights on the output in place of the input, or the other way round, where one expert is chosen."""
    return to("input", "output")(spec, field) if spec.top_k == 1 else iter(())


def experts_of_heads(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """One expert more with its heads, one fewer."""
    of_one = spec.n_heads // spec.top_k
    for k in (spec.top_k - 1, spec.top_k + 1):
        yield f"top_k={k}", altered(spec, top_k=k, n_heads=k * of_one)
