"""Checks that a plan can split a model, and the degrees that would fit where it cannot."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from archcli.arith import ceil_div, is_whole
from archcli.errors import ArchError, Problem, either
from archcli.modules.models.model import Model
from archcli.modules.spec.base import Spec, find
from archcli.modules.tensor_parallel.degrees import Degrees
from archcli.modules.tensor_parallel.layouts import COMPOSED, Layout, layout_of

SPLIT = {"attention", "cross_attention", "ffn"}
"""The families whose modules are split."""
MOST = 4096
"""No degree beyond it is looked for."""


class Count(NamedTuple):
    """A number that a degree must divide; if `copied`, it may also be a multiple of the number."""

    path: str
    value: int
    copied: bool = False

    def fits(self, tp: int) -> bool:
        """Whether tp ranks can share it."""
        return self.value % tp == 0 or (self.copied and tp % self.value == 0)


def check_degrees(model: Model, degrees: Degrees) -> None:
    """Raise ArchError with every reason why the model cannot be split so."""
    problems = list(_refused(model, degrees))
    # refused modules first: what a kind without a layout would divide is unknown
    problems = problems or [*_uneven(model, degrees), *_experts(model, degrees)]
    if problems:  # layers are often alike: the first of each kind is enough
        first: dict[str, Problem] = {}
        for problem in problems:
            first.setdefault(problem.what, problem)
        raise ArchError(first.values())


def unshared_tokens(phase: str, lengths: Mapping[str, int], tp: int, cp: int = 1) -> Iterator[Problem]:
    """Reasons why the tp ranks of sequence parallelism cannot share the tokens of a phase.

    `lengths` are numbers of tokens by option: seq_len, past, chunk. With `cp` ranks share 1/cp of them.
    """
    if phase in {"decode", "serve"}:
        yield Problem("sp shares the tokens of a pass, and decoding has one", "leave sp out", path="sp")
        return
    for name, tokens in lengths.items():
        if tokens // cp % tp:
            what = f"sp shares tokens, and tp {tp} does not divide {tokens // cp:,}"
            would = ceil_div(tokens, cp * tp) * cp * tp
            yield Problem(what, f"{would:,} tokens would do", path=name)


def fitting_degrees(model: Model, *, experts_whole: bool = False) -> list[int]:
    """Every tp above 1 by which the model can be split."""
    counts = list(counts_of(model, experts_whole=experts_whole))
    # copied heads bound nothing: any multiple of them fits
    strict = [count.value for count in counts if not count.copied]
    return [
        tp for tp in range(2, min([*strict, MOST]) + 1) if strict and all(count.fits(tp) for count in counts)
    ]


def counts_of(model: Model, *, experts_whole: bool) -> Iterator[Count]:
    """The numbers of heads, groups and channels that tp has to divide; symbols and arrays are left out."""
    for path, module in find(model, Spec):
        layout = layout_of(module)
        if layout is None or (experts_whole and path.endswith(".expert")):
            continue
        yield from (count for count in _counts(path, module, layout) if is_whole(count.value))


def _counts(path: str, module: Any, layout: Layout) -> Iterator[Count]:
    for name in layout.divided:
        holder, field = module, name
        if "." in name:
            step, field = name.split(".")
            holder = getattr(module, step)
        if holder is not None and getattr(holder, field) is not None:
            yield Count(f"{path}.{name}", getattr(holder, field))
    copied = getattr(module, layout.copied, None) if layout.copied else None
    if copied is not None:
        yield Count(f"{path}.{layout.copied}", copied, copied=True)


def _uneven(model: Model, degrees: Degrees) -> Iterator[Problem]:
    """The first number of each name and value that tp does not divide."""
    tp, whole = degrees.tp, degrees.ep > 1
    uneven = {
        (count.path.rpartition(".")[2], count.value): count
        # reversed: of equal keys the first of the model is the one that stays
        for count in reversed(list(counts_of(model, experts_whole=whole)))
        if not count.fits(tp)
    }
    would = fitting_degrees(model, experts_whole=whole) if uneven else []
    would = [n for n in would if not whole or degrees.ep % n == 0]
    hint = f"{either(map(str, would))} would do" if would else "no tp above 1 would do"
    for (name, value), count in sorted(uneven.items()):
        yield Problem(f"tp {tp} does not divide {name} {value:,}", hint, path=count.path)


def _experts(model: Model, degrees: Degrees) -> Iterator[Problem]:
    """Experts that ep does not divide."""
    tp, ep = degrees.tp, degrees.ep
    if ep == 1:
        return
    numbers = {path: moe.n_experts for path, moe in find(model, Spec) if hasattr(moe, "n_experts")}
    if not numbers:
        yield Problem(f"ep {ep} splits experts, and the model has none", "leave ep out", path="ep")
        return
    if ep % tp:
        what = f"ep {ep} is no multiple of tp {tp}: the ranks that share a matrix are in one group of experts"
        yield Problem(what, _fitting_experts(numbers.values(), tp), path="ep")
        return
    for path, n_experts in numbers.items():
        if n_experts % ep:
            hint = _fitting_experts(numbers.values(), tp)
            yield Problem(f"ep {ep} does not divide n_experts {n_experts}", hint, path=f"{path}.n_experts")
            return


def _fitting_experts(numbers: Collection[int], tp: int) -> str:
    """Which ep divide all numbers of experts, and are multiples of tp."""
    would = [n for n in range(max(2, tp), min(numbers) + 1, tp) if all(e % n == 0 for e in numbers)]
    return f"{either(map(str, would))} would do" if would else "leave ep out"


def _refused(model: Model, degrees: Degrees) -> Iterator[Problem]:
    """Modules for which nothing says how they are split."""
    if degrees.sp:
        yield from _refused_tokens(model, degrees)
    if degrees.tp == 1:
        return
    head = getattr(model, "head", None)
    if head is not None and head.group == "lm_head" and getattr(head, "by_targets", False):
        yield _unsplit("head", f"a head of kind {head.kind}", "its clusters are of unequal sizes", "tp")
    for path, module in find(model, Spec):
        if module.family not in SPLIT or getattr(module, "kind", "") in COMPOSED:
            continue
        kind, layout = getattr(module, "kind", type(module).__name__), layout_of(module)
        if layout is None:
            word = "a network" if module.family == "ffn" else "a mixer"
            yield _unsplit(path, f"{word} of kind {kind}", "no plan says how", "tp")
            continue
        for name, why in layout.refused.items():
            if getattr(module, name, None):
                yield _unsplit(f"{path}.{name}", f"{kind} with {name}", why, "tp")
        if getattr(getattr(module, "router", None), "zero_experts", None) is not None:
            why = "what they return is no partial sum"
            yield _unsplit(f"{path}.router.zero_experts", f"{kind} with zero_experts", why, "tp")


def _refused_tokens(model: Model, degrees: Degrees) -> Iterator[Problem]:
    """Reasons why tokens of norms and residuals are not shared."""
    if degrees.tp == 1:
        yield Problem(
            "sp shares tokens among the ranks of tp, and tp is 1", "state tp, or leave sp out", path="sp"
        )
    if getattr(model, "kind", "") == "encoder_decoder":
        yield _unsplit("encoder", "an encoder-decoder", "its decoder reads all that its encoder makes", "sp")
    elif getattr(model, "per_layer_embedding", None) is not None or model.mtp_depth:
        name = "per_layer_embedding" if model.mtp_depth == 0 else "mtp"
        yield _unsplit(name, name, "it reads all tokens between the layers", "sp")
    for path, module in find(model, Spec):
        if getattr(module, "kind", "") == "convolved":
            yield _unsplit(path, "a convolved network", "its convolution reads the tokens before", "sp")
            return


def _unsplit(path: str, what: str, why: str, option: str) -> Problem:
    return Problem(f"{what} is not split: {why}", f"leave {option} out", path=path)
