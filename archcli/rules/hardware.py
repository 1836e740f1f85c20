"""Rules of hardware: sizes that fill the tiles of matrix units. Devices: see `parallel.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from archcli.modules import ProjectedHeads
from archcli.modules.spec.base import find
from archcli.rules.base import (
    DIVISOR,
    Case,
    DesignRule,
    Finding,
    Fix,
    Severity,
    describe_head,
    example,
    head_key,
    head_width,
    nearest_multiple,
    padded,
    widths,
)

# elements: 64 of bf16 are 128 bytes, 8 the 16 bytes to which Tensor Cores want rows aligned (see NVIDIA)
TILE, HALF_TILE = 64, 8
NVIDIA = (
    "NVIDIA's matrix multiplication guide as Bekman's README quotes it (secondary); 64 elements are 128 "
    "bytes of bf16 (derived)"
)
CO_DESIGN = "Anthony et al., arXiv:2401.14489 (abstract confirmed, its list secondary)"
KARPATHY = "nanoGPT's model.py: 50257 padded to 50304, about 25% faster on one small model (confirmed)"

SO400M = (
    *("gemma-3-4b-vision", "gemma-3-12b-vision", "gemma-3-27b-vision", "paligemma-3b", "kimi-k2.5"),
    *("idefics3-8b", "llava-onevision-qwen2-0.5b", "smolvlm-2.2b"),
    *("qwen3-vl-8b", "qwen3-vl-30b-a3b", "qwen3.5-35b-a3b-vision"),
)
"""Presets with towers of the shape of SigLIP So400m."""


class WidthsFillTiles(DesignRule):
    """d_model and d_ff are multiples of 64."""

    code = "HWD001"
    severity = Severity.WARNING
    title = "d_model or d_ff is no multiple of 64"
    reason = (
        "Matrix units work on tiles: an axis that is no multiple of 64 leaves part of the last one empty, "
        "and one that is no multiple of 8 runs on slower kernels. Other sizes run, too; the figure of 64 is "
        "A100's, for H100 none was found."
    )
    source = f"{NVIDIA}; {CO_DESIGN}"
    known: ClassVar[Mapping[str, str]] = {
        "afm-on-device": "d_ff 8,032 is worked out from the published total, not published itself",
        **dict.fromkeys(SO400M, "d_ff 4,304 of the tower, SigLIP So400m's"),
        "qwen2.5-vl-7b": "d_ff 3,420 of the tower, as its config says",
    }
    valid = (example(),)
    invalid = (example(ffn="{kind: glu, d_ff: 1365}"),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Report every d_model and d_ff that is no multiple of 64."""
        # with --tp a multiple of 64 on every device, or HWD010 would report the fix
        unit = TILE * case.parallel.tp
        sizes = [("d_model", "d_model", case.model.d_model)]
        sizes += [(path, "d_ff", d_ff) for path, d_ff in widths(case)]
        for path, name, value in sizes:
            if value % TILE:
                full = padded(value, TILE)
                message = (
                    f"{name} {value:,} is no multiple of {TILE}: padded to {full:,}, "
                    f"{(full - value) / full:.2%} wasted"
                )
                # d_model is tied to the heads: no single value mends it
                fixes = (Fix(path, nearest_multiple(value, unit)),) if name == "d_ff" else ()
                yield Finding(path, message, value, f"a multiple of {TILE}", fixes=fixes, cause=DIVISOR)


class HeadsFillTiles(DesignRule):
    """head_dim is a multiple of 8."""

    code = "HWD002"
    severity = Severity.WARNING
    title = "head_dim is no multiple of 8"
    reason = (
        "Fused attention loads heads in 16 bytes at a time, 8 elements of bf16; other widths are padded or "
        "run on slower kernels. 64 and 128 are usual."
    )
    source = (
        f"{CO_DESIGN}: head sizes divisible by powers of two; torch's flash kernel asks for multiples of 8 "
        "of nested tensors (confirmed)"
    )
    valid = (example(),)
    invalid = (
        example(attention="{kind: mha, n_heads: 5, head_dim: 100, position: {kind: rope, theta: 10000}}"),
    )

    def check(self, case: Case) -> Iterator[Finding]:
        """Report every head_dim that is no multiple of 8."""
        for path, attention, dim in _heads(case):
            if dim % HALF_TILE:
                name = head_key(attention)
                # above 32 straight to a multiple of 64, as HWD003 would ask for one next
                unit = TILE if dim > TILE // 2 else HALF_TILE
                fixes = (Fix(f"{path}.head_dim", nearest_multiple(dim, unit)),) if name == "head_dim" else ()
                expected = f"a multiple of {HALF_TILE}, at best of {TILE}"
                message = describe_head(attention, case.model.d_model, dim)
                yield Finding(f"{path}.{name}", message, dim, expected, fixes=fixes, cause=DIVISOR)


