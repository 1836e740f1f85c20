"""T5, mT5, LongT5 and Switch Transformers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from archcli.load import huggingface as hf
from archcli.load.huggingface import (
    Auxiliary,
    Config,
    ConfigValue,
    Family,
    Mapped,
    Parts,
    Reader,
    Rule,
    Weights,
)

ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "hidden_size": "d_model",
        "num_attention_heads": "num_heads",
        "num_hidden_layers": "num_layers",
        "head_dim": "d_kv",
    }
)
UNREAD = (*hf.PLAIN, "dropout_rate", "dense_act_fn", "is_gated_act", "is_decoder", "output_past")
ENCODER, TAGGER = "EncoderModel", "ForTokenClassification"
"""Endings of classes that are an encoder without a decoder."""

Networks = Mapped | Sequence[Mapped]
"""The feed-forward network of all layers, or a list with one for each."""


def _is_encoder_alone(config: Config) -> bool:
    """Whether the file's class is the encoder, or the encoder with a classifier of tokens."""
    return config.architecture.endswith((ENCODER, TAGGER))


def _t5_like(
    config: Config,
    tied: ConfigValue[bool],
    scale: hf.Flag,
    *,
    networks: Mapping[str, Networks] | None = None,
    per_layer: bool = False,
    ties: bool = True,
    near: Mapping[str, Any] = hf.NOTHING,
) -> Mapped:
    """Map both halves, or the encoder alone.

    tied: the head has the table of the tokens. Checkpoints of v1.1, Flan and mT5 have one of its own.
    scale: the head reads x / sqrt(d_model).
    networks: those of the encoder and of the decoder; by default `_dense` in both.
    per_layer: each layer has its own buckets of relative positions.
    ties: the class ties all tables since transformers 5, whatever the file says. Another class, untied, has a
        table for each half and a third that is not read.
    near: fields of the encoder's attention, where it does not see all tokens.
    """
    config.ignore(*UNREAD)
    ffns = networks or dict.fromkeys(("encoder", "decoder"), _dense(config))
    width, depth, vocabulary = map(config.size, ("hidden_size", "num_hidden_layers", "vocab_size"))
    norm = {"kind": "rmsnorm", "eps": config.number("layer_norm_epsilon")}
    length = config.optional_size("n_positions")
    whole = {"vocab_size": vocabulary, "d_model": width, "max_seq_len": length, "norm": norm}
    encoder = _half(config, depth, ffns["encoder"], causal=False, per_layer=per_layer, near=near)
    decoders = config.size("num_decoder_layers", default=depth)
    if _is_encoder_alone(config):
        labels = config.labels() if config.architecture.endswith(TAGGER) else None
        config.ignore("scale_decoder_outputs")
        return hf.without_none({"kind": "encoder", **whole, **encoder, "n_labels": labels})
    embedding: Mapped = {"tied": tied}
    if not tied and ties:
        fewer = f"{vocabulary.value * width.value:,}"
        what = "the head has a table of its own, as in T5 v1.1; the class since transformers 5 ties it"
        config.note(f"{what}, and counts {fewer} parameters fewer")
    elif not tied:
        config.note("shared, a table of as many parameters as the embedding, is counted, and read by no pass")
        whole["unread"] = {"shared": [vocabulary, width]}
        encoder = {"vocab_size": vocabulary, **encoder}
    head = {"scale": width.derive(width.value**-0.5)} if scale else None
    decoder = _half(config, decoders, ffns["decoder"], causal=True, per_layer=per_layer)
    halves = {"embedding": embedding, "encoder": encoder, "decoder": decoder, "head": head}
    return hf.without_none({"kind": "encoder_decoder", **whole, **halves})


def _half(
    config: Config,
    depth: ConfigValue[int],
    ffn: Networks,
    *,
    causal: bool,
    per_layer: bool,
    near: Mapping[str, Any] = hf.NOTHING,
) -> Mapped:
    """The encoder, or the decoder with cross attention."""
    # scores are not divided by sqrt(head_dim): Mesh TensorFlow scales the initial weights in its place
    heads = {"n_heads": config.size("num_attention_heads"), "head_dim": config.size("head_dim"), "scale": 1.0}
    buckets = {
        "kind": "buckets",
        "n_buckets": config.size("relative_attention_num_buckets"),
        "max_distance": config.size("relative_attention_max_distance"),
        **({} if causal else {"bidirectional": True}),
    }
    position = {"position": buckets} if per_layer else {}
    layer = {"kind": "pre_norm", "attention": {"kind": "mha", **heads, "causal": causal, **position, **near}}
    layer |= {"cross_attention": heads} if causal else {}
    alike = [{"n_layers": depth, "layer": {**layer, "ffn": ffn}}]
    grouped = alike if isinstance(ffn, dict) else hf.groups([{**layer, "ffn": network} for network in ffn])
    return {**({} if per_layer else {"score_bias": buckets}), "groups": grouped}


