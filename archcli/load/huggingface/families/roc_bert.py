"""RoCBERT: RoCBertConfig, RoCBertModel and its heads."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import BERT_HEAD, encoder_names, tied_names
from archcli.load.huggingface.whole.bert_like import MASKED, bert_like, with_second_bias

MODEL_TYPES = ("roc_bert",)
HEADS = {**MASKED, "ForCausalLM": ("words",)}
FEATURES = ("shape", "pronunciation")


def mapping(config: Config) -> Mapped:
    """As BERT, with vectors of a character's shape and sound joined to its own."""
    config = config.of_class()
    config.only("position_embedding_type", "absolute", default="absolute")
    joined = _joined(config)
    tables = [
        {"entries": config.size(f"{name}_vocab_size"), "width": config.size(f"{name}_embed_dim")}
        for name in joined
    ]
    embedding: Mapped = {"joined": tables, "joins": True} if config.flag("concat_input") else {}
    whole = with_second_bias(config, bert_like(config, "RoCBert", HEADS, embedding=embedding))
    unread = {
        f"{name}_embed": [config.size(f"{name}_vocab_size"), config.size(f"{name}_embed_dim")]
        for name in FEATURES
        if name not in joined
    }
    return {**whole, "unread": {**whole.get("unread", {}), **unread}} if unread else whole


def _joined(config: Config) -> list[str]:
    """The features that are joined to a token's vector; those of another kind of input are not read."""
    flags = [name for name in FEATURES if config.flag(f"enable_{name}")]
    return flags if config.flag("concat_input") else []


def weights(config: Config) -> Weights:
    """Weight names: BERT's, and the tables of features."""
    config = config.of_class()
    tied, joined = bool(config.flag("tie_word_embeddings")), _joined(config)
    ours = {name: f"embedding.joined_{i}.weight" for i, name in enumerate(joined)}
    return {
        **encoder_names("roc_bert"),
        **{
            f"[roc_bert.]embeddings.{name}_embed.weight": ours.get(name, f"{name}_embed.weight")
            for name in FEATURES
        },
        "[roc_bert.]embeddings.map_inputs_layer.*": "embedding.joined_proj.*",
        **BERT_HEAD,
        **tied_names("cls.predictions.decoder.weight", "cls.predictions.bias", tied),
    }
