"""ALBERT: AlbertConfig, AlbertModel and its heads."""

from __future__ import annotations

from collections import Counter

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import TABLES, norm_names, tied_names
from archcli.load.huggingface.whole.bert_like import MASKED, bert_like, with_second_bias

MODEL_TYPES = ("albert",)
HEADS = {**MASKED, "ForPreTraining": ("pooler", "words", "labels")}
UNREAD = (
    "down_scale_factor",
    "gap_size",
    "net_structure_type",
    "num_memory_blocks",
    "classifier_dropout_prob",
)


def mapping(config: Config) -> Mapped:
    """As BERT, with a narrow embedding, and layers that share their weights within a group.

    A group is one layer or several, one after the other, which are run again for each of num_hidden_layers.
    """
    config = config.of_class()
    config.only("position_embedding_type", "absolute", default="absolute")
    config.ignore(*UNREAD)
    width, inner = config.size("embedding_size"), config.size("inner_group_num")
    embedding = {"width": width, "width_of": "all"}
    whole = bert_like(config, "Albert", HEADS, embedding=embedding, head={"width": width})
    layer = whole["groups"][0]["layer"]
    alike = {"layer": layer} if inner == 1 else {"pattern": [layer] * inner.value}
    runs = [inner.derive(times * inner.value) for times in _runs(config)]
    whole["groups"] = [{"n_layers": n_layers, **alike, "tie": True} for n_layers in runs]
    return with_second_bias(config, whole)


def _runs(config: Config) -> list[int]:
    """How often each group is run: groups take turns of num_hidden_layers as evenly as they can."""
    depth, groups = config.layers(), config.size("num_hidden_groups")
    if groups.value > depth:
        what = f"num_hidden_groups {groups} is more than num_hidden_layers {depth}"
        raise config.error(what, "groups that are never run are not supported", groups.place)
    turns = Counter(int(index / (depth / groups.value)) for index in range(depth))
    return [turns[index] for index in range(groups.value)]


LAYERS = {
    "attention.query": "attention.q_proj",
    "attention.key": "attention.k_proj",
    "attention.value": "attention.v_proj",
    "attention.dense": "attention.o_proj",
    "attention.LayerNorm": "attention_norm",
    "ffn": "ffn.up_proj",
    "ffn_output": "ffn.down_proj",
    "full_layer_layer_norm": "ffn_norm",
}


def weights(config: Config) -> Weights:
    """Weight names; a layer's index is that of its first run."""
    config = config.of_class()
    inner, start, places = config.size("inner_group_num").value, 0, {}
    for group, times in enumerate(_runs(config)):
        for j in range(inner):
            places[f"albert_layer_groups.{group}.albert_layers.{j}"] = start + j
        start += times * inner
    return {
        **{f"[albert.]embeddings.{name}.weight": f"embedding.{ours}.weight" for name, ours in TABLES.items()},
        **norm_names({"[albert.]embeddings": "embedding.norm", "predictions": "lm_head_norm"}),
        "[albert.]encoder.embedding_hidden_mapping_in.*": "embedding.project_in.*",
        **{
            f"[albert.]encoder.{place}.{name}.*": f"layers.{index}.{ours}.*"
            for place, index in places.items()
            for name, ours in LAYERS.items()
        },
        "[albert.]pooler.*": "pooler.*",
        "predictions.dense.*": "lm_head_transform.*",
        "predictions.decoder.bias": "lm_head.bias",
        "sop_classifier.classifier.*": "classifier.*",
        "classifier.*": "classifier.*",
        "qa_outputs.*": "classifier.*",
        **tied_names(
            "predictions.decoder.weight", "predictions.bias", bool(config.flag("tie_word_embeddings"))
        ),
    }
