"""XGLM: XGLMConfig and XGLMForCausalLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped, without_none
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import layernorm, mlp
from archcli.load.huggingface.weights.map import Auxiliary, Weights
from archcli.load.huggingface.weights.names import fairseq_layers
from archcli.load.huggingface.whole.defaults import fairseq_sinusoid

MODEL_TYPES = ("xglm",)

ALIASES = {
    "hidden_size": "d_model",
    "num_attention_heads": "attention_heads",
    "num_hidden_layers": "num_layers",
}
OFFSET = 2


def mapping(config: Config) -> Mapped:
    """Pre-norm, sinusoids, everything biased; the eps of its norms is nn.LayerNorm's own."""
    config = config.of_class(**ALIASES)
    config.only("add_cross_attention", False)
    layer = {
        "kind": "pre_norm",
        "attention": {"kind": "mha", "n_heads": config.size("num_attention_heads"), "bias": True},
        "ffn": mlp(config, config.size("ffn_dim"), "activation_function"),
    }
    scale = "sqrt_d_model" if config.flag("scale_embedding") else None
    embedding = without_none({"scale": scale, "position": fairseq_sinusoid(config, OFFSET)})
    return decoder(config, layernorm(1e-5), [layer] * config.layers(), embedding=embedding)


WEIGHTS: Weights = {
    "[model.]embed_tokens.weight": "embedding.tokens.weight",
    **fairseq_layers("[model.]layers.*"),
    "[model.]layer_norm.*": "final_norm.*",
    "[model.]embed_positions.weights": Auxiliary("sinusoid: computed, not trained"),
    "lm_head.weight": "lm_head.weight",
}
