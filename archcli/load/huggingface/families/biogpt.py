"""BioGPT: BioGptConfig and BioGptForCausalLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped, without_none
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import layernorm, mlp
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import fairseq_layers

MODEL_TYPES = ("biogpt",)

OFFSET = 2
"""The table of positions keeps two rows for padding."""


def mapping(config: Config) -> Mapped:
    """Pre-norm, learned positions, everything biased; the eps of its norms is nn.LayerNorm's own."""
    config = config.of_class()
    layer = {
        "kind": "pre_norm",
        "attention": {"kind": "mha", "n_heads": config.size("num_attention_heads"), "bias": True},
        "ffn": mlp(config, config.size("intermediate_size"), "hidden_act"),
    }
    scale = "sqrt_d_model" if config.flag("scale_embedding") else None
    embedding = without_none({"scale": scale, "position": {"kind": "learned", "offset": OFFSET}})
    return decoder(config, layernorm(1e-5), [layer] * config.layers(), embedding=embedding)


WEIGHTS: Weights = {
    "[biogpt.]embed_tokens.weight": "embedding.tokens.weight",
    "[biogpt.]embed_positions.weight": "embedding.positions.weight",
    **fairseq_layers("[biogpt.]layers.*"),
    "[biogpt.]layer_norm.*": "final_norm.*",
    "output_projection.weight": "lm_head.weight",
}
