"""MiniCPM3: MiniCPM3Config and MiniCPM3ForCausalLM, once remote code and since transformers 5 a class of its own."""

from __future__ import annotations

from archcli.load.huggingface.common import decoder, gated, latent_attention, rmsnorm
from archcli.load.huggingface.config import Config, Mapped
from archcli.load.huggingface.names import LLAMA, MLA
from archcli.load.huggingface.weights import Weights

MODEL_TYPES = ("minicpm3",)

DEFAULTS = {
    "vocab_size": 73448,
    "hidden_size": 2560,
    "intermediate_size": 6400,
    "num_hidden_layers": 62,
    "num_attention_heads": 40,
    "hidden_act": "silu",
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
    "attention_bias": False,
    "mlp_bias": False,
    "kv_lora_rank": 256,
    "q_lora_rank": 768,
    "qk_nope_head_dim": 64,
    "qk_rope_head_dim": 32,
    "scale_emb": 12,
    "scale_depth": 1.4,
    "dim_model_base": 256,
}


def mapping(config: Config) -> Mapped:
    """Dense layers with latent attention; embeddings, residuals and logits are scaled. A scale that is null scales nothing."""
    config = config.of_class(DEFAULTS)
    width, count = config.size("hidden_size"), config.layers()
    config = config.of_class({"v_head_dim": width // config.size("num_attention_heads"), **DEFAULTS})
    layer = {
        "kind": "pre_norm",
        "attention": latent_attention(config, "half"),
        "ffn": gated(config, bias=config.flag("mlp_bias")),
        "residual_multiplier": 1.0
        if config.stated_null("scale_depth")
        else config.number("scale_depth") / count**0.5,
    }
    return decoder(
        config,
        rmsnorm(config),
        [layer] * count,
        embedding={"scale": config.number("scale_emb")},
        head={
            "scale": 1.0 if config.stated_null("dim_model_base") else config.number("dim_model_base") / width
        },
    )


WEIGHTS: Weights = {**LLAMA, **MLA}
