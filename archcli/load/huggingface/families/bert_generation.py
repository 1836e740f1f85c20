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

PREFIX = "BertGeneration"
PARTS: dict[str, tuple[str, ...]] = {"Decoder": ("words",), "Encoder": (), "Model": ()}


def mapping(config: Config) -> Mapped:
    """Post-norm with a norm after the embeddings; causal where is_decoder is true, else an encoder."""
    config = config.of_class()
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
    tied = bool(config.of_class().flag("tie_word_embeddings"))
    second = tied_names("lm_head.decoder.weight", "lm_head.bias", tied)
    return {**encoder_names("bert"), "lm_head.decoder.bias": Parts(("lm_head.bias",), again=True), **second}
