"""Pairs of models: an encoder and a decoder of BERT's kind, joined by cross attention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Family, Mapped, Parts, Rule, Weights
from archcli.load.huggingface.registry import family_of

KINDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "bert": ("BertModel", "BertLMHeadModel"),
        "roberta": ("RobertaModel", "RobertaForCausalLM"),
        "xlm-roberta": ("XLMRobertaModel", "XLMRobertaForCausalLM"),
        "camembert": ("CamembertModel", "CamembertForCausalLM"),
        "bert-generation": ("BertGenerationEncoder", "BertGenerationDecoder"),
    }
)
"""The types that can be halves, and the classes that they are as encoder and as decoder."""

READ_AS = {"BertLMHeadModel": "BertForMaskedLM"}
"""A class with the same head, where the family of encoders does not know the decoder's."""

DECODER = {"is_decoder": True, "add_cross_attention": True}
"""What the class sets of a decoder that leaves it out."""


def _half(config: Config, name: str) -> tuple[Config, Family]:
    """The config of the encoder or the decoder read as an encoder's, and its family."""
    inner = config.inner(name, {})
    kind = inner.value("model_type", default="bert")
    family = family_of(kind.value) if kind.value in KINDS else None
    if family is None:
        what = f"{name} of model_type {hf.short_repr(kind.value)} is not supported"
        raise config.error(what, "known: " + ", ".join(KINDS), kind.place)
    cls = KINDS[kind.value][name == "decoder"]
    alike = {"architectures": [READ_AS.get(cls, cls)], "is_decoder": False, "add_cross_attention": False}
    return family.of_class(replace(inner, data={**inner.data, "model_type": kind.value, **alike})), family


def _pair(config: Config) -> Mapped:
    """Both halves as their types have them; the decoder's layers look back, and cross-attend.

    An encoder of another width is projected to the decoder's.
    """
    config.only_architectures("EncoderDecoderModel")
    config.only("tie_encoder_decoder", False, default=False)
    config.only("is_encoder_decoder", True)
    if config.stated_null("is_encoder_decoder"):
        raise config.error("is_encoder_decoder null is not supported", at=config.place("is_encoder_decoder"))
    config.ignore("vocab_size", "tie_word_embeddings", "max_length", "min_length")
    for key, value in DECODER.items():
        _expect(config, key, value)
    reads, writes = (_read(config, name) for name in ("encoder", "decoder"))
    decoder = {"final_norm": False, "groups": _crossing(writes["groups"])}
    return hf.without_none(
        {
            "kind": "encoder_decoder",
            **{key: writes[key] for key in ("vocab_size", "d_model", "max_seq_len", "norm", "embedding")},
            "encoder": _encoder(reads, writes),
            "decoder": decoder,
            "head": _head(writes["head"]),
            "unread": {**writes.get("unread", {}), **_pooler(config, reads)} or None,
        }
    )


def _expect(config: Config, key: str, value: bool) -> None:
    """Raise ArchError unless `key` has this value in the decoder and is false in the encoder."""
    for name, known in (("encoder", False), ("decoder", value)):
        inner = config.inner(name, {})
        if bool(inner.get(key, default=known)) is not known:
            what = f"{key} {hf.short_repr(inner.get(key))} of the {name} is not supported"
            raise config.error(what, f"supported: {known}", inner.place(key))


def _read(config: Config, name: str) -> Mapped:
    """The mapping of one half, read as an encoder."""
    inner, family = _half(config, name)
    mapping = family.mapping(inner)
    for key in inner.unread_keys():
        config.note(f"key {hf.short_repr(key)} of the {name} was not understood and may change the count")
    return mapping


