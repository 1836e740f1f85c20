"""Gemma 1 to 3, VaultGemma and T5Gemma 1 and 2."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, ConfigValue, Family, Mapped, Parts, Rule, Weights, decoder
from archcli.load.huggingface.whole.llama_like import llama_like


def _gemma(config: Config) -> Mapped:
    """Pre-norm, RMSNorm of weights stored minus one, GeGLU, embeddings times sqrt(d_model).

    `gelu` in old files means its tanh form.
    """
    config.only("use_bidirectional_attention", None, False, default=None)
    config.ignore("hidden_activation")
    ffn = hf.gated(config)
    function = ffn["activation"]
    if function == "gelu":
        ffn["activation"] = function.derive("gelu_tanh")
    return llama_like(config, ffn=ffn, norm=hf.rmsnorm(config, offset=1), embedding={"scale": "sqrt_d_model"})


def _gemma2(config: Config) -> Mapped:
    """Sandwich norms, GeGLU, soft-capped scores and logits, a window in every other layer.

    Queries are scaled by query_pre_attn_scalar.
    """
    config.only("use_bidirectional_attention", None, False, default=None)
    config.ignore("hidden_act", "sliding_window_size")
    # windows in layers 0, 2, 4 …: Gemma 3's global layers are the last of each six
    return _soft_capped(config, lambda index: index % 2 == 0, block={"kind": "sandwich"})


def _soft_capped(config: Config, slides: Callable[[int], bool], **options: Any) -> Mapped:
    """Windows in some layers, soft-capped scores and logits, queries scaled by query_pre_attn_scalar."""
    caps = [hf.optional_number(config, f"{place}_logit_softcapping") for place in ("attn", "final")]
    return llama_like(
        config,
        heads={"scale": hf.query_scale(config, hf.head_dim(config)), "softcap": caps[0]},
        ffn=hf.gated(config, act="hidden_activation"),
        norm=hf.rmsnorm(config, offset=1),
        slides=slides,
        embedding={"scale": "sqrt_d_model"},
        head=None if caps[1] is None else {"softcap": caps[1]},
        **options,
    )


VAULTGEMMA_WEIGHTS = {
    **hf.LLAMA,
    "[model.]layers.*.pre_feedforward_layernorm.weight": "layers.*.ffn_norm.weight",
}


def _vaultgemma(config: Config) -> Mapped:
    """Gemma 2 without the norms after attention and network."""
    hf.check_window(config)
    return _soft_capped(config, lambda index: index % 2 == 0)


def _gemma3(config: Config) -> Mapped:
    """Gemma 2 with normalized queries and keys in place of soft caps.

    Of six layers, five have a window and a RoPE of their own. With use_bidirectional_attention it is an
    encoder, whose windows lie half to each side.
    """
    config.ignore("use_qk_norm")  # the class has these norms whatever the file says
    config.ignore("hidden_act", "_sliding_window_pattern")
    width, bias = hf.head_dim(config), config.flag("attention_bias")
    ffn, scale = hf.gated(config, act="hidden_activation"), hf.query_scale(config, width)
    cap = hf.optional_number(config, "attn_logit_softcapping")
    period = config.size("sliding_window_pattern").value
    near, far = hf.near_and_far(config, width)
    both_ways = _attends_both_ways(config)

    def layer(window: ConfigValue[int] | None) -> Mapped:
        attend = hf.attention(
            config,
            width,
            bias=bias,
            position=far if window is None else near,
            qk_norm=hf.PER_HEAD,
            scale=scale,
            softcap=cap,
            **(_to_both_sides(window) if both_ways else {"window": window}),
        )
        return {"kind": "sandwich", "attention": attend, "ffn": ffn}

    layers = hf.windows(config, layer, lambda index: (index + 1) % period != 0)
    norm, embedding = hf.rmsnorm(config, offset=1), {"scale": "sqrt_d_model"}
    final_cap = hf.optional_number(config, "final_logit_softcapping")
    if both_ways:
        return decoder(config, norm, layers, kind="encoder", embedding={**embedding, "tied": False})
    head = None if final_cap is None else {"softcap": final_cap}
    return decoder(config, norm, layers, embedding=embedding, head=head)


def _attends_both_ways(config: Config) -> bool:
    """Whether the file is an encoder's; ArchError if it has a head, which would see the next token."""
    if not config.get("use_bidirectional_attention"):
        return False
    if config.has_head:
        what = f"use_bidirectional_attention in {config.architecture} is not supported"
        raise config.error(what, "an encoder has no output head", config.place("use_bidirectional_attention"))
    return True


