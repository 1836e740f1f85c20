"""MPNet (all-mpnet-base): MPNetConfig, MPNetModel and its heads."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import even_split
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import ROBERTA_HEAD, encoder_names, norm_names, tied_names
from archcli.load.huggingface.whole.bert_like import MASKED, after_padding, bert_like, with_second_bias

MODEL_TYPES = ("mpnet",)
PADDING = 1
"""Where positions begin, whatever pad_token_id says."""


def mapping(config: Config) -> Mapped:
    """As RoBERTa without segment types, and with T5's relative positions."""
    config = config.of_class()
    config.only("relative_attention_num_buckets", 32)
    position = after_padding(config, PADDING)
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


def weights(config: Config) -> Weights:
    """Weight names: RoBERTa's, but for attention."""
    tied, attention = bool(config.of_class().flag("tie_word_embeddings")), "encoder.layer.*.attention"
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
