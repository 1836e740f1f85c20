"""CTRL: CTRLConfig and CTRLLMHeadModel."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import layernorm
from archcli.load.huggingface.weights.map import Auxiliary, Weights
from archcli.load.huggingface.whole.gpt_like import GPT_ALIASES, SUMMARY

MODEL_TYPES = ("ctrl",)


def mapping(config: Config) -> Mapped:
    """Pre-norm, sinusoids, MHA and a network of ReLU, all biased, the head too."""
    config = config.of_class(**GPT_ALIASES)
    config.ignore("attn_pdrop", "from_tf", *SUMMARY)
    layer = {
        "kind": "pre_norm",
        "norm": layernorm(1e-6),  # whatever the file says, whose eps is the final norm's
        "attention": {"kind": "mha", "n_heads": config.size("num_attention_heads"), "bias": True},
        "ffn": {"kind": "mlp", "d_ff": config.size("dff"), "activation": "relu", "bias": True},
    }
    return decoder(
        config,
        layernorm(config.number("layer_norm_epsilon")),
        [layer] * config.layers(),
        embedding={"scale": "sqrt_d_model", "position": {"kind": "sinusoidal", "pairing": "half"}},
        head={"bias": True},
    )


WEIGHTS: Weights = {
    "[transformer.]w.weight": "embedding.tokens.weight",
    "[transformer.]h.*.layernorm1.*": "layers.*.attention_norm.*",
    **{
        f"[transformer.]h.*.multi_head_attention.{name}.*": f"layers.*.attention.{ours}_proj.*"
        for name, ours in (("Wq", "q"), ("Wk", "k"), ("Wv", "v"), ("dense", "o"))
    },
    "[transformer.]h.*.layernorm2.*": "layers.*.ffn_norm.*",
    "[transformer.]h.*.ffn.0.*": "layers.*.ffn.up_proj.*",
    "[transformer.]h.*.ffn.2.*": "layers.*.ffn.down_proj.*",
    "[transformer.]layernorm.*": "final_norm.*",
    "[transformer.]pos_encoding": Auxiliary("sinusoid: computed, not trained"),
    "lm_head.*": "lm_head.*",
}
