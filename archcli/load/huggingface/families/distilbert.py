"""DistilBERT: DistilBertConfig, DistilBertModel and its heads."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.networks import layernorm, mlp
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.whole.bert_like import LABELLED, bert_like

MODEL_TYPES = ("distilbert",)
ALIASES = {
    "hidden_size": "dim",
    "num_hidden_layers": "n_layers",
    "num_attention_heads": "n_heads",
    "hidden_act": "activation",
}
HEADS = {"Model": (), "ForMaskedLM": ("words",), **LABELLED}


def mapping(config: Config) -> Mapped:
    """As BERT without segment types; eps is 1e-12 whatever the file says."""
    config = config.of_class(**ALIASES)
    config.ignore("tie_weights_", "sinusoidal_pos_embds", "qa_dropout", "seq_classif_dropout", "output_past")
    ffn = mlp(config, config.size("hidden_dim"), "hidden_act")
    return bert_like(config, "DistilBert", HEADS, norm=layernorm(1e-12), ffn=ffn, pooled="relu")


LAYERS = {
    **{f"attention.{which}_lin": f"attention.{which}_proj" for which in "qkv"},
    "attention.out_lin": "attention.o_proj",
    "sa_layer_norm": "attention_norm",
    "ffn.lin1": "ffn.up_proj",
    "ffn.lin2": "ffn.down_proj",
    "output_layer_norm": "ffn_norm",
}
WEIGHTS: Weights = {
    "[distilbert.]embeddings.word_embeddings.weight": "embedding.tokens.weight",
    "[distilbert.]embeddings.position_embeddings.weight": "embedding.positions.weight",
    "[distilbert.]embeddings.LayerNorm.*": "embedding.norm.*",
    **{f"[distilbert.]transformer.layer.*.{name}.*": f"layers.*.{ours}.*" for name, ours in LAYERS.items()},
    "vocab_transform.*": "lm_head_transform.*",
    "vocab_layer_norm.*": "lm_head_norm.*",
    "vocab_projector.*": "lm_head.*",
    "pre_classifier.*": "pooler.*",
    "classifier.*": "classifier.*",
    "qa_outputs.*": "classifier.*",
}
