"""DeBERTa 1 to 3."""

from __future__ import annotations

from dataclasses import replace

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Family, Mapped, Parts, Weights
from archcli.load.huggingface.whole.bert_like import MASKED, bert_like, with_bert_head, with_second_bias
from archcli.load.huggingface.whole.deberta_like import disentangled
from archcli.load.huggingface.wrappers.wrapper import TIE

HEADS = {name: parts for name, parts in {**MASKED, "Model": ()}.items() if name != "ForMultipleChoice"}


def _deberta_v2(config: Config) -> Mapped:
    """As BERT with disentangled attention: scores of contents with relative positions are added."""
    is_first = config.model_type == "deberta"
    config = _with_tie(config)
    if is_first:
        config.only("relative_attention", False)
        config.only("talking_head", False, default=False)
    config.ignore("pooler_dropout", "z_steps", "cls_dropout", "padding_idx")
    for key, width in (("embedding_size", "hidden_size"), ("pooler_hidden_size", "hidden_size")):
        config.only(key, config.size(width).value, default=config.size(width))
    config.only("attention_head_size", hf.even_split(config).value, default=hf.even_split(config))
    if config.count("conv_kernel_size", default=0):
        what = "conv_kernel_size: a convolution beside the first layer is not supported"
        raise config.error(what, at=config.place("conv_kernel_size"))
    attention, relative = disentangled(config)
    # in_proj has no bias: the first class adds q_bias and v_bias itself, and none to keys
    attention |= {"bias": ["q", "v", "o"]} if is_first else {}
    position = {"kind": "learned"} if config.flag("position_biased_input") else {"kind": "none"}
    whole = bert_like(
        config,
        "Deberta" if is_first else "DebertaV2",
        HEADS,
        attention=attention,
        embedding={"position": position},
        pooled="pooler_hidden_act",
        **relative,
    )
    return with_second_bias(config, whole)


def _with_tie(config: Config) -> Config:
    """The file, tied if legacy is false: that head multiplies by the table, whatever the file says."""
    return config if config.flag("legacy") else replace(config, data={**config.data, TIE: True})


NEW_HEAD: Weights = {
    "lm_predictions.lm_head.dense.*": "lm_head_transform.*",
    "lm_predictions.lm_head.LayerNorm.*": "lm_head_norm.*",
    "lm_predictions.lm_head.bias": "lm_head.bias",
}
"""The head of files with legacy false."""
SELF = ".attention.self."
PROJECTIONS = {"query_proj": "q_proj", "key_proj": "k_proj", "value_proj": "v_proj"}
POSITIONS = {"pos_key_proj": "pos_k_proj", "pos_query_proj": "pos_q_proj"}


def _deberta_v2_weights(config: Config) -> Weights:
    """Weight names: BERT's, but for the projections, which the first DeBERTa stores head by head."""
    config = _with_tie(config)
    self_attention = f"[deberta.]encoder.layer.*{SELF.rstrip('.')}"
    is_first = config.data.get("model_type") == "deberta"
    names = tuple(f"layers.*.attention.{which}_proj.weight" for which in "qkv")
    heads = config.size("num_attention_heads").value
    fused = {f"{self_attention}.in_proj.weight": Parts(names, groups=heads)} if is_first else {}
    projections = {} if is_first else PROJECTIONS
    return with_bert_head(
        config,
        {
            # the pooler is the classifier's, not the base model's; the first one's class has in_proj alone
            **{
                it: rule
                for it, rule in hf.encoder_names("deberta").items()
                if rule != "pooler.*" and not (is_first and SELF in it)
            },
            "pooler.dense.*": "pooler.*",
            **{
                f"{self_attention}.{name}.*": f"layers.*.attention.{ours}.*"
                for name, ours in {**projections, **POSITIONS}.items()
            },
            **fused,
            f"{self_attention}.q_bias": "layers.*.attention.q_proj.bias",
            f"{self_attention}.v_bias": "layers.*.attention.v_proj.bias",
            "[deberta.]encoder.rel_embeddings.weight": "relative.weight",
            **hf.norm_names({"[deberta.]encoder": "relative_norm"}),
        },
        {} if config.flag("legacy") else NEW_HEAD,
    )


FAMILIES = {
    **dict.fromkeys(
        ("deberta-v2", "deberta"),
        Family(
            "DeBERTa 2 and 3, and the first without relative positions (DebertaV2Config, DebertaConfig).",
            _deberta_v2,
            _deberta_v2_weights,
        ),
    ),
}
