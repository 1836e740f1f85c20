"""Decoders with parts of their own: a tiny config each, of which the importer makes the architecture."""

from parity.family import EPS, HEAD_DIM, SIZES, Family, rope

BASE = {**SIZES, "rms_norm_eps": EPS, "rope_parameters": rope()}

FAMILIES = {
    "apertus": Family({**BASE, "model_type": "apertus", "attention_bias": True}),
    # a head without the codes of images and sounds
    "apertus1p5": Family(
        {**BASE, "model_type": "apertus1p5_text", "output_vocab_size": BASE["vocab_size"] - 3}
    ),
    "embeddinggemma": Family(
        {
            **BASE,
            "model_type": "gemma3_text",
            "architectures": ["Gemma3TextModel"],
            "use_bidirectional_attention": True,
            "head_dim": HEAD_DIM,
            "query_pre_attn_scalar": 20,
            "sliding_window": 6,
            "layer_types": ["sliding_attention", "full_attention"],
            "rope_parameters": {"sliding_attention": rope(50.0), "full_attention": rope()},
        },
        cls="Gemma3TextModel",
        answer="last_hidden_state",
    ),
    "diffllama": Family({**BASE, "model_type": "diffllama", "num_attention_heads": 4, "head_dim": 12}),
    "diffllama_gqa": Family(
        {**BASE, "model_type": "diffllama", "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 6}
    ),
    "bitnet": Family({**BASE, "model_type": "bitnet"}),
}
