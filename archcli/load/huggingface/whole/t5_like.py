"""Encoder-decoders of T5's kind: pre-norm, RMSNorm, no bias, unscaled scores with relative buckets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.config_json import ConfigValue, Mapped, without_none
from archcli.load.huggingface.parts.attention import Flag
from archcli.load.huggingface.parts.decoder import PLAIN, groups
from archcli.load.huggingface.parts.networks import ACTIVATIONS, activation
from archcli.load.huggingface.weights.map import Auxiliary, Parts, Rule

ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "hidden_size": "d_model",
        "num_attention_heads": "num_heads",
        "num_hidden_layers": "num_layers",
        "head_dim": "d_kv",
    }
)
HARMLESS = (*PLAIN, "dropout_rate", "dense_act_fn", "is_gated_act", "is_decoder", "output_past")
ENCODER, TAGGER = "EncoderModel", "ForTokenClassification"
"""Endings of the classes that are an encoder alone."""

Networks = Mapped | Sequence[Mapped]
"""The feed-forward network of every layer, or of each."""


def is_encoder_alone(config: Config) -> bool:
    """Whether the file's class is the encoder, or the encoder with a classifier of tokens."""
    return config.architecture.endswith((ENCODER, TAGGER))


def t5_like(
    config: Config,
    tied: ConfigValue[bool],
    scale: Flag,
    *,
    networks: Mapping[str, Networks] | None = None,
    per_layer: bool = False,
    ties: bool = True,
) -> Mapped:
    """Both halves, or the encoder where the file's class is one.

    `scale` tells whether the head reads x / sqrt(d_model). `networks` are those of the encoder and the
    decoder, by default `dense`. With `per_layer` each layer has buckets of its own. A head that is not `tied`
    has a table, as checkpoints of v1.1, Flan and mT5 have, though a class that `ties` all since transformers
    5 does so whatever the file says; one that does not has a table for each half, and one that is not read.
    """
    config.ignore(*HARMLESS)
    ffns = networks or dict.fromkeys(("encoder", "decoder"), dense(config))
    width, depth = config.size("hidden_size"), config.size("num_hidden_layers")
    whole = {
        "vocab_size": config.size("vocab_size"),
        "d_model": width,
        "max_seq_len": config.optional_size("n_positions"),
        "norm": {"kind": "rmsnorm", "eps": config.number("layer_norm_epsilon")},
    }
    encoder = _half(config, depth, ffns["encoder"], causal=False, per_layer=per_layer)
    decoders = config.size("num_decoder_layers", default=depth)
    if is_encoder_alone(config):
        labels = config.labels() if config.architecture.endswith(TAGGER) else None
        config.ignore("scale_decoder_outputs")
        return without_none({"kind": "encoder", **whole, **encoder, "n_labels": labels})
    embedding: Mapped = {"tied": tied}
    if not tied and ties:
        fewer = f"{config.size('vocab_size').value * width.value:,}"
        what = "the head has a table of its own, as in T5 v1.1; the class since transformers 5 ties it"
        config.note(f"{what}, and counts {fewer} parameters fewer")
    elif not tied:
        config.note("shared, a table of as many parameters as the embedding, is counted, and read by no pass")
        whole["unread"] = {"shared": [config.size("vocab_size"), width]}
        encoder = {"vocab_size": config.size("vocab_size"), **encoder}
    head = {"scale": width.derive(width.value**-0.5)} if scale else None
    decoder = _half(config, decoders, ffns["decoder"], causal=True, per_layer=per_layer)
    halves = {"embedding": embedding, "encoder": encoder, "decoder": decoder, "head": head}
    return without_none({"kind": "encoder_decoder", **whole, **halves})


