"""BLIP's writer of captions: BlipTextConfig, BlipTextLMHeadModel, BlipForConditionalGeneration."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.networks import activation, layernorm, mlp
from archcli.load.huggingface.weights.auxiliary import TOWER
from archcli.load.huggingface.weights.map import Auxiliary, Rule, Weights
from archcli.load.huggingface.weights.names import BERT_HEAD, encoder_names, tied_names
from archcli.load.huggingface.whole.bert_like import with_second_bias
from archcli.load.huggingface.whole.gpt_like import post_norm_decoder

MODEL_TYPES = ("blip_text_model",)
HEADED = ("BlipTextLMHeadModel", "BlipForConditionalGeneration", "ForConditionalGeneration")

HELD = {
    "cross_q": "self.query.weight",
    "cross_k": "self.key.weight",
    "cross_v": "self.value.weight",
    "cross_o": "output.dense.weight",
    "cross_q_bias": "self.query.bias",
    "cross_k_bias": "self.key.bias",
    "cross_v_bias": "self.value.bias",
    "cross_o_bias": "output.dense.bias",
    "cross_norm": "output.LayerNorm.weight",
    "cross_norm_bias": "output.LayerNorm.bias",
}
"""What cross-attention to an image holds, by our names and by those of its class."""


def mapping(config: Config) -> Mapped:
    """BERT as a decoder with the head of masked words; cross-attention waits for an image."""
    config = config.of_class()
    config.only_architectures(*HEADED)
    config.only("is_decoder", True)
    config.ignore("projection_dim", "label_smoothing")
    config.note("weights of cross-attention to images are counted, and read by no pass over text alone")
    width, seen = config.size("hidden_size").value, config.size("encoder_hidden_size").value
    shapes = ([width, width], [width, seen], [width, seen], [width, width], *([[width]] * 6))
    whole = post_norm_decoder(
        config,
        layernorm(config.number("layer_norm_eps")),
        mlp(config, config.size("intermediate_size"), "hidden_act"),
        normed=True,
        held=dict(zip(HELD, shapes, strict=True)),
        head={"kind": "transformed", "activation": activation(config, "hidden_act"), "bias": True},
    )
    return with_second_bias(config, whole)


def weights(config: Config) -> Weights:
    """BERT's names, and those of what is held for images."""
    tied = bool(config.of_class().flag("tie_word_embeddings"))
    crossing: dict[str, Rule] = {
        f"[bert.]encoder.layer.*.crossattention.{theirs}": f"layers.*.{ours}.weight"
        for ours, theirs in HELD.items()
    }
    head = tied_names("cls.predictions.decoder.weight", "cls.predictions.bias", tied)
    names = {**encoder_names("bert"), **crossing, **BERT_HEAD, **head}
    inside: Weights = {
        f"text_decoder.{name}".replace("[bert.]", "bert."): rule for name, rule in names.items()
    }
    return {**names, **inside, "vision_model.**": Auxiliary(TOWER)}
