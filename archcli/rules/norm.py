"""Rules of norms, blocks and biases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from archcli.modules import Attention, FeedForward, Model
from archcli.modules.models.stack import stacks
from archcli.modules.spec.base import find
from archcli.modules.spec.kinds import kind_of
from archcli.rules.base import Case, DesignRule, Finding, Severity, example


class NormOtherThanRms(DesignRule):
    """The norm is RMSNorm."""

    code = "NRM001"
    severity = Severity.INFO
    title = "LayerNorm where RMSNorm is the consensus"
    year = 2025
    reason = (
        "RMSNorm drops the mean and the bias at about the same quality. Its authors' 7 to 64% less time is "
        "of whole models of 2018, mostly recurrent ones, and the upper end belongs to a partial variant: for "
        "RMSNorm itself it is 7 to 41%."
    )
    source = (
        "Zhang & Sennrich, arXiv:1910.07467 abstract (confirmed), Tables 2 to 10 (corrected: 64% is "
        "pRMSNorm; secondary)"
    )
    spares = "encoders and encoder-decoders, where LayerNorm is usual"
    valid = (example(),)
    invalid = (example(norm="{kind: layernorm}"),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Report a decoder-only model whose default norm is LayerNorm."""
        if case.is_decoder_only and kind_of(case.model.norm) == "layernorm":
            yield Finding("norm.kind", "norm layernorm", "layernorm", "rmsnorm")


POST_NORM = (
    "albert-base-v2",
    "bart-large",
    "deberta-v3-base",
    "distilbert-base",
    "electra-base",
    "nomic-embed-text-v1.5",
    "roberta-base",
    "xlm-roberta-base",
)
"""Presets with the post-norm blocks of BERT."""


