"""LUKE on words alone: LukeConfig, LukeModel and its heads; the parts for entities are unread."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.weights.map import Parts, Rule, Weights
from archcli.load.huggingface.weights.names import ROBERTA_HEAD, encoder_names, tied_names
from archcli.load.huggingface.whole.bert_like import LABELLED, after_padding, bert_like, with_second_bias

MODEL_TYPES = ("luke",)
HEADS = {"Model": ("pooler",), "ForMaskedLM": ("pooler", "words"), **LABELLED}

QUERIES = ("w2e_query", "e2w_query", "e2e_query")
EMBEDDINGS = {
    "entity_tokens": "entity_embeddings.entity_embeddings.weight",
    "entity_dense": "entity_embeddings.entity_embedding_dense.weight",
    "entity_positions": "entity_embeddings.position_embeddings.weight",
    "entity_types": "entity_embeddings.token_type_embeddings.weight",
    "entity_norm": "entity_embeddings.LayerNorm.weight",
    "entity_norm_bias": "entity_embeddings.LayerNorm.bias",
}
PREDICTIONS = {
    "entity_transform": "transform.dense.weight",
    "entity_transform_bias": "transform.dense.bias",
    "entity_head_norm": "transform.LayerNorm.weight",
    "entity_head_norm_bias": "transform.LayerNorm.bias",
    "entity_head_bias": "bias",
    "entity_head": "decoder.weight",
}
"""What the class holds for entities, by our names and by its own."""


def mapping(config: Config) -> Mapped:
    """As RoBERTa with a head that is never tied; a pass over words alone reads nothing of the entities'."""
    config = config.of_class()
    config.only("position_embedding_type", "absolute", default="absolute")
    config.ignore("bert_model_name", "cls_entity_prediction")
    config.note("what is there for entities is counted as parameters, and read by no pass over words alone")
    position, width = after_padding(config), config.size("hidden_size").value
    held = {name: [width, width] for name in QUERIES} | {f"{name}_bias": [width] for name in QUERIES}
    aware = config.flag("use_entity_aware_attention")
    whole = bert_like(
        config,
        "Luke",
        HEADS,
        embedding={"position": position, "tied": False},
        head={"activation": "gelu"},
        layer={"unread": held} if aware else {},
        max_seq_len=position["max_seq_len"],
        unread=_entities(config),
    )
    return with_second_bias(config, whole)


def _entities(config: Config) -> Mapped:
    """The shapes of what stands beside the layers for entities."""
    size, d_model = config.size("entity_emb_size").value, config.size("hidden_size").value
    n, types = config.size("entity_vocab_size").value, config.count("type_vocab_size").value
    positions = config.size("max_position_embeddings").value
    held = {
        "entity_tokens": [n, size],
        "entity_dense": [d_model, size] if size != d_model else None,
        "entity_positions": [positions, d_model],
        "entity_types": [types, d_model] if types else None,
        "entity_norm": [d_model],
        "entity_norm_bias": [d_model],
    }
    tied = config.flag("tie_word_embeddings")
    if config.architecture.endswith("ForMaskedLM"):
        shapes = ([size, d_model], [size], [size], [size], [n], None if tied else [n, size])
        held |= dict(zip(PREDICTIONS, shapes, strict=True))
    return {name: shape for name, shape in held.items() if shape is not None}


def weights(config: Config) -> Weights:
    """RoBERTa's names, and those of what is held for entities."""
    tied = bool(config.of_class().flag("tie_word_embeddings"))
    table, again = "entity_predictions.decoder.weight", Parts(("entity_tokens.weight",), again=True)
    names: dict[str, Rule] = {f"[luke.]{theirs}": f"{ours}.weight" for ours, theirs in EMBEDDINGS.items()}
    names |= {f"entity_predictions.{theirs}": f"{ours}.weight" for ours, theirs in PREDICTIONS.items()}
    for name in QUERIES:
        place = f"[luke.]encoder.layer.*.attention.self.{name}"
        names |= {
            f"{place}.weight": f"layers.*.{name}.weight",
            f"{place}.bias": f"layers.*.{name}_bias.weight",
        }
    head = tied_names("lm_head.decoder.weight", "lm_head.bias", tied)
    head["lm_head.decoder.weight"] = "lm_head.weight"
    return {**encoder_names("luke"), **ROBERTA_HEAD, **names, **head, **({table: again} if tied else {})}
