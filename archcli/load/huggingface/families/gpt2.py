"""GPT, GPT-2 and decoders of its layers: StarCoder, BTLM, Jais, CTRL."""

from __future__ import annotations

from archcli.load import huggingface as hf
from archcli.load.huggingface import Auxiliary, Config, ConfigValue, Family, Mapped, Parts, Weights
from archcli.load.huggingface.whole.gpt_like import GPT_ALIASES, SUMMARY, inner_width, post_norm_decoder

# ACT_FNS of modeling_openai.py, whose gelu is gelu_new
ACTIVATIONS = {"gelu": "gelu_tanh", "relu": "relu", "silu": "silu", "swish": "silu"}


def _openai_gpt(config: Config) -> Mapped:
    """Post-norm without a final norm, learned positions, MHA, a network 4 d_model wide, all biased."""
    config.ignore("n_inner", "n_special", "predict_special_tokens", *SUMMARY)
    name, width = config.value("afn"), config.size("hidden_size")
    if not isinstance(name.value, str) or name.value not in ACTIVATIONS:
        what = f"activation {hf.short_repr(name.value)} is not supported"
        raise config.error(what, "known: " + ", ".join(ACTIVATIONS), name.place)
    function = name.derive(ACTIVATIONS[name.value])
    ffn = {"kind": "mlp", "d_ff": width.derive(4 * width.value), "activation": function, "bias": True}
    return post_norm_decoder(config, hf.layernorm(config.number("layer_norm_epsilon")), ffn)


OPENAI_GPT_WEIGHTS: Weights = {
    **hf.GPT2,
    "[transformer.]tokens_embed.weight": "embedding.tokens.weight",
    "[transformer.]positions_embed.weight": "embedding.positions.weight",
}


def _gpt2(config: Config) -> Mapped:
    """Pre-norm, LayerNorm, learned positions, MHA, a feed-forward network 4 d_model wide, all biased."""
    config.only("add_cross_attention", False)
    config.ignore("reorder_and_upcast_attn", *SUMMARY)
    width = config.size("hidden_size")
    config.restated(intermediate_size=inner_width(config).value)
    ffn = hf.mlp(config, inner_width(config), "activation_function")
    layers = [
        {"kind": "pre_norm", "attention": _gpt2_attention(config, width, index), "ffn": ffn}
        for index in range(config.layers())
    ]
    norm = hf.layernorm(config.number("layer_norm_epsilon"))
    return hf.decoder(config, norm, layers, embedding={"position": {"kind": "learned"}})


