"""BERT, and encoders with its names."""

from __future__ import annotations

from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.family import Family
from archcli.load.huggingface.parts.attention import all_pairs_for_blocks
from archcli.load.huggingface.weights.map import Auxiliary, Weights
from archcli.load.huggingface.weights.names import BERT_HEAD, encoder_names, pre_norm_names, tied_names
from archcli.load.huggingface.whole.bert_like import (
    BERT_HEADS,
    LABELLED,
    MASKED,
    bert_like,
    narrow,
    with_second_bias,
)

OWN_HEADS = {**BERT_HEADS, "LMHeadModel": ("words",)}
BERT_TABLE, BERT_BIAS = "cls.predictions.decoder.weight", "cls.predictions.bias"

POOLER = tuple(
    f"pooler_{key}" for key in ("fc_size", "num_attention_heads", "num_fc_layers", "size_per_head", "type")
)
"""Keys of the first multilingual files that no class reads."""


def _bert(config: Config) -> Mapped:
    """Post-norm, learned positions and segment types, a norm after the embeddings.

    The name of the class tells the head.
    """
    config.only("position_embedding_type", "absolute", default="absolute")
    config.ignore("directionality", "output_past", *POOLER)
    return with_second_bias(config, bert_like(config, "Bert", OWN_HEADS))


def _bert_weights(config: Config) -> Weights:
    """Weight names; an untied head has two biases, one of which no pass reads."""
    tied = bool(config.flag("tie_word_embeddings"))
    return {**encoder_names("bert"), **BERT_HEAD, **tied_names(BERT_TABLE, BERT_BIAS, tied)}


def _ernie(config: Config) -> Mapped:
    """As BERT, in ERNIE 3 with a vector of the task on every token."""
    config.only("position_embedding_type", "absolute", default="absolute")
    tasks = {"more_types": [config.size("task_type_vocab_size")]} if config.flag("use_task_id") else {}
    return with_second_bias(config, bert_like(config, "Ernie", embedding=tasks))


def _ernie_weights(config: Config) -> Weights:
    """Weight names: BERT's, and the table of tasks."""
    tied = bool(config.flag("tie_word_embeddings"))
    return {
        **encoder_names("ernie"),
        "[ernie.]embeddings.task_type_embeddings.weight": "embedding.more_types_0.weight",
        **BERT_HEAD,
        **tied_names("cls.predictions.decoder.weight", "cls.predictions.bias", tied),
    }


def _megatron_bert(config: Config) -> Mapped:
    """As BERT with norms before the sublayers and after the last layer, none on the embeddings."""
    config.only("position_embedding_type", "absolute", default="absolute")
    return with_second_bias(
        config, bert_like(config, "MegatronBert", block="pre_norm", embedding={"norm": None})
    )


def _megatron_bert_weights(config: Config) -> Weights:
    """Weight names: BERT's, with the norms in other places."""
    tied = bool(config.flag("tie_word_embeddings"))
    return {
        **encoder_names("bert", post_norm=False),
        **pre_norm_names("bert", "attention.ln", "ln", "encoder.ln"),
        **BERT_HEAD,
        **tied_names("cls.predictions.decoder.weight", "cls.predictions.bias", tied),
    }


ROC_BERT_HEADS = {**MASKED, "ForCausalLM": ("words",)}
FEATURES = ("shape", "pronunciation")


def _roc_bert(config: Config) -> Mapped:
    """As BERT, with vectors of a character's shape and sound joined to its own."""
    config.only("position_embedding_type", "absolute", default="absolute")
    joined = _roc_bert_joined(config)
    tables = [
        {"entries": config.size(f"{name}_vocab_size"), "width": config.size(f"{name}_embed_dim")}
        for name in joined
    ]
    embedding: Mapped = {"joined": tables, "joins": True} if config.flag("concat_input") else {}
    whole = with_second_bias(config, bert_like(config, "RoCBert", ROC_BERT_HEADS, embedding=embedding))
    unread = {
        f"{name}_embed": [config.size(f"{name}_vocab_size"), config.size(f"{name}_embed_dim")]
        for name in FEATURES
        if name not in joined
    }
    return {**whole, "unread": {**whole.get("unread", {}), **unread}} if unread else whole


