"""Recurrent decoders: RWKV-4, xLSTM, RecurrentGemma."""

from __future__ import annotations

from dataclasses import replace
from struct import pack, unpack

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, ConfigValue, Family, Mapped, Parts, Weights
from archcli.load.huggingface.weights.hybrid import first_norms

FINAL_EPS = 1e-5
"""The eps of the last norm, which no key changes."""


def _rwkv(config: Config) -> Mapped:
    """Time and channel mixing in pre-norm layers, with a LayerNorm after the embeddings too."""
    # at inference it halves the stream of deep layers and the weights that write to it: the same network
    config.ignore("rescale_every")
    hidden = config.size("hidden_size")
    width = config.size("attention_hidden_size", default=hidden)
    d_ff: ConfigValue[int] = config.size("intermediate_size", default=hidden.derive(4 * hidden.value))
    norm = hf.layernorm(config.number("layer_norm_epsilon"))
    layer = {
        "kind": "pre_norm",
        "norm": norm,
        "mixer": hf.without_none({"kind": "rwkv4", "width": None if width == hidden else width}),
        "ffn": {"kind": "rwkv_channel_mix", "d_ff": d_ff},
    }
    return hf.decoder(config, hf.layernorm(FINAL_EPS), [layer] * config.layers(), embedding={"norm": norm})


RWKV_BLOCK = "[rwkv.]blocks.*"
RWKV_TIME = {"key": "k", "value": "v", "receptance": "r"}
RWKV_WEIGHTS: Weights = {
    "[rwkv.]embeddings.weight": "embedding.tokens.weight",
    "[rwkv.]blocks.0.pre_ln.*": "embedding.norm.*",
    f"{RWKV_BLOCK}.ln1.*": "layers.*.mixer_norm.*",
    f"{RWKV_BLOCK}.ln2.*": "layers.*.ffn_norm.*",
    f"{RWKV_BLOCK}.attention.time_decay": "layers.*.mixer.wkv.decay",
    f"{RWKV_BLOCK}.attention.time_first": "layers.*.mixer.wkv.first",
    f"{RWKV_BLOCK}.attention.output.weight": "layers.*.mixer.o_proj.weight",
    **{
        f"{RWKV_BLOCK}.{theirs}.{name}.weight": f"layers.*.{part}.{ours}_proj.weight"
        for theirs, part in (("attention", "mixer"), ("feed_forward", "ffn"))
        for name, ours in RWKV_TIME.items()
    },
    **{
        f"{RWKV_BLOCK}.{theirs}.time_mix_{name}": Parts((f"layers.*.{part}.{ours}_mix.weight",), flat=2)
        for theirs, part in (("attention", "mixer"), ("feed_forward", "ffn"))
        for name, ours in RWKV_TIME.items()
        if (part, ours) != ("ffn", "v")
    },
    "[rwkv.]ln_out.*": "final_norm.*",
    "head.weight": "lm_head.weight",
}


XLSTM_UNREAD = """
    norm_reduction_force_float32 chunkwise_kernel sequence_kernel step_kernel mode return_last_states
    autocast_kernel_dtype inference_state_dtype max_inference_chunksize add_out_norm
    tie_word_embeddings add_post_blocks_norm cell_norm_eps force_bos_token_insert forward_backend_name
    head_dim igate_bias_init_range mlstm_round_up_to_multiple_of
"""
"""Keys of how it is run, and keys that the class does not read: it ends in a norm and ties nothing."""


def _xlstm(config: Config) -> Mapped:
    """Pre-norm, mLSTM with a sigmoid output gate, SwiGLU; gates and logits are bounded by a softcap."""
    config = _with_hidden_size(config)
    config.ignore(*XLSTM_UNREAD.split())
    config.only("weight_mode", "single")  # of fused matrices the class cannot be made
    config.only("use_bias", False)  # it adds one to each RMSNorm
    eps, cap = hf.positive(config, "norm_eps"), hf.optional_number(config, "output_logit_soft_cap")
    ffn = {"kind": "glu", "activation": "silu", "d_ff": _xlstm_network(config)}
    layer = {"kind": "pre_norm", "mixer": _mlstm(config, eps), "ffn": ffn}
    head = None if cap is None else {"softcap": cap}
    untied = {"tied": False}
    norm = {"kind": "rmsnorm", "eps": eps}
    return hf.decoder(config, norm, [layer] * config.layers(), embedding=untied, head=head)


