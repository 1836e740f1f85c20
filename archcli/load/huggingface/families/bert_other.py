"""BERT with other embeddings or mixing: ALBERT, ELECTRA, RemBERT, FNet, DistilBERT, SqueezeBERT."""

from __future__ import annotations

from collections import Counter

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Family, Mapped, Parts, Rule, Weights
from archcli.load.huggingface.whole.bert_like import (
    LABELLED,
    MASKED,
    ROBERTA_HEADS,
    bert_like,
    narrow,
    with_bert_head,
    with_second_bias,
)

ALBERT_HEADS = {**MASKED, "ForPreTraining": ("pooler", "words", "labels")}
ALBERT_UNREAD = (
    "down_scale_factor",
    "gap_size",
    "net_structure_type",
    "num_memory_blocks",
    "classifier_dropout_prob",
)


def _albert(config: Config) -> Mapped:
    """As BERT, with a narrow embedding, and layers that share their weights within a group.

    A group is one layer or several, one after the other, which are run again for each of num_hidden_layers.
    """
    config.only("position_embedding_type", "absolute", default="absolute")
    config.ignore(*ALBERT_UNREAD)
    width, inner = config.size("embedding_size"), config.size("inner_group_num")
    embedding = {"width": width, "width_of": "all"}
    whole = bert_like(config, "Albert", ALBERT_HEADS, embedding=embedding, head={"width": width})
    layer = whole["groups"][0]["layer"]
    alike = {"layer": layer} if inner == 1 else {"pattern": [layer] * inner.value}
    runs = [inner.derive(times * inner.value) for times in _albert_runs(config)]
    whole["groups"] = [{"n_layers": n_layers, **alike, "tie": True} for n_layers in runs]
    return with_second_bias(config, whole)


def _albert_runs(config: Config) -> list[int]:
    """How often each group is run: groups take turns of num_hidden_layers as evenly as they can."""
    depth, groups = config.layers(), config.size("num_hidden_groups")
    if groups.value > depth:
        what = f"num_hidden_groups {groups} is more than num_hidden_layers {depth}"
        raise config.error(what, "groups that are never run are not supported", groups.place)
    turns = Counter(int(index / (depth / groups.value)) for index in range(depth))
    return [turns[index] for index in range(groups.value)]


ALBERT_LAYERS = {
    "attention.query": "attention.q_proj",
    "attention.key": "attention.k_proj",
    "attention.value": "attention.v_proj",
    "attention.dense": "attention.o_proj",
    "attention.LayerNorm": "attention_norm",
    "ffn": "ffn.up_proj",
    "ffn_output": "ffn.down_proj",
    "full_layer_layer_norm": "ffn_norm",
}


def _albert_weights(config: Config) -> Weights:
    """Weight names; a layer's index is that of its first run."""
    inner, start, places = config.size("inner_group_num").value, 0, {}
    for group, times in enumerate(_albert_runs(config)):
        for j in range(inner):
            places[f"albert_layer_groups.{group}.albert_layers.{j}"] = start + j
        start += times * inner
    return {
        **{
            f"[albert.]embeddings.{name}.weight": f"embedding.{ours}.weight"
            for name, ours in hf.TABLES.items()
        },
        **hf.norm_names({"[albert.]embeddings": "embedding.norm", "predictions": "lm_head_norm"}),
        "[albert.]encoder.embedding_hidden_mapping_in.*": "embedding.project_in.*",
        **{
            f"[albert.]encoder.{place}.{name}.*": f"layers.{index}.{ours}.*"
            for place, index in places.items()
            for name, ours in ALBERT_LAYERS.items()
        },
        "[albert.]pooler.*": "pooler.*",
        "predictions.dense.*": "lm_head_transform.*",
        "predictions.decoder.bias": "lm_head.bias",
        "sop_classifier.classifier.*": "classifier.*",
        "classifier.*": "classifier.*",
        "qa_outputs.*": "classifier.*",
        **hf.tied_names(
            "predictions.decoder.weight", "predictions.bias", bool(config.flag("tie_word_embeddings"))
        ),
    }


ELECTRA_HEADS = {
    "Model": (),
    "ForPreTraining": ("every", "one label"),
    "ForMaskedLM": ("words",),
    "ForCausalLM": ("words",),
    **{name: parts for name, parts in LABELLED.items() if name != "ForMultipleChoice"},
}
ELECTRA_SUMMARY = ("summary_type", "summary_use_proj", "summary_last_dropout")


def _electra(config: Config) -> Mapped:
    """As BERT, with embeddings of another width; the discriminator classifies every token."""
    config.only("position_embedding_type", "absolute", default="absolute")
    config.ignore(*ELECTRA_SUMMARY)
    width = narrow(config, "embedding_size")
    head = {"activation": "gelu", **({"width": width["width"]} if width else {})}
    pooled = "hidden_act" if config.architecture == "ElectraForPreTraining" else "gelu"
    return bert_like(config, "Electra", ELECTRA_HEADS, embedding=width, head=head, pooled=pooled)


