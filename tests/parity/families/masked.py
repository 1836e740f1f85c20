"""Encoders that predict masked words: a tiny config each, of which the importer makes the architecture."""

from typing import Any

from parity.family import D_FF, D_MODEL, EPS, HEAD_DIM, HEADS, KV_HEADS, VOCAB, Family, rope

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

DISTILBERT = {
    "model_type": "distilbert",
    "vocab_size": VOCAB,
    "dim": D_MODEL,
    "hidden_dim": D_FF,
    "n_layers": 2,
    "n_heads": HEADS,
    "max_position_embeddings": 64,
}
SMALL = "1e-12 whatever the config says: too small to be felt"
ALBERT = {
    **BASE,
    "model_type": "albert",
    "num_hidden_layers": 3,
    "embedding_size": 12,
    "hidden_act": "gelu_new",
}
DEBERTA = {
    **BASE,
    "model_type": "deberta-v2",
    "type_vocab_size": 0,
    "relative_attention": True,
    "position_buckets": 8,
    "norm_rel_ebd": "layer_norm",
    "pos_att_type": "p2c|c2p",
    "position_biased_input": False,
}
POOLED_TOO = {"model: pooler_activation=sigmoid": "the class guesses words, and pools for nobody"}
LUKE = {**PADDED, "model_type": "luke", "entity_vocab_size": 17, "entity_emb_size": 10}
ROC_BERT = {
    **BASE,
    "model_type": "roc_bert",
    "pad_token_id": 0,
    "pronunciation_vocab_size": 9,
    "pronunciation_embed_dim": 10,
    "shape_vocab_size": 11,
    "shape_embed_dim": 14,
}
XLM = {
    "vocab_size": VOCAB,
    "emb_dim": D_MODEL,
    "n_layers": 2,
    "n_heads": HEADS,
    "max_position_embeddings": 64,
    "layer_norm_eps": EPS,
    "pad_token_id": 5,
}
EUROBERT = {
    **{key: value for key, value in BASE.items() if key not in ("type_vocab_size", "layer_norm_eps")},
    "model_type": "eurobert",
    "num_key_value_heads": KV_HEADS,
    "rms_norm_eps": EPS,
    "rope_parameters": rope(),
    "pad_token_id": None,
}
MODERNBERT = {
    **{key: value for key, value in BASE.items() if key not in ("type_vocab_size", "layer_norm_eps")},
    "model_type": "modernbert",
    "num_hidden_layers": 4,
    "norm_eps": EPS,
    "local_attention": 6,
    "rope_parameters": {"full_attention": rope(), "sliding_attention": rope(50.0)},
    "pad_token_id": None,
}
XMOD = {
    **PADDED,
    "model_type": "xmod",
    "languages": ["en_XX", "de_DE", "fr_XX"],
    "adapter_reduction_factor": 3,
    "num_labels": 5,
}


def masked(config: dict[str, Any], name: str, **options: Any) -> Family:
    """The class of this name for a config; padding has a position of its own, so that no token is it."""
    return Family({**config, "architectures": [name]}, cls=name, avoids=config.get("pad_token_id"), **options)


ESM = {**{key: value for key, value in PADDED.items() if key != "type_vocab_size"}, "model_type": "esm"}

SQUEEZE = {
    **BASE,
    "model_type": "squeezebert",
    "embedding_size": D_MODEL,
    "q_groups": 2,
    "k_groups": 4,
    "v_groups": 8,
    "post_attention_groups": 2,
    "intermediate_groups": 4,
    "output_groups": 2,
}
SQUEEZE_NORMS = {"groups.0.layer.norm: eps*10": SMALL}

MOBILE = {
    **BASE,
    "model_type": "mobilebert",
    "embedding_size": 12,
    "intra_bottleneck_size": 24,
    "num_feedforward_networks": 3,
}

XLNET = {
    "model_type": "xlnet",
    "vocab_size": VOCAB,
    "d_model": D_MODEL,
    "n_layer": 2,
    "n_head": HEADS,
    "d_inner": D_FF,
    "layer_norm_eps": EPS,
}