class HeadsOfHalfTiles(DesignRule):
    """head_dim is a multiple of 64."""

    code = "HWD003"
    severity = Severity.INFO
    title = "head_dim is a multiple of 8, not of 64"
    reason = (
        "Such heads run on fused kernels but fill tiles of 64 in part; more powers of two in head_dim are "
        "said to help."
    )
    source = f"{CO_DESIGN}; Bekman's README, citing it (secondary)"
    spares = "heads of up to 32"
    valid = (example(),)
    invalid = (
        example(attention="{kind: mha, n_heads: 6, head_dim: 80, position: {kind: rope, theta: 10000}}"),
    )

    def check(self, case: Case) -> Iterator[Finding]:
        """Report every head_dim above 32 that is a multiple of 8 but not of 64."""
        for path, attention, dim in _heads(case):
            if dim % HALF_TILE == 0 and dim % TILE and dim > TILE // 2:
                message = describe_head(attention, case.model.d_model, dim)
                yield Finding(f"{path}.{head_key(attention)}", message, dim, "64, 128, 192 or 256")


UNPADDED = (
    "afm-4.5b",
    "bart-large",
    "ctrl",
    "deberta-v3-base",
    "distilbert-base",
    "electra-base",
    "gpt-neo-1.3b",
    "granite-3.0-1b-a400m",
    "hunyuan-7b",
    "hunyuan-a13b",
    "mbart-large-50",
    "nllb-200-600m",
    "olmo-3-7b",
    "olmo-3.1-32b",
    "pegasus-large",
    "roberta-base",
    "xlm-roberta-base",
)
"""Presets with exactly the vocabulary of their tokenizer, not padded for kernels."""


class VocabularyFillsTiles(DesignRule):
    """The vocabulary is a multiple of 8."""

    code = "HWD004"
    severity = Severity.WARNING
    title = "vocab_size is no multiple of 8"
    reason = (
        "The output head is the largest single product of a small model; an odd vocabulary puts it on slower "
        "kernels. Entries can be padded and never used."
    )
    source = f"{KARPATHY}; Megatron pads to 128 times the tensor-parallel size (confirmed)"
    known: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(
            ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", "gpt3-175b"),
            "50,257 entries of GPT-2's tokenizer; nanoGPT pads them to 50,304",
        ),
        "gpt-1": "40,478 entries of its tokenizer",
        "falcon-h1-1.5b": "65,537 entries, as its config says",
        **dict.fromkeys(("rwkv-4-169m", "rwkv-4-7b"), "50,277 entries of the tokenizer of GPT-NeoX"),
        **dict.fromkeys(("bert-base-uncased", "bert-large-uncased"), "30,522 entries of its tokenizer"),
        "longformer-base-4096": "50,265 entries, RoBERTa's",
        **dict.fromkeys(("granite-3.0-2b", "granite-3.0-8b"), "49,155 entries of its tokenizer"),
        **dict.fromkeys(UNPADDED, "the entries of its tokenizer, as its config says"),
        **dict.fromkeys(("internvl3-2b", "internvl3-8b"), "151,674 entries: Qwen2.5's and those of images"),
        **dict.fromkeys(("idefics3-8b", "smolvlm-2.2b"), "the language model's entries, and 3 of images"),
        "whisper-small": "51,865 entries, languages and marks among them",
        "whisper-large-v3": "51,866 entries, languages and marks among them",
    }
    valid = (example(vocab_size="32000"),)
    invalid = (example(vocab_size="32001"),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Report a vocabulary that is no multiple of 8."""
        if case.model.vocab_size % HALF_TILE:
            yield _vocabulary(case)


class VocabularyOfHalfTiles(DesignRule):
    """The vocabulary is a multiple of 64."""

    code = "HWD005"
    severity = Severity.INFO
    title = "vocab_size is a multiple of 8, not of 64"
    reason = (
        "Co-design recommendations ask for a vocabulary divisible by 64; padding it costs next to nothing."
    )
    source = f"{CO_DESIGN}; nanochat's README and code: padded to 64 (confirmed)"
    valid = (example(vocab_size="32000"),)
    invalid = (example(vocab_size="32008"),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Report a vocabulary that is a multiple of 8 but not of 64."""
        if case.model.vocab_size % HALF_TILE == 0 and case.model.vocab_size % TILE:
            yield _vocabulary(case)


def _vocabulary(case: Case) -> Finding:
    size = case.model.vocab_size
    best = padded(size, TILE * case.parallel.tp)
    message = f"vocab_size {size:,}: padded to {best:,}, {(best - size) / best:.2%} wasted"
    fixes = (Fix("vocab_size", best),)
    return Finding("vocab_size", message, size, f"a multiple of {TILE}", fixes=fixes, cause=DIVISOR)


def _heads(case: Case) -> Iterator[tuple[str, ProjectedHeads, int]]:
    """(path, attention, width of its heads) of every attention."""
    for path, attention in find(case.model, ProjectedHeads):
        width = head_width(attention, case.model.d_model)
        if width is not None:
            yield path, attention, width