def _to_both_sides(window: ConfigValue[int] | None) -> Mapped:
    """Attention both ways, in a window with half of its tokens to each side."""
    sparsity = None if window is None else {"kind": "longformer", "window": window}
    return {"causal": False, "sparsity": sparsity}


T5GEMMA_UNREAD = ("classifier_dropout_rate", "dropout_rate", "initializer_range", "vocab_size")


def _t5gemma(config: Config) -> Mapped:
    """Sandwich norms, GeGLU, capped scores and logits; each half has a table of its own.

    Every other layer has a window, which in the encoder lies on both sides of a token.
    """
    config.only_architectures("T5GemmaForConditionalGeneration", "T5GemmaModel")
    config.only("is_encoder_decoder", True, default=True)
    config.ignore(*T5GEMMA_UNREAD)
    defaults = hf.class_defaults("gemma2")  # T5GemmaModuleConfig has the same
    encoder, decoder = config.inner("encoder", defaults), config.inner("decoder", defaults)
    width, encoder_width = decoder.size("hidden_size"), encoder.size("hidden_size")
    source = {
        "d_model": encoder_width if encoder_width != width else None,
        "vocab_size": encoder.size("vocab_size"),
    }
    cap = hf.optional_number(decoder, "final_logit_softcapping")
    return hf.without_none(
        {
            "kind": "encoder_decoder",
            "vocab_size": decoder.size("vocab_size"),
            "d_model": width,
            "max_seq_len": decoder.size("max_position_embeddings"),
            "norm": hf.rmsnorm(decoder, offset=1),
            "embedding": {"tied": config.flag("tie_word_embeddings"), "scale": "sqrt_d_model"},
            "encoder": hf.without_none({**source, **_t5gemma_half(encoder, _own_norm(encoder, decoder))}),
            "decoder": _t5gemma_half(decoder, causal=True),
            "head": None if cap is None else {"softcap": cap},
        }
    )


def _own_norm(encoder: Config, decoder: Config) -> Mapped | None:
    """The norm of the encoder's layers where it differs from the decoder's, the default of all layers."""
    same = encoder.number("rms_norm_eps").value == decoder.number("rms_norm_eps").value
    return None if same else hf.rmsnorm(encoder, offset=1)


def _t5gemma_half(config: Config, norm: Mapped | None = None, *, causal: bool = False) -> Mapped:
    """The encoder, whose layers have this norm of their own, or the decoder with cross attention."""
    width = hf.head_dim(config)
    common: Mapped = {
        "bias": config.flag("attention_bias"),
        "scale": hf.query_scale(config, width),
        "softcap": hf.optional_number(config, "attn_logit_softcapping"),
    }
    heads = hf.head_counts(config.size("num_attention_heads"), config.size("num_key_value_heads"))
    cross = {**{key: heads[key] for key in heads if key != "kind"}, "head_dim": width, **common}
    # cross attention has no kinds: one head of keys and values is a number, too
    if heads["kind"] == "mqa":
        cross["n_kv_heads"] = 1

    def layer(window: ConfigValue[int] | None) -> Mapped:
        pattern: Mapped = {"causal": causal}
        if window is not None:
            # an encoder's token sees sliding_window tokens to each side
            band = {"kind": "longformer", "window": window.derive(2 * window.value)}
            pattern = {"window": window} if causal else {"sparsity": band, **pattern}
        sublayers = {
            "attention": hf.attention(config, width, **common, **pattern),
            **({"cross_attention": hf.without_none(cross)} if causal else {}),
            "ffn": hf.gated(config, act="hidden_activation"),
        }
        return hf.without_none({"kind": "sandwich", "norm": norm, **sublayers})

    layers = hf.windows(config, layer, lambda index: index % 2 == 0)
    config.ignore(
        *config.defaults,
        *T5GEMMA_UNREAD,
        "model_type",
        "tie_word_embeddings",
        "is_decoder",
        "cross_attention_hidden_size",
    )
    config.report_unread_keys()
    return {"norm": hf.rmsnorm(config, offset=1), "groups": hf.groups(layers)}


SUBLAYERS = {"self_attn": "attention", "cross_attn": "cross_attention", "feedforward": "ffn"}


