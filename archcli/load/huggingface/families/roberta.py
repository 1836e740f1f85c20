"""RoBERTa and its kin."""

from __future__ import annotations

from typing import Any

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Family, Mapped, Parts, Weights
from archcli.load.huggingface.whole.bert_like import (
    MASKED,
    roberta_like,
    with_roberta_head,
    with_second_bias,
)

ABOUT_ROBERTA = (
    "RoBERTa, XLM-RoBERTa, CamemBERT and data2vec for text: RobertaConfig and its like, with their heads."
)


def _roberta(prefix: str, base: str = "roberta") -> Family:
    """A class whose name begins with `prefix`; the names of its weights begin with `base`."""

    def mapping(config: Config) -> Mapped:
        config.only("position_embedding_type", "absolute", default="absolute")
        return with_second_bias(config, roberta_like(config, prefix))

    def weights(config: Config) -> Weights:
        return with_roberta_head(config, hf.encoder_names(base))

    return Family(ABOUT_ROBERTA, mapping, weights)


def _norm_first(prefix: str, base: str, norms: tuple[str, str, str], **embedding: Any) -> Family:
    """As RoBERTa, with norms before the sublayers and after the last layer.

    `norms` are the one before attention, the one before the network, and the last.
    """

    def mapping(config: Config) -> Mapped:
        whole = roberta_like(config, prefix, block="pre_norm", embedding=embedding)
        return with_second_bias(config, whole)

    def weights(config: Config) -> Weights:
        encoder = hf.encoder_names(base, post_norm=False)
        return with_roberta_head(config, {**encoder, **hf.pre_norm_names(base, *norms)})

    about = "RoBERTa with the norm first, XLM-RoBERTa-XL (RobertaPreLayerNormConfig, XLMRobertaXLConfig)."
    return Family(about, mapping, weights)


def _ibert(config: Config) -> Mapped:
    """As RoBERTa; what the class needs to compute in whole numbers is not imported."""
    config.only("quant_mode", False)
    config.only("hidden_act", "gelu")
    config.ignore("force_dequant")
    return with_second_bias(config, roberta_like(config, "IBert", MASKED))


def _ibert_weights(config: Config) -> Weights:
    """Weight names: RoBERTa's, without the copies in whole numbers beside them.

    Layers and tables are QuantLinear and QuantEmbedding, the pooler alone is torch's linear layer.
    """
    encoder: dict[str, Any] = {}
    for name, rule in hf.encoder_names("ibert").items():
        if rule == "pooler.*":
            encoder[name] = rule
            continue
        # a trailing * would also take weight_integer and weight_scaling_factor
        for kind in ("weight", "bias") if name.endswith("*") else ("",):
            ours = f"{str(rule).removesuffix('*')}{kind}"
            encoder[f"{name.removesuffix('*')}{kind}"] = Parts((ours,), linear=False)
    return with_roberta_head(config, encoder)


MPNET_PADDING = 1
"""Where positions begin, whatever pad_token_id says."""


def _mpnet(config: Config) -> Mapped:
    """As RoBERTa without segment types, and with T5's relative positions."""
    config.only("relative_attention_num_buckets", 32)
    buckets = {"kind": "buckets", "n_buckets": 32, "max_distance": 128, "bidirectional": True}
    whole = roberta_like(
        config,
        "MPNet",
        MASKED,
        padding=MPNET_PADDING,
        attention={"head_dim": hf.even_split(config)},
        embedding={"token_types": 0},
        score_bias=buckets,
    )
    return with_second_bias(config, whole)


def _mpnet_weights(config: Config) -> Weights:
    """Weight names: RoBERTa's, but for attention."""
    attention = "encoder.layer.*.attention"
    return with_roberta_head(
        config,
        {
            **{
                name: rule
                for name, rule in hf.encoder_names("mpnet").items()
                if not name.startswith(f"[mpnet.]{attention}.")
            },
            **{
                f"[mpnet.]{attention}.attn.{which}.*": f"layers.*.attention.{which}_proj.*"
                for which in "qkvo"
            },
            **hf.norm_names({f"[mpnet.]{attention}": "layers.*.attention_norm"}),
            "[mpnet.]encoder.relative_attention_bias.weight": "score_bias.weight",
        },
    )


FAMILIES = {
    "roberta": _roberta("Roberta"),
    "xlm-roberta": _roberta("XLMRoberta"),
    "camembert": _roberta("Camembert"),
    "data2vec-text": _roberta("Data2VecText", "data2vec_text"),
    "roberta-prelayernorm": _norm_first(
        "RobertaPreLayerNorm",
        "roberta_prelayernorm",
        ("attention.LayerNorm", "intermediate.LayerNorm", "LayerNorm"),
    ),
    # it has no norm of the embeddings
    "xlm-roberta-xl": _norm_first(
        "XLMRobertaXL",
        "roberta",
        ("attention.self_attn_layer_norm", "LayerNorm", "encoder.LayerNorm"),
        norm=None,
    ),
    "ibert": Family(
        "I-BERT, before it is quantized: IBertConfig, IBertModel and its heads.", _ibert, _ibert_weights
    ),
    "mpnet": Family("MPNet (all-mpnet-base): MPNetConfig, MPNetModel and its heads.", _mpnet, _mpnet_weights),
}
