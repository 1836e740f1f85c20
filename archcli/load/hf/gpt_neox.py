"""GPT-NeoX and Pythia: GPTNeoXConfig and GPTNeoXForCausalLM."""

from __future__ import annotations

from archcli.load.hf.base import Config, Mapped
from archcli.load.hf.common import decoder, layernorm, mlp
from archcli.load.hf.rope import rope

MODEL_TYPES = ("gpt_neox",)

DEFAULTS = {
    "vocab_size": 50432,
    "hidden_size": 6144,
    "num_hidden_layers": 44,
    "num_attention_heads": 64,
    "intermediate_size": 24576,
    "hidden_act": "gelu",
    "max_position_embeddings": 2048,
    "layer_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "use_parallel_residual": True,
    "attention_bias": True,
}
ALIASES = {"rope_theta": "rotary_emb_base", "partial_rotary_factor": "rotary_pct"}


def mapping(config: Config) -> Mapped:
    """Parallel with a norm each for attention and feed-forward, or sequential; RoPE on a quarter of each head."""
    config = config.of_class(DEFAULTS, **ALIASES)
    heads = config.size("num_attention_heads")
    position = rope(config, config.size("hidden_size") // heads, partial=0.25)
    bias = config.flag("attention_bias")
    layer = {
        **({"kind": "parallel", "n_norms": 2} if config.flag("use_parallel_residual") else {"kind": "pre_norm"}),
        "attention": {"kind": "mha", "n_heads": heads, "bias": bias, "position": position},
        "ffn": mlp(config, config.size("intermediate_size"), "hidden_act"),
    }
    return decoder(config, layernorm(config.number("layer_norm_eps")), [layer] * config.layers())
