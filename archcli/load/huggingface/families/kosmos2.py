"""Text parts of Kosmos-2 and 2.5: Kosmos2TextConfig, Kosmos2_5TextConfig and the classes around them."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped, without_none
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import layernorm, mlp
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import fairseq_layers
from archcli.load.huggingface.whole.defaults import fairseq_sinusoid

MODEL_TYPES = ("kosmos_2_text_model", "kosmos_2_5_text_model")
FIRST = "kosmos_2_text_model"


ALIASES = {
    "hidden_size": "embed_dim",
    "num_attention_heads": "attention_heads",
    "num_hidden_layers": "layers",
}


def mapping(config: Config) -> Mapped:
    """Pre-norm, sinusoids, everything biased, a norm inside each network.

    2 has one inside attention too; 2.5 adds a vector that tells text from image.
    """
    first = config.model_type == FIRST
    config = config.of_class(**ALIASES)
    config.only("add_cross_attention", False, default=False)
    heads, width = config.size("num_attention_heads"), config.size("hidden_size")
    if width.value % heads.value:
        raise config.error(f"{heads} heads do not divide embed_dim {width}", at=heads.place)
    norm = layernorm(config.number("layer_norm_eps"))
    attention = {"kind": "mha", "n_heads": heads, "bias": True, "inner_norm": norm if first else None}
    ffn = {**mlp(config, config.size("ffn_dim"), "activation_function"), "inner_norm": norm}
    embedding = {
        "scale": "sqrt_d_model" if config.flag("scale_embedding") else None,
        "position": fairseq_sinusoid(config, config.count("pad_token_id").value + 1),
        "token_types": None if first else 2,
    }
    layer = {"kind": "pre_norm", "attention": without_none(attention), "ffn": ffn}
    return decoder(config, norm, [layer] * config.layers(), embedding=without_none(embedding), tied=True)


WEIGHTS: Weights = {
    "[model.]embed_tokens.weight": "embedding.tokens.weight",
    "[model.]segment_emb.weight": "embedding.token_types.weight",
    **{name.replace(".fc", ".ffn.fc"): rule for name, rule in fairseq_layers("[model.]layers.*").items()},
    "[model.]layers.*.self_attn.inner_attn_ln.*": "layers.*.attention.inner_norm.*",
    "[model.]layers.*.ffn.ffn_layernorm.*": "layers.*.ffn.inner_norm.*",
    "[model.]layer_norm.*": "final_norm.*",
    "lm_head.weight": "lm_head.weight",
}