FAMILIES: dict[str, Family] = {
    "roberta": masked({**PADDED, "model_type": "roberta"}, "RobertaForMaskedLM"),
    "roberta-classifier": masked(
        {**PADDED, "model_type": "roberta", "num_labels": 5}, "RobertaForSequenceClassification"
    ),
    "roberta-causal": masked({**PADDED, "model_type": "roberta"}, "RobertaForCausalLM"),
    "luke": masked(LUKE, "LukeForMaskedLM", inert=POOLED_TOO),
    "luke-untied": masked(
        {**LUKE, "use_entity_aware_attention": False, "tie_word_embeddings": False},
        "LukeForMaskedLM",
        inert=POOLED_TOO,
    ),
    "luke-base": masked({**LUKE, "entity_emb_size": D_MODEL}, "LukeModel", answer="pooler_output"),
    "luke-classifier": masked({**LUKE, "num_labels": 5}, "LukeForTokenClassification"),
    "xlm-roberta": masked({**PADDED, "model_type": "xlm-roberta"}, "XLMRobertaForMaskedLM"),
    "xlm-roberta-base": masked(
        {**PADDED, "model_type": "xlm-roberta"}, "XLMRobertaModel", answer="pooler_output"
    ),
    "camembert": masked(
        {**PADDED, "model_type": "camembert", "num_labels": 5}, "CamembertForTokenClassification"
    ),
    "data2vec-text": masked({**PADDED, "model_type": "data2vec-text"}, "Data2VecTextForMaskedLM"),
    "roberta-prelayernorm": masked(
        {**PADDED, "model_type": "roberta-prelayernorm"}, "RobertaPreLayerNormForMaskedLM"
    ),
    "xmod": masked({**XMOD, "default_language": "de_DE"}, "XmodForMaskedLM"),
    "xmod-one-language": masked(
        {**XMOD, "languages": ["en_XX"], "default_language": "en_XX", "hidden_act": "relu"},
        "XmodForSequenceClassification",
    ),
    "xlm-roberta-xl": masked({**PADDED, "model_type": "xlm-roberta-xl"}, "XLMRobertaXLForMaskedLM"),
    "megatron-bert": masked({**BASE, "model_type": "megatron-bert"}, "MegatronBertForMaskedLM"),
    "ernie": masked(
        {**BASE, "model_type": "ernie", "use_task_id": True, "tie_word_embeddings": False}, "ErnieForMaskedLM"
    ),
    "electra": masked({**BASE, "model_type": "electra", "embedding_size": 12}, "ElectraForMaskedLM"),
    "electra-discriminator": masked(
        {**BASE, "model_type": "electra", "embedding_size": D_MODEL}, "ElectraForPreTraining"
    ),
    "electra-classifier": masked(
        {**BASE, "model_type": "electra", "embedding_size": 12, "num_labels": 5},
        "ElectraForSequenceClassification",
    ),
    "distilbert": masked(
        DISTILBERT,
        "DistilBertForMaskedLM",
        inert={f"{norm}: eps*10": SMALL for norm in ("embedding.norm", "groups.0.layer.norm", "head.norm")},
    ),
    "distilbert-classifier": masked(
        {**DISTILBERT, "num_labels": 5},
        "DistilBertForSequenceClassification",
        inert={f"{norm}: eps*10": SMALL for norm in ("embedding.norm", "groups.0.layer.norm")},
    ),
    "mpnet": masked({**PADDED, "model_type": "mpnet", "pad_token_id": 1}, "MPNetForMaskedLM"),
    "rembert": masked(
        {**BASE, "model_type": "rembert", "input_embedding_size": 12, "output_embedding_size": 20},
        "RemBertForMaskedLM",
    ),
    "roformer": masked({**BASE, "model_type": "roformer", "embedding_size": 12}, "RoFormerForMaskedLM"),
    "nomic-bert": masked(
        {**BASE, "model_type": "nomic_bert", "head_dim": HEAD_DIM, "rope_parameters": rope()},
        "NomicBertForMaskedLM",
    ),
    "jina-embeddings-v3": masked(
        {**BASE, "model_type": "jina_embeddings_v3", "rope_parameters": rope()}, "JinaEmbeddingsV3ForMaskedLM"
    ),
    "eurobert": masked(EUROBERT, "EuroBertForMaskedLM"),
    "eurobert-biased": masked(
        {**EUROBERT, "mlp_bias": True, "attention_bias": True, "tie_word_embeddings": True},
        "EuroBertForMaskedLM",
    ),
    "modernbert": masked(MODERNBERT, "ModernBertForMaskedLM"),
    "modernbert-biased": masked(
        {
            **MODERNBERT,
            **dict.fromkeys(("norm_bias", "attention_bias", "mlp_bias", "classifier_bias"), True),
            "decoder_bias": False,
            "tie_word_embeddings": False,
        },
        "ModernBertForMaskedLM",
    ),
    "albert": masked(ALBERT, "AlbertForMaskedLM"),
    "albert-two-groups": masked(
        {**ALBERT, "num_hidden_groups": 2, "inner_group_num": 2, "hidden_act": "silu"},
        "AlbertForMaskedLM",
        inert={f"groups.{i}: pattern reversed": "both layers of a group are alike" for i in range(2)},
    ),
    "albert-base": masked(ALBERT, "AlbertModel", answer="pooler_output"),
    "gte": masked(
        {**BASE, "model_type": "gte", "rope_parameters": rope(), "pad_token_id": None}, "GteForMaskedLM"
    ),
    "esmc": masked(
        {
            **{
                key: value
                for key, value in EUROBERT.items()
                if key not in ("num_key_value_heads", "rms_norm_eps")
            },
            "model_type": "esmc",
        },
        "EsmcForMaskedLM",
        inert={"norm: eps*10": "1e-5 whatever the config says: the last stream is too loud to feel it"},
    ),
    "ultrabert": masked(
        {
            **EUROBERT,
            "model_type": "ultrabert",
            "num_hidden_layers": 3,
            "sliding_window": 3,
            "prediction_head_size": 20,
            "rope_parameters": {"full_attention": rope(), "sliding_attention": rope(50.0)},
        },
        "UltrabertForMaskedLM",
    ),
    "big-bird": masked(
        {**BASE, "model_type": "big_bird", "use_bias": False, "rescale_embeddings": True},
        "BigBirdModel",
        answer="pooler_output",
    ),
    "longformer": masked(
        {**PADDED, "model_type": "longformer", "attention_window": 6}, "LongformerForMaskedLM"
    ),
    "esm": masked({**ESM, "emb_layer_norm_before": True}, "EsmForMaskedLM"),
    "esm-rotary": masked(
        {
            **ESM,
            "position_embedding_type": "rotary",
            "rope_theta": 100.0,
            "token_dropout": True,
            "mask_token_id": 5,
            "tie_word_embeddings": False,
        },
        "EsmForMaskedLM",
    ),
    "esm-classifier": masked({**ESM, "num_labels": 5}, "EsmForSequenceClassification"),
    "squeezebert": masked(
        {
            **{key: value for key, value in SQUEEZE.items() if key != "post_attention_groups"},
            "hidden_act": "relu",
            "tie_word_embeddings": False,
        },
        "SqueezeBertForMaskedLM",
        inert={**SQUEEZE_NORMS, **POOLED_TOO},
    ),
    "squeezebert-classifier": masked(
        {**SQUEEZE, "num_labels": 5}, "SqueezeBertForSequenceClassification", inert=SQUEEZE_NORMS
    ),
    "mobilebert": masked(MOBILE, "MobileBertForMaskedLM"),
    "mobilebert-bottlenecked": masked(
        {
            **MOBILE,
            "normalization_type": "layer_norm",
            "use_bottleneck_attention": True,
            "trigram_input": False,
            "tie_word_embeddings": False,
            "hidden_act": "gelu",
        },
        "MobileBertForMaskedLM",
        inert={"embedding.norm: eps*10": "1e-5 whatever the config says: too small to be felt"},
    ),
    "mobilebert-classifier": masked(
        {
            **MOBILE,
            "normalization_type": "layer_norm",
            "classifier_activation": False,
            "num_labels": 5,
        },
        "MobileBertForSequenceClassification",
    ),
    "mobilebert-wide": masked(
        {
            **MOBILE,
            "use_bottleneck": False,
            "embedding_size": D_MODEL,
            "trigram_input": False,
            "num_feedforward_networks": 1,
            "normalization_type": "layer_norm",
            "num_labels": 5,
        },
        "MobileBertForTokenClassification",
    ),
    "xlnet": masked(XLNET, "XLNetLMHeadModel"),
    "xlnet-tagger": masked(
        {**XLNET, "ff_activation": "relu", "num_labels": 5}, "XLNetForTokenClassification"
    ),
    "ibert": masked({**PADDED, "model_type": "ibert"}, "IBertForMaskedLM"),
    "layoutlm": masked(
        {**BASE, "model_type": "layoutlm", "max_2d_position_embeddings": 9, "num_labels": 5},
        "LayoutLMForSequenceClassification",
    ),
    "tapas": masked(
        {**BASE, "model_type": "tapas", "type_vocab_sizes": [3, 4, 5, 2, 6, 7, 8]}, "TapasForMaskedLM"
    ),
    "flaubert": masked(
        {**XLM, "model_type": "flaubert", "gelu_activation": False}, "FlaubertWithLMHeadModel"
    ),
    "deberta-v3": masked({**DEBERTA, "share_att_key": True}, "DebertaV2ForMaskedLM"),
    "deberta-v2": masked(
        {
            **DEBERTA,
            "pos_att_type": ["p2c", "c2p"],
            "position_buckets": -1,
            "max_relative_positions": 6,
            "norm_rel_ebd": "none",
            "num_labels": 5,
        },
        "DebertaV2ForSequenceClassification",
    ),
    "deberta-v2-one-term": masked(
        {**DEBERTA, "pos_att_type": "p2c", "norm_rel_ebd": "none", "position_biased_input": True},
        "DebertaV2ForMaskedLM",
    ),
    "deberta-v3-new-head": masked({**DEBERTA, "legacy": False}, "DebertaV2ForMaskedLM"),
    "deberta-new-head": masked(
        {**BASE, "model_type": "deberta", "legacy": False, "tie_word_embeddings": False},
        "DebertaForMaskedLM",
    ),
    "deberta-v2-plain": masked({**BASE, "model_type": "deberta-v2"}, "DebertaV2ForMaskedLM"),
    "deberta": masked(
        {**BASE, "model_type": "deberta", "type_vocab_size": 0, "pos_att_type": "c2p", "num_labels": 5},
        "DebertaForTokenClassification",
    ),
    "fnet": masked({**BASE, "model_type": "fnet", "num_labels": 5}, "FNetForSequenceClassification"),
    "roc-bert": masked(ROC_BERT, "RoCBertForMaskedLM"),
    "roc-bert-no-shape": masked(
        {**ROC_BERT, "enable_shape": False, "tie_word_embeddings": False}, "RoCBertForCausalLM"
    ),
}
