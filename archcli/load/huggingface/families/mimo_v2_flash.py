"""MiMo-V2-Flash: MiMoV2FlashConfig and MiMoV2FlashForCausalLM."""

from dataclasses import replace

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.parts.attention import FULL, SLIDING, check_window, head_counts, head_dim
from archcli.load.huggingface.parts.decoder import without_prediction
from archcli.load.huggingface.parts.experts import by_types, corrected_router, experts, some_routed
from archcli.load.huggingface.parts.rope import rope_of_type
from archcli.load.huggingface.weights.map import Auxiliary
from archcli.load.huggingface.weights.names import CORRECTED, EXPERTS, LLAMA
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("mimo_v2_flash",)
ALIASES = {"num_experts": "n_routed_experts", "num_local_experts": "n_routed_experts"}
ROPES = {
    FULL: {"rope_theta": 5000000.0, "partial_rotary_factor": 0.334},
    SLIDING: {"rope_theta": 10000.0, "partial_rotary_factor": 0.334},
}
UNREAD = """
    rope_theta swa_rope_theta partial_rotary_factor layernorm_epsilon scoring_func topk_method
    n_shared_experts first_k_dense_replace attention_chunk_size
    attention_projection_layout
"""
"""Keys of published files that the class does not read, as its defaults say the same."""

PERIOD = 6
"""Of six layers, the last has no window, and neither has the model's first."""

WEIGHTS = {
    **LLAMA,
    **EXPERTS,
    **CORRECTED,
    **{
        f"[model.]layers.*.self_attn.{name}": "layers.*.attention.sinks.weight"
        for name in ("sinks", "attention_sink_bias")
    },
    "model.mtp.**": Auxiliary("multi-token prediction, which no class of transformers holds"),
}


def mapping(config: Config) -> Mapped:
    """Narrow values; windows with sinks and twice the kv heads; DeepSeek-V3's experts, none is shared."""
    config = _with_own_token(config.of_class(**ALIASES))
    check_window(config)
    config.ignore(*UNREAD.split())
    without_prediction(config)
    _check_unread(config)
    width, values = head_dim(config), config.size("v_head_dim")
    scale = None if config.stated_null("attention_value_scale") else config.number("attention_value_scale")

    def heads(window: ConfigValue[int] | None) -> Mapped:
        kv_heads = config.size("num_key_value_heads")
        own = {} if window is None else {"sinks": True, "n_kv_heads": None, **_doubled(config, kv_heads)}
        return {
            "bias": ["q", "k", "v"] if config.flag("attention_bias") else False,
            "position": rope_of_type(config, width, FULL if window is None else SLIDING, ROPES),
            "v_head_dim": values,
            "value_multiplier": scale,
            **own,
        }

    routed = by_types(config, lambda: [index > 0 for index in range(config.layers())])
    networks = some_routed(config, routed, lambda: experts(config, router=corrected_router(config)))
    return llama_like(config, heads=heads, networks=networks, slides=_slides)


def _slides(index: int) -> bool:
    return index > 0 and (index + 1) % PERIOD != 0


def _doubled(config: Config, kv_heads: ConfigValue[int]) -> Mapped:
    return head_counts(config.size("num_attention_heads"), kv_heads.derive(2 * kv_heads.value))


def _with_own_token(config: Config) -> Config:
    """The window as the class has it: sliding_window_size leaves out the token itself."""
    before = config.optional_size("sliding_window_size")
    if before is None:
        return config
    return replace(config, data={**config.data, "sliding_window": before.value + 1})


def _check_unread(config: Config) -> None:
    """Refuse what published files say and the class takes no notice of, where it differs from the class."""
    count, kv_heads = config.layers(), config.size("num_key_value_heads").value
    expected = {
        "hybrid_layer_pattern": [int(_slides(index)) for index in range(count)],
        "moe_layer_freq": [int(index > 0) for index in range(count)],
        "swa_num_attention_heads": config.size("num_attention_heads").value,
        "swa_num_key_value_heads": 2 * kv_heads,
        "swa_head_dim": config.size("head_dim").value,
        "swa_v_head_dim": config.size("v_head_dim").value,
        "add_swa_attention_sink_bias": True,
        "add_full_attention_sink_bias": False,
    }
    instead = {"hybrid_layer_pattern": "layer_types", "moe_layer_freq": "mlp_layer_types"}
    for key, value in expected.items():
        if key in instead and config.get(instead[key], default=None) is not None:
            config.ignore(key)
        else:
            config.only(key, value, default=value)
