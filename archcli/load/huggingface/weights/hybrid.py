"""Weight names of models whose layers are of several kinds, and of Inkling."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from archcli.load.huggingface.weights.map import Auxiliary, Parts, Rule, Weights
from archcli.load.huggingface.weights.names import LLAMA, PREDICTION, QK_NORM


def by_kinds(kinds: Sequence[str], names: Mapping[str, Weights]) -> Weights:
    """The names of all layers, each by its kind; a kind that is not in `names` has none of its own."""
    merged: dict[str, Rule] = {}
    for kind, of_kind in names.items():
        merged |= of_layers(of_kind, [index for index, other in enumerate(kinds) if other == kind])
    return merged


def of_layers(names: Weights, layers: Iterable[int]) -> Weights:
    """The names of some layers alone: the first `*` of each pattern stands for each of these indices."""
    return {
        # the first alone: what follows stands for weight or bias
        pattern.replace("*", str(layer), 1): _of_layer(rule, layer)
        for layer in layers
        for pattern, rule in names.items()
    }


def first_norms(theirs: str, keys: Sequence[str]) -> Weights:
    """The norm before each layer's mixer, which is called by the mixer's key: attention or mixer."""
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
    """The weight names of a KDA mixer, published or of the class, which joins the convolutions.

    `decay` are the projections that make the decay, which the class holds in a module of its own.
    """
    own = [*((f"{name}.weight", f"{name}.weight") for name in decay)]
    own += [(name, f"decay.{name}") for name in ("dt_bias", "A_log")]
    return {
        f"{within}.conv1d.weight": Parts(tuple(f"layers.*.mixer.{name}_conv.weight" for name in "qkv")),
        **{f"{within}.{name}_conv1d.weight": f"layers.*.mixer.{name}_conv.weight" for name in "qkv"},
        **{f"{within}.{name}_proj.weight": f"layers.*.mixer.{name}_proj.weight" for name in projections},
        **{
            f"{within}.{home}{name}": f"layers.*.mixer.{ours}"
            for home in ("", "forget_gate.")
            for name, ours in own
        },
        f"{within}.o_norm.weight": "layers.*.mixer.norm.weight",
    }


LAYER, PUBLISHED = "[model.]layers.*", "model.llm.layers.*"
ATTENTION, NETWORK = "layers.*.attention", "layers.*.ffn.network"
EXPERTS, SHARED = f"{NETWORK}.experts", f"{NETWORK}.shared"
MATRICES = ("gate", "up", "down")

IN_MEMORY: Weights = {
    **{name: rule for name, rule in LLAMA.items() if ".mlp." not in name},
    **QK_NORM,
    "[model.]embed_tokens.embed_norm.weight": "embedding.norm.weight",
    f"{LAYER}.self_attn.r_proj.weight": f"{ATTENTION}.r_proj.weight",
    f"{LAYER}.self_attn.rel_logits_proj.proj": f"{ATTENTION}.profiles.weight",
    f"{LAYER}.self_attn.k_sconv.conv1d.weight": f"{ATTENTION}.k_conv.weight",
    f"{LAYER}.self_attn.v_sconv.conv1d.weight": f"{ATTENTION}.v_conv.weight",
    f"{LAYER}.attn_sconv.conv1d.weight": f"{ATTENTION}.o_conv.weight",
    f"{LAYER}.mlp_sconv.conv1d.weight": "layers.*.ffn.conv.weight",
    f"{LAYER}.mlp.global_scale": "layers.*.ffn.trained_scale.scale",
    **{f"{LAYER}.mlp.{name}_proj.weight": f"{NETWORK}.{name}_proj.weight" for name in MATRICES},
    f"{LAYER}.mlp.gate.weight": f"{NETWORK}.router.weight",
    f"{LAYER}.mlp.gate.global_scale": f"{NETWORK}.route.scale",
    f"{LAYER}.mlp.gate.e_score_correction_bias": f"{NETWORK}.route.correction_bias",
    f"{LAYER}.mlp.experts.gate_up_proj": Parts(
        (f"{EXPERTS}.gate_proj.weight", f"{EXPERTS}.up_proj.weight"), axis=1
    ),
    f"{LAYER}.mlp.experts.down_proj": f"{EXPERTS}.down_proj.weight",
    **{f"{LAYER}.mlp.shared_experts.{name}_proj": f"{SHARED}.{name}_proj.weight" for name in MATRICES},
}


def published(dense: int, of_experts: int) -> Weights:
    """The names of published files: rows of gate and up by turns, in networks of these widths."""
    return {
        "model.llm.embed.weight": "embedding.tokens.weight",
        "model.llm.embed_norm.weight": "embedding.norm.weight",
        "model.llm.norm.weight": "final_norm.weight",
        "model.llm.unembed.weight": "lm_head.weight",
        "model.mtp.**": Auxiliary(PREDICTION),
        f"{PUBLISHED}.attn_norm.weight": "layers.*.attention_norm.weight",
        f"{PUBLISHED}.mlp_norm.weight": "layers.*.ffn_norm.weight",
        **{f"{PUBLISHED}.attn.{name}_norm.weight": f"{ATTENTION}.{name}_norm.weight" for name in "qk"},
        **{
            f"{PUBLISHED}.attn.{theirs}.weight": f"{ATTENTION}.{theirs[1]}_proj.weight"
            for theirs in ("wq_du", "wk_dv", "wv_dv", "wr_du", "wo_ud")
        },
        f"{PUBLISHED}.attn.rel_logits_proj.proj": f"{ATTENTION}.profiles.weight",
        **{f"{PUBLISHED}.attn.{name}_sconv.weight": f"{ATTENTION}.{name}_conv.weight" for name in "kv"},
        f"{PUBLISHED}.attn_sconv.weight": f"{ATTENTION}.o_conv.weight",
        f"{PUBLISHED}.mlp_sconv.weight": "layers.*.ffn.conv.weight",
        f"{PUBLISHED}.mlp.global_scale": "layers.*.ffn.trained_scale.scale",
        f"{PUBLISHED}.mlp.w13_dn.weight": _by_turns(NETWORK, 0, dense),
        f"{PUBLISHED}.mlp.w2_md.weight": f"{NETWORK}.down_proj.weight",
        f"{PUBLISHED}.mlp.gate.weight": f"{NETWORK}.router.weight",
        f"{PUBLISHED}.mlp.gate.global_scale": f"{NETWORK}.route.scale",
        f"{PUBLISHED}.mlp.gate.bias": f"{NETWORK}.route.correction_bias",
        f"{PUBLISHED}.mlp.experts.w13_weight": _by_turns(EXPERTS, 1, of_experts),
        f"{PUBLISHED}.mlp.experts.w2_weight": f"{EXPERTS}.down_proj.weight",
        f"{PUBLISHED}.mlp.shared_experts.shared_w13_weight": _by_turns(SHARED, 1, of_experts),
        f"{PUBLISHED}.mlp.shared_experts.shared_w2_weight": f"{SHARED}.down_proj.weight",
    }


def _by_turns(ours: str, axis: int, width: int) -> Parts:
    """Gate and up [width, D] in one matrix, row by row."""
    return Parts((f"{ours}.gate_proj.weight", f"{ours}.up_proj.weight"), axis=axis, groups=width)
