"""Encoder-decoders: a tiny config each, of which the importer makes the architecture."""

from parity.family import D_FF, D_MODEL, EPS, HEADS, VOCAB, Family

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
QUIET_TABLES = {
    **QUIET,
    "model.*.layernorm_embedding.*": 1.0,  # the last norm
    "model.encoder.layers.*.self_attn.output.*": 0.3,
    "model.*.embed_positions.weight": 0.1,
    "model.*.embed_tokens.weight": 0.1,
    "model.shared.weight": 0.1,
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


T5 = {
    "vocab_size": VOCAB,
    "d_model": D_MODEL,
    "d_kv": 10,
    "d_ff": D_FF,
    "num_layers": 2,
    "num_decoder_layers": 3,
    "num_heads": HEADS,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 14,
    "layer_norm_epsilon": EPS,
    "feed_forward_proj": "gated-gelu",
}


def t5_kin(model_type, cls, **options):
    """A family of T5's kind."""
    return Family({**T5, "model_type": model_type, "architectures": [cls], **options}, cls=cls)


GEMMA = {
    "vocab_size": VOCAB,
    "hidden_size": D_MODEL,
    "intermediate_size": D_FF,
    "num_hidden_layers": 3,
    "num_attention_heads": HEADS,
    "num_key_value_heads": 2,
    "head_dim": 10,
    "query_pre_attn_scalar": 12,
    "sliding_window": 3,
    "rms_norm_eps": EPS,
    "attn_logit_softcapping": 2.0,
    "final_logit_softcapping": 3.0,
    "pad_token_id": -1,  # no token is padding, which the class would not see
}


def gemmas(encoder, **decoder):
    """T5Gemma of two halves."""
    return Family(
        {
            "model_type": "t5gemma",
            "architectures": ["T5GemmaForConditionalGeneration"],
            "pad_token_id": None,
            "vocab_size": VOCAB,
            "encoder": {**GEMMA, **encoder},
            "decoder": {**GEMMA, **decoder},
        },
        cls="T5GemmaForConditionalGeneration",
    )


GEMMA3 = {
    **{key: value for key, value in GEMMA.items() if not key.endswith("_softcapping")},
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
    "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 10.0},
        "full_attention": {"rope_type": "default", "rope_theta": 100.0},
    },
}
SEEING = {
    "model_type": "siglip_vision_model",
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 8,
    "patch_size": 4,
}


def merged(encoder, decoder, **options):
    """T5Gemma 2 of two halves, with eyes that see nothing."""
    return Family(
        {
            "model_type": "t5gemma2",
            "architectures": ["T5Gemma2ForConditionalGeneration"],
            "encoder": {
                "text_config": {**GEMMA3, **encoder},
                "vision_config": SEEING,
                "mm_tokens_per_image": 4,
            },
            "decoder": {**GEMMA3, **decoder},
            **options,
        },
        cls="T5Gemma2ForConditionalGeneration",
    )


OF_SOURCE = {
    "vocab_size": 47,
    "hidden_size": D_MODEL,
    "intermediate_size": 36,
    "num_hidden_layers": 2,
    "num_attention_heads": HEADS,
    "max_position_embeddings": 60,
    "layer_norm_eps": 0.02,
    "type_vocab_size": 3,
}
OF_TARGET = {
    **OF_SOURCE,
    "vocab_size": VOCAB,
    "intermediate_size": D_FF,
    "num_hidden_layers": 3,
    "max_position_embeddings": 64,
    "layer_norm_eps": EPS,
    "is_decoder": True,
    "add_cross_attention": True,
}


