"""BERT, and encoders with its names."""

from __future__ import annotations

from archcli.load import huggingface as hf
from archcli.load.huggingface import Auxiliary, Config, Family, Mapped, Weights
from archcli.load.huggingface.whole.bert_like import (
    BERT_HEADS,
    LABELLED,
    MASKED,
    bert_like,
    narrow,
    with_bert_head,
    with_second_bias,
)

OWN_HEADS = {**BERT_HEADS, "LMHeadModel": ("words",)}
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
    return with_bert_head(config, hf.encoder_names("bert"))


def _ernie(config: Config) -> Mapped:
    """As BERT, in ERNIE 3 with a vector of the task on every token."""
    config.only("position_embedding_type", "absolute", default="absolute")
    tasks = {"more_types": [config.size("task_type_vocab_size")]} if config.flag("use_task_id") else {}
    return with_second_bias(config, bert_like(config, "Ernie", embedding=tasks))


def _ernie_weights(config: Config) -> Weights:
    """Weight names: BERT's, and the table of tasks."""
    return with_bert_head(
        config,
        {
            **hf.encoder_names("ernie"),
            "[ernie.]embeddings.task_type_embeddings.weight": "embedding.more_types_0.weight",
        },
    )


def _megatron_bert(config: Config) -> Mapped:
    """As BERT with norms before the sublayers and after the last layer, none on the embeddings."""
    config.only("position_embedding_type", "absolute", default="absolute")
    return with_second_bias(
        config, bert_like(config, "MegatronBert", block="pre_norm", embedding={"norm": None})
    )


def _megatron_bert_weights(config: Config) -> Weights:
    """Weight names: BERT's, with the norms in other places."""
    return with_bert_head(
        config,
        {
            **hf.encoder_names("bert", post_norm=False),
            **hf.pre_norm_names("bert", "attention.ln", "ln", "encoder.ln"),
        },
    )


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
    joined = _roc_bert_joined(config)
    ours = {name: f"embedding.joined_{i}.weight" for i, name in enumerate(joined)}
    return with_bert_head(
        config,
        {
            **hf.encoder_names("roc_bert"),
            **{
                f"[roc_bert.]embeddings.{name}_embed.weight": ours.get(name, f"{name}_embed.weight")
                for name in FEATURES
            },
            "[roc_bert.]embeddings.map_inputs_layer.*": "embedding.joined_proj.*",
        },
    )


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
    return with_bert_head(
        config,
        {
            **hf.encoder_names("roformer"),
            "[roformer.]embeddings_project.*": "embedding.project_in.*",
            "[roformer.]encoder.embed_positions.weight": Auxiliary("a fixed table of sines and cosines"),
        },
        {
            "classifier.dense.*": "pooler.*",
            "classifier.out_proj.*": "classifier.*",
        },
    )


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
    hf.all_pairs_for_blocks(config)
    # use_bias is of queries, keys and values: the output projection is BERT's, which has a bias
    bias = True if config.flag("use_bias") else ["o"]
    scale = {"scale": "sqrt_d_model"} if config.flag("rescale_embeddings") else {}
    whole = bert_like(config, "BigBird", BIG_BIRD_HEADS, attention={"bias": bias}, embedding=scale)
    return with_second_bias(config, whole)


def _big_bird_weights(config: Config) -> Weights:
    """Weight names: BERT's, but for the pooler."""
    return with_bert_head(
        config,
        {
            **{name: rule for name, rule in hf.encoder_names("bert").items() if rule != "pooler.*"},
            "[bert.]pooler.*": "pooler.*",
        },
    )


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
    """As BERT, with vectors of a token's box on the page."""
    embedding = {"boxes": config.size("max_2d_position_embeddings")}
    return _of_a_page(config, "LayoutLM", ("pooler", "words"), embedding)


def _tapas(config: Config) -> Mapped:
    """As BERT, with vectors of a token's row, column and rank in a table."""
    sizes = config.value("type_vocab_sizes")
    numbers = sizes.value if isinstance(sizes.value, list | tuple) else [None]
    if not all(type(number) is int and number > 0 for number in numbers):
        what = f"type_vocab_sizes must be a list of whole numbers, not {hf.short_repr(sizes.value)}"
        raise config.error(what, at=sizes.place)
    if len(numbers) != len(config.defaults["type_vocab_sizes"]):
        raise config.error("type_vocab_sizes must have 7 entries", at=sizes.place)
    return _of_a_page(config, "Tapas", ("words",), {"token_types": numbers[0], "more_types": [*numbers[1:]]})


def _of_a_page(config: Config, prefix: str, masked: tuple[str, ...], embedding: Mapped) -> Mapped:
    """BERT with these further tables; `masked` are the parts of its class for masked words."""
    config.ignore(*TABLE_HEADS.split())
    config.only("position_embedding_type", "absolute", default="absolute")
    heads = {
        "Model": ("pooler",),
        "ForMaskedLM": masked,
        "ForSequenceClassification": ("pooler", "labels"),
    }
    return with_second_bias(config, bert_like(config, prefix, heads, embedding=embedding))


def _layoutlm_weights(config: Config) -> Weights:
    """Weight names: BERT's, and the tables of a box's sides."""
    boxes = {
        f"[layoutlm.]embeddings.{side}_position_embeddings.weight": f"embedding.boxes_{side}.weight"
        for side in "xyhw"
    }
    return with_bert_head(config, {**hf.encoder_names("layoutlm"), **boxes})


def _tapas_weights(config: Config) -> Weights:
    """Weight names: BERT's, and the tables of a token's place."""
    ours = ("token_types", *(f"more_types_{i}" for i in range(6)))
    places = {
        f"[tapas.]embeddings.token_type_embeddings_{i}.weight": f"embedding.{name}.weight"
        for i, name in enumerate(ours)
    }
    return with_bert_head(config, {**hf.encoder_names("tapas"), **places})


ABOUT_PAGES = "LayoutLM and TAPAS: LayoutLMConfig, TapasConfig, LayoutLMForMaskedLM, TapasForMaskedLM."

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
    "layoutlm": Family(ABOUT_PAGES, _layoutlm, _layoutlm_weights),
    "tapas": Family(ABOUT_PAGES, _tapas, _tapas_weights),
}