def _gpt2_attention(config: Config, width: ConfigValue[int], index: int) -> Mapped:
    """MHA with the scale 1/sqrt(head_dim) or 1, optionally divided by the layer's number.

    scale_attn_weights false means 1; scale_attn_by_inverse_layer_idx divides by the number, counted from 1.
    """
    heads, scale = config.size("num_attention_heads"), None
    if not config.flag("scale_attn_weights"):
        scale = 1.0
    if config.flag("scale_attn_by_inverse_layer_idx"):
        head_width = max(1, width.value // heads.value)
        scale = (head_width**-0.5 if scale is None else scale) / (index + 1)
    return hf.without_none({"kind": "mha", "n_heads": heads, "bias": True, "scale": scale})


BIGCODE_UNREAD = """
    attention_softmax_in_fp32 scale_attention_softmax_in_fp32 inference_runner max_batch_size pad_key_length
    pre_allocate_kv_cache validate_runner_input
"""
"""Keys that say how, not what, is computed."""


def _gpt_bigcode(config: Config) -> Mapped:
    """As GPT-2, with MQA where multi_query is true."""
    config.only("add_cross_attention", False)
    config.ignore("num_key_value_heads", *BIGCODE_UNREAD.split(), *SUMMARY)
    scale = {} if config.flag("scale_attn_weights") else {"scale": 1.0}
    layer = {
        "kind": "pre_norm",
        "attention": {**_gpt_bigcode_heads(config), "bias": True, **scale},
        "ffn": hf.mlp(config, inner_width(config), "activation_function"),
    }
    norm = hf.layernorm(config.number("layer_norm_epsilon"))
    return hf.decoder(config, norm, [layer] * config.layers(), embedding={"position": {"kind": "learned"}})


def _gpt_bigcode_heads(config: Config) -> Mapped:
    heads = config.size("num_attention_heads")
    return hf.head_counts(heads, heads.derive(1) if config.flag("multi_query") else heads)


def _gpt_bigcode_weights(config: Config) -> Weights:
    """Weight names; in MHA a fused matrix holds queries, keys and values head by head."""
    heads = 1 if config.flag("multi_query") else config.size("num_attention_heads").value
    return {
        **hf.GPT2,
        "[transformer.]h.*.attn.c_attn.*": Parts(hf.FUSED, groups=heads),
        "[transformer.]h.*.attn.c_proj.*": "layers.*.attention.o_proj.*",
        "[transformer.]h.*.mlp.c_fc.*": "layers.*.ffn.up_proj.*",
        "[transformer.]h.*.mlp.c_proj.*": "layers.*.ffn.down_proj.*",
    }


BTLM_DEFAULTS = {
    "vocab_size": 50257,
    "n_positions": 1024,
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "activation_function": "gelu_new",
    "layer_norm_epsilon": 1e-5,
    "position_embedding_type": "learned",
    "scale_attn_weights": True,
    "tie_word_embeddings": True,
}
BTLM_UNREAD = ("reorder_and_upcast_attn", "alibi_scaling", *SUMMARY)


def _btlm(config: Config) -> Mapped:
    """GPT-2 with ALiBi, SwiGLU and the scales of maximal update parametrization (arXiv:2309.11568).

    Jais has the keys of these scales without `mup_`.
    """
    config.ignore(*BTLM_UNREAD)
    config.only("scale_attn_by_inverse_layer_idx", False, default=False)
    config.only("scale_attn_weights", True)
    config.only("position_embedding_type", "learned", "alibi")
    has_alibi = config.get("position_embedding_type") == "alibi"
    width, norm = hf.even_split(config), hf.layernorm(config.number("layer_norm_epsilon"))
    # muP: 1 / d in place of 1 / sqrt(d) (arXiv:2203.03466, definition 4.1)
    by_width = config.flag("mup_scale_qk_dot_by_d", "scale_qk_dot_by_d", default=False)
    position = {"kind": "alibi"} if has_alibi else {"kind": "none"}
    scale = width.derive(1 / width.value) if by_width else None
    layer = {
        "kind": "pre_norm",
        "attention": hf.attention(config, width, bias=True, position=position, scale=scale),
        "ffn": _btlm_network(config),
    }
    learned = None if has_alibi else {"kind": "learned"}
    embedding_scale = config.number("mup_embeddings_scale", "embeddings_scale", default=1.0)
    return hf.decoder(
        config,
        norm,
        [layer] * config.layers(),
        embedding=hf.without_none({"scale": embedding_scale, "position": learned}),
        head={"scale": embedding_scale.derive(_head_scale(config))},
    )


def _head_scale(config: Config) -> float:
    """The scale of the logits: the output's alpha times the ratio of widths."""
    alpha = config.number("mup_output_alpha", default=1.0).value
    return alpha * config.number("mup_width_scale", "width_scale", default=1.0).value


def _btlm_network(config: Config) -> Mapped:
    width = inner_width(config)
    if config.get("activation_function") == "swiglu":
        return {"kind": "glu", "d_ff": width, "activation": "silu", "bias": True}
    return hf.mlp(config, width, "activation_function")


# c_fc2 is the gate; all matrices are Conv1D's, stored [in, out] as GPT-2's
BTLM_WEIGHTS: Weights = {
    **hf.GPT2,
    "[transformer.]h.*.mlp.c_fc2.*": Parts(("layers.*.ffn.gate_proj.*",), transposed=True),
}


def _ctrl(config: Config) -> Mapped:
    """Pre-norm, sinusoids, MHA and a network of ReLU, all biased, the head too."""
    config.ignore("attn_pdrop", "from_tf", *SUMMARY)
    layer = {
        "kind": "pre_norm",
        "norm": hf.layernorm(1e-6),  # whatever the file says, whose eps is the final norm's
        "attention": {"kind": "mha", "n_heads": config.size("num_attention_heads"), "bias": True},
        "ffn": {"kind": "mlp", "d_ff": config.size("dff"), "activation": "relu", "bias": True},
    }
    return hf.decoder(
        config,
        hf.layernorm(config.number("layer_norm_epsilon")),
        [layer] * config.layers(),
        embedding={"scale": "sqrt_d_model", "position": {"kind": "sinusoidal", "pairing": "half"}},
        head={"bias": True},
    )


CTRL_WEIGHTS: Weights = {
    "[transformer.]w.weight": "embedding.tokens.weight",
    "[transformer.]h.*.layernorm1.*": "layers.*.attention_norm.*",
    **{
        f"[transformer.]h.*.multi_head_attention.{name}.*": f"layers.*.attention.{ours}_proj.*"
        for name, ours in (("Wq", "q"), ("Wk", "k"), ("Wv", "v"), ("dense", "o"))
    },
    "[transformer.]h.*.layernorm2.*": "layers.*.ffn_norm.*",
    "[transformer.]h.*.ffn.0.*": "layers.*.ffn.up_proj.*",
    "[transformer.]h.*.ffn.2.*": "layers.*.ffn.down_proj.*",
    "[transformer.]layernorm.*": "final_norm.*",
    "[transformer.]pos_encoding": Auxiliary("sinusoid: computed, not trained"),
    "lm_head.*": "lm_head.*",
}


FAMILIES = {
    "openai-gpt": Family(
        "GPT of 2018, before GPT-2: OpenAIGPTConfig and OpenAIGPTLMHeadModel.",
        _openai_gpt,
        OPENAI_GPT_WEIGHTS,
        aliases=GPT_ALIASES,
    ),
    **dict.fromkeys(
        ("gpt2", "gpt-sw3"),
        Family(
            "GPT-2, GPT-SW3, and GPT-3 where its paper states the shape: GPT2Config and GPT2LMHeadModel.",
            _gpt2,
            hf.GPT2,
            aliases=GPT_ALIASES,
        ),
    ),
    "gpt_bigcode": Family(
        "StarCoder and SantaCoder, GPT-2 with one head of keys: GPTBigCodeConfig and GPTBigCodeForCausalLM.",
        _gpt_bigcode,
        _gpt_bigcode_weights,
        aliases=GPT_ALIASES,
    ),
    **dict.fromkeys(
        ("btlm", "jais"),
        Family(
            "BTLM and Jais of 2023, whose classes are in their repositories: BTLMConfig and JAISConfig.",
            _btlm,
            BTLM_WEIGHTS,
            aliases=GPT_ALIASES,
            defaults=BTLM_DEFAULTS,
        ),
    ),
    "ctrl": Family("CTRL: CTRLConfig and CTRLLMHeadModel.", _ctrl, CTRL_WEIGHTS, aliases=GPT_ALIASES),
}