def _roc_bert_joined(config: Config) -> list[str]:
    """The features that are joined to a token's vector; those of another kind of input are not read."""
    flags = [name for name in FEATURES if config.flag(f"enable_{name}")]
    return flags if config.flag("concat_input") else []


def _roc_bert_weights(config: Config) -> Weights:
    """Weight names: BERT's, and the tables of features."""
    tied, joined = bool(config.flag("tie_word_embeddings")), _roc_bert_joined(config)
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


ROFORMER_HEADS = {
    "Model": (),
    "ForMaskedLM": ("words",),
    "ForCausalLM": ("words",),
    **{name: parts for name, parts in LABELLED.items() if name != "ForMultipleChoice"},
}


def _roformer(config: Config) -> Mapped:
    """As BERT, with RoPE on alternating pairs in place of learned positions."""
    config.only("rotary_value", False)
    width = narrow(config, "embedding_size", default=config.size("hidden_size"))
    head = {"width": width["width"]} if width else {}
    whole = bert_like(
        config,
        "RoFormer",
        ROFORMER_HEADS,
        attention={"position": {"kind": "rope", "pairing": "interleaved"}},
        embedding={"position": {"kind": "none"}, **width},
        head=head,
        pooled="hidden_act",
    )
    return with_second_bias(config, whole)


def _roformer_weights(config: Config) -> Weights:
    """Weight names: BERT's; the table of sines is computed."""
    tied = bool(config.flag("tie_word_embeddings"))
    return {
        **encoder_names("roformer"),
        "[roformer.]embeddings_project.*": "embedding.project_in.*",
        "[roformer.]encoder.embed_positions.weight": Auxiliary("a fixed table of sines and cosines"),
        **BERT_HEAD,
        "classifier.dense.*": "pooler.*",
        "classifier.out_proj.*": "classifier.*",
        **tied_names("cls.predictions.decoder.weight", "cls.predictions.bias", tied),
    }


BIG_BIRD_HEADS = {
    "Model": ("pooler",),
    "ForMaskedLM": ("pooler", "words"),
    "ForCausalLM": ("pooler", "words"),
    "ForPreTraining": ("pooler", "words", "two labels"),
    "ForMultipleChoice": ("pooler", "one label"),
}


def _big_bird(config: Config) -> Mapped:
    """As BERT; every class but a tagger's has a pooler, and runs it.

    Attention is counted over all pairs, as the class runs it on all but long inputs.
    """
    all_pairs_for_blocks(config)
    bias = True if config.flag("use_bias") else ["o"]
    scale = {"scale": "sqrt_d_model"} if config.flag("rescale_embeddings") else {}
    whole = bert_like(config, "BigBird", BIG_BIRD_HEADS, attention={"bias": bias}, embedding=scale)
    return with_second_bias(config, whole)


def _big_bird_weights(config: Config) -> Weights:
    """Weight names: BERT's, but for the pooler."""
    tied = bool(config.flag("tie_word_embeddings"))
    return {
        **encoder_names("bert"),
        "[bert.]pooler.*": "pooler.*",
        **BERT_HEAD,
        **tied_names("cls.predictions.decoder.weight", "cls.predictions.bias", tied),
    }


