"""Check that a plan can split a model, and find degrees that can."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from archcli.arith import ceil_div, is_whole
from archcli.errors import ArchError, Problem, either
from archcli.modules.models.model import Model
from archcli.modules.spec.base import Spec, find
from archcli.modules.spec.degrees import Degrees
from archcli.modules.tensor_parallel.layouts import COMPOSED, Layout, layout_of

SPLIT = {"attention", "cross_attention", "ffn"}
"""The families whose modules are split."""
EXPERT = ".expert"
"""The end of the path of a mixture's expert."""
MOST = 4096
"""No degree beyond it is looked for."""


def degree_of(path: str, module: Spec, degrees: Degrees) -> int:
    """How many ranks share a module's matrices."""
    if path.endswith(EXPERT):
        return degrees.of_expert
    return degrees.of_networks if module.family == "ffn" else degrees.tp


class Count(NamedTuple):
    """A number that a degree must divide; if `copied`, it may also be a multiple of the number.

    `degree`: by how many ranks its module is shared.
    """

    path: str
    value: int
    copied: bool = False
    degree: int = 1

    def fits(self, tp: int) -> bool:
        """Whether tp ranks can share it."""
        return self.value % tp == 0 or (self.copied and tp % self.value == 0)


def check_degrees(model: Model, degrees: Degrees, *, copies_experts: bool = False) -> None:
    """Raise ArchError with every reason why the model cannot be split so.

    copies_experts: some experts are on several ranks, so that all ranks have as many (EPLB).
    """
    problems = list(_refused(model, degrees))
    # refused modules first: what a kind without a layout would divide is unknown
    problems = problems or [*_uneven(model, degrees), *_experts(model, degrees, copies_experts)]
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


def fitting_degrees(model: Model, degrees: Degrees) -> list[int]:
    """Every tp above 1 by which the model can be split, with these ep and groups."""
    # copied heads bound nothing: any multiple of them fits
    strict = [count.value for count in counts_of(model, degrees) if not count.copied]
    most = min([max(strict, default=1), MOST])
    tried = (degrees._replace(tp=tp) for tp in range(2, most + 1))
    # the model is walked once, and not for each of up to 4096 degrees
    divided = list(_divided(model))
    return [
        degrees.tp
        for degrees in tried
        if _are_alike(degrees) and all(count.fits(degree_of(*where, degrees)) for where, count in divided)
    ]


def _are_alike(degrees: Degrees) -> bool:
    """Whether every group of experts has whole groups of ranks with the same tokens, or a part of one."""
    ep, ranks = degrees.ep, degrees.of_networks
    return ranks % ep == 0 or (degrees.groups == 1 and ep % ranks == 0)


def counts_of(model: Model, degrees: Degrees) -> Iterator[Count]:
    """The numbers of heads, groups and channels that are divided; symbols and arrays are left out."""
    for where, count in _divided(model):
        degree = degree_of(*where, degrees)
        if degree > 1:
            yield count._replace(degree=degree)


def _divided(model: Model) -> Iterator[tuple[tuple[str, Spec], Count]]:
    """((path, module), number) of whatever a degree would divide."""
    for path, module in find(model, Spec):
        layout = layout_of(module)
        counts = _counts(path, module, layout) if layout else ()
        yield from (((path, module), count) for count in counts if is_whole(count.value))


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
    uneven = {
        (count.path.rpartition(".")[2], count.value): count
        # reversed: of equal keys the first of the model is the one that stays
        for count in reversed(list(counts_of(model, degrees)))
        if not count.fits(count.degree)
    }
    would = fitting_degrees(model, degrees) if uneven else []
    # in groups tp is that of all of them
    numbers = [str(n * degrees.groups) for n in would]
    hint = f"{either(numbers)} would do" if would else "no tp above 1 would do"
    tp = degrees.of_networks
    if degrees.groups == 1 and tp > max(would, default=1) and any(_stacked(model)):
        hint += f"; dp {tp} with ep {tp} shares the experts alone"
    for (name, value), count in sorted(uneven.items()):
        ranks = _ranks_in_words(degrees, count.degree)
        yield Problem(f"{ranks} does not divide {name} {value:,}", hint, path=count.path)


def _ranks_in_words(degrees: Degrees, degree: int) -> str:
    """The ranks that share a module: `tp 8`, or a part of them that shares a head or an expert."""
    tp = degrees.of_networks
    if degree == tp:
        return f"tp {tp}"
    if degree == degrees.tp:
        return f"tp {tp} in {degrees.groups} groups, {degree} ranks each,"
    return f"tp {tp} with ep {degrees.ep}, {degree} ranks for each expert,"


