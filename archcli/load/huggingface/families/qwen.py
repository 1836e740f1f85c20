"""Qwen 1 to 3, dense and with experts."""

from __future__ import annotations

from archcli.load import huggingface as hf
from archcli.load.huggingface import Auxiliary, Config, ConfigValue, Family, Mapped, Parts, Weights, window

QWEN_DEFAULTS = {
    "vocab_size": 151936,
    "hidden_size": 4096,
    "intermediate_size": 22016,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "kv_channels": 128,
    "layer_norm_epsilon": 1e-6,
    "max_position_embeddings": 8192,
    "rotary_pct": 1.0,
    "rotary_emb_base": 10000,
    "no_bias": True,
    "scale_attn_weights": True,
    "tie_word_embeddings": False,
}
QWEN_ALIASES = {
    "hidden_size": "n_embd",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "intermediate_size": "ffn_hidden_size",
    "max_position_embeddings": "n_positions",
}
"""Keys as the first files have them, of August 2023."""

BEYOND = ("use_dynamic_ntk", "use_logn_attn")
"""Keys that change positions and scales only beyond the context of training."""

QWEN_UNREAD = (
    *("use_flash_attn", "use_cache_quantization", "use_cache_kernel", "softmax_in_fp32", "onnx_safe"),
    *("bf16", "fp16", "fp32", "attn_dropout_prob", "emb_dropout_prob", "padded_vocab_size", "visual"),
    *("audio", "apply_residual_connection_post_layernorm", "pos_emb", "activation", "bias_gelu_fusion"),
)


