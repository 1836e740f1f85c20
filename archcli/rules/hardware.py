"""Rules of hardware: sizes that fill tiles, and that divide between devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from archcli.measure.passes import find
from archcli.modules import GLU, MLP, FeedForward, MixtureOfExperts, ProjectedAttention
from archcli.modules.model import stacks
from archcli.rules.base import Case, Finding, Fix, Parallel, Rule, Severity, example, nearest_multiple

TILE, HALF_TILE = 64, 8
NVIDIA = "NVIDIA's matrix multiplication guide as Bekman quotes it (secondary); 64 elements are 128 bytes of bf16 (derived)"
CO_DESIGN = "Anthony et al., arXiv:2401.14489 (abstract confirmed, its list secondary)"
KARPATHY = "nanoGPT's model.py: 50257 padded to 50304, about 25% faster on one small model (confirmed)"


def sizes(case: Case) -> Iterator[tuple[str, str, int]]:
    """(path, name, value) of every size that is an axis of a large matrix."""
    yield "d_model", "d_model", case.model.d_model
    for path, ffn in find(case.model, FeedForward):
        if isinstance(ffn, MLP | GLU):
            yield f"{path}.d_ff", "d_ff", ffn.d_ff


def padded(value: int, unit: int) -> int:
    """The next multiple of the unit."""
    return -(-value // unit) * unit


class WidthsFillTiles(Rule):
    """d_model and d_ff are multiples of 64."""

    code = "HWD001"
    severity = Severity.WARNING
    title = "a matrix axis that fills no tile"
    reason = (
        "Tensor cores work on tiles; an axis that is no multiple of 64 leaves part of the last one empty, and one that is no "
        "multiple of 8 falls to slower kernels."
    )
    source = f"{NVIDIA}; {CO_DESIGN}"
    valid = (example(),)
    invalid = (example(ffn="{kind: glu, d_ff: 1365}"),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Every width that is no multiple of 64."""
        for path, name, value in sizes(case):
            if value % TILE:
                wasted = padded(value, TILE) - value
                message = f"{name} {value:,} is no multiple of {TILE}: {wasted / (value + wasted):.2%} of the last tiles is padding"
                fixes = (Fix(path, nearest_multiple(value, TILE)),) if name == "d_ff" else ()
                yield Finding(path, message, value, f"a multiple of {TILE}", fixes=fixes)


