"""Rules of parallelism: sizes that divide between the devices of --tp, --pp and --ep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from archcli.modules import Mixer, MixtureOfExperts, MultiHeadLatentAttention, ProjectedHeads
from archcli.modules.models.stack import stacks
from archcli.modules.spec.base import find
from archcli.modules.spec.degrees import Degrees
from archcli.modules.tensor_parallel.checks import counts_of
from archcli.modules.tensor_parallel.layouts import layout_of
from archcli.rules.base import (
    DIVISOR,
    Case,
    DesignRule,
    Finding,
    Fix,
    Parallelism,
    Severity,
    example,
    nearest_multiple,
    padded,
    widths,
)

# elements, as in rules/hardware.py: each device's share is a multiple, too
TILE = 64
DEVICES, LARGE = 4, 3_000_000_000
"""So many devices must be able to share the heads of models with LARGE parameters and more."""
WIDE = "{kind: glu, activation: silu, d_ff: 11008}"
ODD_HEADS = "{kind: gqa, n_heads: 34, n_kv_heads: 2, head_dim: 64, position: {kind: rope, theta: 10000}}"
MEGATRON = "Megatron-LM, arXiv:1909.08053 section 3 (id confirmed)"


class TensorParallel(DesignRule):
    """Numbers of heads, groups and hidden channels are divisible by the degree of tensor parallelism."""

    code = "HWD010"
    severity = Severity.ERROR
    title = "a size that is not divisible by --tp"
    reason = (
        "Tensor parallelism gives each device an equal share of the heads and of d_ff; what has a remainder "
        "cannot be split so."
    )
    source = MEGATRON
    spares = (
        "runs without --tp; fewer kv heads than devices where they divide the devices (HWD014); experts that "
        "--ep spreads over all of --tp"
    )
    parallel = Parallelism(tp=4)
    valid = (example(),)
    invalid = (
        example(d_model="384", attention="{kind: mha, n_heads: 6, position: {kind: rope, theta: 10000}}"),
    )

    def check(self, case: Case) -> Iterator[Finding]:
        """Report heads, kv heads, groups and widths that --tp does not divide."""
        tp = case.parallel.tp
        for path, name, value in _counts(case):
            yield Finding(
                f"{path}.{name}",
                f"{name} {value:,} is not divisible by --tp {tp}",
                value,
                f"a multiple of {tp}",
                cause=DIVISOR,
            )
        for path, value in widths(case):
            # --ep gives whole experts to devices, or what is left of --tp divides their d_ff
            ranks = Degrees(tp, ep=case.parallel.ep).of_expert if path.endswith(".expert.d_ff") else tp
            if value % ranks:
                fixes = (Fix(path, nearest_multiple(value, TILE * ranks)),)
                of_experts = "" if ranks == tp else f" and --ep {case.parallel.ep}, {ranks} for each expert"
                message = f"d_ff {value:,} is not divisible by --tp {tp}{of_experts}"
                yield Finding(path, message, value, f"a multiple of {ranks}", fixes=fixes, cause=DIVISOR)


def _counts(case: Case) -> Iterator[tuple[str, str, int]]:
    """(path, name, number) of what --tp has to divide and does not, but for d_ff."""
    tp = case.parallel.tp
    for count in counts_of(case.model, Degrees(tp, ep=case.parallel.ep)):
        stem, _, name = count.path.rpartition(".")
        if name != "d_ff" and not count.fits(count.degree):
            yield stem, name, count.value
    for path, mixer in find(case.model, Mixer):
        heads = mixer.value_of("n_heads")  # mixers without heads are split by other sizes
        if heads is not None and layout_of(mixer) is None and heads % tp:  # of a kind that no plan splits
            yield path, "n_heads", heads


class PipelineParallel(DesignRule):
    """n_layers is divisible by the degree of pipeline parallelism."""

    code = "HWD011"
    severity = Severity.WARNING
    title = "n_layers is not divisible by --pp"
    reason = "Stages of unequal length wait for the longest one."
    source = "Megatron-LM's pipeline schedules, arXiv:2104.04473 (not checked)"
    spares = "runs without --pp"
    parallel = Parallelism(pp=4)
    valid = (example(n_layers="8"),)
    invalid = (example(n_layers="6"),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Report every stack whose layers --pp does not divide."""
        pp = case.parallel.pp
        for stem, stack in stacks(case.model):
            layers = sum(group.n_layers for group in stack.groups)
            if layers % pp:
                message = (
                    f"n_layers {layers} is not divisible by --pp {pp}: stages of {-(-layers // pp)} and of "
                    f"{layers // pp} layers"
                )
                yield Finding(f"{stem}groups.0.n_layers", message, layers, f"a multiple of {pp}")


