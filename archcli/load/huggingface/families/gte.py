"""GTE, encoders of 2024: GteConfig, GteModel and its heads."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.networks import gated
from archcli.load.huggingface.weights.map import Parts, Rule, Weights
from archcli.load.huggingface.weights.names import ROBERTA_HEAD, rotated_names, tied_names
from archcli.load.huggingface.whole.bert_like import bert_like, rotated

MODEL_TYPES = ("gte",)
HEADS = {
    "Model": (),
    "ForMaskedLM": ("words",),
    "ForSequenceClassification": ("pooler", "labels"),
    "ForTokenClassification": ("labels",),
}


def mapping(config: Config) -> Mapped:
    """As BERT, with RoPE and a gated network, of which one matrix has a bias; a head with one bias."""
    config = config.of_class()
    ffn, head = gated(config, bias=["down"]), {"activation": "gelu"}
    embedding = {"position": {"kind": "none"}}
    return bert_like(
        config, "Gte", HEADS, attention=rotated(config, 160000.0), embedding=embedding, ffn=ffn, head=head
    )


STORED = {
    "attention.o_proj": "attention.o_proj",
    "attn_ln": "attention_norm",
    "mlp_ln": "ffn_norm",
    "mlp.down_proj": "ffn.down_proj",
}


def weights(config: Config) -> Weights:
    """Weight names, in memory and as the first files have them."""
    tied = bool(config.of_class().flag("tie_word_embeddings"))
    fused = tuple(f"layers.*.attention.{which}_proj.*" for which in "qkv")
    names: dict[str, Rule] = {
        **{f"encoder.layer.*.{name}.*": f"layers.*.{ours}.*" for name, ours in STORED.items()},
        "encoder.layer.*.attention.qkv_proj.*": Parts(fused),
        "encoder.layer.*.mlp.up_gate_proj.weight": Parts(
            ("layers.*.ffn.up_proj.weight", "layers.*.ffn.gate_proj.weight")
        ),
        "embeddings.word_embeddings.weight": "embedding.tokens.weight",
        "embeddings.token_type_embeddings.weight": "embedding.token_types.weight",
        "embeddings.LayerNorm.*": "embedding.norm.*",
        "pooler.dense.*": "pooler.*",
    }
    return {
        **rotated_names("gte", "attn"),
        **{f"new.{name}": rule for name, rule in names.items()},
        **{f"[gte.]{name}": rule for name, rule in names.items() if name.startswith("encoder.layer.")},
        **{name: rule for name, rule in ROBERTA_HEAD.items() if name != "lm_head.decoder.bias"},
        "lm_head.decoder.bias": "lm_head.bias",
        "lm_head.norm.*": "lm_head_norm.*",
        "lm_head.decoder.weight": tied_names("table", "bias", tied)["table"],
    }
