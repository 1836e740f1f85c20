"""SeamlessM4T."""

from __future__ import annotations

from archcli.load.huggingface import Auxiliary, Config, Family, Mapped, Parts, Rule, Weights
from archcli.load.huggingface.whole.bart_like import SHARED, Wiring, bart_like, fairseq_sinusoid

WHOLE = ("SeamlessM4TModel", "SeamlessM4Tv2Model")
HEADED = ("SeamlessM4TForTextToText", "SeamlessM4Tv2ForTextToText", *WHOLE)

SPEECH = (
    "t2u_",
    "speech_",
    "vocoder_",
    "unit_",
    "upsample_",
    "resblock_",
    "adaptor_",
    "char_",
    "conv_",
    "num_",
)
"""Beginnings of the keys of speech encoder, unit decoder and vocoder."""
UNREAD = (
    "layer_norm_eps",  # of the speech encoder: the text halves have torch's own
    "add_adapter",
    "feature_projection_input_dim",
    "position_embeddings_type",
    "rotary_embedding_base",
    "max_source_positions",
    "sampling_rate",
    "leaky_relu_slope",
    "lang_embed_dim",
    "spkr_embed_dim",
    "variance_predictor_kernel_size",
    "var_pred_dropout",
    "variance_pred_dropout",
    "left_chunk_num",
    "right_max_position_embeddings",
    "left_max_position_embeddings",
)
UNCOUNTED = "of SeamlessM4T: it hears or speaks, and the text to text model has none of it"


def _seamless(config: Config) -> Mapped:
    """As M2M-100 with other names; speech encoder, unit decoder and vocoder are not counted."""
    config.only_architectures(*HEADED)
    if config.architecture in WHOLE:
        config.note(
            "its text to text model is counted: what hears (speech) and speaks (units, vocoder) is not"
        )
    config.ignore(*UNREAD, *(key for key in config.data if key.startswith(SPEECH)))
    position = fairseq_sinusoid(config, config.count("pad_token_id").value + 1)
    return bart_like(
        config, Wiring("pre_norm", position, final_norm=True, norm=False, stored_bias=False, main="decoder")
    )


PARTS = {"self_attn": "attention", "cross_attention": "cross_attention", "ffn": "ffn"}
PROJECTIONS = {**{f"{name}_proj": f"{name}_proj" for name in "qkv"}, "out_proj": "o_proj"}
NETWORK = {"fc1": "up_proj", "fc2": "down_proj"}


def _half_names(half: str) -> dict[str, Rule]:
    """Weight names of the layers of the encoder or the decoder."""
    theirs, ours = f"text_{half}.layers.*", f"{half}.layers.*"
    names: dict[str, Rule] = {f"text_{half}.layer_norm.*": f"{half}.final_norm.*"}
    for part, name in PARTS.items():
        names[f"{theirs}.{part}_layer_norm.*"] = f"{ours}.{name}_norm.*"
        for stored, projection in (NETWORK if part == "ffn" else PROJECTIONS).items():
            names[f"{theirs}.{part}.{stored}.*"] = f"{ours}.{name}.{projection}.*"
    return names


def _seamless_weights(config: Config) -> Weights:
    """Weight names of both halves; an untied head leaves a table that no pass reads."""
    tied = config.flag("tie_word_embeddings")
    table = Parts(("embedding.tokens.weight",), again=True)
    return {
        "shared.weight": table if tied else f"{SHARED}.weight",
        "text_encoder.embed_tokens.weight": table if tied else "source.weight",
        "text_decoder.embed_tokens.weight": table,
        "lm_head.weight": "lm_head.weight",
        **_half_names("encoder"),
        **_half_names("decoder"),
        **{f"{part}.**": Auxiliary(UNCOUNTED) for part in ("speech_encoder", "t2u_model", "vocoder")},
    }


FAMILIES = {
    **dict.fromkeys(
        ("seamless_m4t", "seamless_m4t_v2"),
        Family(
            "SeamlessM4T from text to text: SeamlessM4TConfig and SeamlessM4TForTextToText.",
            _seamless,
            _seamless_weights,
            defaults={"d_model": 1024, "max_position_embeddings": 1024},
            headed=HEADED,
        ),
    ),
}