class ExpertParallel(DesignRule):
    """n_experts is divisible by the degree of expert parallelism."""

    code = "HWD012"
    severity = Severity.ERROR
    title = "n_experts is not divisible by --ep"
    reason = "Expert parallelism gives each device the same number of experts."
    source = "GShard, arXiv:2006.16668 section 3 (id confirmed)"
    spares = "runs without --ep, models without experts"
    parallel = Parallelism(ep=4)
    valid = (example(ffn="{kind: moe, n_experts: 8, top_k: 2, expert: {kind: glu, d_ff: 1408}}"),)
    invalid = (example(ffn="{kind: moe, n_experts: 6, top_k: 2, expert: {kind: glu, d_ff: 1408}}"),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Report every mixture whose experts --ep does not divide."""
        ep = case.parallel.ep
        for path, moe in find(case.model, MixtureOfExperts):
            if moe.n_experts % ep:
                yield Finding(
                    f"{path}.n_experts",
                    f"n_experts {moe.n_experts} is not divisible by --ep {ep}",
                    moe.n_experts,
                    f"a multiple of {ep}",
                )


class VocabularyParallel(DesignRule):
    """vocab_size is divisible by the degree of tensor parallelism."""

    code = "HWD013"
    severity = Severity.WARNING
    title = "vocab_size is not divisible by --tp"
    reason = (
        "The token tables are split by rows, a tied one once for both ends; frameworks pad a vocabulary that "
        "has a remainder."
    )
    source = f"{MEGATRON}; gpt-neox pads to 128 times the tensor-parallel size (confirmed)"
    spares = "runs without --tp"
    parallel = Parallelism(tp=4)
    valid = (example(),)
    invalid = (example(vocab_size="32002"),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Report a vocabulary that --tp does not divide."""
        size, tp = case.model.vocab_size, case.parallel.tp
        if size % tp:
            best = padded(size, TILE * tp)
            message = (
                f"vocab_size {size:,} is not divisible by --tp {tp}: padded to {best:,}, "
                f"{(best - size) / best:.2%} wasted"
            )
            fixes = (Fix("vocab_size", best),)
            yield Finding("vocab_size", message, size, f"a multiple of {tp}", fixes=fixes, cause=DIVISOR)


class CopiedKvHeads(DesignRule):
    """The KV cache of a device shrinks with --tp: there are enough kv heads to share."""

    code = "HWD014"
    severity = Severity.INFO
    title = "fewer kv heads than devices: --tp copies the KV cache"
    reason = (
        "With fewer kv heads than devices each is kept by several of them, and a latent by all: the cache of "
        "one device shrinks no further."
    )
    source = (
        "GQA, arXiv:2305.13245 section 2.2 (id confirmed): kv heads are copied for as many partitions; "
        f"{MEGATRON}"
    )
    spares = "runs without --tp"
    parallel = Parallelism(tp=4)
    valid = (
        example(attention="{kind: gqa, n_heads: 8, n_kv_heads: 4, position: {kind: rope, theta: 10000}}"),
    )
    invalid = (example(),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Report the first attention with fewer kv heads than devices, and the first latent cache."""
        tp = case.parallel.tp
        for path, attention in find(case.model, ProjectedHeads):
            groups = int(attention.kv_heads)
            # otherwise the heads have no equal shares, which HWD010 reports
            if groups < tp and tp % groups == 0 and attention.n_heads % tp == 0:
                # multi-query attention has one KV head by its kind
                name = "n_kv_heads" if attention.value_of("n_kv_heads") else "kind"
                message = f"{groups} kv heads for --tp {tp}: each is stored {tp // groups} times"
                yield Finding(f"{path}.{name}", message, groups, f"{tp} or more")
                break
        latent = next(iter(find(case.model, MultiHeadLatentAttention)), None)
        if latent is not None and tp > 1:
            message = f"kv_lora_rank: each of --tp {tp} devices stores the whole latent"
            yield Finding(f"{latent[0]}.kv_lora_rank", message, tp, "--tp 1")


class HeadsOfFourDevices(DesignRule):
    """Heads of a model from 3 billion parameters on can be shared by 2 and by 4 devices."""

    code = "HWD015"
    severity = Severity.WARNING
    title = "heads that 4 devices cannot share"
    reason = (
        "Models of this size are served and trained on 2, 4 or 8 devices of a node. Heads that 4 does not "
        "divide, or kv heads that neither divide 4 nor are divided by it, have no equal share for each."
    )
    source = f"{MEGATRON}; presets from 3 billion parameters on keep it but for those listed (their configs)"
    spares = "models below 3 billion parameters; runs with --tp (HWD010)"
    counts = True
    known: ClassVar[Mapping[str, str]] = {
        "falcon-7b": "71 heads, as its config says; engines run it on one device",
        "olmo-hybrid-7b": "30 heads, as its config says",
        **dict.fromkeys(("phi-3-medium-4k", "phi-4"), "10 kv heads, as its config says: --tp 2 at most"),
    }
    valid = (example(d_model="4096", n_layers="24", ffn=WIDE),)
    invalid = (example(d_model="4096", n_layers="24", ffn=WIDE, attention=ODD_HEADS),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Report each number of heads that 4 devices cannot share."""
        # with --tp HWD010 asks for that number of devices
        if case.parallel.tp > 1 or case.totals["params"] < LARGE:
            return
        seen: set[tuple[str, int]] = set()
        for count in counts_of(case.model, Degrees(DEVICES, ep=DEVICES)):
            name = count.path.rpartition(".")[2]
            if name.endswith("heads") and not count.fits(DEVICES) and (name, count.value) not in seen:
                seen.add((name, count.value))
                message = f"{name} {count.value:,} cannot be shared by {DEVICES} devices"
                yield Finding(count.path, message, count.value, f"a multiple of {DEVICES}", cause=DIVISOR)
