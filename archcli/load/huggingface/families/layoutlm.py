"""LayoutLM and TAPAS: LayoutLMConfig, TapasConfig, LayoutLMForMaskedLM, TapasForMaskedLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import BERT_HEAD, encoder_names, tied_names
from archcli.load.huggingface.whole.bert_like import bert_like, with_second_bias

MODEL_TYPES = ("layoutlm", "tapas")
HEADS = {
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
PREFIXES = {"layoutlm": "LayoutLM", "tapas": "Tapas"}
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


def mapping(config: Config) -> Mapped:
    """As BERT, with vectors of a token's box on the page, or of its row, column and rank in a table."""
    kind = config.model_type
    config = config.of_class()
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
    whole = bert_like(config, PREFIXES[kind], HEADS[kind], embedding=embedding)
    return with_second_bias(config, whole)


def weights(config: Config) -> Weights:
    """Weight names: BERT's, and the further tables."""
    kind = config.model_type
    tied = bool(config.of_class().flag("tie_word_embeddings"))
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
