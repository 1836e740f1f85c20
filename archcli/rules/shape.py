"""Rules of shape: depth against width, heads against width."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from archcli.modules import Mixer, MixtureOfExperts, ProjectedHeads
from archcli.modules.spec.base import find
from archcli.rules.base import Case, DesignRule, Finding, Severity, example, head_key, head_width

SMALL = 2_000_000_000
"""Parameters below which models are usually deep for their width.

Their d_model / n_layers is 19 (SmolLM2-135M) to 85 (Pythia-70M), that of larger models 87 to 205.
"""
ASPECT = "aspect-ratio"
"""The cause of findings on d_model / n_layers."""
KAPLAN = "Kaplan et al., arXiv:2001.08361 Fig. 5: a factor of 40 changes loss only slightly (confirmed)"


def aspect_ratios(case: Case) -> Iterator[tuple[str, int, float, str]]:
    """(path of the first n_layers, layers, d_model / n_layers, message) of every stack."""
    width = case.model.d_model
    for path, layers in case.depths:
        if not layers:  # patches alone
            continue
        ratio = width / layers
        yield (
            path,
            layers,
            ratio,
            f"n_layers {layers}, d_model {width:,}: {_figure(ratio)} a layer",
        )


def _figure(ratio: float) -> str:
    """Three figures, never with an exponent."""
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.3g}"


def branches(case: Case) -> set[str]:
    """Full paths of mixers that share a layer with others."""
    members = ((path, at) for path, mixer in find(case.model, Mixer) for at, _ in mixer.members(path))
    return {at for path, at in members if at != path}


def has_whole_layers(case: Case) -> bool:
    """Whether every layer has a mixer and a network; two layers of one sublayer do what one of both does."""
    return all(layer.block.mixing is not None and layer.block.ffn is not None for layer in case.layers)


def is_small_or_sparse(case: Case) -> bool:
    """Whether a model is small or a mixture of experts, kinds that are deeper for their width."""
    return case.totals["params"] < SMALL or any(find(case.model, MixtureOfExperts))


class UnusualAspectRatio(DesignRule):
    """d_model / n_layers is near what large dense models have."""

    code = "SHP001"
    severity = Severity.INFO
    title = "d_model / n_layers is not a usual ratio"
    year = 2025
    reason = (
        "Large dense models have a d_model of 100 to 200 per layer, 128 most often; 87 to 128 was called a "
        "sweet spot. Loss is flat over a wide range, so this is worth knowing and no more: a deeper model "
        "runs slower, as layers wait for each other."
    )
    source = (
        f"CS336 lecture 3 (Spring 2026) p.44 and p.51 (slides); {KAPLAN}; Tay et al., arXiv:2109.10686 "
        "section 4.4 (confirmed)"
    )
    spares = (
        "models below two billion parameters and mixtures of experts, which are deeper for their width; "
        "layers of a mixer or a network alone, of which there are twice as many"
    )
    evidence = "aspect_ratio"
    of_width = True
    counts = True
    valid = (example(d_model="4096", n_layers="32"), example(d_model="512", n_layers="16"))
    invalid = (
        example(d_model="4096", n_layers="64", ffn="{kind: glu, d_ff: 11008}"),
        example(d_model="8192", n_layers="24", ffn="{kind: glu, d_ff: 22016}"),
    )

    def check(self, case: Case) -> Iterator[Finding]:
        """Report stacks outside of 80 to 210, a range that includes Gemma 3's 86.7 and BLOOM's 204.8."""
        for path, _, ratio, message in aspect_ratios(case):
            usual = 80 <= ratio <= 210 or is_small_or_sparse(case)
            if not usual and has_whole_layers(case):
                yield Finding(path, message, ratio, "100 to 200", cause=ASPECT)


class ExtremeAspectRatio(DesignRule):
    """d_model / n_layers lies within the range of published models."""

    code = "SHP002"
    severity = Severity.WARNING
    title = "d_model / n_layers is far from that of published models"
    reason = (
        "Published models lie between 33 (GPT-2 XL) and 205 (BLOOM), small ones down to 19 (SmolLM2-135M). "
        "Far outside, a slip in n_layers or d_model is likelier than a choice, though loss is flat over a "
        "wide range."
    )
    source = (
        f"{KAPLAN}; T5-11B 42.7, where a slide prints 33 (corrected); the others derived from their configs"
    )
    spares = (
        "stacks of one or two layers; the lower bound is 15 below two billion parameters and for mixtures of "
        "experts, and half of that where layers have a mixer or a network alone"
    )
    evidence = "aspect_ratio"
    of_width = True
    counts = True
    valid = (example(d_model="4096", n_layers="32"), example(d_model="576", n_layers="30"))
    invalid = (example(d_model="512", n_layers="48"), example(d_model="4096", n_layers="8"))

    def check(self, case: Case) -> Iterator[Finding]:
        """Report every stack far outside of that range, unless it has one or two layers."""
        least, most = (15 if is_small_or_sparse(case) else 30), 260
        if not has_whole_layers(case):
            # such stacks count twice as many layers for the same depth
            least = least // 2
        for path, layers, ratio, message in aspect_ratios(case):
            if not least <= ratio <= most and layers > 2:
                expected = f"{least} to {most}, usually 100 to 200"
                yield Finding(path, message, ratio, expected, cause=ASPECT)


class HeadsAgainstWidth(DesignRule):
    """n_heads * head_dim is near d_model."""

    code = "SHP003"
    severity = Severity.WARNING
    title = "n_heads * head_dim is far from d_model"
    reason = (
        "All heads together are usually as wide as d_model. Most published models lie between 0.67 "
        "(PaLM-540B, 48 heads of 256 on 18,432) and 2 (LaMDA, Qwen3-0.6B), GLM-4.5-Air has 3 (96 heads of "
        "128 on 4,096), T5-11B 16."
    )
    source = (
        "PaLM, arXiv:2204.02311 Table 1, where a well-known slide prints the inverse, 1.48 (corrected); "
        "LaMDA, arXiv:2201.08239 (confirmed); GLM-4.5-Air: the defaults of transformers' Glm4MoeConfig "
        "(confirmed)"
    )
    spares = (
        "latent attention, whose heads are wider than d_model by design, and attention beside other branches"
    )
    evidence = "head_ratio"
    of_width = True
    known: ClassVar[Mapping[str, str]] = {
        "t5-11b": "128 heads of 128 on a stream of 1,024, stated so in its config: 16"
    }
    valid = (example(),)
    invalid = (
        example(attention="{kind: mha, n_heads: 64, head_dim: 64, position: {kind: rope, theta: 10000}}"),
        example(attention="{kind: mha, n_heads: 2, head_dim: 64, position: {kind: rope, theta: 10000}}"),
    )

    def check(self, case: Case) -> Iterator[Finding]:
        """Report every attention outside of 0.6 to 3.1, slightly more than the observed range."""
        width = case.model.d_model
        branch_paths = branches(case)
        for path, attention in find(case.model, ProjectedHeads):
            if path in branch_paths:
                continue
            heads, dim = attention.n_heads, head_width(attention, width)
            # None: CON001 reports heads that do not divide d_model
            ratio = 1.0 if dim is None else heads * dim / width
            if not 0.6 <= ratio <= 3.1:
                message = f"head_dim {dim} x {heads} heads = {ratio:.3g} x d_model {width:,}"
                yield Finding(f"{path}.{head_key(attention)}", message, ratio, "0.67 to 3")
