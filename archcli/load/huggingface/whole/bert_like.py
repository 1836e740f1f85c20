"""Encoders of BERT's kind: equal layers on normalized embeddings, and the heads of each class."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import even_split, head_dim
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import ACTIVATIONS, activation, layernorm, mlp
from archcli.load.huggingface.parts.rope import rope
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import BERT_HEAD, ROBERTA_HEAD, tied_names

NOTHING: Mapping[str, Any] = MappingProxyType({})


SECOND_BIAS = "unread_bias"
"""The name of the bias that BERT's untied head holds twice: `decoder.bias` beside `bias`."""

Heads = Mapping[str, tuple[str, ...]]
"""What each class has on the encoder, by the end of its name such as ForMaskedLM.

`pooler`: a dense layer on the first token; `every`: the same on every token; `words`: a head that predicts
words; `labels`, `one label`, `two labels`: a classifier.
"""

LABELLED: Heads = MappingProxyType(
    {
        "ForSequenceClassification": ("pooler", "labels"),
        "ForMultipleChoice": ("pooler", "one label"),
        "ForTokenClassification": ("labels",),
        "ForQuestionAnswering": ("labels",),
    }
)
MASKED: Heads = MappingProxyType({"Model": ("pooler",), "ForMaskedLM": ("words",), **LABELLED})
BERT_HEADS: Heads = MappingProxyType(
    {
        **MASKED,
        "ForPreTraining": ("pooler", "words", "two labels"),
        "ForNextSentencePrediction": ("pooler", "two labels"),
        "ForCausalLM": ("words",),
    }
)
"""The classes of BERT and of models with the same heads."""

ROBERTA_HEADS: Heads = MappingProxyType({**MASKED, "ForCausalLM": ("words",)})
"""The classes of RoBERTa, whose classifier pools for itself."""


def bert_like(
    config: Config,
    prefix: str,
    heads: Heads = BERT_HEADS,
    *,
    attention: Mapping[str, Any] = NOTHING,
    embedding: Mapping[str, Any] = NOTHING,
    **more: Any,
) -> Mapped:
    """BERT: post-norm, learned positions and segment types, a norm after the embeddings.

    Options replace parts of it.

    prefix, heads: the beginning of the names of its classes, and what each class has on the encoder.
    attention, embedding, head: further fields of these.
    block, ffn, layer: the kind of the blocks, the network, and further fields of a layer.
    pooled: the activation of a pooler, or the key that names it; by default tanh.
    more: further fields of the model.
    """
    config.only("is_decoder", False, default=False)
    config.only("add_cross_attention", False, default=False)
    block, head = more.pop("block", "post_norm"), more.pop("head", NOTHING)
    norm = more.pop("norm", None) or layernorm(config.number("layer_norm_eps"))
    ffn = more.pop("ffn", None) or mlp(config, config.size("intermediate_size"), "hidden_act")
    n_heads = config.size("num_attention_heads")
    layer = {
        "kind": block,
        "attention": {"kind": "mha", "n_heads": n_heads, "bias": True, "causal": False, **attention},
        "ffn": ffn,
        **more.pop("layer", NOTHING),
    }
    tables = {"position": {"kind": "learned"}, "token_types": config.count("type_vocab_size", default=0)}
    embedding = {**tables, "norm": norm, **embedding}
    fields = {"kind": "encoder", "final_norm": block == "pre_norm", "embedding": embedding}
    pooled = more.pop("pooled", None)
    fields |= heads_of(config, prefix, heads, head, pooled)
    return decoder(config, norm, [layer] * config.layers(), **{**fields, **more})


def roberta_like(
    config: Config,
    prefix: str,
    heads: Heads = ROBERTA_HEADS,
    *,
    padding: int | None = None,
    embedding: Mapping[str, Any] = NOTHING,
    **more: Any,
) -> Mapped:
    """As BERT, with positions from the padding token's id on; the head's activation is GELU.

    `padding` is that id where the class reads none; the rest is as of `bert_like`.
    """
    position = after_padding(config, padding)
    return bert_like(
        config,
        prefix,
        heads,
        embedding={"position": position, **embedding},
        max_seq_len=position["max_seq_len"],
        **{"head": {"activation": "gelu"}, **more},
    )


WRAPPED = {"ModernBert": "ModernVBert", "Ultrabert": "UltraVBert"}
"""Prefix of an encoder's classes, and that of the wrapper's classes around it."""


