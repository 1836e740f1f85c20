"""MiniCPM3: MiniCPM3Config and MiniCPM3ForCausalLM, a class since transformers 5."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import even_split, latent_attention, optional_number
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import LLAMA, MLA

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
    """Dense layers with latent attention; scaled embeddings, residuals and logits.

    A scale that is null is 1.
    """
    config = config.of_class(DEFAULTS)
    width, count = config.size("hidden_size"), config.layers()
    config = config.of_class({"v_head_dim": even_split(config).value, **DEFAULTS})
    depth, base = optional_number(config, "scale_depth"), optional_number(config, "dim_model_base")
    layer = {
        "kind": "pre_norm",
        "attention": latent_attention(config, "half"),
        "ffn": gated(config, bias=config.flag("mlp_bias")),
        "residual_multiplier": 1.0 if depth is None else depth.derive(depth.value / count**0.5),
    }
    scale = {"scale": 1.0 if base is None else base.derive(base.value / width.value)}
    embedding = {"scale": config.number("scale_emb")}
    return decoder(config, rmsnorm(config), [layer] * count, embedding=embedding, head=scale)


WEIGHTS: Weights = {**LLAMA, **MLA}
