"""TrOCR's decoder: TrOCRConfig and TrOCRForCausalLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped, without_none
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import mlp
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import fairseq_layers
from archcli.load.huggingface.whole.bart_like import LEARNED, TORCH_NORM
from archcli.load.huggingface.whole.defaults import fairseq_sinusoid

MODEL_TYPES = ("trocr",)

ALIASES = {
    "hidden_size": "d_model",
    "num_attention_heads": "decoder_attention_heads",
    "num_hidden_layers": "decoder_layers",
}


def mapping(config: Config) -> Mapped:
    """Post-norm with a norm after the embeddings; cross attention waits for an image encoder."""
    config = config.of_class(**ALIASES)
    config.ignore("is_decoder", "decoder_layerdrop", "num_beams")
    width = config.size("hidden_size")
    config.only("cross_attention_hidden_size", None, width.value, default=None)
    config.note("weights of cross attention are counted, and read by no pass without the image encoder")
    heads = {"n_heads": config.size("num_attention_heads"), "bias": True}
    layer = {
        "kind": "post_norm",
        "attention": {"kind": "mha", **heads},
        "cross_attention": {**heads, "idle": True},
        "ffn": mlp(config, config.size("decoder_ffn_dim"), "activation_function"),
    }
    norm = dict(TORCH_NORM)
    embedding = {
        "scale": "sqrt_d_model" if config.flag("scale_embedding") else None,
        "position": _position(config),
        "norm": norm if config.flag("layernorm_embedding") else None,
    }
    layers = [layer] * config.layers()
    return decoder(config, norm, layers, embedding=without_none(embedding), final_norm=False)


def _position(config: Config) -> Mapped:
    """A learned table, or sinusoids from the place after the padding token's id on."""
    if config.flag("use_learned_position_embeddings"):
        return dict(LEARNED)
    if config.stated_null("pad_token_id"):
        what = "pad_token_id null is not supported"
        raise config.error(what, "the class numbers positions from it on", config.place("pad_token_id"))
    return fairseq_sinusoid(config, config.count("pad_token_id").value + 1)


WEIGHTS: Weights = {
    "[model.]decoder.embed_tokens.weight": "embedding.tokens.weight",
    "[model.]decoder.embed_positions.weight": "embedding.positions.weight",
    "[model.]decoder.layernorm_embedding.*": "embedding.norm.*",
    **fairseq_layers("[model.]decoder.layers.*"),
    "output_projection.weight": "lm_head.weight",
}
