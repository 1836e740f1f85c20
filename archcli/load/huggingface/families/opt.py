"""OPT: OPTConfig and OPTForCausalLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped, without_none
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import layernorm, mlp
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import fairseq_layers

MODEL_TYPES = ("opt",)

OFFSET = 2
"""OPTLearnedPositionalEmbedding keeps two rows for padding."""


def mapping(config: Config) -> Mapped:
    """Pre-norm with learned positions; 350m is post-norm with a token table narrower than d_model."""
    config = config.of_class()
    before, bias = config.flag("do_layer_norm_before"), config.flag("enable_bias")
    width = config.size("hidden_size")
    affine = config.flag("layer_norm_elementwise_affine")
    table = config.size("word_embed_proj_dim", default=width)
    layer = {
        "kind": "pre_norm" if before else "post_norm",
        "attention": {"kind": "mha", "n_heads": config.size("num_attention_heads"), "bias": bias},
        "ffn": mlp(config, config.size("ffn_dim"), "activation_function", bias=bias),
    }
    ends_in_norm = before and not config.flag("_remove_final_layer_norm")
    embedding = {
        "width": None if table == width else table,
        "position": {"kind": "learned", "offset": OFFSET},
    }
    return decoder(
        config,
        layernorm(1e-5, weight=affine, bias=affine),  # nn.LayerNorm's own eps: the file has no key for it
        [layer] * config.layers(),
        embedding=without_none(embedding),
        final_norm=None if ends_in_norm else False,
    )


WEIGHTS: Weights = {
    "[model.]decoder.embed_tokens.weight": "embedding.tokens.weight",
    "[model.]decoder.embed_positions.weight": "embedding.positions.weight",
    "[model.]decoder.project_in.weight": "embedding.project_in.weight",
    **fairseq_layers("[model.]decoder.layers.*"),
    "[model.]decoder.final_layer_norm.*": "final_norm.*",
    "[model.]decoder.project_out.weight": "project_out.weight",
    "lm_head.weight": "lm_head.weight",
}
