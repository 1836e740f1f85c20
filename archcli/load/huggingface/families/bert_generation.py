"""BERT as a generator: BertGenerationConfig with BertGenerationDecoder or BertGenerationEncoder."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.networks import layernorm, mlp
from archcli.load.huggingface.weights.map import Parts, Weights
from archcli.load.huggingface.weights.names import encoder_names, tied_names
from archcli.load.huggingface.whole.bert_like import bert_like, with_second_bias
from archcli.load.huggingface.whole.gpt_like import post_norm_decoder

MODEL_TYPES = ("bert-generation",)
HEADED = ("BertGenerationDecoder",)

DEFAULTS = {
    "vocab_size": 50358,
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
    "hidden_act": "gelu",
    "max_position_embeddings": 512,
    "layer_norm_eps": 1e-12,
    "is_decoder": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
}
PREFIX = "BertGeneration"
PARTS: dict[str, tuple[str, ...]] = {"Decoder": ("words",), "Encoder": (), "Model": ()}


def mapping(config: Config) -> Mapped:
    """Post-norm with a norm after the embeddings; causal where is_decoder is true, else an encoder."""
    config = config.of_class(DEFAULTS)
    config.only_architectures(*(PREFIX + name for name in PARTS))
    config.only("add_cross_attention", False)
    config.ignore("type_vocab_size", "position_embedding_type")
    if not config.flag("is_decoder"):
        return with_second_bias(
            config, bert_like(config, PREFIX, PARTS, head={"transform": False}, embedding={"token_types": 0})
        )
    norm = layernorm(config.number("layer_norm_eps"))
    ffn = mlp(config, config.size("intermediate_size"), "hidden_act")
    whole = post_norm_decoder(config, norm, ffn, normed=True, head={"bias": True})
    return with_second_bias(config, whole) if config.architecture in HEADED else whole


def weights(config: Config) -> Weights:
    """Weight names; an untied head has two biases, one of which no pass reads."""
    tied = bool(config.of_class(DEFAULTS).flag("tie_word_embeddings"))
    second = tied_names("lm_head.decoder.weight", "lm_head.bias", tied)
    return {**encoder_names("bert"), "lm_head.decoder.bias": Parts(("lm_head.bias",), again=True), **second}
