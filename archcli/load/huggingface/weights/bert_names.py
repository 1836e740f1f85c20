"""Tables of weight names that encoders of BERT's kind share."""

from __future__ import annotations

from archcli.load.huggingface.weights.names import FUSED
from archcli.load.huggingface.weights.rules import Parts, Rule, Weights

POST_NORM = {
    "embeddings": "embedding.norm",
    "encoder.layer.*.attention.output": "layers.*.attention_norm",
    "encoder.layer.*.output": "layers.*.ffn_norm",
}
"""The places of norms, which are called LayerNorm there, and ours."""

LEGACY = {"weight": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}
"""The first files keep TensorFlow's words for a norm's gain and bias."""

MODULES = {
    "encoder.layer.*.attention.self.query": "layers.*.attention.q_proj",
    "encoder.layer.*.attention.self.key": "layers.*.attention.k_proj",
    "encoder.layer.*.attention.self.value": "layers.*.attention.v_proj",
    "encoder.layer.*.attention.output.dense": "layers.*.attention.o_proj",
    "encoder.layer.*.intermediate.dense": "layers.*.ffn.up_proj",
    "encoder.layer.*.output.dense": "layers.*.ffn.down_proj",
    "pooler.dense": "pooler",
}
TABLES = {
    "word_embeddings": "tokens",
    "position_embeddings": "positions",
    "token_type_embeddings": "token_types",
}


LLAMA_LAYERS = {
    **{f"self_attn.{which}_proj": f"attention.{which}_proj" for which in "qkvo"},
    "post_attention_layernorm": "attention_norm",
    "post_mlp_layernorm": "ffn_norm",
    **{f"mlp.{name}_proj": f"ffn.{name}_proj" for name in ("gate", "up", "down")},
    "mlp.fc1": "ffn.up_proj",
    "mlp.fc2": "ffn.down_proj",
}
"""Post-norm layers with Llama's words."""


def encoder_names(prefix: str, *, post_norm: bool = True) -> dict[str, Rule]:
    """Weight names below the head, where `prefix` stands before them in classes that have one."""
    places = POST_NORM if post_norm else {"embeddings": POST_NORM["embeddings"]}
    return {
        **{
            f"[{prefix}.]embeddings.{name}.weight": f"embedding.{ours}.weight"
            for name, ours in TABLES.items()
        },
        **{f"[{prefix}.]{name}.*": f"{ours}.*" for name, ours in MODULES.items()},
        **norm_names({f"[{prefix}.]{place}": ours for place, ours in places.items()}),
    }


def norm_names(places: dict[str, str]) -> dict[str, Rule]:
    """Weight names of norms called LayerNorm at these places."""
    return {
        f"{theirs}.LayerNorm.{stored}": f"{ours}.{kind}"
        for theirs, ours in places.items()
        for stored, kind in LEGACY.items()
    }


def rotated_names(prefix: str, attention: str) -> dict[str, Rule]:
    """Weight names of post-norm layers with Llama's words, and as the first files have them."""
    stored = {
        **LLAMA_LAYERS,
        f"{attention}.out_proj": "attention.o_proj",
        "norm1": "attention_norm",
        "norm2": "ffn_norm",
        "mlp.fc11": "ffn.up_proj",
        "mlp.fc12": "ffn.gate_proj",
    }
    base = f"[{prefix}.]"
    return {
        f"{base}embeddings.word_embeddings.weight": "embedding.tokens.weight",
        f"{base}embeddings.token_type_embeddings.weight": "embedding.token_types.weight",
        f"{base}embeddings.LayerNorm.*": "embedding.norm.*",
        f"{base}emb_ln.*": "embedding.norm.*",
        **{f"{base}[encoder.]layers.*.{name}.*": f"layers.*.{ours}.*" for name, ours in stored.items()},
        f"{base}[encoder.]layers.*.{attention}.Wqkv.*": Parts(FUSED),
        f"{base}pooler.dense.*": "pooler.*",
    }


def pre_norm_names(prefix: str, attention: str, ffn: str, last: str) -> dict[str, Rule]:
    """Weight names of the norms before attention and network, and of the last."""
    return {
        f"[{prefix}.]encoder.layer.*.{attention}.*": "layers.*.attention_norm.*",
        f"[{prefix}.]encoder.layer.*.{ffn}.*": "layers.*.ffn_norm.*",
        f"[{prefix}.]{last}.*": "final_norm.*",
    }


BERT_HEAD: Weights = {
    "cls.predictions.transform.dense.*": "lm_head_transform.*",
    **norm_names({"cls.predictions.transform": "lm_head_norm"}),
    "cls.predictions.decoder.bias": Parts(("lm_head.bias",), again=True),
    "cls.seq_relationship.*": "classifier.*",
    "classifier.*": "classifier.*",
    "qa_outputs.*": "classifier.*",
}

ROBERTA_HEAD: Weights = {
    "lm_head.dense.*": "lm_head_transform.*",
    "lm_head.layer_norm.*": "lm_head_norm.*",
    "lm_head.decoder.bias": Parts(("lm_head.bias",), again=True),
    "classifier.dense.*": "pooler.*",
    "classifier.out_proj.*": "classifier.*",
    "classifier.*": "classifier.*",
    "qa_outputs.*": "classifier.*",
}


def tied_names(table: str, bias: str, tied: bool) -> dict[str, Rule]:
    """The rules of the head's table and of the bias beside the decoder's own.

    Tied they are stored under either name; an untied head has a second bias, which no pass reads.
    """
    if not tied:
        return {table: "lm_head.weight", bias: "unread_bias.weight"}
    return {
        table: Parts(("embedding.tokens.weight",), again=True),
        bias: Parts(("lm_head.bias",), again=True),
    }