def _t5gemma_half_names(half: str) -> dict[str, Rule]:
    """Weight names of the layers of the encoder or the decoder."""
    theirs, ours = f"[model.]{half}.layers.*", f"{half}.layers.*"
    names: dict[str, Rule] = {f"[model.]{half}.norm.weight": f"{half}.final_norm.weight"}
    for part, name in SUBLAYERS.items():
        for place, norm in (("pre", "norm"), ("post", "post_norm")):
            names[f"{theirs}.{place}_{part}_layernorm.weight"] = f"{ours}.{name}_{norm}.weight"
        for which in () if part == "feedforward" else "qkvo":
            names[f"{theirs}.{part}.{which}_proj.*"] = f"{ours}.{name}.{which}_proj.*"
    for which in ("gate", "up", "down"):
        names[f"{theirs}.mlp.{which}_proj.weight"] = f"{ours}.ffn.{which}_proj.weight"
    return names


T5GEMMA_WEIGHTS: Weights = {
    "[model.]encoder.embed_tokens.weight": "source.weight",
    "[model.]decoder.embed_tokens.weight": Parts(("embedding.tokens.weight",), again=True),
    "lm_head.out_proj.weight": "lm_head.weight",
    **_t5gemma_half_names("encoder"),
    **_t5gemma_half_names("decoder"),
}


GEMMA3 = {"sliding_window_pattern": 6, "rope_theta": 1e6, "rope_local_base_freq": 1e4}
"""Defaults that the config of Gemma 3 fills in without having keys for them."""


def _t5gemma2(config: Config) -> Mapped:
    """Two Gemma 3 with one table, the decoder with merged attention.

    A token that ends an image has a vector of its own, which no pass over text reads.
    """
    config.only_architectures("T5Gemma2ForConditionalGeneration", "T5Gemma2Model")
    config.only("is_encoder_decoder", True, default=True)
    config.ignore(*T5GEMMA_UNREAD)
    defaults = {**hf.class_defaults("gemma3_text"), **GEMMA3}  # T5Gemma2TextConfig has the same
    outer = config.inner("encoder", {})
    outer.ignore("model_type", "vision_config", "tie_word_embeddings")
    encoder, decoder = outer.inner("text_config", defaults), config.inner("decoder", defaults)
    outer.report_unread_keys()
    for key in ("hidden_size", "vocab_size"):
        if encoder.size(key).value != decoder.size(key).value:
            what = f"encoder and decoder differ in {key}: {encoder.size(key)} and {decoder.size(key)}"
            raise decoder.error(what, "their class needs equal ones", decoder.place(key))
    tied, width = config.flag("tie_word_embeddings"), decoder.size("hidden_size")
    cap = hf.optional_number(decoder, "final_logit_softcapping")
    source = {} if tied.value else {"vocab_size": encoder.size("vocab_size")}
    return hf.without_none(
        {
            "kind": "encoder_decoder",
            "vocab_size": decoder.size("vocab_size"),
            "d_model": width,
            "max_seq_len": decoder.size("max_position_embeddings"),
            "norm": hf.rmsnorm(decoder, offset=1),
            "embedding": {"tied": tied, "scale": "sqrt_d_model"},
            "encoder": {**source, **_t5gemma2_half(encoder, _own_norm(encoder, decoder))},
            "decoder": _t5gemma2_half(decoder, merged=True),
            "head": None if cap is None else {"softcap": cap},
            "unread": dict.fromkeys(END_OF_IMAGE[: 1 if tied.value else 2], width),
        }
    )


END_OF_IMAGE = ("eoi_embedding", "decoder_eoi_embedding")


def _t5gemma2_half(config: Config, norm: Mapped | None = None, *, merged: bool = False) -> Mapped:
    """The encoder, whose layers have this norm of their own, or the decoder with merged attention.

    The class does not apply the caps on scores that it reads.
    """
    width, ffn = hf.head_dim(config), hf.gated(config, act="hidden_activation")
    near, far = hf.near_and_far(config, width)
    heads = hf.head_counts(config.size("num_attention_heads"), config.size("num_key_value_heads"))
    kind = {"kind": "merged", "n_kv_heads": config.size("num_key_value_heads")} if merged else heads
    period = config.size("sliding_window_pattern").value

    def layer(window: ConfigValue[int] | None) -> Mapped:
        seen: Mapped = {"window": window} if merged else {"causal": False}
        if not merged and window is not None:
            seen["sparsity"] = {"kind": "centred", "window": window}
        attend = hf.attention(
            config,
            width,
            bias=config.flag("attention_bias"),
            position=far if window is None else near,
            qk_norm=hf.without_none({**hf.PER_HEAD, "norm": norm}),
            scale=hf.query_scale(config, width),
            **{**kind, **seen},
        )
        return hf.without_none({"kind": "sandwich", "norm": norm, "attention": attend, "ffn": ffn})

    layers = hf.windows(config, layer, lambda index: (index + 1) % period != 0)
    unread = (*T5GEMMA_UNREAD, "model_type", "tie_word_embeddings", "attn_logit_softcapping", "hidden_act")
    config.ignore(*config.defaults, *unread, "is_decoder", "_sliding_window_pattern")
    config.report_unread_keys()
    return {"norm": hf.rmsnorm(config, offset=1), "groups": hf.groups(layers)}