LAYOUTLM_HEADS = {
    "layoutlm": {
        "Model": ("pooler",),
        "ForMaskedLM": ("pooler", "words"),
        "ForSequenceClassification": ("pooler", "labels"),
    },
    "tapas": {
        "Model": ("pooler",),
        "ForMaskedLM": ("words",),
        "ForSequenceClassification": ("pooler", "labels"),
    },
}
LAYOUTLM_PREFIXES = {"layoutlm": "LayoutLM", "tapas": "Tapas"}
TABLE_HEADS = (
    "positive_label_weight num_aggregation_labels aggregation_loss_weight use_answer_as_supervision "
    "answer_loss_importance use_normalized_answer_loss huber_loss_delta temperature aggregation_temperature "
    "use_gumbel_for_cells use_gumbel_for_aggregation average_approximation_function "
    "cell_selection_preference answer_loss_cutoff max_num_rows max_num_columns average_logits_per_cell "
    "select_one_column allow_empty_column_selection init_cell_selection_weights_to_zero "
    "reset_position_index_per_cell disable_per_token_loss aggregation_labels "
    "no_aggregation_label_index softmax_temperature"
)
"""Keys of TAPAS that ask for another head, loss or input."""


def _layoutlm(config: Config) -> Mapped:
    """As BERT, with vectors of a token's box on the page, or of its row, column and rank in a table."""
    kind = config.model_type
    config.ignore(*TABLE_HEADS.split())
    config.only("position_embedding_type", "absolute", default="absolute")
    if kind == "layoutlm":
        embedding: Mapped = {"boxes": config.size("max_2d_position_embeddings")}
    else:
        sizes = config.value("type_vocab_sizes")
        if not isinstance(sizes.value, list | tuple) or not all(
            type(n) is int and n > 0 for n in sizes.value
        ):
            what = f"type_vocab_sizes must be a list of whole numbers, not {short_repr(sizes.value)}"
            raise config.error(what, at=sizes.place)
        if len(sizes.value) != len(config.defaults["type_vocab_sizes"]):
            raise config.error("type_vocab_sizes must have 7 entries", at=sizes.place)
        embedding = {"token_types": sizes.value[0], "more_types": list(sizes.value[1:])}
    whole = bert_like(config, LAYOUTLM_PREFIXES[kind], LAYOUTLM_HEADS[kind], embedding=embedding)
    return with_second_bias(config, whole)


def _layoutlm_weights(config: Config) -> Weights:
    """Weight names: BERT's, and the further tables."""
    kind = config.model_type
    tied = bool(config.flag("tie_word_embeddings"))
    tables = {f"{side}_position_embeddings": f"boxes_{side}" for side in "xyhw"}
    if kind == "tapas":
        ours = ("token_types", *(f"more_types_{i}" for i in range(6)))
        tables = {f"token_type_embeddings_{i}": name for i, name in enumerate(ours)}
    return {
        **encoder_names(kind),
        **{f"[{kind}.]embeddings.{name}.weight": f"embedding.{ours}.weight" for name, ours in tables.items()},
        **BERT_HEAD,
        **tied_names("cls.predictions.decoder.weight", "cls.predictions.bias", tied),
    }


FAMILIES = {
    "bert": Family("BERT: BertConfig, BertModel and its heads.", _bert, _bert_weights),
    "ernie": Family("ERNIE 1 to 3: ErnieConfig, ErnieModel and its heads.", _ernie, _ernie_weights),
    "megatron-bert": Family(
        "Megatron-BERT: MegatronBertConfig, MegatronBertModel and its heads.",
        _megatron_bert,
        _megatron_bert_weights,
    ),
    "roc_bert": Family("RoCBERT: RoCBertConfig, RoCBertModel and its heads.", _roc_bert, _roc_bert_weights),
    "roformer": Family(
        "RoFormer: RoFormerConfig, RoFormerModel and its heads.", _roformer, _roformer_weights
    ),
    "big_bird": Family(
        "BigBird: BigBirdConfig, BigBirdModel, BigBirdForMaskedLM.", _big_bird, _big_bird_weights
    ),
    **dict.fromkeys(
        ("layoutlm", "tapas"),
        Family(
            "LayoutLM and TAPAS: LayoutLMConfig, TapasConfig, LayoutLMForMaskedLM, TapasForMaskedLM.",
            _layoutlm,
            _layoutlm_weights,
        ),
    ),
}
