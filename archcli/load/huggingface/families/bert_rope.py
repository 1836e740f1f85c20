"""Encoders of BERT's kind with RoPE: GTE, Jina Embeddings 3, Nomic BERT."""

from __future__ import annotations

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Family, Mapped, Parts, Rule, Weights
from archcli.load.huggingface.whole.bert_like import (
    MASKED,
    bert_like,
    rotated,
    with_bert_head,
    with_roberta_head,
    with_second_bias,
)

GTE_HEADS = {
    "Model": (),
    "ForMaskedLM": ("words",),
    "ForSequenceClassification": ("pooler", "labels"),
    "ForTokenClassification": ("labels",),
}


def _gte(config: Config) -> Mapped:
    """As BERT, with RoPE, a gated network with a biased down projection, and a head with one bias."""
    ffn, head = hf.gated(config, bias=["down"]), {"activation": "gelu"}
    embedding = {"position": {"kind": "none"}}
    return bert_like(
        config, "Gte", GTE_HEADS, attention=rotated(config, 160000.0), embedding=embedding, ffn=ffn, head=head
    )


GTE_STORED = {
    "attention.o_proj": "attention.o_proj",
    "attn_ln": "attention_norm",
    "mlp_ln": "ffn_norm",
    "mlp.down_proj": "ffn.down_proj",
}


def _gte_weights(config: Config) -> Weights:
    """Weight names, in memory and as the first files have them."""
    tied = bool(config.flag("tie_word_embeddings"))
    fused = tuple(f"layers.*.attention.{which}_proj.*" for which in "qkv")
    names: dict[str, Rule] = {
        **{f"encoder.layer.*.{name}.*": f"layers.*.{ours}.*" for name, ours in GTE_STORED.items()},
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
        **hf.rotated_names("gte", "attn"),
        **{f"new.{name}": rule for name, rule in names.items()},
        **{f"[gte.]{name}": rule for name, rule in names.items() if name.startswith("encoder.layer.")},
        **{name: rule for name, rule in hf.ROBERTA_HEAD.items() if name != "lm_head.decoder.bias"},
        "lm_head.decoder.bias": "lm_head.bias",
        "lm_head.norm.*": "lm_head_norm.*",
        "lm_head.decoder.weight": hf.tied_names("table", "bias", tied)["table"],
    }


JINA_HEADS = {name: parts for name, parts in MASKED.items() if name != "ForMultipleChoice"}


def _jina(config: Config) -> Mapped:
    """As XLM-RoBERTa, with RoPE in place of learned positions."""
    whole = bert_like(
        config,
        "JinaEmbeddingsV3",
        JINA_HEADS,
        attention=rotated(config, 20000.0),
        embedding={"position": {"kind": "none"}},
        head={"activation": "gelu"},
    )
    return with_second_bias(config, whole)


def _jina_weights(config: Config) -> Weights:
    """Weight names: RoBERTa's around layers with Llama's words."""
    return with_roberta_head(config, hf.rotated_names("roberta", "mixer"))


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

NOMIC_BERT_FIXED = {
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
"""Values of such a file's keys that transformers' class supports."""

NOMIC_BERT_UNREAD = (
    *("fused_bias_fc", "fused_dropout_add_ln", "use_xentropy", "dense_seq_output", "pad_vocab_size_multiple"),
    *("scale_attn_weights", "rotary_emb_interleaved", "rotary_emb_scale_base", "rotary_scaling_factor"),
    *("max_trained_positions", "embd_pdrop", "shift_bounds"),
)
"""Keys of such files that change no count."""

NOMIC_BERT_HEADS = {
    "Model": (),
    "ForMaskedLM": ("words",),
    "ForSequenceClassification": ("pooler", "labels"),
    "ForTokenClassification": ("labels",),
}


def _nomic_bert(config: Config) -> Mapped:
    """As BERT, with RoPE, a gated network, and no bias in the layers."""
    for key, value in NOMIC_BERT_FIXED.items():
        config.only(key, value, default=value)
    config.ignore(*NOMIC_BERT_UNREAD)
    whole = bert_like(
        config,
        "NomicBert",
        NOMIC_BERT_HEADS,
        attention=rotated(config, 1000.0, bias=False),
        embedding={"position": {"kind": "none"}},
        ffn=hf.gated(config),
    )
    return with_second_bias(config, whole)


def _nomic_bert_weights(config: Config) -> Weights:
    """Weight names: BERT's around layers with Llama's words."""
    head: Weights = {"cls.predictions.transform.layer_norm.*": "lm_head_norm.*"}
    return with_bert_head(config, hf.rotated_names("nomic_bert", "attn"), head)


FAMILIES = {
    "gte": Family("GTE, encoders of 2024: GteConfig, GteModel and its heads.", _gte, _gte_weights),
    "jina_embeddings_v3": Family(
        "Jina Embeddings 3: JinaEmbeddingsV3Config, JinaEmbeddingsV3Model.", _jina, _jina_weights
    ),
    "nomic_bert": Family(
        "Nomic BERT (nomic-embed-text): NomicBertConfig, NomicBertModel and its heads.",
        _nomic_bert,
        _nomic_bert_weights,
        aliases=PUBLISHED_WORDS,
    ),
}
