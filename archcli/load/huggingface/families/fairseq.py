"""Decoders with the names of fairseq: OPT, BioGPT, XGLM, TrOCR, Kosmos-2."""

from __future__ import annotations

from archcli.load import huggingface as hf
from archcli.load.huggingface import Auxiliary, Config, Family, Mapped, Weights
from archcli.load.huggingface.whole.bart_like import LEARNED, TORCH_NORM, fairseq_sinusoid

OFFSET = 2
"""Rows that fairseq's tables of positions keep for padding."""


def _opt(config: Config) -> Mapped:
    """Pre-norm with learned positions; 350m is post-norm with a token table narrower than d_model."""
    before, bias = config.flag("do_layer_norm_before"), config.flag("enable_bias")
    width = config.size("hidden_size")
    affine = config.flag("layer_norm_elementwise_affine")
    table = config.size("word_embed_proj_dim", default=width)
    layer = {
        "kind": "pre_norm" if before else "post_norm",
        "attention": {"kind": "mha", "n_heads": config.size("num_attention_heads"), "bias": bias},
        "ffn": hf.mlp(config, config.size("ffn_dim"), "activation_function", bias=bias),
    }
    ends_in_norm = before and not config.flag("_remove_final_layer_norm")
    embedding = {
        "width": None if table == width else table,
        "position": {"kind": "learned", "offset": OFFSET},
    }
    return hf.decoder(
        config,
        hf.layernorm(1e-5, weight=affine, bias=affine),  # nn.LayerNorm's own eps: the file has no key for it
        [layer] * config.layers(),
        embedding=hf.without_none(embedding),
        final_norm=None if ends_in_norm else False,
    )


OPT_WEIGHTS: Weights = {
    "[model.]decoder.embed_tokens.weight": "embedding.tokens.weight",
    "[model.]decoder.embed_positions.weight": "embedding.positions.weight",
    "[model.]decoder.project_in.weight": "embedding.project_in.weight",
    **hf.fairseq_layers("[model.]decoder.layers.*"),
    "[model.]decoder.final_layer_norm.*": "final_norm.*",
    "[model.]decoder.project_out.weight": "project_out.weight",
    "lm_head.weight": "lm_head.weight",
}


def _biogpt(config: Config) -> Mapped:
    """Pre-norm, learned positions, everything biased; the eps of its norms is nn.LayerNorm's own."""
    layer = {
        "kind": "pre_norm",
        "attention": {"kind": "mha", "n_heads": config.size("num_attention_heads"), "bias": True},
        "ffn": hf.mlp(config, config.size("intermediate_size"), "hidden_act"),
    }
    scale = "sqrt_d_model" if config.flag("scale_embedding") else None
    embedding = hf.without_none({"scale": scale, "position": {"kind": "learned", "offset": OFFSET}})
    return hf.decoder(config, hf.layernorm(1e-5), [layer] * config.layers(), embedding=embedding)


BIOGPT_WEIGHTS: Weights = {
    "[biogpt.]embed_tokens.weight": "embedding.tokens.weight",
    "[biogpt.]embed_positions.weight": "embedding.positions.weight",
    **hf.fairseq_layers("[biogpt.]layers.*"),
    "[biogpt.]layer_norm.*": "final_norm.*",
    "output_projection.weight": "lm_head.weight",
}


XGLM_ALIASES = {
    "hidden_size": "d_model",
    "num_attention_heads": "attention_heads",
    "num_hidden_layers": "num_layers",
}


def _xglm(config: Config) -> Mapped:
    """Pre-norm, sinusoids, everything biased; the eps of its norms is nn.LayerNorm's own."""
    config.only("add_cross_attention", False)
    layer = {
        "kind": "pre_norm",
        "attention": {"kind": "mha", "n_heads": config.size("num_attention_heads"), "bias": True},
        "ffn": hf.mlp(config, config.size("ffn_dim"), "activation_function"),
    }
    scale = "sqrt_d_model" if config.flag("scale_embedding") else None
    embedding = hf.without_none({"scale": scale, "position": fairseq_sinusoid(config, OFFSET)})
    return hf.decoder(config, hf.layernorm(1e-5), [layer] * config.layers(), embedding=embedding)


XGLM_WEIGHTS: Weights = {
    "[model.]embed_tokens.weight": "embedding.tokens.weight",
    **hf.fairseq_layers("[model.]layers.*"),
    "[model.]layer_norm.*": "final_norm.*",
    "[model.]embed_positions.weights": Auxiliary("sinusoid: computed, not trained"),
    "lm_head.weight": "lm_head.weight",
}


TROCR_ALIASES = {
    "hidden_size": "d_model",
    "num_attention_heads": "decoder_attention_heads",
    "num_hidden_layers": "decoder_layers",
}


