"""Encoder-decoders: a tiny config each, of which the importer makes the architecture."""

from parity.family import D_FF, D_MODEL, HEADS, VOCAB, Family

HALVES = {
    "vocab_size": VOCAB,
    "d_model": D_MODEL,
    "encoder_layers": 2,
    "encoder_attention_heads": HEADS,
    "encoder_ffn_dim": D_FF,
    "decoder_layers": 3,
    "decoder_attention_heads": 2,
    "decoder_ffn_dim": 36,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "activation_function": "swish",
}
# eps is 1e-5 whatever the config says; a stream this quiet feels it
WRITERS = ("self_attn.out_proj.*", "fc2.*")
NORMS = ("self_attn_layer_norm.*", "encoder_attn_layer_norm.*", "final_layer_norm.*")
QUIET = {
    **{f"model.encoder.layers.*.{name}": 0.3 for name in WRITERS},
    **{f"model.decoder.layers.*.{name}": 0.1 for name in WRITERS},
    "model.decoder.layers.*.encoder_attn.out_proj.*": 0.3,
    "model.*.layernorm_embedding.*": 0.2,
}
QUIET_POST = {
    "model.decoder.layers.2.final_layer_norm.*": 4.0,  # logits by a quiet table
    **{f"model.*.layers.*.{name}": 0.3 for name in (*WRITERS, *NORMS)},
    "model.decoder.layers.*.encoder_attn.v_proj.weight": 2.0,
    "model.*.embed_positions.weight": 0.2,
    "model.shared.weight": 0.2,
    "model.encoder.embed_tokens.weight": 0.02,
    "model.decoder.embed_tokens.weight": 0.01,
}


def halves(model_type, cls, quiet=QUIET, **options):
    """A family of BART's kind; the decoder alone where the class is one."""
    config = {**HALVES, "model_type": model_type, "architectures": [cls], **options}
    return Family(config, cls=cls, quiet=quiet)


FAMILIES: dict[str, Family] = {
    "bart": halves("bart", "BartForConditionalGeneration", QUIET_POST),
    "bart-untied": halves(
        "bart", "BartForConditionalGeneration", QUIET_POST, tie_word_embeddings=False, scale_embedding=True
    ),
    "bart-decoder": halves("bart", "BartForCausalLM"),
    "plbart": halves("plbart", "PLBartForConditionalGeneration", QUIET_POST, scale_embedding=False),
    "mvp": halves("mvp", "MvpForConditionalGeneration", QUIET_POST),
    "mbart": halves("mbart", "MBartForConditionalGeneration"),
    "mbart-decoder": halves("mbart", "MBartForCausalLM"),
    "pegasus": halves("pegasus", "PegasusForConditionalGeneration"),
    "pegasus-decoder": halves("pegasus", "PegasusForCausalLM"),
    "blenderbot": halves("blenderbot", "BlenderbotForConditionalGeneration"),
    "blenderbot-small": halves("blenderbot-small", "BlenderbotSmallForConditionalGeneration", QUIET_POST),
    "blenderbot-small-decoder": halves("blenderbot-small", "BlenderbotSmallForCausalLM"),
    # an id of padding that the witness's tokens lack: what it stands at has another position
    "m2m-100": halves("m2m_100", "M2M100ForConditionalGeneration", scale_embedding=False, pad_token_id=1),
}
