"""RoBERTa and its kin."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.family import Family
from archcli.load.huggingface.parts.attention import even_split
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import (
    ROBERTA_HEAD,
    encoder_names,
    norm_names,
    pre_norm_names,
    tied_names,
)
from archcli.load.huggingface.whole.bert_like import (
    MASKED,
    ROBERTA_HEADS,
    after_padding,
    bert_like,
    with_second_bias,
)

ROBERTA_PREFIXES = {
    "roberta": "Roberta",
    "xlm-roberta": "XLMRoberta",
    "camembert": "Camembert",
    "data2vec-text": "Data2VecText",
}
ROBERTA_BASES = {"data2vec-text": "data2vec_text"}
ROBERTA_TABLE, ROBERTA_BIAS = "lm_head.decoder.weight", "lm_head.bias"


def _roberta(config: Config) -> Mapped:
    """As BERT, with positions from the padding token's id on; the head's activation is GELU."""
    config.only("position_embedding_type", "absolute", default="absolute")
    position = after_padding(config)
    whole = bert_like(
        config,
        ROBERTA_PREFIXES[config.model_type],
        ROBERTA_HEADS,
        embedding={"position": position},
        head={"activation": "gelu"},
        max_seq_len=position["max_seq_len"],
    )
    return with_second_bias(config, whole)


def _roberta_weights(config: Config) -> Weights:
    """Weight names: RoBERTa's for all but data2vec."""
    tied = bool(config.flag("tie_word_embeddings"))
    base = ROBERTA_BASES.get(config.model_type, "roberta")
    return {**encoder_names(base), **ROBERTA_HEAD, **tied_names(ROBERTA_TABLE, ROBERTA_BIAS, tied)}


PRELAYERNORM_PREFIXES = {"roberta-prelayernorm": "RobertaPreLayerNorm", "xlm-roberta-xl": "XLMRobertaXL"}
PRELAYERNORM_NORMS = {
    "roberta-prelayernorm": ("attention.LayerNorm", "intermediate.LayerNorm", "LayerNorm"),
    "xlm-roberta-xl": ("attention.self_attn_layer_norm", "LayerNorm", "encoder.LayerNorm"),
}
"""The norm before attention, the one before the network, and the last."""


def _prelayernorm(config: Config) -> Mapped:
    """As RoBERTa, with norms before the sublayers and after the last layer; XL has none on embeddings."""
    position = after_padding(config)
    bare = {"norm": None} if config.model_type == "xlm-roberta-xl" else {}
    whole = bert_like(
        config,
        PRELAYERNORM_PREFIXES[config.model_type],
        ROBERTA_HEADS,
        block="pre_norm",
        embedding={"position": position, **bare},
        head={"activation": "gelu"},
        max_seq_len=position["max_seq_len"],
    )
    return with_second_bias(config, whole)


def _prelayernorm_weights(config: Config) -> Weights:
    """Weight names; the norms stand in other places."""
    base = "roberta" if config.model_type == "xlm-roberta-xl" else "roberta_prelayernorm"
    tied = bool(config.flag("tie_word_embeddings"))
    return {
        **encoder_names(base, post_norm=False),
        **pre_norm_names(base, *PRELAYERNORM_NORMS[config.model_type]),
        **ROBERTA_HEAD,
        **tied_names("lm_head.decoder.weight", "lm_head.bias", tied),
    }


def _ibert(config: Config) -> Mapped:
    """As RoBERTa; what the class needs to compute in whole numbers is not imported."""
    config.only("quant_mode", False)
    config.only("hidden_act", "gelu")
    config.ignore("force_dequant")
    position = after_padding(config)
    whole = bert_like(
        config, "IBert", MASKED, embedding={"position": position}, max_seq_len=position["max_seq_len"]
    )
    return with_second_bias(config, whole)


def _ibert_weights(config: Config) -> Weights:
    """Weight names: RoBERTa's, without the copies in whole numbers beside them."""
    tied = bool(config.flag("tie_word_embeddings"))
    encoder = {
        f"{name.removesuffix('*')}{kind}": f"{str(rule).removesuffix('*')}{kind}"
        for name, rule in encoder_names("ibert").items()
        if name.endswith("*")
        for kind in ("weight", "bias")
    }
    return {
        **{name: rule for name, rule in encoder_names("ibert").items() if not name.endswith("*")},
        **encoder,
        **ROBERTA_HEAD,
        **tied_names("lm_head.decoder.weight", "lm_head.bias", tied),
    }


MPNET_PADDING = 1
"""Where positions begin, whatever pad_token_id says."""


def _mpnet(config: Config) -> Mapped:
    """As RoBERTa without segment types, and with T5's relative positions."""
    config.only("relative_attention_num_buckets", 32)
    position = after_padding(config, MPNET_PADDING)
    buckets = {"kind": "buckets", "n_buckets": 32, "max_distance": 128, "bidirectional": True}
    whole = bert_like(
        config,
        "MPNet",
        MASKED,
        attention={"head_dim": even_split(config)},
        embedding={"position": position, "token_types": 0},
        head={"activation": "gelu"},
        score_bias=buckets,
        max_seq_len=position["max_seq_len"],
    )
    return with_second_bias(config, whole)


def _mpnet_weights(config: Config) -> Weights:
    """Weight names: RoBERTa's, but for attention."""
    tied, attention = bool(config.flag("tie_word_embeddings")), "encoder.layer.*.attention"
    return {
        **{
            name: rule
            for name, rule in encoder_names("mpnet").items()
            if not name.startswith(f"[mpnet.]{attention}.")
        },
        **{f"[mpnet.]{attention}.attn.{which}.*": f"layers.*.attention.{which}_proj.*" for which in "qkvo"},
        **norm_names({f"[mpnet.]{attention}": "layers.*.attention_norm"}),
        "[mpnet.]encoder.relative_attention_bias.weight": "score_bias.weight",
        **ROBERTA_HEAD,
        **tied_names("lm_head.decoder.weight", "lm_head.bias", tied),
    }


FAMILIES = {
    **dict.fromkeys(
        ("roberta", "xlm-roberta", "camembert", "data2vec-text"),
        Family(
            "RoBERTa, XLM-RoBERTa, CamemBERT and data2vec for text: "
            "RobertaConfig and its like, with their heads.",
            _roberta,
            _roberta_weights,
        ),
    ),
    **dict.fromkeys(
        ("roberta-prelayernorm", "xlm-roberta-xl"),
        Family(
            "RoBERTa with the norm first, XLM-RoBERTa-XL (RobertaPreLayerNormConfig, XLMRobertaXLConfig).",
            _prelayernorm,
            _prelayernorm_weights,
        ),
    ),
    "ibert": Family(
        "I-BERT, before it is quantized: IBertConfig, IBertModel and its heads.", _ibert, _ibert_weights
    ),
    "mpnet": Family("MPNet (all-mpnet-base): MPNetConfig, MPNetModel and its heads.", _mpnet, _mpnet_weights),
}
