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


def mapping(config: Config) -> Mapped:
    """Dense layers with latent attention; scaled embeddings, residuals and logits.

    A scale that is null is 1.
    """
    config = config.of_class()
    width, count = config.size("hidden_size"), config.layers()
    config = config.with_defaults(v_head_dim=even_split(config).value)
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