def pair(encoder, decoder):
    """An encoder and a decoder of BERT's kind."""
    config = {"model_type": "encoder-decoder", "architectures": ["EncoderDecoderModel"]}
    return Family({**config, "encoder": encoder, "decoder": decoder}, cls="EncoderDecoderModel")


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
    "bigbird-pegasus": halves(
        "bigbird_pegasus",
        "BigBirdPegasusForConditionalGeneration",
        QUIET_TABLES,
        use_bias=True,
        scale_embedding=False,
    ),
    "bigbird-pegasus-decoder": halves(
        "bigbird_pegasus", "BigBirdPegasusForCausalLM", QUIET_TABLES, scale_embedding=False
    ),
    "blenderbot": halves("blenderbot", "BlenderbotForConditionalGeneration"),
    "blenderbot-small": halves("blenderbot-small", "BlenderbotSmallForConditionalGeneration", QUIET_POST),
    "blenderbot-small-decoder": halves("blenderbot-small", "BlenderbotSmallForCausalLM"),
    "fsmt": halves(
        "fsmt",
        "FSMTForConditionalGeneration",
        {f"model.*.layers.*.{name}": 0.3 for name in (*WRITERS, *NORMS)},
        src_vocab_size=47,
        tgt_vocab_size=VOCAB,
        pad_token_id=9,
        scale_embedding=False,
    ),
    "mt5": t5_kin("mt5", "MT5ForConditionalGeneration"),
    "umt5": t5_kin("umt5", "UMT5ForConditionalGeneration"),
    "longt5": t5_kin("longt5", "LongT5ForConditionalGeneration", local_radius=4),
    "longt5-sums": t5_kin(
        "longt5",
        "LongT5ForConditionalGeneration",
        local_radius=4,
        encoder_attention_type="transient-global",
        global_block_size=4,
        feed_forward_proj="relu",
    ),
    "seamless": halves(
        "seamless_m4t",
        "SeamlessM4TForTextToText",
        {
            "text_encoder.layers.*.self_attn.out_proj.*": 0.3,
            "text_*.layers.*.ffn.fc2.*": 0.1,
            "text_decoder.layers.*.self_attn.out_proj.*": 0.1,
            "text_decoder.layers.*.cross_attention.out_proj.*": 0.3,
        },
        hidden_size=D_MODEL,
        scale_embedding=False,
        pad_token_id=2,
    ),
    "t5gemma": gemmas({}, num_hidden_layers=2),
    "t5gemma-unlike": gemmas(
        {"hidden_size": 24, "num_key_value_heads": 4, "vocab_size": 47, "rms_norm_eps": 0.02},
        sliding_window=5,
        attention_bias=True,
    ),
    "t5gemma2": merged({}, {}),
    "t5gemma2-unlike": merged(
        {"num_attention_heads": 8, "num_key_value_heads": 1, "intermediate_size": 36, "rms_norm_eps": 0.02},
        {
            "sliding_window": 5,
            "attention_bias": True,
            "num_key_value_heads": 1,
            "head_dim": 12,
            "final_logit_softcapping": 3.0,
        },
        tie_word_embeddings=False,
    ),
    "t5gemma2-even": merged(
        {"sliding_window": 4, "attention_bias": True},
        {"layer_types": ["full_attention"] * 3, "num_key_value_heads": 4},
    ),
    "umt5-encoder": Family(
        {**T5, "model_type": "umt5", "architectures": ["UMT5EncoderModel"]},
        cls="UMT5EncoderModel",
        answer="last_hidden_state",
    ),
    "switch": t5_kin(
        "switch_transformers",
        "SwitchTransformersForConditionalGeneration",
        num_layers=4,
        num_sparse_encoder_layers=2,
        num_sparse_decoder_layers=3,
        num_experts=4,
        router_bias=True,
        dense_act_fn="silu",
        tie_word_embeddings=False,
    ),
    # an id of padding that the witness's tokens lack: what it stands at has another position
    "m2m-100": halves("m2m_100", "M2M100ForConditionalGeneration", scale_embedding=False, pad_token_id=1),
    "led": halves(
        "led",
        "LEDForConditionalGeneration",
        {name.replace("model.", "led.", 1): factor for name, factor in QUIET_POST.items()},
        attention_window=[4, 6],
        max_encoder_position_embeddings=60,
        max_decoder_position_embeddings=64,
    ),
    "bert2bert": pair(
        {"model_type": "bert", **OF_SOURCE},
        {"model_type": "bert", **OF_TARGET},
    ),
    "roberta2bert": pair(
        {"model_type": "roberta", **OF_SOURCE, "hidden_size": 24, "pad_token_id": 3},
        {"model_type": "bert", **OF_TARGET, "tie_word_embeddings": False},
    ),
    "bertgen2bertgen": pair(
        {"model_type": "bert-generation", **OF_SOURCE},
        {"model_type": "bert-generation", **OF_TARGET},
    ),
    "bert2roberta": pair(
        {"model_type": "bert", **OF_SOURCE},
        {"model_type": "roberta", **OF_TARGET, "pad_token_id": VOCAB - 1, "max_position_embeddings": 90},
    ),
}
