"""Nomic BERT (nomic-embed-text): NomicBertConfig, NomicBertModel and its heads."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.networks import gated
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import BERT_HEAD, rotated_names, tied_names
from archcli.load.huggingface.whole.bert_like import bert_like, rotated, with_second_bias

MODEL_TYPES = ("nomic_bert",)
PUBLISHED_WORDS = {
    "hidden_size": "n_embd",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "intermediate_size": "n_inner",
    "max_position_embeddings": "n_positions",
    "layer_norm_eps": "layer_norm_epsilon",
    "rope_theta": "rotary_emb_base",
}
"""Keys of nomic-embed-text's own files, which are GPT-2's."""

FIXED = {
    "activation_function": "swiglu",
    "qkv_proj_bias": False,
    "mlp_fc1_bias": False,
    "mlp_fc2_bias": False,
    "rotary_emb_fraction": 1.0,
    "prenorm": False,
    "parallel_block": False,
    "use_rms_norm": False,
    "causal": False,
}
"""What such a file states of the layers; the class of transformers has no other."""

RUNNING = (
    *("fused_bias_fc", "fused_dropout_add_ln", "use_xentropy", "dense_seq_output", "pad_vocab_size_multiple"),
    *("scale_attn_weights", "rotary_emb_interleaved", "rotary_emb_scale_base", "rotary_scaling_factor"),
    *("max_trained_positions", "embd_pdrop", "shift_bounds"),
)
"""Keys of its own files that change no count."""

HEADS = {
    "Model": (),
    "ForMaskedLM": ("words",),
    "ForSequenceClassification": ("pooler", "labels"),
    "ForTokenClassification": ("labels",),
}


def mapping(config: Config) -> Mapped:
    """As BERT, with RoPE, a gated network, and no bias in the layers."""
    config = config.of_class(**PUBLISHED_WORDS)
    for key, value in FIXED.items():
        config.only(key, value, default=value)
    config.ignore(*RUNNING)
    whole = bert_like(
        config,
        "NomicBert",
        HEADS,
        attention=rotated(config, 1000.0, bias=False),
        embedding={"position": {"kind": "none"}},
        ffn=gated(config),
    )
    return with_second_bias(config, whole)


def weights(config: Config) -> Weights:
    """Weight names: BERT's around layers with Llama's words."""
    tied = bool(config.of_class().flag("tie_word_embeddings"))
    return {
        **rotated_names("nomic_bert", "attn"),
        **BERT_HEAD,
        "cls.predictions.transform.layer_norm.*": "lm_head_norm.*",
        **tied_names("cls.predictions.decoder.weight", "cls.predictions.bias", tied),
    }
