"""BERT: BertConfig, BertModel and its heads."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.parts.activations import activation
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.feed_forward import mlp
from archcli.load.huggingface.parts.norms import layernorm
from archcli.load.huggingface.value import Mapped
from archcli.load.huggingface.weights.names import UNREAD
from archcli.load.huggingface.weights.rules import Auxiliary, Parts, Weights

MODEL_TYPES = ("bert",)

DEFAULTS = {
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "hidden_act": "gelu",
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "is_decoder": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
}
PARTS = {
    "BertModel": {"pooler"},
    "BertForPreTraining": {"pooler", "words", "two labels"},
    "BertForMaskedLM": {"words"},
    "BertForNextSentencePrediction": {"pooler", "two labels"},
    "BertForSequenceClassification": {"pooler", "labels"},
    "BertForMultipleChoice": {"pooler", "one label"},
    "BertForTokenClassification": {"labels"},
    "BertForQuestionAnswering": {"labels"},
}
"""What each class has on the encoder: a pooler, a head that guesses words, a classifier of labels."""

POOLER = tuple(
    f"pooler_{key}" for key in ("fc_size", "num_attention_heads", "num_fc_layers", "size_per_head", "type")
)
"""Keys of the first multilingual files that no class reads."""


def mapping(config: Config) -> Mapped:
    """Post-norm, learned positions and segment types, a norm after the embeddings.

    The name of the class tells the head.
    """
    config = config.of_class(DEFAULTS)
    config.only("is_decoder", False)
    config.only("add_cross_attention", False)
    config.only("position_embedding_type", "absolute", default="absolute")
    config.ignore("directionality", "output_past", *POOLER)
    norm = layernorm(config.number("layer_norm_eps"))
    layer = {
        "kind": "post_norm",
        "attention": {
            "kind": "mha",
            "n_heads": config.size("num_attention_heads"),
            "bias": True,
            "causal": False,
        },
        "ffn": mlp(config, config.size("intermediate_size"), "hidden_act"),
    }
    embedding = {
        "position": {"kind": "learned"},
        "token_types": config.count("type_vocab_size"),
        "norm": norm,
    }
    layers = [layer] * config.layers()
    return decoder(
        config, norm, layers, kind="encoder", final_norm=False, embedding=embedding, **_head(config)
    )


def _head(config: Config) -> Mapped:
    """The fields of the head of the file's class; by default of BertModel, which has a pooler."""
    name = config.architecture or "BertModel"
    config.only_architectures(*PARTS)
    parts = PARTS[name]
    head: Mapped = {"pooler": True} if "pooler" in parts else {}
    if "words" in parts:
        head["head"] = {"activation": activation(config, "hidden_act")}
        if not config.flag("tie_word_embeddings"):
            config.note("cls.predictions.bias, a number per word, is read by no pass: not counted")
    if "labels" in parts:
        head["n_labels"] = config.labels()
    if "one label" in parts or "two labels" in parts:
        head["n_labels"] = 1 if "one label" in parts else 2
    return head


NORMS = {
    "[bert.]embeddings": "embedding.norm",
    "[bert.]encoder.layer.*.attention.output": "layers.*.attention_norm",
    "[bert.]encoder.layer.*.output": "layers.*.ffn_norm",
    "cls.predictions.transform": "lm_head_norm",
}
LEGACY = {"weight": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}
"""The first files keep TensorFlow's words for a norm's gain and bias."""

NAMES: Weights = {
    "[bert.]embeddings.word_embeddings.weight": "embedding.tokens.weight",
    "[bert.]embeddings.position_embeddings.weight": "embedding.positions.weight",
    "[bert.]embeddings.token_type_embeddings.weight": "embedding.token_types.weight",
    "[bert.]encoder.layer.*.attention.self.query.*": "layers.*.attention.q_proj.*",
    "[bert.]encoder.layer.*.attention.self.key.*": "layers.*.attention.k_proj.*",
    "[bert.]encoder.layer.*.attention.self.value.*": "layers.*.attention.v_proj.*",
    "[bert.]encoder.layer.*.attention.output.dense.*": "layers.*.attention.o_proj.*",
    "[bert.]encoder.layer.*.intermediate.dense.*": "layers.*.ffn.up_proj.*",
    "[bert.]encoder.layer.*.output.dense.*": "layers.*.ffn.down_proj.*",
    "[bert.]pooler.dense.*": "pooler.*",
    **{
        f"{theirs}.LayerNorm.{stored}": f"{ours}.{kind}"
        for theirs, ours in NORMS.items()
        for stored, kind in LEGACY.items()
    },
    "cls.predictions.transform.dense.*": "lm_head_transform.*",
    "cls.predictions.decoder.weight": "lm_head.weight",
    "cls.predictions.decoder.bias": Parts(("lm_head.bias",), again=True),
    "cls.seq_relationship.*": "classifier.*",
    "classifier.*": "classifier.*",
    "qa_outputs.*": "classifier.*",
}


def weights(config: Config) -> Weights:
    """Weight names; an untied head has two biases, one of which no pass reads."""
    tied = config.of_class(DEFAULTS).flag("tie_word_embeddings")
    bias = Parts(("lm_head.bias",), again=True) if tied else Auxiliary(UNREAD)
    return {**NAMES, "cls.predictions.bias": bias}