def _with_hidden_size(config: Config) -> Config:
    """The file with a hidden_size, which is embedding_dim where it is null."""
    width = config.optional_size("embedding_dim")
    if width is None:
        return config
    if config.stated_null("hidden_size"):
        return replace(config, data={**config.data, "hidden_size": width.value})
    hidden = config.size("hidden_size")
    if width.value != hidden.value:
        what = f"embedding_dim {width} and hidden_size {hidden} are one width"
        raise config.error(what, "make them equal", width.place)
    return config


def _mlstm(config: Config, eps: ConfigValue[float]) -> Mapped:
    """The mixer; a null gate_soft_cap leaves gates as they are."""
    cap = hf.optional_number(config, "gate_soft_cap")
    return {
        "kind": "mlstm",
        "n_heads": config.size("num_heads"),
        "key_head_dim": _xlstm_head_dim(config, "qk_dim_factor"),
        "value_head_dim": _xlstm_head_dim(config, "v_dim_factor"),
        "chunk": config.size("chunk_size"),
        "gate_softcap": cap,
        "eps": hf.positive(config, "eps"),
        "norm": {"kind": "layernorm", "eps": eps, "gate": "after", "activation": "sigmoid"},
    }


def _xlstm_head_dim(config: Config, key: str) -> ConfigValue[int]:
    """The width of a head of keys or values: a factor of the model's width, shared by the heads."""
    factor, heads = hf.positive(config, key), config.size("num_heads")
    width = int(config.size("hidden_size").value * factor.value)
    if not width or width % heads.value:
        what = f"{key} {factor} makes a width of {width}, which {heads} heads do not divide"
        raise config.error(what, "state a factor whose width they divide", factor.place)
    return factor.derive(width // heads.value)


def _xlstm_network(config: Config) -> ConfigValue[int]:
    """The network's width: a factor of the model's, rounded up to a multiple."""
    factor, multiple = (
        hf.positive(config, "ffn_proj_factor"),
        config.size("ffn_round_up_to_multiple_of").value,
    )
    width = config.size("hidden_size").value * factor.value
    return factor.derive(int((width + multiple - 1) // multiple * multiple))


XLSTM_LAYER = "[backbone.]blocks.*"
MIXER = f"{XLSTM_LAYER}.mlstm_layer"
XLSTM_OURS = {
    **{name: f"{name}_proj" for name in "qkv"},
    **{f"{name}gate_preact": f"{ours}_proj" for name, ours in (("o", "g"), ("i", "i"), ("f", "f"))},
    "multihead_norm": "norm",
    "out_proj": "o_proj",
}
XLSTM_WEIGHTS: Weights = {
    "[backbone.]embeddings.weight": "embedding.tokens.weight",
    f"{XLSTM_LAYER}.norm_mlstm.weight": "layers.*.mixer_norm.weight",
    **{f"{MIXER}.{theirs}.*": f"layers.*.mixer.{ours}.*" for theirs, ours in XLSTM_OURS.items()},
    f"{XLSTM_LAYER}.norm_ffn.weight": "layers.*.ffn_norm.weight",
    f"{XLSTM_LAYER}.ffn.proj_up_gate.weight": "layers.*.ffn.gate_proj.weight",
    f"{XLSTM_LAYER}.ffn.proj_up.weight": "layers.*.ffn.up_proj.weight",
    f"{XLSTM_LAYER}.ffn.proj_down.weight": "layers.*.ffn.down_proj.weight",
    "[backbone.]out_norm.weight": "final_norm.weight",
    "lm_head.weight": "lm_head.weight",
}


RECURRENT = "recurrent"


def _griffin(config: Config) -> Mapped:
    """Pre-norm, RMSNorm of weights stored minus one, GeGLU of half the stated width, RG-LRU and windows.

    Embeddings are scaled by sqrt(d_model) in bf16.
    """
    config.ignore("w_init_variance_scale", "final_w_init_variance_scale", "layer_types", "_block_types")
    config.ignore("attentions_pattern", "embeddings_scale_by_sqrt_dim")  # of older files
    blocks = {True: {"mixer": _rg_lru(config)}, False: {"attention": _griffin_attention(config)}}
    ffn = _griffin_network(config)
    layers = {kind: {"kind": "pre_norm", **block, "ffn": ffn} for kind, block in blocks.items()}
    width = config.size("hidden_size")
    return hf.decoder(
        config,
        hf.rmsnorm(config, offset=1),
        [layers[kind] for kind in _recurrent(config)],
        embedding={"scale": width.derive(_bfloat16(width.value**0.5))},
        head={"softcap": hf.positive(config, "logits_soft_cap")},
    )


def _recurrent(config: Config) -> list[bool]:
    """Whether each layer is recurrent: block_types are repeated as often as needed."""
    kinds = config.value("block_types")
    if not isinstance(kinds.value, list) or not kinds.value:
        what = f"block_types must be a list of kinds of layers, not {hf.short_repr(kinds.value)}"
        raise config.error(what, at=kinds.place)
    return [kinds.value[index % len(kinds.value)] == RECURRENT for index in range(config.layers())]


def _rg_lru(config: Config) -> Mapped:
    return {
        "kind": "rg_lru",
        "width": config.size("lru_width", default=config.size("hidden_size")),
        "n_blocks": config.size("num_attention_heads"),
        "conv_kernel": config.size("conv1d_width"),
        "activation": hf.activation(config, "hidden_activation"),
    }


def _griffin_attention(config: Config) -> Mapped:
    width = hf.head_dim(config)
    return hf.attention(
        config,
        width,
        bias=config.flag("attention_bias") or ["o"],
        position=hf.rope(config, width, partial=0.5),
        window=config.size("attention_window_size", "sliding_window"),
    )


def _griffin_network(config: Config) -> Mapped:
    width = config.size("intermediate_size")
    return {
        "kind": "glu",
        "d_ff": width.derive(width.value // 2),
        "activation": hf.activation(config, "hidden_activation"),
        "bias": True,
    }


def _bfloat16(number: float) -> float:
    """The number as bf16 holds it: the upper half of its 32 bits, rounded to the nearest, halves to even."""
    (bits,) = unpack("<I", pack("<f", number))
    rounded = bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000
    (nearest,) = unpack("<f", pack("<I", rounded))
    return float(nearest)


GRIFFIN_LAYER = "[model.]layers.*"
GRIFFIN_BLOCK = f"{GRIFFIN_LAYER}.temporal_block"
GRIFFIN_GATES = ("input_gate", "recurrent_gate")
GRIFFIN_SHARED: Weights = {
    **{name: hf.LLAMA[name] for name in ("[model.]embed_tokens.weight", "lm_head.*")},
    "[model.]final_norm.weight": "final_norm.weight",
    **{f"{GRIFFIN_BLOCK}.{name}_proj.*": f"layers.*.attention.{name}_proj.*" for name in "qkvo"},
    f"{GRIFFIN_BLOCK}.linear_x.*": "layers.*.mixer.in_proj.*",
    f"{GRIFFIN_BLOCK}.linear_y.*": "layers.*.mixer.gate_proj.*",
    f"{GRIFFIN_BLOCK}.linear_out.*": "layers.*.mixer.out_proj.*",
    f"{GRIFFIN_BLOCK}.conv_1d.*": "layers.*.mixer.conv.*",
    f"{GRIFFIN_BLOCK}.rg_lru.recurrent_param": "layers.*.mixer.decay.Lambda",
    **{
        f"{GRIFFIN_BLOCK}.rg_lru.{name}_weight": Parts((f"layers.*.mixer.{name}.weight",), transposed=True)
        for name in GRIFFIN_GATES
    },
    **{f"{GRIFFIN_BLOCK}.rg_lru.{name}_bias": f"layers.*.mixer.{name}.bias" for name in GRIFFIN_GATES},
    f"{GRIFFIN_LAYER}.channel_pre_norm.weight": "layers.*.ffn_norm.weight",
    **{
        f"{GRIFFIN_LAYER}.mlp_block.{name}_proj.*": f"layers.*.ffn.{name}_proj.*"
        for name in ("gate", "up", "down")
    },
}
"""Names for layers of both kinds; a layer has those of its kind."""


def _griffin_weights(config: Config) -> Weights:
    """Weight names; a layer's first norm is called by the key of its mixer."""
    keys = ["mixer" if is_recurrent else "attention" for is_recurrent in _recurrent(config)]
    return {**GRIFFIN_SHARED, **first_norms(f"{GRIFFIN_LAYER}.temporal_pre_norm.weight", keys)}


FAMILIES = {
    "rwkv": Family(
        "RWKV-4, recurrent time and channel mixing: RwkvConfig and RwkvForCausalLM.",
        _rwkv,
        RWKV_WEIGHTS,
        aliases={"max_position_embeddings": "context_length"},
    ),
    "xlstm": Family(
        "xLSTM-7B, layers of mLSTM and SwiGLU: xLSTMConfig and xLSTMForCausalLM.",
        _xlstm,
        XLSTM_WEIGHTS,
        aliases={"num_hidden_layers": "num_blocks"},
    ),
    "recurrent_gemma": Family(
        "Google's RecurrentGemma, Griffin: RecurrentGemmaConfig and RecurrentGemmaForCausalLM.",
        _griffin,
        _griffin_weights,
    ),
}