def _t5gemma2_half_names(theirs: str, half: str) -> dict[str, Rule]:
    """Weight names of the layers of the encoder or the decoder."""
    names: dict[str, Rule] = {f"{theirs}.norm.weight": f"{half}.final_norm.weight"}
    for part, ours in (("self_attn", "attention"), ("feedforward", "ffn")):
        for place, norm in (("pre", "norm"), ("post", "post_norm")):
            stored = f"{theirs}.layers.*.{place}_{part}_layernorm.weight"
            names[stored] = f"{half}.layers.*.{ours}_{norm}.weight"
    for which in "qkvo":
        names[f"{theirs}.layers.*.self_attn.{which}_proj.*"] = f"{half}.layers.*.attention.{which}_proj.*"
    for which in "qk":
        stored = f"{theirs}.layers.*.self_attn.{which}_norm.weight"
        names[stored] = f"{half}.layers.*.attention.{which}_norm.weight"
    for which in ("gate", "up", "down"):
        names[f"{theirs}.layers.*.mlp.{which}_proj.weight"] = f"{half}.layers.*.ffn.{which}_proj.weight"
    return names


def _t5gemma2_names(config: Config) -> Weights:
    """Names of all tensors but those of the tower; untied, each half has a table."""
    tied = config.flag("tie_word_embeddings").value
    source, target = "[model.]encoder", "[model.]decoder"  # text_model is taken out
    first, again = Parts(("embedding.tokens.weight",)), Parts(("embedding.tokens.weight",), again=True)
    return {
        f"{source}.embed_tokens.weight": first if tied else "source.weight",
        f"{source}.embed_tokens.eoi_embedding": f"{END_OF_IMAGE[0]}.weight",
        f"{target}.embed_tokens.weight": again if tied else first,
        f"{target}.embed_tokens.eoi_embedding": (
            Parts((f"{END_OF_IMAGE[0]}.weight",), again=True) if tied else f"{END_OF_IMAGE[1]}.weight"
        ),
        "lm_head.out_proj.weight": again if tied else "lm_head.weight",
        **_t5gemma2_half_names(source, "encoder"),
        **_t5gemma2_half_names(target, "decoder"),
    }


FAMILIES = {
    "gemma": Family("Gemma 1: GemmaConfig and GemmaForCausalLM.", _gemma, hf.LLAMA),
    "gemma2": Family("Gemma 2: Gemma2Config and Gemma2ForCausalLM.", _gemma2, hf.SANDWICH),
    "vaultgemma": Family(
        "VaultGemma: VaultGemmaConfig and VaultGemmaForCausalLM.", _vaultgemma, VAULTGEMMA_WEIGHTS
    ),
    "gemma3_text": Family(
        "Gemma 3, its text part, and EmbeddingGemma: "
        "Gemma3TextConfig, Gemma3ForCausalLM and Gemma3TextModel.",
        _gemma3,
        {**hf.SANDWICH, **hf.QK_NORM},
        defaults=GEMMA3,
    ),
    "t5gemma": Family(
        "T5Gemma, an encoder-decoder of two Gemma 2: T5GemmaConfig and T5GemmaForConditionalGeneration.",
        _t5gemma,
        T5GEMMA_WEIGHTS,
    ),
    "t5gemma2": Family(
        "T5Gemma 2, an encoder-decoder of two Gemma 3 with merged attention: "
        "T5Gemma2Config and T5Gemma2ForConditionalGeneration.",
        _t5gemma2,
        _t5gemma2_names,
        towers=(hf.TowerRow(".llava:t5gemma2"),),
    ),
}