ELECTRA_WEIGHTS: Weights = {
    # the base model has no pooler
    **{name: rule for name, rule in hf.encoder_names("electra").items() if rule != "pooler.*"},
    "[electra.]embeddings_project.*": "embedding.project_in.*",
    "generator_predictions.dense.*": "lm_head_transform.*",
    **hf.norm_names({"generator_predictions": "lm_head_norm"}),
    "generator_lm_head.*": "lm_head.*",
    "discriminator_predictions.dense.*": "pooler.*",
    "discriminator_predictions.dense_prediction.*": "classifier.*",
    "classifier.dense.*": "pooler.*",
    "classifier.out_proj.*": "classifier.*",
    "classifier.*": "classifier.*",
    "qa_outputs.*": "classifier.*",
}


def _rembert(config: Config) -> Mapped:
    """As BERT, with a narrow embedding and a head wider than the layers, which is never tied."""
    config.ignore("classifier_dropout_prob")
    config.ignore("tie_word_embeddings")  # the class names no tied weights
    embedding = {"width": config.size("input_embedding_size"), "width_of": "all", "tied": False}
    head = {"width": config.size("output_embedding_size")}
    return bert_like(config, "RemBert", ROBERTA_HEADS, embedding=embedding, head=head)


REMBERT_WEIGHTS: Weights = {
    **hf.encoder_names("rembert"),
    "[rembert.]encoder.embedding_hidden_mapping_in.*": "embedding.project_in.*",
    "cls.predictions.dense.*": "lm_head_transform.*",
    **hf.norm_names({"cls.predictions": "lm_head_norm"}),
    "cls.predictions.decoder.*": "lm_head.*",
    "classifier.*": "classifier.*",
    "qa_outputs.*": "classifier.*",
}


FNET_HEADS = {
    "Model": ("pooler",),
    "ForMaskedLM": ("pooler", "words"),
    "ForPreTraining": ("pooler", "words", "two labels"),
    "ForNextSentencePrediction": ("pooler", "two labels"),
    "ForSequenceClassification": ("pooler", "labels"),
    "ForMultipleChoice": ("pooler", "one label"),
}


def _fnet(config: Config) -> Mapped:
    """As BERT, with Fourier transforms in place of attention, and a matrix after the embeddings' norm."""
    config.only("use_tpu_fourier_optimizations", False)
    config.ignore("num_attention_heads", "tpu_short_seq_length")
    embedding = {"width": config.size("hidden_size"), "width_of": "all"}
    whole = bert_like(config, "FNet", FNET_HEADS, embedding=embedding)
    [group] = whole["groups"]
    layer = {"kind": "post_norm", "mixer": {"kind": "fourier"}, "ffn": group["layer"]["ffn"]}
    return with_second_bias(config, {**whole, "groups": [{**group, "layer": layer}]})


def _fnet_weights(config: Config) -> Weights:
    """Weight names: BERT's, without attention."""
    return with_bert_head(
        config,
        {
            **{name: rule for name, rule in hf.encoder_names("fnet").items() if ".attention." not in name},
            **hf.norm_names({"[fnet.]encoder.layer.*.fourier.output": "layers.*.mixer_norm"}),
            "[fnet.]embeddings.projection.*": "embedding.project_in.*",
        },
    )


DISTILBERT_ALIASES = {
    "hidden_size": "dim",
    "num_hidden_layers": "n_layers",
    "num_attention_heads": "n_heads",
    "hidden_act": "activation",
}
DISTILBERT_HEADS = {"Model": (), "ForMaskedLM": ("words",), **LABELLED}


def _distilbert(config: Config) -> Mapped:
    """As BERT without segment types; eps is 1e-12 whatever the file says."""
    config.ignore("tie_weights_", "sinusoidal_pos_embds", "qa_dropout", "seq_classif_dropout", "output_past")
    ffn = hf.mlp(config, config.size("hidden_dim"), "hidden_act")
    return bert_like(config, "DistilBert", DISTILBERT_HEADS, norm=hf.layernorm(1e-12), ffn=ffn, pooled="relu")


