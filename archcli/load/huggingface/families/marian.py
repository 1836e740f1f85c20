"""Marian, the OPUS-MT translators: MarianConfig and MarianMTModel.

It is the Transformer of Vaswani et al. 2017, arXiv:1706.03762.
"""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.parts.decoder import PLAIN
from archcli.load.huggingface.parts.feed_forward import mlp
from archcli.load.huggingface.parts.norms import layernorm
from archcli.load.huggingface.value import Mapped, without_none
from archcli.load.huggingface.weights.names import ENCODER_DECODER, UNREAD
from archcli.load.huggingface.weights.rules import Auxiliary, Parts, Weights

MODEL_TYPES = ("marian",)

DEFAULTS = {
    "vocab_size": 58101,
    "max_position_embeddings": 1024,
    "encoder_layers": 12,
    "encoder_ffn_dim": 4096,
    "encoder_attention_heads": 16,
    "decoder_layers": 12,
    "decoder_ffn_dim": 4096,
    "decoder_attention_heads": 16,
    "activation_function": "gelu",
    "d_model": 1024,
    "scale_embedding": False,
    "share_encoder_decoder_embeddings": True,
    "is_decoder": False,
    "tie_word_embeddings": True,
}
BART = {
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "static_position_embeddings": True,
}
"""Keys of the class that this one was made from; it knows no other values."""
SINUSOID = {"kind": "sinusoidal", "pairing": "half"}
HARMLESS = (
    "_num_labels",
    "add_bias_logits",
    "classif_dropout",
    "encoder_layerdrop",
    "decoder_layerdrop",
    "extra_pos_embeddings",
    "force_bos_token_to_be_generated",
    "num_hidden_layers",
)


def mapping(config: Config) -> Mapped:
    """Post-norm without final norms, everything biased, computed sinusoids.

    The bias of the logits is stored but not trained.
    """
    config = config.of_class(DEFAULTS)
    config.only_architectures("MarianMTModel", "MarianModel")
    for key, known in BART.items():
        config.only(key, known, default=known)
    config.only("is_decoder", False)
    config.ignore(*PLAIN, *HARMLESS)
    source = config.size("vocab_size")
    target = config.size("decoder_vocab_size", default=source)
    shared, tied = config.flag("share_encoder_decoder_embeddings"), config.flag("tie_word_embeddings")
    if shared and not tied:
        config.note("model.shared, a table as large as the token embedding, is read by no pass: not counted")
    own = None if shared and tied else source
    scale = "sqrt_d_model" if config.flag("scale_embedding") else None
    embedding = {"tied": tied, "scale": scale, "position": SINUSOID}
    return without_none(
        {
            "kind": "encoder_decoder",
            "vocab_size": source if shared else target,
            "d_model": config.size("d_model"),
            "max_seq_len": config.size("max_position_embeddings"),
            "norm": layernorm(1e-5),  # nn.LayerNorm's own eps: the file has no key for it
            "embedding": without_none(embedding),
            "encoder": without_none(
                {
                    "vocab_size": own,
                    "position": SINUSOID,
                    **_half(config, "encoder"),
                }
            ),
            "decoder": _half(config, "decoder"),
            "head": {"stored_bias": True},
        }
    )


def _half(config: Config, half: str) -> Mapped:
    """The encoder, or the decoder with cross attention."""
    heads = {"n_heads": config.size(f"{half}_attention_heads"), "bias": True}
    layer = {"kind": "post_norm", "attention": {"kind": "mha", **heads, "causal": half == "decoder"}}
    layer |= {"cross_attention": heads} if half == "decoder" else {}
    layer["ffn"] = mlp(config, config.size(f"{half}_ffn_dim"), "activation_function")
    return {"final_norm": False, "groups": [{"n_layers": config.size(f"{half}_layers"), "layer": layer}]}


def weights(config: Config) -> Weights:
    """Weight names; a shared and tied token table is stored up to three times."""
    config = config.of_class(DEFAULTS)
    shared, tied = config.flag("share_encoder_decoder_embeddings"), config.flag("tie_word_embeddings")
    table = Parts(("embedding.tokens.weight",), again=True)
    return {
        **ENCODER_DECODER,
        "[model.]shared.weight": table if tied else Auxiliary(UNREAD),
        "[model.]encoder.embed_tokens.weight": table if shared and tied else "source.weight",
        "[model.]decoder.embed_tokens.weight": table,
        "[model.]*.embed_positions.weight": Auxiliary("sinusoid: computed, not trained"),
        "lm_head.weight": "lm_head.weight",
        "final_logits_bias": Parts(("lm_head.bias",), flat=True),
    }
