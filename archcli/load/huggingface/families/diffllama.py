"""DiffLlama: DiffLlamaConfig and DiffLlamaForCausalLM."""

from math import exp

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import key_value_heads
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.weights.names import LLAMA
from archcli.load.huggingface.whole.llama_like import llama_defaults, llama_like

MODEL_TYPES = ("diffllama",)
DEFAULTS = llama_defaults(
    "mlp_bias",
    hidden_size=2048,
    intermediate_size=8192,
    num_hidden_layers=16,
    rms_norm_eps=1e-5,
    lambda_std_dev=0.1,
)
WEIGHTS = {
    **LLAMA,
    **{
        f"[model.]layers.*.self_attn.lambda_{name}": f"layers.*.attention.difference.lambda_{name}"
        for name in ("q1", "k1", "q2", "k2")
    },
}


def mapping(config: Config) -> Mapped:
    """As Llama with differential attention, whose lambda starts higher from layer to layer."""
    config = config.of_class(DEFAULTS)
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
