"""Keys of the config.json that GGUF files of hybrid models state layer by layer, or by other sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from archcli.load.gguf.arch import SCANS
from archcli.load.gguf.facts import Facts
from archcli.load.huggingface.parts.recurrent.hybrid import CONVOLUTION, LINEAR
from archcli.load.huggingface.parts.windows import FULL

ConfigData = dict[str, Any]
CHUNKS = "the length of the scan's chunks is not stated: FLOPs are those of the class's default"
EXPERTS = (
    "expert_count",
    "expert_used_count",
    "expert_feed_forward_length",
    "expert_shared_feed_forward_length",
    "expert_weights_norm",
    "expert_weights_scale",
)
"""What every file with experts of Nemotron-H states, and no default of the class stands for."""

MADE_UP = 2**20
CONTEXT = "the context that the model was trained for is not stated"
MLP, MOE = "mlp", "moe"


def _jamba(facts: Facts, config: ConfigData) -> None:
    """Set which layers attend, those with kv heads, and which have experts, those with a router."""
    layers, width = facts.whole("block_count"), max(1, facts.whole("embedding_length"))
    heads = _kv_heads(facts, config)
    config["mamba_expand"] = facts.whole("ssm.inner_size") // width
    facts.trace("mamba_expand", "ssm.inner_size")
    attends = [index for index, count in enumerate(heads) if count]
    routed = [index for index in range(layers) if facts.has(f"blk.{index}.ffn_gate_inp.weight")]
    for name, found in (("attn", attends), ("expert", routed)):
        if found or name == "attn":
            offset, period = _period(facts, found, layers)
            config |= {f"{name}_layer_offset": offset, f"{name}_layer_period": period}


def _period(facts: Facts, indices: list[int], layers: int) -> tuple[int, int]:
    """(offset, period) of the layers that come once in a period."""
    first, second = (*indices, layers, layers + 1)[:2] if indices else (layers, 2 * layers + 1)
    period = max(second - first, first + 1)
    if list(range(first, layers, period)) != indices:
        raise facts.error("its layers of one kind do not come at equal distances")
    return first, period


def _short_convolutions(facts: Facts, config: ConfigData) -> None:
    """Set the kinds of layers: those without kv heads are convolutions."""
    _by_heads(facts, config, CONVOLUTION)


def _mamba2(facts: Facts, config: ConfigData) -> None:
    """Set the width of a head and the factor that all of them are of the model's width."""
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
    """Set the sizes of Mamba-2, and which layers attend: those with kv heads."""
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
    """The two that one architecture stands for."""
    (_bamba if facts.arch.model_type == "bamba" else _granite)(facts, config)


def _mamba2_hybrid(facts: Facts, config: ConfigData) -> None:
    """Set the kinds of layers, and the sizes of those of Mamba-2."""
    _by_heads(facts, config, LINEAR)
    keys = ("mamba_d_head", "mamba_expand")
    config |= zip(keys, _scanned(facts, *keys), strict=True)


def _nemotron_h(facts: Facts, config: ConfigData) -> None:
    """Set the kinds of layers, by kv heads and by widths of the network, and the width that these have.

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
    """(width of a head of Mamba-2, the width of all heads over that of the model), which `keys` are named."""
    _require(facts, *SCANS)
    heads, inner = max(1, facts.whole("ssm.time_step_rank")), facts.whole("ssm.inner_size")
    width = max(1, facts.whole("embedding_length"))
    if inner % heads:
        raise facts.error(f"{facts.name}.ssm.inner_size {inner} is no multiple of {heads} heads")
    for key in keys:
        facts.trace(key, "ssm.inner_size")
    _note_chunks(facts)
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
        facts.arch = facts.arch._replace(stated={**facts.arch.stated, "max_seq_len": None})
        facts.notes.append(CONTEXT)


def _by_heads(facts: Facts, config: ConfigData, other: str) -> None:
    """Set the kinds of layers: those with kv heads attend, the rest are of the `other` kind."""
    config["layer_types"] = [FULL if number else other for number in _kv_heads(facts, config)]
    facts.trace("layer_types", "attention.head_count_kv")


def _kv_heads(facts: Facts, config: ConfigData) -> list[int]:
    """The number of kv heads of each layer, 0 where it does not attend; sets that of those that do."""
    heads = facts.of_layers("attention.head_count_kv")
    config["num_key_value_heads"] = _same(facts, "attention.head_count_kv", heads) or facts.whole(
        "attention.head_count"
    )
    facts.trace("num_key_value_heads", "attention.head_count_kv")
    return heads


def _same(facts: Facts, key: str, values: list[int]) -> int:
    """The value that all layers have for which it is not 0; ArchError where they differ."""
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
