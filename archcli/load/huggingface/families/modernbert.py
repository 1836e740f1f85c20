"""ModernBERT and its decoder."""

from __future__ import annotations

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, ConfigValue, Family, Mapped, Parts, Weights
from archcli.load.huggingface.whole.bert_like import heads_of, is_wrapped

MODERNBERT_THETA = {hf.FULL: ("global_rope_theta", 160000.0), hf.SLIDING: ("local_rope_theta", 10000.0)}
MODERNBERT_HEADS = {"Model": (), "ForMaskedLM": ("words",)}
MODERNBERT_UNREAD = (
    "classifier_pooling",
    "deterministic_flash_attn",
    "initializer_cutoff_factor",
    "layer_norm_eps",
    "mlp_dropout",
    "reference_compile",
    "repad_logits_with_grad",
    "sparse_pred_ignore_index",
    "sparse_prediction",
)


def _modernbert(config: Config) -> Mapped:
    """Pre-norm, GeGLU, RoPE, and windows to both sides in two layers of three.

    The first layer reads the norm of the embeddings, so that it has no norm before attention.
    """
    config.ignore(*MODERNBERT_UNREAD)
    norm = hf.layernorm(config.number("norm_eps"), bias=config.flag("norm_bias"))
    period, count = config.size("global_attn_every_n_layers").value, config.layers()
    types = hf.layer_types(config, [hf.SLIDING if index % period else hf.FULL for index in range(count)])
    by_type = {kind: _modernbert_layer(config, kind) for kind in dict.fromkeys(types)}
    first, *rest = [by_type[kind] for kind in types]
    head = {
        "activation": hf.activation(config, "classifier_activation"),
        "transform_bias": config.flag("classifier_bias"),
        "bias": config.flag("decoder_bias"),
    }
    return hf.decoder(
        config,
        norm,
        [{**first, "normed": "ffn"}, *rest],
        kind="encoder",
        embedding={"norm": norm},
        **heads_of(config, "ModernBert", MODERNBERT_HEADS, head),
    )


def _modernbert_layer(config: Config, kind: str) -> Mapped:
    """A layer that sees all tokens, or `local_attention` of them, half to each side."""
    width, window = hf.even_split(config), config.size("local_attention")
    key, theta = MODERNBERT_THETA[kind]
    rope = {
        "rope_theta": config.number(key, default=theta),
        **hf.parameters(config, "rope_parameters", kind),
        **hf.parameters(config, "rope_scaling"),
    }
    attention = {
        "kind": "mha",
        "n_heads": config.size("num_attention_heads"),
        "bias": config.flag("attention_bias"),
        "causal": False,
        "position": hf.position(config, width, rope),
        "sparsity": {"kind": "longformer", "window": window} if kind == hf.SLIDING else None,
    }
    ffn = hf.gated(config, act="hidden_activation", bias=config.flag("mlp_bias"))
    return {"kind": "pre_norm", "attention": hf.without_none(attention), "ffn": ffn}


LAYERS: Weights = {
    "[model.]embeddings.tok_embeddings.weight": "embedding.tokens.weight",
    "[model.]embeddings.norm.*": "embedding.norm.*",
    "[model.]layers.*.attn_norm.*": "layers.*.attention_norm.*",
    "[model.]layers.*.attn.Wqkv.*": Parts(hf.FUSED),
    "[model.]layers.*.attn.Wo.*": "layers.*.attention.o_proj.*",
    "[model.]layers.*.mlp_norm.*": "layers.*.ffn_norm.*",
    "[model.]layers.*.mlp.Wi.*": Parts(("layers.*.ffn.gate_proj.*", "layers.*.ffn.up_proj.*")),
    "[model.]layers.*.mlp.Wo.*": "layers.*.ffn.down_proj.*",
    "[model.]final_norm.*": "final_norm.*",
}


def _modernbert_weights(config: Config) -> Weights:
    """The names of files of words alone, or of ModernVBERT's, whose head is called otherwise."""
    wrapped = is_wrapped(config, "ModernBert")
    transform, head = ("projection_head", "lm_head") if wrapped else ("head", "decoder")
    return {
        **LAYERS,
        f"{transform}.dense.*": "lm_head_transform.*",
        f"{transform}.norm.*": "lm_head_norm.*",
        f"{head}.*": "lm_head.*",
    }