def _dense(config: Config) -> Mapped:
    """A network by feed_forward_proj: `relu`, or `gated-gelu`, which means the tanh form of GELU.

    dense_act_fn and is_gated_act, which transformers derives from it and writes beside it, go before it.
    """
    entry = config.value("feed_forward_proj")
    gate, _, name = entry.value.rpartition("-") if isinstance(entry.value, str) else ("", "", "")
    name = "gelu_new" if entry == "gated-gelu" else name
    if gate not in ("", "gated") or name not in hf.ACTIVATIONS:
        what = f"feed_forward_proj {hf.short_repr(entry.value)} is not supported"
        raise config.error(what, "known: relu, gated-gelu and their like", entry.place)
    function = hf.activation(config, "dense_act_fn", default=entry.derive(name))
    gated = not config.stated_null("is_gated_act") and config.flag("is_gated_act", default=bool(gate))
    return {"kind": "glu" if gated else "mlp", "d_ff": config.size("d_ff"), "activation": function}


PARTS = {"SelfAttention": "attention", "EncDecAttention": "cross_attention", "FF": "ffn"}
PROJECTIONS = {**{name: f"{name}_proj" for name in "qkvo"}, "wo": "down_proj"}
SUBLAYERS = {"encoder": ("SelfAttention", "FF"), "decoder": tuple(PARTS)}
"""Keys of `PARTS` in the order in which checkpoints number them; FF has other names there."""


def _t5_weights(config: Config, *, ff: str = "DenseReluDense", per_layer: bool = False) -> dict[str, Rule]:
    """Weight names of both halves, or of an encoder alone; `ff` is what the class calls the network.

    `wi` is the up projection, or `wi_1` where `wi_0` gates it.
    """
    table = Parts(("embedding.tokens.weight",), again=True)
    names: dict[str, Rule] = {
        "shared.weight": table,
        "encoder.embed_tokens.weight": table,
        "decoder.embed_tokens.weight": table,
        "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight": Auxiliary(
            "left over: cross attention has no positions"
        ),
    }
    has_decoder = not _is_encoder_alone(config)
    for half in ("encoder", "decoder") if has_decoder else ("encoder",):
        prefix = f"{half}." if has_decoder else ""
        bias = "layers.*.attention.score_bias" if per_layer else "score_bias"
        # buckets that all layers share lie in the first one
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


def _tie(config: Config) -> tuple[ConfigValue[bool], ConfigValue[bool]]:
    """Whether the head is tied, and whether it reads x / sqrt(d_model)."""
    # transformers 5 writes tie_word_embeddings true over every false, which it keeps as scale_decoder_outputs
    tied = config.flag("tie_word_embeddings")
    scaled = config.flag("scale_decoder_outputs", default=tied)
    return tied.derive(bool(tied) and bool(scaled)), scaled


def _t5(config: Config) -> Mapped:
    """Relative buckets are shared by all layers of a half; a tied head reads x / sqrt(d_model).

    `tie_word_embeddings: false` (v1.1, Flan) gives an untied head that reads x itself.
    """
    return _t5_like(config, *_tie(config))


def _mt5(config: Config) -> Mapped:
    """As T5 v1.1."""
    return _t5_like(config, config.flag("tie_word_embeddings"), False)


def _umt5(config: Config) -> Mapped:
    """As T5 v1.1, with buckets in each layer; a tied head reads x / sqrt(d_model), as T5's does."""
    return _t5_like(config, *_tie(config), per_layer=True)


def _umt5_weights(config: Config) -> Weights:
    """Weight names of both halves, or of an encoder alone, with buckets in each layer."""
    return _t5_weights(config, per_layer=True)


LONG_ATTENTION = {"local": "LocalSelfAttention", "transient-global": "TransientGlobalSelfAttention"}
"""What the class calls the encoder's attention, by encoder_attention_type."""


def _longt5(config: Config) -> Mapped:
    """As T5, with an encoder that sees local_radius tokens to either side."""
    config.only_architectures("LongT5ForConditionalGeneration", "LongT5Model", "LongT5EncoderModel")
    radius = config.size("local_radius")
    near: Mapped = {"sparsity": {"kind": "longformer", "window": radius.derive(2 * radius.value)}}
    config.only("encoder_attention_type", *LONG_ATTENTION)
    of_sums = config.get("encoder_attention_type") == "transient-global"
    block = config.size("global_block_size") if of_sums else None
    if block is None:
        config.ignore("global_block_size")
    else:
        near |= {"kind": "transient_global", "block": block}
    config.note(
        "the class computes the encoder's scores in blocks of three times as many keys, masked ones too"
    )
    whole = _t5_like(config, *_tie(config), near=near)
    if block is not None:
        encoder = whole.get("encoder", whole)
        encoder["score_bias"] = {**encoder["score_bias"], "kind": "token_and_block_buckets", "block": block}
    return whole


