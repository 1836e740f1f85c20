"""Command's North Micro, the language model: CohereCompassTextConfig and CohereCompassForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.parts.attention import FULL, SLIDING, check_window, head_dim, positive
from archcli.load.huggingface.parts.networks import layernorm
from archcli.load.huggingface.parts.rope import rope_of_type
from archcli.load.huggingface.weights.names import LLAMA
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("cohere_compass_text",)
WEIGHTS = LLAMA


def mapping(config: Config) -> Mapped:
    """As Command A, with RoPE by the type of a layer, null for none; its three axes are equal for text."""
    config = config.of_class()
    config.ignore("pooling", "sliding_window_pattern")
    check_window(config)
    width, bias = head_dim(config), config.flag("attention_bias")

    def heads(window: ConfigValue[int] | None) -> Mapped:
        return {"bias": bias, "position": _position(config, width, FULL if window is None else SLIDING)}

    stated = config.get("logit_scale", default=None) is not None
    scale = positive(config, "logit_scale") if stated else None
    return llama_like(
        config,
        heads=heads,
        block={"kind": "parallel"},
        norm=layernorm(config.number("layer_norm_eps"), bias=False),
        slides=lambda _: False,
        head=None if scale is None or scale == 1 else {"scale": scale},
        tied=True,
    )


def _position(config: Config, width: ConfigValue[int], kind: str) -> Mapped | ConfigValue[Mapped]:
    stated = config.value("rope_parameters", default={})
    if isinstance(stated.value, dict) and kind in stated.value and stated.value[kind] is None:
        return {"kind": "none"}
    if not isinstance(stated.value, dict) or kind not in stated.value:
        what = f"rope_parameters need a mapping {kind!r}, or null for layers without RoPE"
        raise config.error(what, at=config.place("rope_parameters"))
    return rope_of_type(config, width, kind, {kind: {}})