class PostNormNeedsWarmUp(DesignRule):
    """A post-norm model states training.warmup_steps."""

    code = "NRM002"
    severity = Severity.WARNING
    title = "post-norm without training.warmup_steps"
    reason = (
        "With the norm after the residual sum, gradients near the output are large at initialization: a "
        "large learning rate makes training unstable, and a warm-up helps. Pre-norm needs none."
    )
    source = (
        "Xiong et al., arXiv:2002.04745 abstract (confirmed); the original Transformer, arXiv:1706.03762 "
        "section 5.3: 4,000 steps (not checked)"
    )
    of_text = True
    known: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(
            ("transformer-base", "transformer-big"),
            "post-norm and warmed up, which the preset, an architecture, does not state",
        ),
        **dict.fromkeys(
            ("bert-base-uncased", "bert-large-uncased", "gpt-1", "longformer-base-4096", *POST_NORM),
            "post-norm; the preset states no recipe",
        ),
        "performer": "the original Transformer's blocks; the preset states no recipe",
    }
    spares = "files that state training.warmup_steps; stacks of fewer than 6 layers"
    valid = (example(block="post_norm", n_layers="12", top="training: {warmup_steps: 4000}"), example())
    invalid = (example(block="post_norm", n_layers="12"),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Report the first post-norm layer of a deep model that states no warm-up."""
        training = case.model.training
        depths = [sum(group.n_layers for group in stack.groups) for _, stack in stacks(case.model)]
        if max(depths) < 6 or (training is not None and training.warmup_steps):
            return
        for path in case.layers_of("post_norm"):
            help_ = "or state training.warmup_steps"
            message = "kind post_norm without training.warmup_steps"
            yield Finding(f"{path}.kind", message, "post_norm", "pre_norm", help_)
            return


class Biases(DesignRule):
    """Linear layers have no bias."""

    code = "NRM003"
    severity = Severity.INFO
    title = "biases in linear layers"
    year = 2025
    reason = (
        "Most language models since PaLM have none; PaLM's authors found large models to train more stably "
        "without. Qwen2 keeps those of q, k and v."
    )
    source = (
        "PaLM, arXiv:2204.02311 section 2 (id confirmed, as others quote it); shipped models by their configs"
    )
    of_text = True
    valid = (example(),)
    invalid = (example(ffn="{kind: glu, d_ff: 1408, bias: true}"),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Report the first biases of attention and feed-forward networks, once per model."""
        first = {name: _first_bias(case.model, cls) for name, cls in LINEAR.items()}
        biased = {name: place for name, place in first.items() if place}
        if biased:
            path, bias = next(iter(biased.values()))
            value = list(bias) if isinstance(bias, tuple) else bias
            yield Finding(f"{path}.bias", f"bias in {' and '.join(biased)}", value, "false")


LINEAR = {"attention": Attention, "feed-forward networks": FeedForward}


def _first_bias(model: Model, cls: type[Any]) -> tuple[str, Any] | None:
    """(path, bias) of the first module of a class that has one."""
    # networks of a kind without biases have no such field
    biases = ((path, module.value_of("bias")) for path, module in find(model, cls))
    return next(((path, bias) for path, bias in biases if bias), None)


class ParallelBlocks(DesignRule):
    """Attention and feed-forward network run one after the other."""

    code = "NRM004"
    severity = Severity.INFO
    title = "attention and feed-forward network in parallel"
    year = 2025
    reason = (
        "Attention and feed-forward network that read the same input can run together: some 15% faster "
        "training at scale by PaLM's account, with a small loss of quality at 8B and none at 62B."
    )
    source = (
        "PaLM, arXiv:2204.02311 section 2 (as others quote it); GPT-J; Falcon, arXiv:2311.16867 (id "
        "confirmed)"
    )
    valid = (example(),)
    invalid = (example(block="parallel"),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Report the first parallel block."""
        for path in case.layers_of("parallel"):
            message = "kind parallel: attention and feed-forward network read the same input"
            yield Finding(f"{path}.kind", message, "parallel", "one after the other")
            return


class PreNormWithoutFinalNorm(DesignRule):
    """A pre-norm stack ends in a norm."""

    code = "NRM005"
    severity = Severity.WARNING
    title = "pre-norm layers and no final norm"
    reason = (
        "The residual stream of a pre-norm stack is never normalized and grows with depth; without a final "
        "norm the head reads it as it is."
    )
    source = (
        "GPT-2 (2019): a norm after the final block; Xiong et al., arXiv:2002.04745 section 3 (id confirmed)"
    )
    of_text = True
    valid = (example(),)
    invalid = (example(top="final_norm: false"),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Report every stack that ends in a pre-norm layer and has no final norm."""
        for stem, stack in stacks(case.model):
            # the last layer decides: its output is what the head reads
            blocks = stack.groups[-1].blocks
            if not stack.final_norm and blocks and kind_of(blocks[-1]) in {"pre_norm", "parallel"}:
                message = "final_norm false: the output of the last layer is never normalized"
                yield Finding(f"{stem}final_norm", message, False, "true", "leave final_norm out")


class UnusualNormEps(DesignRule):
    """The eps of the norm is between 1e-13 and 1e-3."""

    code = "NRM006"
    severity = Severity.WARNING
    title = "an unusual eps of the norm"
    reason = (
        "eps keeps a norm from dividing by zero. Published models have 1e-12 (BERT) to 1e-5 (Llama); a large "
        "one changes what is computed, a smaller one is lost in rounding."
    )
    source = "configs of shipped models (confirmed)"
    valid = (example(norm="{kind: rmsnorm, eps: 1e-6}"), example(norm="affine"))
    invalid = (example(norm="{kind: rmsnorm, eps: 0.1}"),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Report an unusual eps of the model's default norm."""
        eps = case.model.norm.eps
        # 0 is that of kind affine, which divides by nothing
        if eps and not 1e-13 <= eps <= 1e-3:
            yield Finding("norm.eps", f"eps {eps:g}", eps, "1e-12 to 1e-5")
