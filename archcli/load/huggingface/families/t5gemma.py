"""T5Gemma, an encoder-decoder of two Gemma 2: T5GemmaConfig and T5GemmaForConditionalGeneration."""

from archcli.load.huggingface.class_defaults import class_defaults
from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue, Mapped, without_none
from archcli.load.huggingface.parts.attention import (
    attention,
    head_counts,
    head_dim,
    optional_number,
    query_scale,
    windows,
)
from archcli.load.huggingface.parts.decoder import groups
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.weights.map import Parts, Rule, Weights

MODEL_TYPES = ("t5gemma",)

HARMLESS = ("classifier_dropout_rate", "dropout_rate", "initializer_range", "vocab_size")


def mapping(config: Config) -> Mapped:
    """Sandwich norms, GeGLU, capped scores and logits; each half has a table of its own.

    Every other layer has a window, which in the encoder lies on both sides of a token.
    """
    config = config.of_class()
    config.only_architectures("T5GemmaForConditionalGeneration", "T5GemmaModel")
    config.only("is_encoder_decoder", True, default=True)
    config.ignore(*HARMLESS)
    of_halves = class_defaults("gemma2")
    encoder, decoder = config.inner("encoder", of_halves), config.inner("decoder", of_halves)
    width, wide = encoder.size("hidden_size"), decoder.size("hidden_size")
    read = {"d_model": width if width != wide else None, "vocab_size": encoder.size("vocab_size")}
    cap = optional_number(decoder, "final_logit_softcapping")
    return without_none(
        {
            "kind": "encoder_decoder",
            "vocab_size": decoder.size("vocab_size"),
            "d_model": wide,
            "max_seq_len": decoder.size("max_position_embeddings"),
            "norm": rmsnorm(decoder, offset=1),
            "embedding": {"tied": config.flag("tie_word_embeddings"), "scale": "sqrt_d_model"},
            "encoder": without_none({**read, **_half(encoder, causal=False)}),
            "decoder": _half(decoder, causal=True),
            "head": None if cap is None else {"softcap": cap},
        }
    )


def _half(config: Config, *, causal: bool) -> Mapped:
    """The encoder, or the decoder with cross attention."""
    width = head_dim(config)
    common: Mapped = {
        "bias": config.flag("attention_bias"),
        "scale": query_scale(config, width),
        "softcap": optional_number(config, "attn_logit_softcapping"),
    }
    heads = head_counts(config.size("num_attention_heads"), config.size("num_key_value_heads"))
    cross = {**{key: heads[key] for key in heads if key != "kind"}, "head_dim": width, **common}
    if heads["kind"] == "mqa":
        cross["n_kv_heads"] = 1

    def layer(window: ConfigValue[int] | None) -> Mapped:
        pattern: Mapped = {"causal": causal}
        if window is not None:
            band = {"kind": "longformer", "window": window.derive(2 * window.value)}
            pattern = {"window": window} if causal else {"sparsity": band, **pattern}
        own = {"cross_attention": without_none(cross)} if causal else {}
        attend = attention(config, width, **common, **pattern)
        return {"kind": "sandwich", "attention": attend, **own, "ffn": gated(config, act="hidden_activation")}

    layers = windows(config, layer, lambda index: index % 2 == 0)
    config.ignore(
        *config.defaults,
        *HARMLESS,
        "model_type",
        "tie_word_embeddings",
        "is_decoder",
        "cross_attention_hidden_size",
    )
    config.report_unread_keys()
    return {"norm": rmsnorm(config, offset=1), "groups": groups(layers)}


SUBLAYERS = {"self_attn": "attention", "cross_attn": "cross_attention", "feedforward": "ffn"}


def _half_names(half: str) -> dict[str, Rule]:
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


WEIGHTS: Weights = {
    "[model.]encoder.embed_tokens.weight": "source.weight",
    "[model.]decoder.embed_tokens.weight": Parts(("embedding.tokens.weight",), again=True),
    "lm_head.out_proj.weight": "lm_head.weight",
    **_half_names("encoder"),
    **_half_names("decoder"),
}