ETTIN_DEFAULTS = {"global_attn_every_n_layers": 3, "global_rope_theta": 160000.0, "local_rope_theta": 10000.0}
ETTIN_UNREAD = (
    *("num_key_value_heads", "head_dim", "classifier_pooling", "initializer_cutoff_factor", "layer_norm_eps"),
    *("causal_mask", "is_causal", "position_embedding_type", "sparse_pred_ignore_index"),
)
"""Keys that the class does not read, some of them of its training software."""


def _ettin(config: Config) -> Mapped:
    """ModernBERT's layers as a decoder, with its head of a transform."""
    config.ignore(*ETTIN_UNREAD, "embedding_dropout", "mlp_dropout", "classifier_dropout")
    norm = hf.layernorm(config.number("norm_eps"), bias=config.flag("norm_bias"))
    period = config.size("global_attn_every_n_layers").value
    types = hf.layer_types(config, [hf.SLIDING if i % period else hf.FULL for i in range(config.layers())])
    ffn = hf.gated(config, act="hidden_activation", bias=config.flag("mlp_bias"))
    by_type = {
        kind: {"kind": "pre_norm", "attention": _ettin_attention(config, kind), "ffn": ffn}
        for kind in dict.fromkeys(types)
    }
    first, *rest = [by_type[kind] for kind in types]
    head = {
        "kind": "transformed",
        "activation": hf.activation(config, "classifier_activation"),
        "transform_bias": config.flag("classifier_bias"),
        "bias": config.flag("decoder_bias"),
    }
    return hf.decoder(config, norm, [{**first, "normed": "ffn"}, *rest], embedding={"norm": norm}, head=head)


def _ettin_attention(config: Config, kind: str) -> Mapped:
    """Attention of a layer of this kind, with or without a window."""
    rope = {
        "rope_theta": config.number("local_rope_theta" if kind == hf.SLIDING else "global_rope_theta"),
        **hf.parameters(config, "rope_parameters", kind),
        **hf.parameters(config, "rope_scaling"),
    }
    place = hf.position(config, hf.even_split(config), rope)
    heads, bias = config.size("num_attention_heads"), config.flag("attention_bias")
    window = _ettin_window(config) if kind == hf.SLIDING else None
    return hf.without_none(
        {"kind": "mha", "n_heads": heads, "bias": bias, "position": place, "window": window}
    )


def _ettin_window(config: Config) -> ConfigValue[int]:
    """sliding_window, else half of local_attention, which counts both sides of a token."""
    if "sliding_window" in config.data and not config.stated_null("sliding_window"):
        return config.size("sliding_window")
    both = config.count("local_attention")
    if config.stated_null("local_attention") or both.value == 1 or "sliding_window" in config.data:
        what = "layers with a window have none"
        raise config.error(what, "state sliding_window", config.place("sliding_window", "local_attention"))
    return both.derive(both.value // 2)


ETTIN_WEIGHTS: Weights = {
    "[model.]embeddings.tok_embeddings.weight": "embedding.tokens.weight",
    "[model.]embeddings.norm.*": "embedding.norm.*",
    "[model.]layers.*.attn_norm.*": "layers.*.attention_norm.*",
    **{
        f"[model.]layers.*.attn.{name}.*": f"layers.*.attention.{ours}_proj.*"
        for name, ours in (("q_proj", "q"), ("k_proj", "k"), ("v_proj", "v"), ("Wo", "o"))
    },
    "[model.]layers.*.mlp_norm.*": "layers.*.ffn_norm.*",
    "[model.]layers.*.mlp.Wi.*": Parts(("layers.*.ffn.gate_proj.*", "layers.*.ffn.up_proj.*")),
    "[model.]layers.*.mlp.Wo.*": "layers.*.ffn.down_proj.*",
    "[model.]final_norm.*": "final_norm.*",
    "lm_head.dense.*": "lm_head_transform.*",
    "lm_head.norm.*": "lm_head_norm.*",
    "decoder.weight": "lm_head.weight",
    "decoder.bias": "lm_head.bias",
}


FAMILIES = {
    "modernbert": Family(
        "ModernBERT: ModernBertConfig, ModernBertForMaskedLM.",
        _modernbert,
        _modernbert_weights,
        defaults={"global_attn_every_n_layers": 3},
    ),
    "modernbert-decoder": Family(
        "The decoder of ModernBERT (Ettin): ModernBertDecoderConfig and ModernBertDecoderForCausalLM.",
        _ettin,
        ETTIN_WEIGHTS,
        defaults=ETTIN_DEFAULTS,
    ),
}
