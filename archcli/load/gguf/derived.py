"""Derive keys of the config.json from GGUF files of Gemma models and hybrids."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isnan
from statistics import NormalDist
from typing import Any

from archcli.load.gguf.arch import SCANS
from archcli.load.gguf.facts import ConfigData, Facts
from archcli.load.gguf.header import LONGEST_LIST
from archcli.load.gguf.newer import STREAMS
from archcli.load.huggingface.parts.attention import FULL, SLIDING
from archcli.load.huggingface.parts.recurrent import CONVOLUTION, LINEAR

SHARE_DIGITS = 6
"""Reliable decimals of a share that is stored as a quantile in a 32-bit float."""

FILLED_UP = (
    "per-layer embeddings are counted as stored: the converter fills their table up to the vocabulary, "
    "which the model's own may be short of"
)
# partial_rotary_factor of full layers in transformers' Gemma4TextConfig
ROTATED = 0.25
STEP_SHARE = 0.5
"""The rotary share of heads without a window, asserted by conversion/step3.py."""
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
        # the class would fill in a window of 4096
        if facts.name == "gemma3":
            config.setdefault("sliding_window", None)

    return special


def gemma3n(facts: Facts, config: ConfigData) -> None:
    """Set the rank of augmented residuals by its tensors, and widths and shares layer by layer."""
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
    """The share of gates below a quantile of the normal distribution."""
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


def step35(facts: Facts, config: ConfigData) -> None:
    """Set heads and RoPE by kind of layer, bounds of networks, and layers with experts.

    The last layers are those of multi-token prediction, where the file has any.
    """
    _check_stated(facts, "attention.sliding_window", "attention.key_length", "leading_dense_block_count")
    count = config["num_hidden_layers"] - facts.whole("nextn_predict_layers", 0)
    types, dense = config.get("layer_types", []), facts.whole("leading_dense_block_count")
    if len(types) < count or facts.whole("moe_every_n_layers", 1) > 1:
        what = (
            f"{facts.name}: sliding_window_pattern and moe_every_n_layers {facts.get('moe_every_n_layers')}"
        )
        raise facts.error(what, "a truth value for each layer, and experts in all but the first layers")
    config |= {"num_hidden_layers": count, "layer_types": types[:count]}
    heads = dict(zip(types[:count], _by_layer(facts, "attention.head_count"), strict=False))
    config["num_attention_heads"] = heads.get(FULL, next(iter(heads.values())))
    config["attention_other_setting"] = (
        {"num_attention_heads": heads.get(SLIDING)} if SLIDING in heads else {}
    )
    config["num_key_value_heads"] = _same(
        facts, "attention.head_count_kv", _by_layer(facts, "attention.head_count_kv")
    )
    bases = {
        FULL: facts.number("rope.freq_base", 10000.0),
        SLIDING: facts.number("rope.freq_base_swa", 10000.0),
    }
    shares = {FULL: STEP_SHARE, SLIDING: 1.0}
    config["rope_theta"] = [bases[kind] for kind in types[:count]]
    config["partial_rotary_factors"] = [shares[kind] for kind in types[:count]]
    config["moe_layers_enum"] = list(range(dense, count))
    for key, theirs in (
        ("swiglu_clamp_exp", "swiglu_limits"),
        ("swiglu_clamp_shexp", "swiglu_limits_shared"),
    ):
        config[theirs] = [limit or None for limit in _limits(facts, key)][:count] or None


def _limits(facts: Facts, key: str) -> list[float]:
    values = facts.per_layer(key)
    return values if isinstance(values, list) else [facts.number(key, 0.0)] * facts.whole("block_count")


def _width(facts: Facts, suffix: str) -> int:
    """Head widths of a kind of layer: of keys, of values, and of the part for RoPE."""
    width = facts.whole(f"attention.key_length{suffix}")
    for key in (f"attention.value_length{suffix}", f"rope.dimension_count{suffix}"):
        if (other_width := facts.whole(key, width)) != width:
            raise facts.error(f"{facts.name}.{key} {other_width} with heads of {width} is not supported")
    return width


def _networks(facts: Facts, config: ConfigData) -> None:
    """Set the widths of networks; layers that borrow keys may have twice the width."""
    widths = _by_layer(facts, "feed_forward_length")
    n_first = max(len(widths) - facts.whole("attention.shared_kv_layers", 0), 0)
    wide = len(set(widths)) > 1
    if wide and widths != [widths[0]] * n_first + [2 * widths[0]] * (len(widths) - n_first):
        what = f"{facts.name}.feed_forward_length is neither one width nor twice as much in the last layers"
        raise facts.error(what, "those that read the keys of others")
    config |= {"intermediate_size": widths[0], "use_double_wide_mlp": wide}
    facts.trace("intermediate_size", "feed_forward_length")


def _per_layer_vocabulary(facts: Facts, config: ConfigData) -> None:
    """Set vocab_size_per_layer_input: rows of the table, or vocab_size where no tensors are listed."""
    table = facts.header.tensors.get("per_layer_token_embd.weight")
    config["vocab_size_per_layer_input"] = table.shape[0] if table else config["vocab_size"]


def _check_stated(facts: Facts, *keys: str) -> None:
    """Raise ArchError for a missing number that has a default in the class."""
    for key in keys:
        facts.whole(key)


def _by_layer(facts: Facts, key: str, default: int | None = None) -> list[Any]:
    """The numbers of a key by layer; the file may have one for all."""
    values, layers = facts.per_layer(key), facts.whole("block_count")
    if not isinstance(values, list):
        # a forged block_count must not make a list of billions
        return [facts.whole(key, default)] * min(layers, LONGEST_LIST)
    if len(values) != layers or any(isinstance(value, bool) for value in values):
        raise facts.error(f"{facts.name}.{key} is not one number for each layer")
    return values


CHUNKS = "the length of the scan's chunks is not stated: FLOPs are those of the class's default"
EXPERTS = (
    "expert_count",
    "expert_used_count",
    "expert_feed_forward_length",
    "expert_shared_feed_forward_length",
    "expert_weights_norm",
    "expert_weights_scale",
)
"""Keys of experts that a file of Nemotron-H must have, as no default of the class fits."""

# convert_hf_to_gguf.py of llama.cpp: add_context_length(2**20), "arbitrary value"
MADE_UP = 2**20
CONTEXT = "the context that the model was trained for is not stated"
MLP, MOE = "mlp", "moe"


def _jamba(facts: Facts, config: ConfigData) -> None:
    """Set the attention layers (with kv heads) and the layers of experts (with a router)."""
    layers, width = facts.whole("block_count"), max(1, facts.whole("embedding_length"))
    heads = _kv_heads(facts, config)
    config["mamba_expand"] = facts.whole("ssm.inner_size") // width
    facts.trace("mamba_expand", "ssm.inner_size")
    attends = [index for index, count in enumerate(heads) if count]
    routed = [index for index in range(layers) if facts.has(f"blk.{index}.ffn_gate_inp.weight")]
    for name, indices in (("attn", attends), ("expert", routed)):
        # also where no layer attends: the class's default, every eighth from layer 4 on, would make some
        if indices or name == "attn":
            offset, period = _period(facts, indices, layers)
            config |= {f"{name}_layer_offset": offset, f"{name}_layer_period": period}


def _period(facts: Facts, indices: list[int], layers: int) -> tuple[int, int]:
    """(offset, period) of layers that come once in a period."""
    # a layer that comes once needs no period: any that ends past the last layer gives the same indices
    first, second = (*indices, layers, layers + 1)[:2] if indices else (layers, 2 * layers + 1)
    # the class takes i % period == offset, which an offset of period or more never meets
    period = max(second - first, first + 1)
    if list(range(first, layers, period)) != indices:
        raise facts.error("its layers of one kind do not come at equal distances")
    return first, period


def _short_convolutions(facts: Facts, config: ConfigData) -> None:
    """Set the kinds of layers: those without kv heads are convolutions."""
    _by_heads(facts, config, CONVOLUTION)


def _mamba2(facts: Facts, config: ConfigData) -> None:
    """Set head_dim, and expand: the width of all heads over that of the model."""
    config["head_dim"], config["expand"] = _scanned(facts, "head_dim", "expand")


def _granite(facts: Facts, config: ConfigData) -> None:
    """As `_bamba`, with RoPE unless the file denies it; without experts the shared one is the network."""
    turned = facts.get("rope.scaling.finetuned", True if "embedding_multiplier" in config else None)
    if not isinstance(turned, bool):
        fault = "is missing" if turned is None else "must be a truth value"
        what = f"metadata key '{facts.name}.rope.scaling.finetuned' {fault}"
        raise facts.error(what, "it tells a Bamba, which has RoPE, from a Granite 4")
    config["position_embedding_type"] = "rope" if turned else "nope"
    facts.trace("position_embedding_type", "rope.scaling.finetuned")
    _mamba2_hybrid(facts, config)
    _without_context(facts)
    if config.setdefault("num_local_experts", 0):
        _require(facts, "expert_used_count", "expert_shared_feed_forward_length")
    config.setdefault("shared_intermediate_size", facts.whole("feed_forward_length"))


def _bamba(facts: Facts, config: ConfigData) -> None:
    """Set the sizes of Mamba-2, and the attention layers by their kv heads."""
    _mamba2_hybrid(facts, config)
    kinds = config.pop("layer_types")
    config["attn_layer_indices"] = [index for index, kind in enumerate(kinds) if kind == FULL]
    facts.trace("attn_layer_indices", "attention.head_count_kv")
    share = config.pop("partial_rotary_factor")
    config["rope_parameters"] = {
        "rope_type": "default",
        **config.pop("rope_scaling", {}),
        "rope_theta": config["rope_theta"],
        "partial_rotary_factor": share,
    }


def _granite_or_bamba(facts: Facts, config: ConfigData) -> None:
    """Granite 4 or Bamba, by their factors: GGUF has one architecture for both."""
    (_bamba if facts.arch.model_type == "bamba" else _granite)(facts, config)


def _mamba2_hybrid(facts: Facts, config: ConfigData) -> None:
    """Set the kinds of layers, and the sizes of those of Mamba-2."""
    _by_heads(facts, config, LINEAR)
    keys = ("mamba_d_head", "mamba_expand")
    config |= zip(keys, _scanned(facts, *keys), strict=True)


def _nemotron_h(facts: Facts, config: ConfigData) -> None:
    """Set the kinds of layers by their kv heads and network widths, and the width of a network.

    Layers that predict further tokens come last.
    """
    heads, widths = _kv_heads(facts, config), facts.of_layers("feed_forward_length")
    layers = max(0, facts.whole("block_count") - facts.whole("nextn_predict_layers", 0))
    network = MOE if facts.name == "nemotron_h_moe" else MLP
    both = [index for index in range(layers) if heads[index] and widths[index]]
    if both:
        raise facts.error(
            f"layer {both[0]} has both kv heads and a feed_forward_length, which is not supported"
        )
    pairs = list(zip(heads, widths, strict=True))[:layers]
    config["layers_block_type"] = [FULL if kv else network if width else LINEAR for kv, width in pairs]
    facts.trace("layers_block_type", "feed_forward_length")
    if network == MLP:
        config["intermediate_size"] = _same(facts, "feed_forward_length", widths)
        facts.trace("intermediate_size", "feed_forward_length")
    else:
        _require(facts, *EXPERTS)
        if facts.whole("expert_group_count", 1) > 1:
            _require(facts, "expert_group_used_count")
    config["num_hidden_layers"] = layers
    _without_context(facts)
    config["mamba_head_dim"], _ = _scanned(facts, "mamba_head_dim")


def _scanned(facts: Facts, *keys: str) -> tuple[int, float]:
    """(head width of Mamba-2, width of all heads / d_model); `keys` are traced to ssm.inner_size."""
    _require(facts, *SCANS)
    heads, inner = max(1, facts.whole("ssm.time_step_rank")), facts.whole("ssm.inner_size")
    width = max(1, facts.whole("embedding_length"))
    if inner % heads:
        raise facts.error(f"{facts.name}.ssm.inner_size {inner} is no multiple of {heads} heads")
    for key in keys:
        facts.trace(key, "ssm.inner_size")
    _note_chunks(facts)
    # an int where it divides, as a config.json has it: expand 2, and not 2.0
    return inner // heads, inner / width if inner % width else inner // width


def _require(facts: Facts, *keys: str) -> None:
    """Raise ArchError where one of these keys is missing."""
    missing = next((key for key in keys if facts.get(key) is None), None)
    if missing:
        raise facts.error(f"metadata key '{facts.name}.{missing}' is missing")


def _note_chunks(facts: Facts, _: object = None) -> None:
    """Note that the length of a chunk is not stated."""
    facts.notes.append(CHUNKS)


def _without_context(facts: Facts) -> None:
    """Leave out a context that the converter makes up for models without positions; note that."""
    if facts.get("context_length") == MADE_UP:
        facts.arch = facts.arch._replace(over={**facts.arch.over, "max_seq_len": None})
        facts.notes.append(CONTEXT)


def _by_heads(facts: Facts, config: ConfigData, other_kind: str) -> None:
    """Set the kinds of layers: attention with kv heads, else the `other` kind."""
    config["layer_types"] = [FULL if number else other_kind for number in _kv_heads(facts, config)]
    facts.trace("layer_types", "attention.head_count_kv")


def _kv_heads(facts: Facts, config: ConfigData) -> list[int]:
    """The kv heads of each layer, 0 where it does not attend; sets num_key_value_heads."""
    heads = facts.of_layers("attention.head_count_kv")
    config["num_key_value_heads"] = _same(facts, "attention.head_count_kv", heads) or facts.whole(
        "attention.head_count"
    )
    facts.trace("num_key_value_heads", "attention.head_count_kv")
    return heads


def _same(facts: Facts, key: str, values: list[int]) -> int:
    """The only value other than 0, such as the kv heads of attention layers; ArchError for several."""
    distinct = {value for value in values if value}
    if len(distinct) > 1:
        what = f"{facts.name}.{key} differs from layer to layer"
        raise facts.error(f"{what}, which is not supported for {facts.name}")
    return max(distinct, default=0)


HYBRID: Mapping[str, Callable[[Facts, ConfigData], None]] = {
    "jamba": _jamba,
    **dict.fromkeys(("lfm2", "lfm2moe"), _short_convolutions),
    "falcon-h1": _note_chunks,
    "mamba2": _mamba2,
    "granitehybrid": _granite_or_bamba,
    **dict.fromkeys(("nemotron_h", "nemotron_h_moe"), _nemotron_h),
}
