"""DeepSeek Sparse Attention: latent attention whose keys an indexer chooses, and whole decoders of it."""

from __future__ import annotations

from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.parts.attention import latent_attention
from archcli.load.huggingface.parts.decoder import decoder, multi_token_prediction
from archcli.load.huggingface.parts.experts import after_first, by_types, deepseek_experts, some_routed
from archcli.load.huggingface.parts.norms import rmsnorm
from archcli.load.huggingface.value import Mapped, without_none
from archcli.load.huggingface.weights.names import CORRECTED, EXPERTS, LLAMA, MLA, SHARED, prediction_layers
from archcli.load.huggingface.weights.rules import Weights

INDEXED = "indexed_attention"
FULL_INDEX, SHARED_INDEX = "full", "shared"
LETTERS = {"F": FULL_INDEX, "S": SHARED_INDEX}
INDEX_NAMES = ("indexer_types", "index_topk_pattern")
INDEX_STEPS = {"index_topk_freq": 1, "index_skip_topk_offset": 2}
"""Every how many layers have an index of their own, and from which on, by the class's defaults."""
DSA_DEFAULTS = {
    "moe_intermediate_size": 2048,
    "n_shared_experts": 1,
    "n_routed_experts": 256,
    "routed_scaling_factor": 2.5,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
    "norm_topk_prob": True,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "attention_bias": False,
    "index_topk": 2048,
    "index_head_dim": 128,
}
"""What the classes of DeepSeek-V3.2 and of GLM-5 have in common."""

ALIASES = {"num_experts": "n_routed_experts", "num_local_experts": "n_routed_experts"}
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


def index(config: Config, pairing: str | None = None) -> Mapped:
    """The indexer by DeepSeek's keys; `pairing` of its rotary dims left out is that of the attention."""
    sizes = {"top_k": "index_topk", "n_heads": "index_n_heads", "head_dim": "index_head_dim"}
    return without_none({**{ours: config.size(key) for ours, key in sizes.items()}, "pairing": pairing})


def only_indexed(config: Config) -> None:
    """Refuse layers of another type, for which the classes have no mask."""
    types = config.per_layer("layer_types", config.layers()) or []
    other = [kind for kind in types if kind != INDEXED]
    if other:
        what = f"layer_types {short_repr(other[0])} is not supported"
        raise config.error(what, f"known: {INDEXED}", config.place("layer_types"))


def every_layer_has_its_index(config: Config) -> None:
    """Refuse layers that read the keys which an earlier layer has chosen (arXiv:2603.12201)."""
    kinds = index_types(config)
    if SHARED_INDEX in kinds:
        layer, keys = kinds.index(SHARED_INDEX), (*INDEX_NAMES, *INDEX_STEPS)
        what = f"layer {layer} shares the index of an earlier layer, which is not supported"
        raise config.error(what, at=config.place(*keys))


def index_types(config: Config) -> list[str]:
    """For each layer whether it has an index of its own, full, or that of the last that has, shared."""
    count, named = config.layers(), [config.value(key, default=None) for key in INDEX_NAMES]
    stated = next((value for value in named if value.value is not None), None)
    if stated is None:
        step, first = (config.count(key, default=usual).value for key, usual in INDEX_STEPS.items())
        steps = [max(layer - first + 1, 0) % max(step, 1) for layer in range(count)]
        return [SHARED_INDEX if step else FULL_INDEX for step in steps]
    letters = stated.value if isinstance(stated.value, str | list) else []
    kinds = [LETTERS.get(kind, kind) for kind in letters[:count]]
    if len(kinds) < count or any(kind not in LETTERS.values() for kind in kinds):
        what = f"{short_repr(stated.value)} does not say of each of {count} layers what index it has"
        raise config.error(what, f"known: {FULL_INDEX}, {SHARED_INDEX}", stated.place)
    return kinds


def sparse_deepseek(config: Config, pairing: str | None = None) -> Mapped:
    """As DeepSeek-V3, each layer with an indexer; the first are dense where mlp_layer_types names none."""
    for key, value in (("moe_layer_freq", 1), ("scoring_func", "sigmoid"), ("topk_method", "noaux_tc")):
        config.only(key, value, default=value)
    config.ignore("mlp_bias", "rope_interleave", "indexer_rope_interleave")
    only_indexed(config)
    attention = {**latent_attention(config, "interleaved"), "index": index(config, pairing)}
    layer, routed = {"kind": "pre_norm", "attention": attention}, _routed(config)
    layers = some_routed(config, routed, lambda: deepseek_experts(config))([layer] * len(routed))
    mtp = multi_token_prediction(config, lambda: {**layer, "ffn": deepseek_experts(config)}, alike=routed[-1])
    return decoder(config, rmsnorm(config), layers, mtp=mtp)


def _routed(config: Config) -> list[bool]:
    return by_types(config, lambda: after_first(config))


def sparse_deepseek_weights(config: Config) -> Weights:
    """The names of DeepSeek-V3, and of the indexers."""
    predicting = prediction_layers(config.layers(), config.count("num_nextn_predict_layers", default=0).value)
    return {**LLAMA, **MLA, **INDEXER, **EXPERTS, **SHARED, **CORRECTED, **predicting}