def _qwen(config: Config) -> Mapped:
    """RMSNorm, MHA with biased queries, keys and values, and SwiGLU of half the stated width."""
    if config.get("visual", default=None):
        config.note("vision tower (visual) is not counted, nor what joins it to the language model")
    if config.get("audio", default=None):
        config.note("audio tower (audio) is not counted, nor what joins it to the language model")
    config.ignore(*BEYOND, *QWEN_UNREAD)
    config.only("scale_attn_weights", True)
    width, both = config.size("kv_channels"), config.size("intermediate_size")
    rotary = {
        "rope_theta": config.number("rotary_emb_base"),
        "partial_rotary_factor": config.number("rotary_pct"),
    }
    bias = not config.flag("no_bias")
    layer = {
        "kind": "pre_norm",
        "attention": hf.attention(
            config,
            width,
            bias=bias or ["q", "k", "v"],
            position=hf.position(config, width, rotary, partial=1.0),
        ),
        # intermediate_size of these files counts gate and up together
        "ffn": {"kind": "glu", "d_ff": both.derive(both.value // 2), "activation": "silu", "bias": bias},
    }
    norm = {"kind": "rmsnorm", "eps": config.number("layer_norm_epsilon")}
    longest = config.optional_size("seq_length", "max_position_embeddings")
    return hf.decoder(config, norm, [layer] * config.layers(), max_seq_len=longest)


QWEN_WEIGHTS: Weights = {
    "[transformer.]wte.weight": "embedding.tokens.weight",
    "[transformer.]h.*.ln_1.weight": "layers.*.attention_norm.weight",
    "[transformer.]h.*.attn.c_attn.*": Parts(hf.FUSED),
    "[transformer.]h.*.attn.c_proj.*": "layers.*.attention.o_proj.*",
    "[transformer.]h.*.ln_2.weight": "layers.*.ffn_norm.weight",
    # c_proj(w1(x) silu(w2(x))): w2 is the gate
    "[transformer.]h.*.mlp.w1.*": "layers.*.ffn.up_proj.*",
    "[transformer.]h.*.mlp.w2.*": "layers.*.ffn.gate_proj.*",
    "[transformer.]h.*.mlp.c_proj.*": "layers.*.ffn.down_proj.*",
    "[transformer.]ln_f.weight": "final_norm.weight",
    "lm_head.weight": "lm_head.weight",
}


DEFAULT_WINDOW = {"sliding_window": 4096}
"""The window of a file that states use_sliding_window and no window; to_dict of a default file says null."""

BIASED = ["q", "k", "v"]
"""The projections that the class biases, whatever the file says."""


def _qwen2(config: Config) -> Mapped:
    """As Llama with biased queries, keys and values.

    Where windows are used, layers from max_window_layers on have one.
    """
    config.ignore("attention_bias", "use_mrope")  # the class has these biases whatever the file says
    first, used = config.count("max_window_layers").value, config.flag("use_sliding_window")
    ffn, width = hf.gated(config), hf.head_dim(config)

    def layer(window: ConfigValue[int] | None) -> Mapped:
        return {
            "kind": "pre_norm",
            "attention": hf.attention(config, width, bias=BIASED, window=window),
            "ffn": ffn,
        }

    # from max_window_layers on, not up to it as the key's name says
    layers = hf.windows(config, layer, lambda index: index >= first, used=used)
    mtp = hf.multi_token_prediction(config, lambda: layers[-1], alike=True)
    return hf.decoder(config, hf.rmsnorm(config), layers, mtp=mtp)


def _qwen2_moe(config: Config) -> Mapped:
    """As Qwen 2, with routed experts and a shared one behind a sigmoid gate.

    Where windows are used, every other layer before max_window_layers has one.
    """
    last, used = config.count("max_window_layers").value, config.flag("use_sliding_window")
    bias = ["q", "k", "v"] if config.flag("qkv_bias") else False
    width = hf.head_dim(config)

    def layer(window: ConfigValue[int] | None) -> Mapped:
        return {"kind": "pre_norm", "attention": hf.attention(config, width, bias=bias, window=window)}

    layers = hf.windows(config, layer, lambda index: index % 2 == 0 and index < last, used=used)
    layers = hf.with_networks(
        layers,
        hf.every_step(config),
        lambda: hf.gated(config),
        lambda: hf.gated_experts(config, hf.normalized_by(config)),
    )
    return hf.decoder(config, hf.rmsnorm(config), layers)


QWEN2_MOE_WEIGHTS: Weights = {
    **hf.LLAMA,
    **hf.EXPERTS,
    **hf.SHARED,
    "[model.]layers.*.mlp.shared_expert_gate.weight": "layers.*.ffn.shared_gate.weight",
}


def _qwen3(config: Config) -> Mapped:
    """As Qwen 2 with normalized queries and keys, and all four projections biased or none."""
    config.ignore("use_qk_norm")  # the class has these norms whatever the file says
    first, used = config.count("max_window_layers").value, config.flag("use_sliding_window")
    ffn, width, bias = hf.gated(config), hf.head_dim(config), config.flag("attention_bias")

    def layer(window: ConfigValue[int] | None) -> Mapped:
        return {
            "kind": "pre_norm",
            "attention": hf.attention(config, width, bias=bias, qk_norm=hf.PER_HEAD, window=window),
            "ffn": ffn,
        }

    return hf.decoder(
        config, hf.rmsnorm(config), hf.windows(config, layer, lambda index: index >= first, used=used)
    )


def _qwen3_moe(config: Config) -> Mapped:
    """As Qwen 3, with routed experts; all layers have a window or none.

    Where head_dim is not stated, a head is hidden_size / heads wide.
    """
    config.ignore("use_qk_norm")  # the class has these norms whatever the file says
    config.ignore("max_window_layers")
    bias, width = config.flag("attention_bias"), hf.head_dim(config)
    slides = window(config) if config.flag("use_sliding_window") else None
    attend = hf.attention(config, width, bias=bias, qk_norm=hf.PER_HEAD, window=slides)
    layers = [{"kind": "pre_norm", "attention": attend}] * config.layers()
    layers = hf.with_networks(
        layers,
        hf.every_step(config),
        lambda: hf.gated(config),
        lambda: hf.experts(config, router=hf.normalized_by(config)),
    )
    return hf.decoder(config, hf.rmsnorm(config), layers)


FAMILIES = {
    "qwen": Family(
        "Qwen of 2023, whose class is in its repositories: QWenConfig.",
        _qwen,
        QWEN_WEIGHTS,
        aliases=QWEN_ALIASES,
        defaults=QWEN_DEFAULTS,
    ),
    **dict.fromkeys(
        ("qwen2", "mimo"),
        Family(
            "Qwen 1.5, 2 and 2.5, and MiMo-7B: Qwen2Config and Qwen2ForCausalLM.",
            _qwen2,
            {**hf.LLAMA, "model.mtp_layers.**": Auxiliary(hf.PREDICTION)},
            defaults=DEFAULT_WINDOW,
            defaults_of="qwen2",
        ),
    ),
    "qwen2_moe": Family(
        "Qwen 1.5 and 2 with experts: Qwen2MoeConfig and Qwen2MoeForCausalLM.",
        _qwen2_moe,
        QWEN2_MOE_WEIGHTS,
        defaults=DEFAULT_WINDOW,
    ),
    "qwen3": Family(
        "Qwen 3, dense: Qwen3Config and Qwen3ForCausalLM.",
        _qwen3,
        {**hf.LLAMA, **hf.QK_NORM},
        defaults=DEFAULT_WINDOW,
    ),
    "qwen3_moe": Family(
        "Qwen 3 with experts: Qwen3MoeConfig and Qwen3MoeForCausalLM.",
        _qwen3_moe,
        {**hf.LLAMA, **hf.EXPERTS, **hf.QK_NORM},
        aliases={"num_experts": "num_local_experts"},
        defaults=DEFAULT_WINDOW,
    ),
}
