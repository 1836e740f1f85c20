"""Encoders that predict masked words: a tiny config each, of which the importer makes the architecture."""

from typing import Any

from parity.family import D_FF, D_MODEL, EPS, HEADS, VOCAB, Family

BASE: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": D_MODEL,
    "intermediate_size": D_FF,
    "num_hidden_layers": 2,
    "num_attention_heads": HEADS,
    "max_position_embeddings": 64,
    "type_vocab_size": 3,
    "layer_norm_eps": EPS,
}
"""The keys that most configs of encoders share."""

PADDED = {**BASE, "pad_token_id": 5}
"""Positions that follow the padding token's id."""


def masked(config: dict[str, Any], name: str, **options: Any) -> Family:
    """The class of this name for a config; padding has a position of its own, so that no token is it."""
    return Family({**config, "architectures": [name]}, cls=name, avoids=config.get("pad_token_id"), **options)


FAMILIES: dict[str, Family] = {
    "roberta": masked({**PADDED, "model_type": "roberta"}, "RobertaForMaskedLM"),
    "roberta-classifier": masked(
        {**PADDED, "model_type": "roberta", "num_labels": 5}, "RobertaForSequenceClassification"
    ),
    "roberta-causal": masked({**PADDED, "model_type": "roberta"}, "RobertaForCausalLM"),
    "xlm-roberta": masked({**PADDED, "model_type": "xlm-roberta"}, "XLMRobertaForMaskedLM"),
    "xlm-roberta-base": masked(
        {**PADDED, "model_type": "xlm-roberta"}, "XLMRobertaModel", answer="pooler_output"
    ),
    "camembert": masked(
        {**PADDED, "model_type": "camembert", "num_labels": 5}, "CamembertForTokenClassification"
    ),
    "data2vec-text": masked({**PADDED, "model_type": "data2vec-text"}, "Data2VecTextForMaskedLM"),
}