def heads_of(
    config: Config,
    prefix: str,
    heads: Heads,
    head: Mapping[str, Any] = NOTHING,
    pooled: str | None = None,
) -> Mapped:
    """The fields of the head of the file's class; without a class those of the base model.

    A wrapper's classes have the same endings; without a class a wrapper has a head that predicts words.
    """
    wrapped, name = WRAPPED.get(prefix, prefix), config.architecture
    prefix = wrapped if name.startswith(wrapped) else prefix
    unnamed = name == "ForConditionalGeneration" and "ForMaskedLM" in heads
    if not unnamed:
        config.only_architectures(*(prefix + ending for ending in heads))
    parts = heads["ForMaskedLM" if unnamed else name.removeprefix(prefix) or "Model"]
    fields: Mapped = {"pooler": True} if {"pooler", "every"}.intersection(parts) else {}
    if fields and pooled is not None:
        named = pooled.endswith("_act")
        fields["pooler_activation"] = activation(config, pooled) if named else ACTIVATIONS[pooled]
    if "every" in parts:
        fields["pools"] = "every"
    if "words" in parts:
        usual = {} if "activation" in head or "transform" in head else {"hidden_act": "activation"}
        fields["head"] = {**{ours: activation(config, key) for key, ours in usual.items()}, **head}
    labels = {"labels": config.labels(), "one label": 1, "two labels": 2}
    numbers = [number for part, number in labels.items() if part in parts]
    return {**fields, **({"n_labels": numbers[0]} if numbers else {})}


def is_wrapped(config: Config, prefix: str) -> bool:
    """Whether the file is a wrapper's around this class, by its architecture or for want of one."""
    name = config.architecture
    return name == "ForConditionalGeneration" or name.startswith(WRAPPED[prefix])


def after_padding(config: Config, fixed: int | None = None) -> Mapped:
    """Learned positions of which the first follows the padding token's id, as fairseq numbers them.

    `fixed` is that id where the class reads none.
    """
    rows = config.size("max_position_embeddings")
    padding = config.count("pad_token_id") if fixed is None else rows.derive(fixed)
    if fixed is None and config.stated_null("pad_token_id"):
        what = "pad_token_id null is not supported"
        raise config.error(what, "the class numbers positions from it on", config.place("pad_token_id"))
    first = padding.value + 1
    if first >= rows.value:
        what = f"max_position_embeddings {rows} leaves no position after pad_token_id {padding}"
        raise config.error(what, at=rows.place)
    return {
        "kind": "learned",
        "offset": padding.derive(first),
        "max_seq_len": rows.derive(rows.value - first),
    }


def with_second_bias(config: Config, mapping: Mapped) -> Mapped:
    """The mapping, with the second bias of a head that is not tied, which no pass reads."""
    if "head" not in mapping or config.flag("tie_word_embeddings"):
        return mapping
    config.note("the class holds two biases of its untied head: one of them is read by no pass")
    return {**mapping, "unread": {**mapping.get("unread", {}), SECOND_BIAS: config.size("vocab_size")}}


def rotated(config: Config, theta: float, **options: Any) -> Mapped:
    """The fields of attention with RoPE, with the head_dim that a file may state."""
    width = head_dim(config)
    head = {} if width == even_split(config) else {"head_dim": width}
    return {"position": rope(config, width, theta=theta), **head, **options}


def narrow(config: Config, name: str, **default: Any) -> Mapped:
    """The fields of embeddings with the width of this key; empty where it is that of the layers."""
    width = config.size(name, **default)
    return {} if width == config.size("hidden_size") else {"width": width, "width_of": "all"}


def with_bert_head(config: Config, encoder: Weights, more: Weights = NOTHING) -> Weights:
    """The names of an encoder, and those of BERT's heads.

    An untied head has two biases, one of which no pass reads.
    """
    tied = bool(config.flag("tie_word_embeddings"))
    second = tied_names("cls.predictions.decoder.weight", "cls.predictions.bias", tied)
    return {**encoder, **BERT_HEAD, **more, **second}


def with_roberta_head(config: Config, encoder: Weights) -> Weights:
    """The names of an encoder, and those of RoBERTa's heads."""
    tied = bool(config.flag("tie_word_embeddings"))
    table = tied_names("lm_head.decoder.weight", "lm_head.bias", tied)
    return {**with_own_pooler(config, {**encoder, **ROBERTA_HEAD}), **table}


def with_own_pooler(config: Config, names: Weights) -> Weights:
    """Leave out the names of the base model's pooler, or those of the pooler in a sequence classifier.

    A classifier of sequences is a module of two layers, and any other of the file's class is one layer.
    """
    is_own = config.architecture.endswith("ForSequenceClassification")
    left_out = {"classifier.*"} if is_own else {"classifier.dense.*", "classifier.out_proj.*"}
    return {
        name: rule
        for name, rule in names.items()
        if name not in left_out and (rule != "pooler.*" or name.startswith("classifier.") == is_own)
    }
