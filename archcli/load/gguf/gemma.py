"""Keys of the config.json that GGUF files of Gemma models state in a way of their own."""

from __future__ import annotations

from collections.abc import Callable
from math import isnan
from statistics import NormalDist
from typing import Any

from archcli.load.gguf.facts import Facts
from archcli.load.gguf.header import LONGEST_LIST
from archcli.load.gguf.newer import STREAMS
from archcli.load.huggingface.parts.windows import FULL, SLIDING

ConfigData = dict[str, Any]
SHARE_DIGITS = 6
"""Decimals of a share that survive as a quantile in a float of 32 bits."""

FILLED_UP = (
    "per-layer embeddings are counted as stored: the converter fills their table up to the vocabulary, "
    "which the model's own may be short of"
)
ROTATED = 0.25
ROTATED_SHARE = (
    "which share of the heads of global layers is rotated is not in the header: a quarter, the class's "
    "default, is assumed; no count depends on it, logits do"
)


def query_scale(largest: int) -> Callable[[Facts, ConfigData], None]:
    """Set the query scale of Gemma 2 and 3: head_dim, in the largest models d_model / heads.

    No key states it: the largest is known by its number of layers.
    """

    def special(facts: Facts, config: ConfigData) -> None:
        wide = facts.whole("embedding_length") // max(1, facts.whole("attention.head_count"))
        config["query_pre_attn_scalar"] = (
            wide if facts.whole("block_count") == largest else facts.whole("attention.key_length", wide)
        )
        if facts.name == "gemma3":
            config.setdefault("sliding_window", None)

    return special


def gemma3n(facts: Facts, config: ConfigData) -> None:
    """Set the rank of augmented residuals, which its tensors have, and widths and shares layer by layer."""
    _check_stated(facts, "attention.sliding_window", "attention.shared_kv_layers", "altup.num_inputs")
    if config["altup_num_inputs"] != STREAMS:
        raise facts.error(f"{facts.name}.altup.num_inputs is not {STREAMS}, as in every file of llama.cpp")
    if table := facts.header.tensors.get("blk.0.laurel_l.weight"):
        config["laurel_rank"] = table.shape[0]
    _per_layer_vocabulary(facts, config)
    if config["vocab_size_per_layer_input"] == config["vocab_size"]:
        facts.notes.append(FILLED_UP)
    config["intermediate_size"] = _by_layer(facts, "feed_forward_length")
    facts.trace("intermediate_size", "feed_forward_length")
    if facts.per_layer("activation_sparsity_scale") is not None:
        quantiles = _by_layer(facts, "activation_sparsity_scale")
        config["activation_sparsity_pattern"] = [_share(facts, value) for value in quantiles]
        facts.trace("activation_sparsity_pattern", "activation_sparsity_scale")


def _share(facts: Facts, quantile: Any) -> float:
    """The share of gates that are below a quantile of the normal distribution."""
    if not isinstance(quantile, float) or isnan(quantile):
        raise facts.error(f"{facts.name}.activation_sparsity_scale is not a list of quantiles")
    return round(NormalDist().cdf(quantile), SHARE_DIGITS)


def gemma4(facts: Facts, config: ConfigData) -> None:
    """Set heads and networks layer by layer, values that are keys, experts, and RoPE of both kinds."""
    _check_stated(facts, "attention.sliding_window", "embedding_length_per_layer_input")
    config.setdefault("num_kv_shared_layers", 0)
    _per_layer_vocabulary(facts, config)
    _heads(facts, config)
    _networks(facts, config)
    config.setdefault("enable_moe_block", bool(facts.whole("expert_count", 0)))
    near, far = facts.number("rope.freq_base_swa", 10000.0), facts.number("rope.freq_base", 10000.0)
    config["rope_parameters"] = {
        SLIDING: {"rope_type": "default", "rope_theta": near},
        FULL: {"rope_type": "proportional", "rope_theta": far, "partial_rotary_factor": ROTATED},
    }
    facts.notes.append(ROTATED_SHARE)


def _heads(facts: Facts, config: ConfigData) -> None:
    """Set width and number of the heads of keys by layer; global layers may have keys for values."""
    types = config.get("layer_types", [])
    if types[-1:] != [FULL]:
        what = f"{facts.name}.attention.sliding_window_pattern does not say which layers have the window"
        raise facts.error(what, "a truth value for each layer, of which the last has none")
    widths, heads = {SLIDING: _width(facts, "_swa"), FULL: _width(facts, "")}, config["num_attention_heads"]
    numbers = _by_layer(facts, "attention.head_count_kv", heads)
    usual = numbers[types.index(SLIDING)] if SLIDING in types else numbers[0]
    config["num_key_value_heads"] = usual
    config["per_layer_config"] = {
        str(index): {"head_dim": widths[kind], "num_key_value_heads": number}
        for index, (kind, number) in enumerate(zip(types, numbers, strict=True))
        if kind == FULL or number != usual
    }
    facts.trace("num_key_value_heads", "attention.head_count_kv")
    facts.trace("per_layer_config", "attention.key_length")
    config["attention_k_eq_v"] = any(
        facts.has(f"blk.{index}.attn_k.weight") and not facts.has(f"blk.{index}.attn_v.weight")
        for index, kind in enumerate(types)
        if kind == FULL
    )


def _width(facts: Facts, suffix: str) -> int:
    """The width of the heads of a kind of layers: of keys, of values, and of what RoPE may turn."""
    width = facts.whole(f"attention.key_length{suffix}")
    for key in (f"attention.value_length{suffix}", f"rope.dimension_count{suffix}"):
        if (stated := facts.whole(key, width)) != width:
            raise facts.error(f"{facts.name}.{key} {stated} with heads of {width} is not supported")
    return width


def _networks(facts: Facts, config: ConfigData) -> None:
    """Set the width of networks, which may be twice as much where a layer reads the keys of another."""
    widths = _by_layer(facts, "feed_forward_length")
    own = max(len(widths) - facts.whole("attention.shared_kv_layers", 0), 0)
    wide = len(set(widths)) > 1
    if wide and widths != [widths[0]] * own + [2 * widths[0]] * (len(widths) - own):
        what = f"{facts.name}.feed_forward_length is neither one width nor twice as much in the last layers"
        raise facts.error(what, "those that read the keys of others")
    config |= {"intermediate_size": widths[0], "use_double_wide_mlp": wide}
    facts.trace("intermediate_size", "feed_forward_length")


def _per_layer_vocabulary(facts: Facts, config: ConfigData) -> None:
    """Set the tokens that the table of per-layer embeddings has: all, where the file lists no tensors."""
    table = facts.header.tensors.get("per_layer_token_embd.weight")
    config["vocab_size_per_layer_input"] = table.shape[0] if table else config["vocab_size"]


def _check_stated(facts: Facts, *keys: str) -> None:
    """Raise ArchError where a number is missing that the class would fill in."""
    for key in keys:
        facts.whole(key)


def _by_layer(facts: Facts, key: str, default: int | None = None) -> list[Any]:
    """The numbers of a key by layer, which may state one for all."""
    values, layers = facts.per_layer(key), facts.whole("block_count")
    if not isinstance(values, list):
        return [facts.whole(key, default)] * min(layers, LONGEST_LIST)
    if len(values) != layers or any(isinstance(value, bool) for value in values):
        raise facts.error(f"{facts.name}.{key} is not one number for each layer")
    return values
