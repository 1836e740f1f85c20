"""ESM Cambrian, of proteins: EsmcConfig, EsmcForMaskedLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import even_split
from archcli.load.huggingface.parts.networks import gated, layernorm
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import LLAMA, QK_NORM
from archcli.load.huggingface.whole.bert_like import heads_of
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("esmc",)
OWN = {"rms_norm_eps": 1e-06}
HEADS = {"Model": (), "ForMaskedLM": ("words",)}
EPS = 1e-5
"""The class's, whatever the file says."""
STEPS = 36
"""What a layer adds is divided by sqrt(layers / 36)."""


def mapping(config: Config) -> Mapped:
    """Pre-norm, LayerNorm, RoPE, normalized queries and keys, SwiGLU; the head is never tied."""
    config = config.of_class(OWN)
    config.ignore("tie_word_embeddings", "mask_token_id", "rms_norm_eps", "classifier_dropout")
    heads, depth = config.size("num_attention_heads"), config.size("num_hidden_layers")
    config.only("num_key_value_heads", heads.value, default=heads)
    config.only("head_dim", even_split(config).value, default=even_split(config))
    gain = layernorm(EPS, bias=False)
    whole = llama_like(
        config,
        kind="encoder",
        norm=gain,
        heads={
            "bias": config.flag("attention_bias"),
            "causal": False,
            "qk_norm": {"per": "full", "norm": gain},
        },
        block={"norm": layernorm(EPS), "residual_multiplier": depth.derive((depth.value / STEPS) ** -0.5)},
        ffn=gated(config, bias=config.flag("mlp_bias")),
        **heads_of(config, "Esmc", HEADS, {"activation": "gelu", "norm": layernorm(EPS)}),
    )
    return {**whole, "embedding": {**whole["embedding"], "tied": False}}


WEIGHTS: Weights = {
    **{
        name.replace("[model.]", "[esmc.]"): rule
        for name, rule in {**LLAMA, **QK_NORM}.items()
        if name != "lm_head.*"
    },
    "lm_head.dense.*": "lm_head_transform.*",
    "lm_head.layer_norm.*": "lm_head_norm.*",
    "lm_head.decoder.*": "lm_head.*",
}
