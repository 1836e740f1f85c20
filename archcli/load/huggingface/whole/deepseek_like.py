"""Decoders of DeepSeek-V3's kind, and of DeepSeek Sparse Attention, where an indexer chooses keys."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.config_json import Mapped, without_none
from archcli.load.huggingface.parts.attention import latent_attention
from archcli.load.huggingface.parts.decoder import decoder, multi_token_prediction
from archcli.load.huggingface.parts.experts import after_first, by_types, deepseek_experts, some_routed
from archcli.load.huggingface.parts.networks import rmsnorm
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import CORRECTED, EXPERTS, LLAMA, MLA, SHARED, prediction_layers

INDEXED = "indexed_attention"
INDEXED_BEFORE = "deepseek_sparse_attention"
"""The older name of INDEXED, as in GLM-5.2's file (transformers' `_LEGACY_LAYER_TYPE_REMAP`)."""
FULL_INDEX, SHARED_INDEX = "full", "shared"
LETTERS = {"F": FULL_INDEX, "S": SHARED_INDEX}
INDEX_NAMES = ("indexer_types", "index_topk_pattern")
INDEX_STEPS = {"index_topk_freq": 1, "index_skip_topk_offset": 2}
"""Keys and defaults: the distance between layers with an index, and the first layer that counts for it."""

INDEXER: Weights = {
    f"[model.]layers.*.self_attn.indexer.{theirs}": f"layers.*.attention.indexer.{ours}"
    for theirs, ours in (
        ("wq_b.weight", "query_proj.weight"),
        ("wk.weight", "key_proj.weight"),
        ("k_norm.*", "key_norm.*"),
        ("weights_proj.weight", "weight_proj.weight"),
    )
}
"""The indexer of a layer."""


def deepseek_like(config: Config, attention: Mapped, routed: Sequence[bool]) -> Mapped:
    """Layers with this attention and dense networks, or DeepSeek-V3's experts where they are routed."""
    layer = {"kind": "pre_norm", "attention": attention}
    layers = some_routed(config, routed, lambda: deepseek_experts(config))([layer] * len(routed))
    mtp = multi_token_prediction(config, lambda: {**layer, "ffn": deepseek_experts(config)}, alike=routed[-1])
    return decoder(config, rmsnorm(config), layers, mtp=mtp)


def deepseek_weights(config: Config) -> Weights:
    """The names of latent attention, experts and their correction, and of multi-token prediction."""
    predicting = prediction_layers(config.layers(), config.count("num_nextn_predict_layers", default=0).value)
    return {**LLAMA, **MLA, **EXPERTS, **SHARED, **CORRECTED, **predicting}


def index(config: Config, pairing: str | None = None) -> Mapped:
    """The indexer by DeepSeek's keys; `pairing` of its rotary dims left out is that of the attention."""
    sizes = {"top_k": "index_topk", "n_heads": "index_n_heads", "head_dim": "index_head_dim"}
    return without_none({**{ours: config.size(key) for ours, key in sizes.items()}, "pairing": pairing})


def only_indexed(config: Config) -> None:
    """Refuse layers of another type, for which the classes have no mask."""
    types = config.per_layer("layer_types", config.layers()) or []
    unsupported = [kind for kind in types if kind not in {INDEXED, INDEXED_BEFORE}]
    if unsupported:
        what = f"layer_types {short_repr(unsupported[0])} is not supported"
        raise config.error(what, f"known: {INDEXED}", config.place("layer_types"))


def needs_query_latent(config: Config) -> None:
    """Refuse queries without a latent, which is what an indexer reads."""
    if config.stated_null("q_lora_rank"):
        raise config.error("q_lora_rank null is not supported", "state a rank", config.place("q_lora_rank"))


