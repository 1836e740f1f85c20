"""Flint: FlintConfig and FlintForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.parts.attention import PER_HEAD, check_window
from archcli.load.huggingface.parts.experts import every_step, experts, some_routed
from archcli.load.huggingface.parts.networks import gated
from archcli.load.huggingface.weights.names import EXPERTS, LLAMA, QK_NORM, SHARED
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("flint",)
WEIGHTS = {
    **LLAMA,
    **QK_NORM,
    **EXPERTS,
    **SHARED,
    **{
        f"[model.]layers.*.self_attn.{name}": "layers.*.attention.sinks.weight"
        for name in ("sinks", "softmax_offset")
    },
}


def mapping(config: Config) -> Mapped:
    """Sinks in every layer, RoPE in windows alone; experts by sigmoid scores beside a shared one.

    Without layer_types the first two layers, every fourth and the last have no window.
    """
    config = config.of_class()
    check_window(config)
    bias, last = config.flag("attention_bias"), config.layers() - 1

    def heads(window: ConfigValue[int] | None) -> Mapped:
        position = {"kind": "none"} if window is None else None
        return {"bias": bias, "qk_norm": PER_HEAD, "position": position, "sinks": True}

    return llama_like(
        config,
        heads=heads,
        networks=some_routed(config, every_step(config), lambda: _experts(config)),
        slides=lambda index: 1 < index < last and index % 4 != 1,
    )


def _experts(config: Config) -> Mapped:
    width = "shared_expert_intermediate_size"
    shared = gated(config, width=width) if config.count(width) else None
    router = {"scores": "sigmoid", "normalized": config.flag("norm_topk_prob")}
    return experts(config, router=router, shared=shared)
