"""DiffLlama: DiffLlamaConfig and DiffLlamaForCausalLM."""

from math import exp

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import key_value_heads
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.weights.names import LLAMA
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("diffllama",)
WEIGHTS = {
    **LLAMA,
    **{
        f"[model.]layers.*.self_attn.lambda_{name}": f"layers.*.attention.difference.lambda_{name}"
        for name in ("q1", "k1", "q2", "k2")
    },
}


def mapping(config: Config) -> Mapped:
    """As Llama with differential attention, whose lambda starts higher from layer to layer."""
    config = config.of_class()
    norm = rmsnorm(config) | {"weight": False}
    heads = {
        "kind": "differential",
        "n_kv_heads": key_value_heads(config),
        "bias": config.flag("attention_bias"),
        "norm": norm,
    }
    return llama_like(config, heads=heads, ffn=gated(config), networks=_by_depth)


def _by_depth(layers: list[Mapped]) -> list[Mapped]:
    """The layers with where lambda starts: 0.8 - 0.6 exp(-0.3 index)."""
    starts = [0.8 - 0.6 * exp(-0.3 * index) for index in range(len(layers))]
    return [
        {**layer, "attention": {**layer["attention"], "lambda_init": start}}
        for layer, start in zip(layers, starts, strict=True)
    ]
