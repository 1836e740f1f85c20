"""BERT's layers as decoders: BERT as a generator, BLIP, GIT."""

from __future__ import annotations

from archcli.load import huggingface as hf
from archcli.load.huggingface import Auxiliary, Config, Family, Mapped, Parts, Rule, Weights
from archcli.load.huggingface.weights.auxiliary import TOWER
from archcli.load.huggingface.whole.bert_like import bert_like, with_bert_head, with_second_bias
from archcli.load.huggingface.whole.gpt_like import post_norm_decoder

GENERATION_HEADED = ("BertGenerationDecoder",)

GENERATION_PREFIX = "BertGeneration"
GENERATION_PARTS: dict[str, tuple[str, ...]] = {"Decoder": ("words",), "Encoder": (), "Model": ()}


def _generation(config: Config) -> Mapped:
    """Post-norm with a norm after the embeddings; causal where is_decoder is true, else an encoder."""
    config.only_architectures(*(GENERATION_PREFIX + name for name in GENERATION_PARTS))
    config.only("add_cross_attention", False)
    config.ignore("type_vocab_size", "position_embedding_type")
    if not config.flag("is_decoder"):
        return with_second_bias(
            config,
            bert_like(
                config,
                GENERATION_PREFIX,
                GENERATION_PARTS,
                head={"transform": False},
                embedding={"token_types": 0},
            ),
        )
    norm = hf.layernorm(config.number("layer_norm_eps"))
    ffn = hf.mlp(config, config.size("intermediate_size"), "hidden_act")
    whole = post_norm_decoder(config, norm, ffn, normed=True, head={"bias": True})
    return with_second_bias(config, whole) if config.architecture in GENERATION_HEADED else whole


def _generation_weights(config: Config) -> Weights:
    """Weight names; an untied head has two biases, one of which no pass reads."""
    tied = bool(config.flag("tie_word_embeddings"))
    second = hf.tied_names("lm_head.decoder.weight", "lm_head.bias", tied)
    return {
        **hf.encoder_names("bert"),
        "lm_head.decoder.bias": Parts(("lm_head.bias",), again=True),
        **second,
    }


BLIP_HEADED = ("BlipTextLMHeadModel", "BlipForConditionalGeneration", "ForConditionalGeneration")

BLIP_HELD = {
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
"""Weights of cross-attention to an image: archcli's names, and those of the class."""


def _blip(config: Config) -> Mapped:
    """BERT as a decoder with the head of masked words, and unread cross-attention to an image."""
    config.only_architectures(*BLIP_HEADED)
    config.only("is_decoder", True)
    config.ignore("projection_dim", "label_smoothing")
    config.note("weights of cross-attention to images are counted, and read by no pass over text alone")
    width, image_width = config.size("hidden_size").value, config.size("encoder_hidden_size").value
    matrices = ([width, width], [width, image_width], [width, image_width], [width, width])
    shapes = (*matrices, *([[width]] * 6))
    whole = post_norm_decoder(
        config,
        hf.layernorm(config.number("layer_norm_eps")),
        hf.mlp(config, config.size("intermediate_size"), "hidden_act"),
        normed=True,
        held=dict(zip(BLIP_HELD, shapes, strict=True)),
        head={"kind": "transformed", "activation": hf.activation(config, "hidden_act"), "bias": True},
    )
    return with_second_bias(config, whole)


def _blip_weights(config: Config) -> Weights:
    """Weight names: BERT's, and those of cross-attention to an image."""
    cross_attention: dict[str, Rule] = {
        f"[bert.]encoder.layer.*.crossattention.{theirs}": hf.idle(f"layers.*.{ours}.weight")
        for ours, theirs in BLIP_HELD.items()
    }
    names = with_bert_head(config, {**hf.encoder_names("bert"), **cross_attention})
    inside: Weights = {
        f"text_decoder.{name}".replace("[bert.]", "bert."): rule for name, rule in names.items()
    }
    return {**names, **inside, "vision_model.**": Auxiliary(TOWER)}


def _git(config: Config) -> Mapped:
    """BERT's layers, causal, with a biased head."""
    config.ignore("num_image_with_embedding", "position_embedding_type")
    if config.get("vision_config", default=None) is None:
        config.note("only the language model is counted: the file states no vision_config")
    else:
        config.note("only the language model is counted (the file itself)")
    norm = hf.layernorm(config.number("layer_norm_eps"))
    ffn = hf.mlp(config, config.size("intermediate_size"), "hidden_act")
    return post_norm_decoder(config, norm, ffn, normed=True, head={"bias": True})


GIT_WEIGHTS: Weights = {
    **hf.encoder_names("git"),
    "[git.]image_encoder.**": Auxiliary(TOWER),
    "[git.]visual_projection.**": Auxiliary(TOWER),
    "[git.]img_temporal_embedding.**": Auxiliary(TOWER),
    "output.*": "lm_head.*",
}


FAMILIES = {
    "bert-generation": Family(
        "BERT as a generator: BertGenerationConfig with BertGenerationDecoder or BertGenerationEncoder.",
        _generation,
        _generation_weights,
        headed=GENERATION_HEADED,
    ),
    "blip_text_model": Family(
        "BLIP's writer of captions: BlipTextConfig, BlipTextLMHeadModel, BlipForConditionalGeneration.",
        _blip,
        _blip_weights,
        headed=BLIP_HEADED,
    ),
    "git": Family(
        "GIT: GitConfig and GitForCausalLM, with the tower that sees the image.",
        _git,
        GIT_WEIGHTS,
        towers=(hf.TowerRow(".crossed:git"),),
    ),
}
