"""GPT-Neo: GPTNeoConfig and GPTNeoForCausalLM."""

from __future__ import annotations

from typing import Any

from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import layernorm, mlp
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import GPT2
from archcli.load.huggingface.whole.gpt_like import SUMMARY, inner_width

MODEL_TYPES = ("gpt_neo",)

ALIASES = {"num_attention_heads": "num_heads", "num_hidden_layers": "num_layers"}
KINDS, PAIR = ("global", "local"), 2
DROPPED = ("attention_dropout", "embed_dropout", "resid_dropout")


def mapping(config: Config) -> Mapped:
    """As GPT-2 with scores left unscaled, a bias on the result of attention alone, and local layers."""
    config = config.of_class(**ALIASES)
    config.ignore("gradient_checkpointing", *DROPPED, *SUMMARY)
    ffn = mlp(config, inner_width(config, "intermediate_size"), "activation_function")
    attend = {"kind": "mha", "n_heads": config.size("num_attention_heads"), "bias": ["o"], "scale": 1.0}
    kinds = _kinds(config)
    window = {"window": config.size("window_size")} if "local" in kinds else {}
    made = {
        kind: {"kind": "pre_norm", "attention": {**attend, **more}, "ffn": ffn}
        for kind, more in (("global", {}), ("local", window))
    }
    norm = layernorm(config.number("layer_norm_epsilon"))
    layers = [made[kind] for kind in kinds]
    return decoder(config, norm, layers, embedding={"position": {"kind": "learned"}})


def _kinds(config: Config) -> list[str]:
    """`global` or `local` of each layer: `attention_layers`, else attention_types written out."""
    key = "attention_layers" if config.get("attention_layers", default=None) else "attention_types"
    stated, count = config.value(key), config.layers()
    kinds = stated.value if key == "attention_layers" else _repeated(stated.value, count)
    if not isinstance(kinds, list) or any(kind not in KINDS for kind in kinds):
        what = f"{key} {short_repr(stated.value)} is not understood"
        raise config.error(what, 'write attention_types: [[["global", "local"], 12]]', stated.place)
    if len(kinds) != count:
        number = len(kinds) if len(kinds) < count else "more"
        raise config.error(f"{key} names {number} layers, not {count}", at=stated.place)
    return kinds


def _repeated(types: Any, most: int) -> list[Any] | None:
    """[[["global", "local"], 12]] written out, at least to `most` layers; None for other forms."""
    kinds: list[Any] = []
    for entry in types if isinstance(types, list) else [None]:
        pattern, times = entry if isinstance(entry, list) and len(entry) == PAIR else (None, 0)
        if not isinstance(pattern, list) or type(times) is not int:
            return None
        kinds += pattern * min(times, most + 1)
    return kinds


WEIGHTS: Weights = {
    **GPT2,
    **{
        f"[transformer.]h.*.attn.attention.{name}_proj.*": f"layers.*.attention.{ours}_proj.*"
        for name, ours in (("q", "q"), ("k", "k"), ("v", "v"), ("out", "o"))
    },
    "[transformer.]h.*.mlp.c_fc.*": "layers.*.ffn.up_proj.*",
    "[transformer.]h.*.mlp.c_proj.*": "layers.*.ffn.down_proj.*",
}