def _encoder(reads: Mapped, writes: Mapped) -> Mapped:
    """The encoder with an embedding and norms of its own."""
    embedding = {key: value for key, value in reads["embedding"].items() if key != "tied"}
    position = {"max_seq_len": reads["max_seq_len"], **embedding["position"]}
    # a layer that states no norm has the decoder's
    layers = [{**group, "layer": {"norm": reads["norm"], **group["layer"]}} for group in reads["groups"]]
    return {
        "vocab_size": reads["vocab_size"],
        "d_model": reads["d_model"],
        "final_norm": False,
        "embedding": {**embedding, "position": position},
        **({"projects": True} if reads["d_model"] != writes["d_model"] else {}),
        "groups": layers if reads["norm"] != writes["norm"] else reads["groups"],
    }


def _pooler(config: Config, reads: Mapped) -> Mapped:
    """The encoder's dense layer on its first token, which no decoder reads."""
    if not reads.get("pooler"):
        return {}
    config.note("the encoder's pooler is counted, and read by no decoder")
    return {"pooler": [reads["d_model"], reads["d_model"]], "pooler_bias": [reads["d_model"]]}


def _crossing(groups: list[Mapped]) -> list[Mapped]:
    """The groups of an encoder as a decoder's: causal, with cross attention."""
    crossing = []
    for group in groups:
        layer = group["layer"]
        attention = {key: value for key, value in layer["attention"].items() if key != "causal"}
        crossed = {"n_heads": attention["n_heads"], "bias": True}
        crossing.append({**group, "layer": {**layer, "attention": attention, "cross_attention": crossed}})
    return crossing


def _head(head: Mapped) -> Mapped:
    """The head of a masked language model as the head of a decoder."""
    if head.get("transform") is False:
        return {"kind": "linear", "bias": True}
    return {"kind": "transformed", **head, "bias": True}


def _pair_weights(config: Config) -> Weights:
    """The names of both halves, each behind the half's name."""
    names: dict[str, Rule] = {"enc_to_dec_proj.*": "encoder.project.*"}
    inner, family = _half(config, "encoder")
    for theirs, rule in (family.names(inner) or {}).items():
        if theirs.startswith("["):
            names[f"encoder.{theirs.partition(']')[2]}"] = _moved(rule, ("embedding.", "layers."))
    names = {theirs: rule for theirs, rule in names.items() if "pooler." not in theirs}
    names |= {
        "encoder.pooler.dense.weight": hf.idle("pooler.weight"),
        "encoder.pooler.dense.bias": "pooler_bias.weight",
    }
    inner, family = _half(config, "decoder")
    for theirs, rule in (family.names(inner) or {}).items():
        if "pooler." not in theirs and not theirs.startswith(("classifier", "qa_outputs")):
            names[f"decoder.{theirs.replace('[', '').replace(']', '')}"] = _moved(
                rule, ("layers.",), "decoder."
            )
    base = next(iter(family.names(inner) or {})).partition("]")[0].removeprefix("[")
    return {**names, **_crossed(f"decoder.{base}encoder.layer.*.crossattention")}


def _moved(rule: Rule, starts: tuple[str, ...], prefix: str = "encoder.") -> Rule:
    """The rule with archcli's names that begin so behind the name of the half."""
    if isinstance(rule, str):
        return prefix + rule if rule.startswith(starts) else rule
    if isinstance(rule, Parts):
        return replace(rule, ours=tuple(prefix + n if n.startswith(starts) else n for n in rule.ours))
    return rule


def _crossed(theirs: str) -> dict[str, Rule]:
    """Weight names of cross attention at this place."""
    ours = "decoder.layers.*.cross_attention"
    parts: dict[str, Any] = {f"self.{name}": f"{name[0]}_proj" for name in ("query", "key", "value")}
    parts["output.dense"] = "o_proj"
    names: dict[str, Rule] = {f"{theirs}.{stored}.*": f"{ours}.{name}.*" for stored, name in parts.items()}
    return {**names, **hf.norm_names({f"{theirs}.output": f"{ours}_norm"})}


FAMILIES = {
    "encoder-decoder": Family(
        "Pairs of BERTs or RoBERTas: EncoderDecoderConfig and EncoderDecoderModel.",
        _pair,
        _pair_weights,
        headed=("EncoderDecoderModel",),
    ),
}
