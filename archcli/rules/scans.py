"""Rules of scans: what their kernels take, and groups that divide heads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from archcli.errors import Problem
from archcli.rules.base import (
    DIVISOR,
    Case,
    DesignRule,
    Finding,
    Fix,
    Severity,
    example,
    mixed_example,
    nearest_divisor,
)

SSD = "{{kind: mamba2, n_heads: {}, head_dim: {}, state: {}, n_groups: {}, chunk: {}, conv_kernel: {}}}"
SOUND = SSD.format(16, 64, 128, 1, 256, 4)
ATTENTION = "{kind: gqa, n_heads: 8, n_kv_heads: 2, head_dim: 64}"
DELTA = (
    "{{kind: gated_delta_net, n_key_heads: {}, n_value_heads: 8, key_head_dim: {}, value_head_dim: {}, "
    "chunk: 64}}"
)
# see the sources of REC005 and REC003
WIDEST, LONGEST = 256, 256
FIELDS = {
    "n_groups": ("n_groups", "n_key_heads", "n_heads"),
    "key_dim": ("state", "key_head_dim", "n_features", "head_dim"),
    "value_dim": ("value_head_dim", "v_head_dim", "head_dim"),
    "chunk": ("chunk",),
    "conv_kernel": ("conv_kernel",),
}
"""What mixers call a size of their state, the most telling name first."""


class Size(NamedTuple):
    """A size of a recurrence: the full path of its field, its name there, and its value."""

    path: str
    name: str
    value: int


def sizes(case: Case, fact: str) -> Iterator[Size]:
    """A size of every recurrence that has it."""
    for path, mixer, recurrence in case.recurrences:
        value = getattr(recurrence, fact)
        name = next((name for name in FIELDS[fact] if mixer.value_of(name) == value), None)
        if value is not None:
            yield Size(
                path if name is None else f"{path}.{name}", name or fact.replace("_dim", " width"), value
            )


class ChunkOfKernels(DesignRule):
    """chunk is a power of two up to 256."""

    code = "REC003"
    severity = Severity.WARNING
    title = "chunk is no power of two up to 256"
    reason = (
        "Kernels take a chunk as one block of a power of two; a longer one has more scores than a block "
        "keeps in fast memory. Mamba-2 has 128 or 256, delta rules and mLSTM 64."
    )
    source = (
        "flash-linear-attention, chunk_local_cumsum: chunk_size must be a power of 2 (code, confirmed); 64 "
        "to 256 in Mamba-2, Nemotron-H, Falcon-H1, MiniMax-01 and xLSTM (their configs)"
    )
    valid = (mixed_example(SOUND), example())
    invalid = (
        mixed_example(SSD.format(16, 64, 128, 1, 192, 4)),
        mixed_example(SSD.format(16, 64, 128, 1, 512, 4)),
    )

    def check(self, case: Case) -> Iterator[Finding]:
        """Report every chunk that is another number, with the power of two below it."""
        for path, name, value in sizes(case, "chunk"):
            if not is_power(value) or value > LONGEST:
                # the largest power of two up to the value
                best = min(LONGEST, 1 << (value.bit_length() - 1))
                message, expected = f"{name} {value:,}", f"a power of two up to {LONGEST}"
                yield Finding(path, message, value, expected, fixes=(Fix(path, best),))


class ConvKernelOfKernels(DesignRule):
    """conv_kernel is 2 to 4."""

    code = "REC004"
    severity = Severity.WARNING
    title = "conv_kernel is not 2 to 4"
    reason = (
        "The kernel that nearly all recurrent layers run on, causal_conv1d, has widths of 2, 3 and 4; any "
        "other is a plain convolution of torch, and steps of decoding lack their kernel."
    )
    source = (
        'causal_conv1d\'s README and check: "only supports width between 2 and 4" (confirmed); 4 in Mamba, '
        "Mamba-2, gated delta nets and RecurrentGemma, 3 in LFM2 (their configs)"
    )
    valid = (mixed_example(SOUND), mixed_example("{kind: short_conv, conv_kernel: 3}", ATTENTION))
    invalid = (
        mixed_example(SSD.format(16, 64, 128, 1, 256, 8)),
        mixed_example(SSD.format(16, 64, 128, 1, 256, 1)),
    )

    def check(self, case: Case) -> Iterator[Finding]:
        """Report every other width."""
        for path, name, value in sizes(case, "conv_kernel"):
            if not 2 <= value <= 4:
                fixes = (Fix(path, min(max(value, 2), 4)),)
                yield Finding(path, f"{name} {value:,}", value, "2 to 4, most often 4", fixes=fixes)


class StateBeyondKernels(DesignRule):
    """Keys of a state are at most 256 wide."""

    code = "REC005"
    severity = Severity.WARNING
    title = "a state is wider than its kernels take"
    reason = (
        "Kernels hold all elements that belong to a key in one block, and stop at 256: mamba_ssm's scan "
        "and flash-linear-attention's refuse more."
    )
    source = (
        "mamba_ssm, selective_scan: state dimension <= 256 (code, confirmed); flash-linear-attention, "
        "chunk_gated_delta_rule: no head dimension larger than 256 (code, confirmed); 16 to 256 in the "
        "configs of published models"
    )
    valid = (mixed_example(SOUND), mixed_example(SSD.format(16, 64, 256, 1, 256, 4)))
    invalid = (
        mixed_example(SSD.format(16, 64, 512, 1, 256, 4)),
        mixed_example(DELTA.format(4, 512, 128)),
    )

    def check(self, case: Case) -> Iterator[Finding]:
        """Report every width of a key above 256."""
        for path, name, value in sizes(case, "key_dim"):
            if value > WIDEST:
                yield Finding(
                    path, f"{name} {value:,}", value, f"at most {WIDEST}", fixes=(Fix(path, WIDEST),)
                )


class StatePadded(DesignRule):
    """Widths of keys and values of a chunked scan are powers of two."""

    code = "REC006"
    severity = Severity.INFO
    title = "a head of a scan is no power of two"
    reason = (
        "Blocks of Triton have powers of two: a head of 96 runs as one of 128, a quarter of it idle. "
        "Mamba-2 has heads of 64 and 128 with states of 64 to 256, gated delta nets 128; OLMo Hybrid's are "
        "96 and 192."
    )
    source = "flash-linear-attention: BK = next_power_of_2(K) (code, confirmed); the widths by their configs"
    spares = "scans without chunks, whose channels are no heads (Mamba)"
    valid = (mixed_example(SOUND), mixed_example(DELTA.format(4, 128, 128)))
    invalid = (
        mixed_example(SSD.format(16, 80, 128, 1, 256, 4)),
        mixed_example(DELTA.format(4, 96, 128)),
    )

    def check(self, case: Case) -> Iterator[Finding]:
        """Report the first place of each width of a key or value that blocks pad."""
        seen: set[tuple[str, int]] = set()
        # Mamba's scan has no chunks and pads nothing
        chunked = {path for path, _, recurrence in case.recurrences if recurrence.chunk is not None}
        for fact in ("key_dim", "value_dim"):
            for path, name, value in sizes(case, fact):
                padded_here = path.rpartition(".")[0] in chunked and not is_power(value)
                if padded_here and (name, value) not in seen:
                    seen.add((name, value))
                    # the next power of two, as the value is none itself
                    padded = 1 << value.bit_length()
                    message = f"{name} {value:,}: runs as {padded:,}, {1 - value / padded:.0%} idle"
                    yield Finding(path, message, value, "a power of two")


class GroupsDivideHeads(DesignRule):
    """The groups of keys divide the heads of a state."""

    code = "REC007"
    severity = Severity.ERROR
    title = "groups of keys do not divide the heads of a state"
    reason = (
        "Each group of keys (B and C in Mamba-2) serves the same number of heads; with a remainder there "
        "is none."
    )
    source = (
        "Mamba-2, arXiv:2405.21060 section 7.2, where heads share B and C as in GQA (not checked); nheads "
        "% ngroups == 0 in mamba_ssm (not checked)"
    )
    valid = (mixed_example(SSD.format(16, 64, 128, 4, 256, 4)), mixed_example(DELTA.format(4, 128, 128)))
    invalid = (
        mixed_example(SSD.format(16, 64, 128, 3, 256, 4)),
        mixed_example(DELTA.format(3, 128, 128)),
    )

    def check(self, case: Case) -> Iterator[Finding]:
        """Report every recurrence whose groups leave heads over."""
        heads = {path: recurrence.n_heads for path, _, recurrence in case.recurrences}
        for path, name, value in sizes(case, "n_groups"):
            n_heads = heads.get(path.rpartition(".")[0])
            if n_heads and n_heads % value:
                best = nearest_divisor(n_heads, value, case.parallel.tp)
                message = f"{name} {value} does not divide {n_heads} heads"
                fixes = (Fix(path, best),)
                yield Finding(path, message, value, f"a divisor of {n_heads}", fixes=fixes, cause=DIVISOR)

    def reports_conflict(self, conflict: Problem) -> bool:
        """Whether the modules found the conflict that this rule reports."""
        return conflict.code in {"groups-divide-heads", "key-heads-divide-value-heads"}


def is_power(value: int) -> bool:
    """Whether a number is a power of two."""
    return value & (value - 1) == 0