DISTILBERT_LAYERS = {
    **{f"attention.{which}_lin": f"attention.{which}_proj" for which in "qkv"},
    "attention.out_lin": "attention.o_proj",
    "sa_layer_norm": "attention_norm",
    "ffn.lin1": "ffn.up_proj",
    "ffn.lin2": "ffn.down_proj",
    "output_layer_norm": "ffn_norm",
}
DISTILBERT_WEIGHTS: Weights = {
    "[distilbert.]embeddings.word_embeddings.weight": "embedding.tokens.weight",
    "[distilbert.]embeddings.position_embeddings.weight": "embedding.positions.weight",
    "[distilbert.]embeddings.LayerNorm.*": "embedding.norm.*",
    **{
        f"[distilbert.]transformer.layer.*.{name}.*": f"layers.*.{ours}.*"
        for name, ours in DISTILBERT_LAYERS.items()
    },
    "vocab_transform.*": "lm_head_transform.*",
    "vocab_layer_norm.*": "lm_head_norm.*",
    "vocab_projector.*": "lm_head.*",
    "pre_classifier.*": "pooler.*",
    "classifier.*": "classifier.*",
    "qa_outputs.*": "classifier.*",
}


QKVO = {
    **{f"attention.{name}": f"attention.{name[0]}_proj" for name in ("query", "key", "value")},
    "post_attention.conv1d": "attention.o_proj",
}
UP_DOWN = {"intermediate.conv1d": "ffn.up_proj", "output.conv1d": "ffn.down_proj"}
SQUEEZE_HEADS = {
    "Model": ("pooler",),
    "ForMaskedLM": ("pooler", "words"),
    "ForSequenceClassification": ("pooler", "labels"),
    "ForMultipleChoice": ("pooler", "one label"),
}
"""The classes whose pass reads what the pooler makes, or whose head stands beside it."""
SQUEEZE_GROUPS = {
    "attention": ("q_groups", "k_groups", "v_groups", "post_attention_groups"),
    "ffn": ("intermediate_groups", "output_groups"),
}
"""Keys of how many blocks each matrix has, in the order of `blocks`."""


def _squeezebert(config: Config) -> Mapped:
    """As BERT, with matrices that are blocks on a diagonal; the layers' norms have an eps of their own."""
    config.only("embedding_size", config.size("hidden_size").value)
    blocks = {part: _squeeze_blocks(config, part) for part in SQUEEZE_GROUPS}
    whole = bert_like(
        config,
        "SqueezeBert",
        SQUEEZE_HEADS,
        attention=blocks["attention"],
        ffn=hf.mlp(config, config.size("intermediate_size"), "hidden_act") | blocks["ffn"],
        layer={"norm": hf.layernorm(1e-12)},
    )
    return with_second_bias(config, whole)


def _squeeze_blocks(config: Config, part: str) -> Mapped:
    """The field `blocks`; empty where all matrices are whole."""
    numbers = [config.size(key) for key in SQUEEZE_GROUPS[part]]
    return {"blocks": numbers} if any(number.value > 1 for number in numbers) else {}


def _squeezebert_weights(config: Config) -> Weights:
    """Weight names: BERT's at the ends; matrices are stored as convolutions with one tap."""
    names: dict[str, Rule] = {}
    for stored, part in ((QKVO, "attention"), (UP_DOWN, "ffn")):
        for (theirs, ours), key in zip(stored.items(), SQUEEZE_GROUPS[part], strict=True):
            place, split = f"[transformer.]encoder.layers.*.{theirs}", config.size(key).value > 1
            names[f"{place}.weight"] = Parts((f"layers.*.{ours}.weight",), merged=split, tapped=1)
            names[f"{place}.bias"] = Parts((f"layers.*.{ours}.bias",), merged=split)
    return with_bert_head(
        config,
        {
            **{name: rule for name, rule in hf.encoder_names("transformer").items() if ".layer." not in name},
            "[transformer.]encoder.layers.*.post_attention.layernorm.*": "layers.*.attention_norm.*",
            "[transformer.]encoder.layers.*.output.layernorm.*": "layers.*.ffn_norm.*",
            **names,
        },
    )


FAMILIES = {
    "albert": Family("ALBERT: AlbertConfig, AlbertModel and its heads.", _albert, _albert_weights),
    "electra": Family(
        "ELECTRA, discriminator and generator: ElectraConfig, ElectraForPreTraining and ElectraForMaskedLM.",
        _electra,
        ELECTRA_WEIGHTS,
    ),
    "rembert": Family("RemBERT: RemBertConfig, RemBertModel and its heads.", _rembert, REMBERT_WEIGHTS),
    "fnet": Family(
        "FNet: FNetConfig, FNetModel and its heads.",
        _fnet,
        _fnet_weights,
        defaults={"num_attention_heads": 1},
    ),
    "distilbert": Family(
        "DistilBERT: DistilBertConfig, DistilBertModel and its heads.",
        _distilbert,
        DISTILBERT_WEIGHTS,
        aliases=DISTILBERT_ALIASES,
    ),
    "squeezebert": Family(
        "SqueezeBERT: SqueezeBertConfig, SqueezeBertModel and its heads.", _squeezebert, _squeezebert_weights
    ),
}
