"""Weight names of models whose layers are of several kinds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from archcli.load.huggingface.weights.map import Auxiliary, Parts, Rule, Weights


def by_kinds(kinds: Sequence[str], names: Mapping[str, Weights]) -> Weights:
    """The weight names of all layers, each by its kind; a kind missing in `names` has none."""
    merged: dict[str, Rule] = {}
    for kind, of_kind in names.items():
        merged |= of_layers(of_kind, [index for index, here in enumerate(kinds) if here == kind])
    return merged


def of_layers(names: Weights, layers: Iterable[int]) -> Weights:
    """The weight names of some layers: the first `*` of each pattern becomes each of their indices."""
    return {
        # the first alone: what follows stands for weight or bias
        pattern.replace("*", str(layer), 1): _of_layer(rule, layer)
        for layer in layers
        for pattern, rule in names.items()
    }


def first_norms(theirs: str, keys: Sequence[str]) -> Weights:
    """The norm before each layer's mixer: layers.3.attention_norm, or layers.3.mixer_norm."""
    return {
        theirs.replace("*", str(layer), 1): f"layers.{layer}.{key}_norm.weight"
        for layer, key in enumerate(keys)
    }


def _of_layer(rule: Rule, layer: int) -> Rule:
    if isinstance(rule, Auxiliary):
        return rule
    if isinstance(rule, Parts):
        return replace(rule, ours=tuple(name.replace("*", str(layer), 1) for name in rule.ours))
    return rule.replace("*", str(layer), 1)


INPUT_NORMS: Mapping[str, Weights] = {
    kind: {"[model.]layers.*.input_layernorm.weight": f"layers.*.{step}_norm.weight"}
    for kind, step in (("full_attention", "attention"), ("linear_attention", "mixer"))
}
"""The norm before a layer's mixer, by the kind of the layer."""


def kda_names(within: str, *projections: str, decay: Sequence[str]) -> Weights:
    """The weight names of a KDA mixer: those of published files, and those of the class in transformers.

    The class joins the convolutions of q, k and v in one.
    `decay` are the projections that make the decay, which the class holds in a module of its own.
    """
    names = [*((f"{name}.weight", f"{name}.weight") for name in decay)]
    names += [(name, f"decay.{name}") for name in ("dt_bias", "A_log")]
    return {
        f"{within}.conv1d.weight": Parts(tuple(f"layers.*.mixer.{name}_conv.weight" for name in "qkv")),
        **{f"{within}.{name}_conv1d.weight": f"layers.*.mixer.{name}_conv.weight" for name in "qkv"},
        **{f"{within}.{name}_proj.weight": f"layers.*.mixer.{name}_proj.weight" for name in projections},
        **{
            f"{within}.{home}{name}": f"layers.*.mixer.{ours}"
            for home in ("", "forget_gate.")
            for name, ours in names
        },
        f"{within}.o_norm.weight": "layers.*.mixer.norm.weight",
    }