def _half(config: Config, depth: ConfigValue[int], ffn: Networks, *, causal: bool, per_layer: bool) -> Mapped:
    """The encoder, or the decoder with cross attention."""
    heads = {"n_heads": config.size("num_attention_heads"), "head_dim": config.size("head_dim"), "scale": 1.0}
    buckets = {
        "kind": "buckets",
        "n_buckets": config.size("relative_attention_num_buckets"),
        "max_distance": config.size("relative_attention_max_distance"),
        **({} if causal else {"bidirectional": True}),
    }
    position = {"position": buckets} if per_layer else {}
    layer = {"kind": "pre_norm", "attention": {"kind": "mha", **heads, "causal": causal, **position}}
    layer |= {"cross_attention": heads} if causal else {}
    alike = [{"n_layers": depth, "layer": {**layer, "ffn": ffn}}]
    grouped = alike if isinstance(ffn, dict) else groups([{**layer, "ffn": network} for network in ffn])
    return {**({} if per_layer else {"score_bias": buckets}), "groups": grouped}


def dense(config: Config) -> Mapped:
    """`relu`, or `gated-` and the name of the gate's function; `gated-gelu` means its tanh form.

    What transformers made of it when it wrote the file, `dense_act_fn` and `is_gated_act`, goes before it.
    """
    stated = config.value("feed_forward_proj")
    gate, _, name = stated.value.rpartition("-") if isinstance(stated.value, str) else ("", "", "")
    name = "gelu_new" if stated == "gated-gelu" else name
    if gate not in ("", "gated") or name not in ACTIVATIONS:
        what = f"feed_forward_proj {short_repr(stated.value)} is not supported"
        raise config.error(what, "known: relu, gated-gelu and their like", stated.place)
    function = activation(config, "dense_act_fn", default=stated.derive(name))
    gated = not config.stated_null("is_gated_act") and config.flag("is_gated_act", default=bool(gate))
    return {"kind": "glu" if gated else "mlp", "d_ff": config.size("d_ff"), "activation": function}


PARTS = {"SelfAttention": "attention", "EncDecAttention": "cross_attention", "FF": "ffn"}
PROJECTIONS = {**{name: f"{name}_proj" for name in "qkvo"}, "wo": "down_proj"}
SUBLAYERS = {"encoder": ("SelfAttention", "FF"), "decoder": tuple(PARTS)}
"""Keys of `PARTS` in the order in which checkpoints number them; FF has other names there."""


def t5_weights(config: Config, *, ff: str = "DenseReluDense", per_layer: bool = False) -> dict[str, Rule]:
    """Weight names of both halves, or of an encoder alone; `ff` is what the class calls the network.

    `wi` is the up projection, or `wi_1` where `wi_0` gates it.
    """
    table, alone = Parts(("embedding.tokens.weight",), again=True), is_encoder_alone(config)
    names: dict[str, Rule] = {
        "shared.weight": table,
        "encoder.embed_tokens.weight": table,
        "decoder.embed_tokens.weight": table,
        "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight": Auxiliary(
            "left over: cross attention has no positions"
        ),
    }
    for half in ("encoder",) if alone else ("encoder", "decoder"):
        prefix = "" if alone else f"{half}."
        bias = "layers.*.attention.score_bias" if per_layer else "score_bias"
        layer = f"{half}.block.{'*' if per_layer else 0}.layer.0.SelfAttention"
        names[f"{layer}.relative_attention_bias.weight"] = f"{prefix}{bias}.weight"
        names |= _half_weights(half, prefix, ff)
    below = "transformer." if config.architecture.endswith(TAGGER) else ""
    heads = {"lm_head.weight": "lm_head.weight", "classifier.*": "classifier.*"}
    return {**{below + name: rule for name, rule in names.items()}, **heads}


def _half_weights(half: str, prefix: str, ff: str) -> dict[str, Rule]:
    """Weight names of the encoder or the decoder, where sublayers are numbered."""
    names: dict[str, Rule] = {f"{half}.final_layer_norm.weight": f"{prefix}final_norm.weight"}
    for i, part in enumerate(SUBLAYERS[half]):
        ours, theirs_of = f"{prefix}layers.*.{PARTS[part]}", ff if part == "FF" else part
        names[f"{half}.block.*.layer.{i}.layer_norm.weight"] = f"{ours}_norm.weight"
        for theirs, name in {**PROJECTIONS, "wi": "up_proj", "wi_0": "gate_proj", "wi_1": "up_proj"}.items():
            if (part == "FF") == theirs.startswith("w"):
                names[f"{half}.block.*.layer.{i}.{theirs_of}.{theirs}.weight"] = f"{ours}.{name}.weight"
    return names