def stated_indexes(config: Config, *names: str) -> list[str] | None:
    """For each layer full or shared, by the first of these keys that the file has; None without one."""
    entries = [config.value(key, default=None) for key in names or INDEX_NAMES[:1]]
    entry = next((entry for entry in entries if entry.value is not None), None)
    if entry is None:
        return None
    count, kinds = config.layers(), entry.value
    # index_topk_pattern is a text of letters, FFSF, where indexer_types is a list
    if isinstance(kinds, str) and entry is entries[-1] and len(names) > 1:
        kinds = [LETTERS.get(letter, letter) for letter in kinds]
    kinds = kinds[:count] if isinstance(kinds, list) else []
    if len(kinds) < count or any(kind not in LETTERS.values() for kind in kinds):
        what = f"{short_repr(entry.value)} does not say of each of {count} layers what index it has"
        raise config.error(what, f"known: {FULL_INDEX}, {SHARED_INDEX}", entry.place)
    return kinds


def index_types(config: Config) -> list[str]:
    """For each layer `full`, with an index of its own, or `shared`, with an earlier layer's."""
    kinds = stated_indexes(config, *INDEX_NAMES)
    if kinds is not None:
        config.ignore(*INDEX_STEPS)  # which say the same in files without the list
        return kinds
    step, first = (config.count(key, default=default).value for key, default in INDEX_STEPS.items())
    steps = [max(layer - first + 1, 0) % max(step, 1) for layer in range(config.layers())]
    return [SHARED_INDEX if step else FULL_INDEX for step in steps]


def index_sources(config: Config, kinds: list[str]) -> list[int | None]:
    """For each layer the layer whose chosen keys it reads (arXiv:2603.12201); None with its own index."""
    if kinds[0] == SHARED_INDEX:
        what = "layer 0 shares the index of an earlier layer, and there is none"
        raise config.error(what, at=config.place(*INDEX_NAMES, *INDEX_STEPS))
    full = [layer for layer, kind in enumerate(kinds) if kind == FULL_INDEX]
    # by layer, how many layers up to it have an index: the last of these is the one it reads
    last = accumulate(full.count(layer) for layer in range(len(kinds)))
    return [None if layer in full else full[n - 1] for layer, n in enumerate(last)]


def reading(layer: Mapped, attention: Mapped, sources: Sequence[int | None]) -> list[Mapped]:
    """A layer for each of these sources of its index."""
    by_source = {
        source: {**layer, "attention": without_none({**attention, "index_from": source})}
        for source in dict.fromkeys(sources)
    }
    return [by_source[source] for source in sources]


def sparse_deepseek(
    config: Config, pairing: str | None = None, sources: Sequence[int | None] | None = None
) -> Mapped:
    """As DeepSeek-V3 with indexers.

    `sources` are the layers whose index each layer reads, None for its own; by default each has its own.
    """
    for key, value in (("moe_layer_freq", 1), ("scoring_func", "sigmoid"), ("topk_method", "noaux_tc")):
        config.only(key, value, default=value)
    config.ignore("mlp_bias", "rope_interleave", "indexer_rope_interleave")
    config.ignore("index_share_for_mtp_iteration")  # of runs of the prediction layer after its first
    only_indexed(config)
    attention = {**latent_attention(config, "interleaved"), "index": index(config, pairing)}
    routed = by_types(config, lambda: after_first(config))
    mixers = reading({"kind": "pre_norm"}, attention, sources or [None] * len(routed))
    layers = some_routed(config, routed, lambda: deepseek_experts(config))(mixers)
    # the layer of prediction has an index of its own, also behind a layer that reads another's
    predictor = {"kind": "pre_norm", "attention": attention}
    alike = routed[-1] and (sources is None or sources[-1] is None)
    mtp = multi_token_prediction(config, lambda: {**predictor, "ffn": deepseek_experts(config)}, alike=alike)
    return decoder(config, rmsnorm(config), layers, mtp=mtp)


def sparse_deepseek_weights(config: Config) -> Weights:
    """The names of DeepSeek-V3, and of the indexers."""
    return {**deepseek_weights(config), **INDEXER}
