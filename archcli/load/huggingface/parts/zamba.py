"""What Zamba and Zamba 2 share: layers of a Mamba mixer, some of which use a block of attention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.parts.attention import attention
from archcli.load.huggingface.parts.recurrent import LINEAR, kinds_of_layers
from archcli.load.huggingface.weights.hybrid import of_layers
from archcli.load.huggingface.weights.map import Parts, Rule, Weights

HYBRID = "hybrid"
"""The kind of a layer that uses a shared block before its mixer."""

UNREAD = ("num_logits_to_keep", "use_mamba_kernels", "time_step_max", "time_step_floor")


def kinds(config: Config, default: Sequence[str]) -> list[str]:
    """The kind of each layer; the class wants as many as num_hidden_layers."""
    if config.get("layer_types", default=None) is not None:
        return kinds_of_layers(config, [LINEAR] * config.layers(), (LINEAR, HYBRID), key="layer_types")
    if len(default) != config.layers():
        what = f"without layers_block_type the class makes {len(default)} layers, not {config.layers()}"
        raise config.error(what, "state layers_block_type", config.place("num_hidden_layers"))
    return [*default]


def concat_block(config: Config, width: ConfigValue[int], ffn: Mapped, position: Any) -> Mapped:
    """Attention on the stream beside the embeddings, and a network; scores are scaled by (width / 2)^-1/2."""
    scale = width.derive((width.value / 2) ** -0.5)
    attends = attention(config, width, position=position, head_dim=width, scale=scale)
    return {"kind": "concat", "attention": attends, "ffn": ffn}


def hybrid(
    config: Config, layers: Sequence[str], mixer: Mapped, names: Sequence[str], **use: Any
) -> list[Mapped]:
    """All layers; those that use a block take turns of these names.

    The class ties blocks as it ties the head: of a file that unties it, each use has weights of its own.
    """
    if not config.flag("tie_word_embeddings") and len(of_kind(layers, HYBRID)) > len(names):
        what = "tie_word_embeddings false unties the shared blocks in transformers too: it is not supported"
        raise config.error(what, "published models tie both", config.place("tie_word_embeddings"))
    plain: Mapped = {"kind": "pre_norm", "mixer": mixer}
    uses = [{"kind": "shared", "use": name, "project": True, **use, "mixer": mixer} for name in names]
    turns = {index: uses[nth % len(uses)] for nth, index in enumerate(of_kind(layers, HYBRID))}
    return [turns.get(index, plain) for index in range(len(layers))]


def of_kind(layers: Sequence[str], kind: str) -> list[int]:
    """The indices of the layers of a kind."""
    return [index for index, other in enumerate(layers) if other == kind]


def names(
    layers: Sequence[str], n_blocks: int, block: str, mixer: Callable[[str], Weights], parts: Weights
) -> Weights:
    """Weight names of all layers: a shared block is called `block` in each layer that uses it.

    `parts` are its weights, `mixer` gives those of a mixer under a prefix.
    """
    stem, uses = "[model.]layers.*", of_kind(layers, HYBRID)
    plain = {f"{stem}.input_layernorm.weight": "layers.*.mixer_norm.weight", **mixer(f"{stem}.mamba")}
    using = {
        f"{stem}.mamba_decoder.input_layernorm.weight": "layers.*.mixer_norm.weight",
        f"{stem}.linear.weight": "layers.*.shared_proj.weight",
        **mixer(f"{stem}.mamba_decoder.mamba"),
    }
    table: dict[str, Rule] = {**of_layers(plain, of_kind(layers, LINEAR)), **of_layers(using, uses)}
    for nth, index in enumerate(uses):
        first = uses[nth % n_blocks]
        for theirs, rule in parts.items():
            ours = rule.ours if isinstance(rule, Parts) else (str(rule),)
            held = tuple(f"layers.{first}.shared.{name}" for name in ours)
            table[f"[model.]layers.{index}.{block}.{theirs}"] = Parts(held, again=True)
    return table


BLOCK: Weights = {
    **{f"self_attn.{which}_proj.weight": f"attention.{which}_proj.weight" for which in "qkvo"},
    "input_layernorm.weight": "attention_norm.weight",
    "pre_ff_layernorm.weight": "ffn_norm.weight",
}
"""Weights of a shared block but those of its network."""

ENDS: Weights = {
    "[model.]embed_tokens.weight": "embedding.tokens.weight",
    "[model.]final_layernorm.weight": "final_norm.weight",
    "lm_head.weight": "lm_head.weight",
}
