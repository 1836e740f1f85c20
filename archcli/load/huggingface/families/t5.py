"""T5 and T5 v1.1 (Flan): T5Config and T5ForConditionalGeneration."""

from __future__ import annotations

from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.parts.activations import ACTIVATIONS
from archcli.load.huggingface.parts.decoder import PLAIN
from archcli.load.huggingface.value import ConfigValue, Mapped, without_none
from archcli.load.huggingface.weights.rules import Auxiliary, Parts, Rule, Weights

MODEL_TYPES = ("t5",)
TIES_UNSTORED_HEAD = True
"""The class ties the head whatever the config says, so a checkpoint without one is a tied model's."""

DEFAULTS = {
    "vocab_size": 32128,
    "d_model": 512,
    "d_kv": 64,
    "d_ff": 2048,
    "num_layers": 6,
    "num_heads": 8,
    "relative_attention_num_buckets": 32,
    "relative_attention_max_distance": 128,
    "layer_norm_epsilon": 1e-6,
    "feed_forward_proj": "relu",
    "tie_word_embeddings": True,
}
ALIASES = {
    "hidden_size": "d_model",
    "num_attention_heads": "num_heads",
    "num_hidden_layers": "num_layers",
    "head_dim": "d_kv",
}
ENCODERS = ("T5EncoderModel", "T5ForTokenClassification")


def mapping(config: Config) -> Mapped:
    """Pre-norm, RMSNorm, no bias, unscaled scores with relative buckets shared by all layers of a half.

    A tied head reads x / sqrt(d_model). `tie_word_embeddings: false` (v1.1, Flan) gives an untied head that
    reads x itself: so the checkpoints are, though the class since transformers 5 ties it all the same.
    """
    config = config.of_class(DEFAULTS, **ALIASES)
    config.ignore(*PLAIN, "dropout_rate", "dense_act_fn", "is_gated_act", "output_past")
    width, depth = config.size("hidden_size"), config.size("num_hidden_layers")
    whole = {
        "vocab_size": config.size("vocab_size"),
        "d_model": width,
        "max_seq_len": config.optional_size("n_positions"),
        "norm": {"kind": "rmsnorm", "eps": config.number("layer_norm_epsilon")},
    }
    if config.architecture in ENCODERS:
        config.ignore("num_decoder_layers", "scale_decoder_outputs")
        labels = None if config.architecture == ENCODERS[0] else config.labels()
        return without_none(
            {"kind": "encoder", **whole, **_half(config, depth, causal=False), "n_labels": labels}
        )
    # transformers 5 writes tie_word_embeddings true over every false, which it keeps as scale_decoder_outputs
    tied, scaled = config.flag("tie_word_embeddings"), config.flag("scale_decoder_outputs", default=True)
    own = not tied or not scaled
    if own:
        config.note("the head has a table of its own, as in T5 v1.1; the class since transformers 5 ties it")
    return without_none(
        {
            "kind": "encoder_decoder",
            **whole,
            "embedding": {"tied": tied.derive(not own)},
            "encoder": _half(config, depth, causal=False),
            "decoder": _half(config, config.size("num_decoder_layers", default=depth), causal=True),
            "head": {"scale": width.derive(width.value**-0.5)} if _scales(config) else None,
        }
    )


def _scales(config: Config) -> ConfigValue[bool]:
    """Whether the head reads x / sqrt(d_model): scale_decoder_outputs, or else where it is tied."""
    return config.flag("scale_decoder_outputs", default=config.flag("tie_word_embeddings"))


def _half(config: Config, depth: ConfigValue[int], *, causal: bool) -> Mapped:
    """The encoder, or the decoder with cross attention."""
    heads = {"n_heads": config.size("num_attention_heads"), "head_dim": config.size("head_dim"), "scale": 1.0}
    buckets = {
        "kind": "buckets",
        "n_buckets": config.size("relative_attention_num_buckets"),
        "max_distance": config.size("relative_attention_max_distance"),
    }
    layer = {"kind": "pre_norm", "attention": {"kind": "mha", **heads, "causal": causal}}
    layer |= {"cross_attention": heads} if causal else {}
    group = {"n_layers": depth, "layer": {**layer, "ffn": _ffn(config)}}
    return {"score_bias": buckets if causal else {**buckets, "bidirectional": True}, "groups": [group]}


def _ffn(config: Config) -> Mapped:
    """`relu`, or `gated-` and the name of the gate's function; `gated-gelu` means its tanh form."""
    stated = config.value("feed_forward_proj")
    gate, _, name = stated.value.rpartition("-") if isinstance(stated.value, str) else ("", "", "")
    name = "gelu_new" if stated == "gated-gelu" else name
    if gate not in ("", "gated") or name not in ACTIVATIONS:
        what = f"feed_forward_proj {short_repr(stated.value)} is not supported"
        raise config.error(what, "known: relu, gated-gelu and their like", stated.place)
    function = stated.derive(ACTIVATIONS[name])
    return {"kind": "glu" if gate else "mlp", "d_ff": config.size("d_ff"), "activation": function}


PARTS = {"SelfAttention": "attention", "EncDecAttention": "cross_attention", "DenseReluDense": "ffn"}
PROJECTIONS = {**{name: f"{name}_proj" for name in "qkvo"}, "wo": "down_proj"}
SUBLAYERS = {"encoder": ("SelfAttention", "DenseReluDense"), "decoder": tuple(PARTS)}


def weights(config: Config) -> Weights:
    """Weight names of both halves, or of an encoder alone.

    `wi` is the up projection, or `wi_1` where `wi_0` gates it.
    """
    table, alone = Parts(("embedding.tokens.weight",), again=True), config.architecture in ENCODERS
    names = {
        "shared.weight": table,
        "encoder.embed_tokens.weight": table,
        "decoder.embed_tokens.weight": table,
        "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight": Auxiliary(
            "left over: cross attention has no positions"
        ),
        **_half_weights("encoder", "" if alone else "encoder."),
        **({} if alone else _half_weights("decoder", "decoder.")),
    }
    below = "transformer." if config.architecture == "T5ForTokenClassification" else ""
    heads = {"lm_head.weight": "lm_head.weight", "classifier.*": "classifier.*"}
    return {**{below + name: rule for name, rule in names.items()}, **heads}


def _half_weights(half: str, prefix: str) -> dict[str, Rule]:
    """Weight names of the encoder or the decoder, where sublayers are numbered."""
    names: dict[str, Rule] = {
        f"{half}.block.0.layer.0.SelfAttention.relative_attention_bias.weight": f"{prefix}score_bias.weight",
        f"{half}.final_layer_norm.weight": f"{prefix}final_norm.weight",
    }
    for i, part in enumerate(SUBLAYERS[half]):
        ours = f"{prefix}layers.*.{PARTS[part]}"
        names[f"{half}.block.*.layer.{i}.layer_norm.weight"] = f"{ours}_norm.weight"
        for theirs, name in {**PROJECTIONS, "wi": "up_proj", "wi_0": "gate_proj", "wi_1": "up_proj"}.items():
            if (part == "DenseReluDense") == theirs.startswith("w"):
                names[f"{half}.block.*.layer.{i}.{part}.{theirs}.weight"] = f"{ours}.{name}.weight"
    return names