class HeadsFillTiles(Rule):
    """head_dim is a multiple of 8."""

    code = "HWD002"
    severity = Severity.WARNING
    title = "head_dim is no multiple of 8"
    reason = (
        "Fused attention loads heads in 16 bytes at a time, 8 elements of bf16; other widths are padded or run on slower kernels."
        " 64 and 128 are usual."
    )
    source = (
        f"{CO_DESIGN}: head sizes divisible by powers of two; torch's flash kernel asks for multiples of 8 of nested tensors (confirmed)"
    )
    valid = (example(),)
    invalid = (example(attention="{kind: mha, n_heads: 5, head_dim: 100, position: {kind: rope, theta: 10000}}"),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Every attention with such heads; 64 and 128 are nearest."""
        for path, attention in find(case.model, ProjectedAttention):
            dim = int(attention.width(case.model.d_model))
            if dim % HALF_TILE:
                stated = attention.head_dim is not None
                where = f"{path}.{'head_dim' if stated else 'n_heads'}"
                fixes = (Fix(where, nearest_multiple(dim, TILE if dim > TILE // 2 else HALF_TILE)),) if stated else ()
                yield Finding(where, f"heads {dim} wide", dim, f"a multiple of {HALF_TILE}, at best of {TILE}", fixes=fixes)


class HeadsOfHalfTiles(Rule):
    """head_dim is a multiple of 64."""

    code = "HWD003"
    severity = Severity.INFO
    title = "head_dim is a multiple of 8, not of 64"
    reason = "Such heads run on fused kernels, which pad them to the next size they are compiled for (32, 64, 96, 128, 192, 256)."
    source = f"{CO_DESIGN}; FlashAttention's README (confirmed)"
    valid = (example(),)
    invalid = (example(attention="{kind: mha, n_heads: 6, head_dim: 80, position: {kind: rope, theta: 10000}}"),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Every attention with such heads."""
        for path, attention in find(case.model, ProjectedAttention):
            dim = int(attention.width(case.model.d_model))
            if dim % HALF_TILE == 0 and dim % TILE and dim > TILE // 2:
                where = f"{path}.{'n_heads' if attention.head_dim is None else 'head_dim'}"
                yield Finding(where, f"heads {dim} wide", dim, "64, 128, 192 or 256")


class VocabularyFillsTiles(Rule):
    """The vocabulary is a multiple of 8."""

    code = "HWD004"
    severity = Severity.WARNING
    title = "vocab_size is no multiple of 8"
    reason = (
        "The output head is the largest single product of a small model; an odd vocabulary puts it on slower kernels. Entries can"
        " be padded and never used."
    )
    source = f"{KARPATHY}; Megatron pads to 128 times the tensor-parallel size (confirmed)"
    known: ClassVar[Mapping[str, str]] = {
        "gpt2": "50,257 entries; nanoGPT pads them to 50,304",
        "gpt2-xl": "50,257 entries",
        "gpt3-175b": "50,257 entries, GPT-2's",
        "gpt-1": "40,478 entries",
        "bert-base-uncased": "30,522 entries",
        "bert-base": "30,522 entries",
        "bert-large": "30,522 entries",
        "whisper-small": "51,865 entries",
        "whisper-tiny": "51,865 entries",
        "longformer-base": "50,265 entries, RoBERTa's",
    }
    valid = (example(vocab_size="32000"),)
    invalid = (example(vocab_size="32001"),)

    def check(self, case: Case) -> Iterator[Finding]:
        """A vocabulary with a remainder."""
        size = case.model.vocab_size
        if size % HALF_TILE:
            best = padded(size, TILE)
            message = f"{size:,} entries; {best:,} would waste {(best - size) / best:.2%}"
            yield Finding("vocab_size", message, size, f"a multiple of {TILE}", fixes=(Fix("vocab_size", best),))


class VocabularyOfHalfTiles(Rule):
    """The vocabulary is a multiple of 64."""

    code = "HWD005"
    severity = Severity.INFO
    title = "vocab_size is a multiple of 8, not of 64"
    reason = "Co-design recommendations ask for a vocabulary divisible by 64; padding it costs next to nothing."
    source = f"{CO_DESIGN}; nanochat pads to 64 (confirmed)"
    valid = (example(vocab_size="32000"),)
    invalid = (example(vocab_size="32008"),)

    def check(self, case: Case) -> Iterator[Finding]:
        """A vocabulary with such a remainder."""
        size = case.model.vocab_size
        if size % HALF_TILE == 0 and size % TILE:
            best = padded(size, TILE)
            yield Finding("vocab_size", f"{size:,} entries; {best:,} would waste {(best - size) / best:.2%}", size, f"a multiple of {TILE}")


class _Divides(Rule):
    """Sizes divide between devices."""

    severity = Severity.ERROR

    def axes(self, case: Case) -> Iterator[tuple[str, str, int]]:
        """(path, name, value) of what is divided."""
        raise NotImplementedError

    def degree(self, parallel: Parallel) -> int:
        """Among how many."""
        raise NotImplementedError

    def check(self, case: Case) -> Iterator[Finding]:
        """Every size with a remainder."""
        n = self.degree(case.parallel)
        for path, name, value in self.axes(case):
            if value % n:
                yield Finding(path, f"{name} {value:,} does not divide into {n}", value, f"a multiple of {n}")


class TensorParallel(_Divides):
    """Heads, kv heads, widths and the vocabulary divide by the degree of tensor parallelism."""

    code = "HWD010"
    title = "a size that does not divide by --tp"
    reason = (
        "Tensor parallelism gives each device an equal share of heads, of d_ff and of the vocabulary; fewer kv heads than devices"
        " are copied."
    )
    source = "Megatron-LM, arXiv:1909.08053 section 3 (confirmed); gpt-neox pads the vocabulary (confirmed)"
    spares = "runs without --tp; fewer kv heads than devices where they divide the devices"
    parallel = Parallel(tp=4)
    valid = (example(),)
    invalid = (example(d_model="384", attention="{kind: mha, n_heads: 6, position: {kind: rope, theta: 10000}}"),)

    def degree(self, parallel: Parallel) -> int:
        """tp."""
        return parallel.tp

    def axes(self, case: Case) -> Iterator[tuple[str, str, int]]:
        """Heads and kv heads of every attention, d_ff, and the vocabulary."""
        tp = case.parallel.tp
        for layer in case.layers:
            attention: Any = layer.block.attention
            yield f"{layer.path}.attention.n_heads", "n_heads", attention.n_heads
            groups = getattr(attention, "n_kv_heads", None)
            if groups is not None and (groups >= tp or tp % groups):
                yield f"{layer.path}.attention.n_kv_heads", "n_kv_heads", groups
        yield from (each for each in sizes(case) if each[1] == "d_ff")
        yield "vocab_size", "vocab_size", case.model.vocab_size


class PipelineParallel(_Divides):
    """Layers divide by the degree of pipeline parallelism."""

    code = "HWD011"
    severity = Severity.WARNING
    title = "layers that do not divide by --pp"
    reason = "Stages of unequal length wait for the longest one."
    source = "Megatron-LM's pipeline schedules, arXiv:2104.04473 section 2.2"
    spares = "runs without --pp"
    parallel = Parallel(pp=4)
    valid = (example(n_layers="8"),)
    invalid = (example(n_layers="6"),)

    def degree(self, parallel: Parallel) -> int:
        """pp."""
        return parallel.pp

    def axes(self, case: Case) -> Iterator[tuple[str, str, int]]:
        """Layers of every stack."""
        for stem, stack in stacks(case.model):
            yield f"{stem}groups.0.n_layers", "layers:", sum(group.n_layers for group in stack.groups)


class ExpertParallel(_Divides):
    """Experts divide by the degree of expert parallelism."""

    code = "HWD012"
    title = "experts that do not divide by --ep"
    reason = "Expert parallelism gives each device as many experts."
    source = "GShard, arXiv:2006.16668 section 3 (confirmed id)"
    spares = "runs without --ep, models without experts"
    parallel = Parallel(ep=4)
    valid = (example(ffn="{kind: moe, n_experts: 8, top_k: 2, expert: {kind: glu, d_ff: 1408}}"),)
    invalid = (example(ffn="{kind: moe, n_experts: 6, top_k: 2, expert: {kind: glu, d_ff: 1408}}"),)

    def degree(self, parallel: Parallel) -> int:
        """ep."""
        return parallel.ep

    def axes(self, case: Case) -> Iterator[tuple[str, str, int]]:
        """Experts of every mixture."""
        yield from ((f"{path}.n_experts", "n_experts", moe.n_experts) for path, moe in find(case.model, MixtureOfExperts))