def _trocr(config: Config) -> Mapped:
    """Post-norm with a norm after the embeddings; cross attention is idle without an image encoder."""
    config.ignore("is_decoder", "decoder_layerdrop", "num_beams")
    width = config.size("hidden_size")
    config.only("cross_attention_hidden_size", None, width.value, default=None)
    config.note("weights of cross attention are counted, and read by no pass without the image encoder")
    heads = {"n_heads": config.size("num_attention_heads"), "bias": True}
    layer = {
        "kind": "post_norm",
        "attention": {"kind": "mha", **heads},
        "cross_attention": {**heads, "idle": True},
        "ffn": hf.mlp(config, config.size("decoder_ffn_dim"), "activation_function"),
    }
    norm = dict(TORCH_NORM)
    embedding = {
        "scale": "sqrt_d_model" if config.flag("scale_embedding") else None,
        "position": _trocr_position(config),
        "norm": norm if config.flag("layernorm_embedding") else None,
    }
    layers = [layer] * config.layers()
    return hf.decoder(config, norm, layers, embedding=hf.without_none(embedding), final_norm=False)


def _trocr_position(config: Config) -> Mapped:
    """A learned table, or sinusoids from the place after the padding token's id on."""
    if config.flag("use_learned_position_embeddings"):
        return dict(LEARNED)
    if config.stated_null("pad_token_id"):
        what = "pad_token_id null is not supported"
        raise config.error(what, "the class numbers positions from it on", config.place("pad_token_id"))
    return fairseq_sinusoid(config, config.count("pad_token_id").value + 1)


TROCR_WEIGHTS: Weights = {
    "[model.]decoder.embed_tokens.weight": "embedding.tokens.weight",
    "[model.]decoder.embed_positions.weight": "embedding.positions.weight",
    "[model.]decoder.layernorm_embedding.*": "embedding.norm.*",
    **hf.fairseq_layers("[model.]decoder.layers.*"),
    "output_projection.weight": "lm_head.weight",
}


KOSMOS2_ALIASES = {
    "hidden_size": "embed_dim",
    "num_attention_heads": "attention_heads",
    "num_hidden_layers": "layers",
}


def _kosmos2(config: Config) -> Mapped:
    """Pre-norm, sinusoids, everything biased, a norm inside each network.

    Kosmos-2 has one inside attention too; 2.5 adds a vector that tells text from image.
    """
    is_first = config.model_type == "kosmos_2_text_model"
    config.only("add_cross_attention", False, default=False)
    heads, width = config.size("num_attention_heads"), config.size("hidden_size")
    if width.value % heads.value:
        raise config.error(f"{heads} heads do not divide embed_dim {width}", at=heads.place)
    norm = hf.layernorm(config.number("layer_norm_eps"))
    attention = {"kind": "mha", "n_heads": heads, "bias": True, "inner_norm": norm if is_first else None}
    ffn = {**hf.mlp(config, config.size("ffn_dim"), "activation_function"), "inner_norm": norm}
    embedding = {
        "scale": "sqrt_d_model" if config.flag("scale_embedding") else None,
        "position": fairseq_sinusoid(config, config.count("pad_token_id").value + 1),
        "token_types": None if is_first else 2,
    }
    layer = {"kind": "pre_norm", "attention": hf.without_none(attention), "ffn": ffn}
    return hf.decoder(
        config, norm, [layer] * config.layers(), embedding=hf.without_none(embedding), tied=True
    )


KOSMOS2_WEIGHTS: Weights = {
    "[model.]embed_tokens.weight": "embedding.tokens.weight",
    "[model.]segment_emb.weight": "embedding.token_types.weight",
    **{name.replace(".fc", ".ffn.fc"): rule for name, rule in hf.fairseq_layers("[model.]layers.*").items()},
    "[model.]layers.*.self_attn.inner_attn_ln.*": "layers.*.attention.inner_norm.*",
    "[model.]layers.*.ffn.ffn_layernorm.*": "layers.*.ffn.inner_norm.*",
    "[model.]layer_norm.*": "final_norm.*",
    "lm_head.weight": "lm_head.weight",
}


FAMILIES = {
    "opt": Family("OPT: OPTConfig and OPTForCausalLM.", _opt, OPT_WEIGHTS),
    "biogpt": Family("BioGPT: BioGptConfig and BioGptForCausalLM.", _biogpt, BIOGPT_WEIGHTS),
    "xglm": Family("XGLM: XGLMConfig and XGLMForCausalLM.", _xglm, XGLM_WEIGHTS, aliases=XGLM_ALIASES),
    "trocr": Family(
        "TrOCR's decoder: TrOCRConfig and TrOCRForCausalLM.", _trocr, TROCR_WEIGHTS, aliases=TROCR_ALIASES
    ),
    **dict.fromkeys(
        ("kosmos_2_text_model", "kosmos_2_5_text_model"),
        Family(
            "Text parts of Kosmos-2 and 2.5: "
            "Kosmos2TextConfig, Kosmos2_5TextConfig and the classes around them.",
            _kosmos2,
            KOSMOS2_WEIGHTS,
            aliases=KOSMOS2_ALIASES,
        ),
    ),
}