ROUTED = "n_experts"
STACKED = (ROUTED, "n_shared")
"""Numbers of experts stacked in one matrix, to split over ranks; other shared experts are networks."""


def _experts(model: Model, degrees: Degrees, copied: bool) -> Iterator[Problem]:
    """Experts that ep does not divide."""
    tp, ep = degrees.of_networks, degrees.ep
    if ep == 1:
        return
    numbers = dict(_stacked(model))
    if not numbers:
        yield Problem(f"ep {ep} splits experts, and the model has none", "leave ep out", path="ep")
        return
    hint = _fitting_experts(numbers.values(), degrees)
    if not _are_alike(degrees):
        multiple = "" if degrees.groups > 1 else ", and is no multiple of it"
        yield Problem(f"ep {ep} does not divide tp {tp}{multiple}", hint, path="ep")
        return
    for path, number in numbers.items():
        name = path.rpartition(".")[2]
        if number % ep and not (copied and name == ROUTED):
            yield Problem(f"ep {ep} does not divide {name} {number}", hint, path=path)
            return


def _stacked(model: Model) -> Iterator[tuple[str, int]]:
    """(path, number) of experts stacked in one matrix."""
    modules = ((path, moe, name) for path, moe in find(model, Spec) for name in STACKED)
    return ((f"{path}.{name}", getattr(moe, name)) for path, moe, name in modules if hasattr(moe, name))


def _fitting_experts(numbers: Collection[int], degrees: Degrees) -> str:
    """Which ep divide all numbers of experts, and divide tp or are multiples of it."""
    would = [
        n
        for n in range(2, min(numbers) + 1)
        if all(e % n == 0 for e in numbers) and _are_alike(degrees._replace(ep=n))
    ]
    return f"{either(map(str, would))} would do" if would else "leave ep out"


def _refused(model: Model, degrees: Degrees) -> Iterator[Problem]:
    """Modules for which nothing says how they are split."""
    if degrees.sp:
        yield from _refused_tokens(model, degrees)
    if degrees.groups > 1:
        yield from _refused_groups(model, degrees)
    if degrees.of_networks == 1:
        return
    head = getattr(model, "head", None)
    if head is not None and head.group == "lm_head" and getattr(head, "by_targets", False):
        yield _unsplit("head", f"a head of kind {head.kind}", "its clusters are of unequal sizes", "tp")
    for path, module in find(model, Spec):
        of_family = module.family in SPLIT and getattr(module, "kind", "") not in COMPOSED
        if of_family and (module.family == "ffn" or degrees.tp > 1):
            yield from _refused_module(path, module)
            yield from _refused_shifts(path, module, degrees.tp)


def _refused_shifts(path: str, module: Any, tp: int) -> Iterator[Problem]:
    """Reason why heads that see other keys each are not shared: unequal numbers of a rank see a block."""
    # a gated network has a sparsity, too, which is a number
    check = getattr(getattr(module, "sparsity", None), "check_heads", None)
    if check is None or module.n_heads % tp:
        return
    for conflict in check(module.n_heads // tp):
        why = f"each of {tp} ranks would have {module.n_heads // tp} heads: {conflict.what}"
        yield _unsplit(f"{path}.sparsity.{conflict.path}", "a pattern of shifted heads", why, "tp")


def _refused_module(path: str, module: Any) -> Iterator[Problem]:
    """Reasons why a mixer or a network is not split."""
    kind, layout = getattr(module, "kind", type(module).__name__), layout_of(module)
    if layout is None:
        word = "a network" if module.family == "ffn" else "a mixer"
        yield _unsplit(path, f"{word} of kind {kind}", "no plan says how", "tp")
        return
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


def _refused_groups(model: Model, degrees: Degrees) -> Iterator[Problem]:
    """Modules that groups with sequences of their own cannot share."""
    if degrees.sp:
        what = "sp shares the tokens of a sequence, and dp_attention whole sequences"
        yield Problem(what, "leave sp out, or leave dp_attention out", path="sp")
    for path, module in find(model, Spec):
        if getattr(module, "keeps_state", False) and module.family == "ffn":
            why = "its state is that of its own sequences"
            yield _unsplit(path, "a network that keeps a state", why, "dp_attention")
        elif module.family in SPLIT and module.family != "ffn" and hasattr(module, "n_experts"):
            why = "its experts read the sequences of one group"
            yield _unsplit(path, "a mixer with experts", why, "dp_attention")


def _unsplit(path: str, what: str, why: str, option: str) -> Problem:
    return Problem(f"{what} is not split: {why}", f"leave {option} out", path=path)
