"""Hy4, latent attention with shared indexes on several streams: HYV4Config and HYV4ForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import latent_attention, positive
from archcli.load.huggingface.parts.decoder import decoder, without_prediction
from archcli.load.huggingface.parts.experts import (
    by_types,
    corrected_router,
    experts,
    shared_experts,
    some_routed,
)
from archcli.load.huggingface.parts.networks import gated, layernorm, rmsnorm
from archcli.load.huggingface.parts.rope import rope
from archcli.load.huggingface.weights.map import Auxiliary, Weights
from archcli.load.huggingface.weights.names import CORRECTED, EXPERTS, LLAMA, MLA, PREDICTION, SHARED
from archcli.load.huggingface.whole.deepseek_sparse import (
    FULL_INDEX,
    INDEXER,
    SHARED_INDEX,
    index,
    index_sources,
    needs_query_latent,
    only_indexed,
    reading,
    stated_indexes,
)

MODEL_TYPES = ("hy_v4",)
ALIASES = {"num_experts": "n_routed_experts", "num_local_experts": "n_routed_experts"}
PERIOD = 4
"""By default the first layer has an index of its own, and of those that follow each fourth."""

STREAMS = {
    "layers.*.attn_hc.": "layers.*.attention_hyper",
    "layers.*.ffn_hc.": "layers.*.ffn_hyper",
    "layers.*.hc_pre.hc_attn_layer.hc_": "layers.*.attention_hyper",
    "layers.*.hc_pre.hc_mlp_layer.hc_": "layers.*.ffn_hyper",
    "hc_head.hc_": "hyper_head",
    "hc_pre.hc_head.hc_head_": "hyper_head",
}
"""How the names of what gathers streams begin, in memory and in files."""

NUMBERS = {"fn": ".weight", "base": "_gates.base", "scale": "_gates.scale"}
LAYER = "[model.]layers.*."
WEIGHTS: Weights = {
    **LLAMA,
    **MLA,
    **INDEXER,
    **EXPERTS,
    **SHARED,
    **CORRECTED,
    f"{LAYER}mlp.linear_gate.weight": "layers.*.ffn.gate_proj.weight",
    f"{LAYER}mlp.shared_experts.linear_gate.weight": "layers.*.ffn.shared.gate_proj.weight",
    **dict.fromkeys(
        (f"{LAYER}self_attn.{gate}.weight" for gate in ("gate_proj", "linear_gate")),
        "layers.*.attention.gate_proj.weight",
    ),
    **dict.fromkeys(
        (f"{LAYER}self_attn.{sinks}" for sinks in ("sinks", "learnable_sink_param")),
        "layers.*.attention.sinks.weight",
    ),
    **{
        f"[model.]{theirs}{number}": ours + rest
        for theirs, ours in STREAMS.items()
        for number, rest in NUMBERS.items()
    },
    "[model.]mtp_layers.**": Auxiliary(PREDICTION),
}


def mapping(config: Config) -> Mapped:
    """Gated latent attention with sinks, whose layers share indexes, and bounded experts, on streams."""
    config = config.of_class(**ALIASES)
    config.ignore("learnable_sink_init", "first_k_dense_replace", "moe_layer_freq")
    config.ignore("scoring_func", "topk_method")
    without_prediction(config)
    only_indexed(config)
    needs_query_latent(config)
    sources = index_sources(config, stated_indexes(config) or _usual_indexes(config))
    layer, routed = _layer(config), by_types(config, lambda: [i > 0 for i in range(config.layers())])
    networks = some_routed(config, routed, lambda: _experts(config))
    return decoder(config, rmsnorm(config), networks(reading(layer, _attention(config), sources)))


def _usual_indexes(config: Config) -> list[str]:
    return [FULL_INDEX if not i or i % PERIOD == 1 else SHARED_INDEX for i in range(config.layers())]


def _layer(config: Config) -> Mapped:
    """A layer without attention and network."""
    streams, norm = config.size("hc_mult"), rmsnorm(config)
    if streams == 1:
        raise config.error("hc_mult 1 is not supported", "state 2 or more", streams.place)
    return {
        "kind": "hyper",
        "n_streams": streams,
        "magnitude": positive(config, "hc_magnitude"),
        "eps": config.number("hc_eps"),
        "stream_norm": {**norm, "weight": False},
    }


def _attention(config: Config) -> Mapped:
    """Gated latent attention with sinks; its index turns the last dims of a head."""
    place = rope(config, config.size("qk_rope_head_dim"), scales_scores=True)
    keys = {"norm": layernorm(config.number("rms_norm_eps"))}
    return {
        **latent_attention(config, "half", place.derive({**place.value, "rotates": "last"})),
        "sinks": True,
        "output_gate": {"per": "channel"},
        "index": {**index(config), **keys},
    }


def _experts(config: Config) -> Mapped:
    """Routed experts, bounded and with SiLU whatever hidden_act says, and shared ones as it says."""
    alike = gated(config, width="moe_intermediate_size")
    bounded = {**alike, "activation": "silu", "limit": positive(config, "swiglu_limit")}
    router = corrected_router(config)
    return experts(config, expert=bounded, router=router, shared=shared_experts(config, alike))