def _longt5_weights(config: Config) -> Weights:
    """Weight names: T5's but for the encoder's attention."""
    theirs = LONG_ATTENTION.get(str(config.get("encoder_attention_type")), "")
    prefix = "" if _is_encoder_alone(config) else "encoder."
    layer, ours = f"encoder.block.*.layer.0.{theirs}", f"{prefix}layers.*.attention"
    first = layer.replace("*", "0")
    of_sums: dict[str, Rule] = {
        f"{layer}.global_input_layer_norm.weight": f"{ours}.block_norm.weight",
        f"{first}.global_relative_attention_bias.weight": f"{prefix}score_bias_blocks.weight",
    }
    names = {
        name.replace("SelfAttention", theirs) if name.startswith("encoder.block") else name: rule
        for name, rule in _t5_weights(config).items()
    }
    return {**names, **(of_sums if theirs.startswith("Transient") else {})}


SWITCH_UNREAD = (
    "add_cross_attention",
    "expert_capacity",
    "router_dtype",
    "router_ignore_padding_tokens",
    "add_router_probs",
)


def _switch(config: Config) -> Mapped:
    """As T5, with one of E experts for each token in some layers (Fedus et al. 2021, arXiv:2101.03961).

    The weight of the chosen expert is not normalized, and no token is dropped.
    """
    config.ignore(*SWITCH_UNREAD, "feed_forward_proj")
    depth = config.size("num_hidden_layers")
    depths = {"encoder": depth, "decoder": depth}
    if not config.stated_null("num_decoder_layers"):
        depths["decoder"] = config.size("num_decoder_layers")
    networks = {half: _switch_networks(config, half, count) for half, count in depths.items()}
    tied = config.flag("tie_word_embeddings")
    return _t5_like(config, tied, tied, networks=networks, ties=False)


def _switch_networks(config: Config, half: str, depth: ConfigValue[int]) -> list[Mapped]:
    """The network of each layer: with a step of 2 layers 1, 3, 5, … have experts."""
    if depth.value > hf.MOST_LAYERS:
        raise config.error(
            f"{depth} layers are beyond reason", f"at most {hf.MOST_LAYERS:,} are read", depth.place
        )
    plain = {"kind": "mlp", "d_ff": config.size("d_ff"), "activation": hf.activation(config, "dense_act_fn")}
    router = {"normalized": False, **({"bias": True} if config.flag("router_bias") else {})}
    experts = {"n_experts": config.size("num_experts"), "top_k": 1, "expert": plain, "router": router}
    routed = {"kind": "moe", **experts}
    number = config.count(f"num_sparse_{half}_layers").value
    spread = depth.value // number if number else depth.value
    step = config.count(f"{half}_sparse_step", default=spread).value
    return [routed if step == 1 or (step and i % step == 1) else plain for i in range(depth.value)]


def _switch_weights(config: Config) -> Weights:
    """T5's names, with `mlp` for what T5 calls DenseReluDense; experts have a tensor each."""
    names = _t5_weights(config, ff="mlp")
    if not config.flag("tie_word_embeddings"):
        names |= {"shared.weight": "shared.weight", "encoder.embed_tokens.weight": "source.weight"}
    for half, i in (("encoder", 1), ("decoder", 2)):
        theirs, ours = f"{half}.block.*.layer.{i}.mlp", f"{half}.layers.*.ffn"
        names |= {
            f"{theirs}.router.classifier.*": f"{ours}.router.*",
            f"{theirs}.experts.expert_#.wi.weight": f"{ours}.experts.up_proj.weight",
            f"{theirs}.experts.expert_#.wo.weight": f"{ours}.experts.down_proj.weight",
        }
    return names


ABOUT_MT5 = "mT5 and UMT5, T5 for many languages: MT5Config and MT5ForConditionalGeneration."


def _tying(about: str, mapping: Reader, weights: Callable[[Config], Weights]) -> Family:
    """A family whose class ties the head, whatever the file says."""
    return Family(about, mapping, weights, aliases=ALIASES, ties_unstored_head=True)


FAMILIES = {
    "t5": _tying("T5 and T5 v1.1 (Flan): T5Config and T5ForConditionalGeneration.", _t5, _t5_weights),
    "mt5": _tying(ABOUT_MT5, _mt5, _t5_weights),
    "umt5": _tying(ABOUT_MT5, _umt5, _umt5_weights),
    "longt5": _tying(
        "LongT5, T5 for long documents: LongT5Config and LongT5ForConditionalGeneration.",
        _longt5,
        _longt5_weights,
    ),
    "switch_transformers": Family(
        "Switch Transformers: SwitchTransformersConfig and SwitchTransformersForConditionalGeneration.",
        _switch,
        _switch_weights,
        aliases=ALIASES,
        defaults={"feed_forward_proj": "relu"},
    ),
}
