"""Llama (pre-norm, RMSNorm, GQA with RoPE, SwiGLU), and decoders that differ in a part of it."""

from __future__ import annotations

from math import exp

from archcli.load import huggingface as hf
from archcli.load.huggingface import Auxiliary, Config, ConfigValue, Family, Mapped, Weights
from archcli.load.huggingface.whole.llama_like import like_llama, llama_like, ungated


def _iquestcoder(config: Config) -> Mapped:
    """As Llama, without what its class has keys for and no published model uses."""
    config.only("clip_qkv", None, default=None)
    config.only("use_sliding_window", None, False, default=None)
    return llama_like(config)


def _layernorm(config: Config) -> Mapped:
    return hf.layernorm(config.number("layer_norm_eps"))


def _seed_oss_heads(config: Config) -> Mapped:
    """The bias of the output projection is a key of its own."""
    inner, outer = config.flag("attention_bias"), config.flag("attention_out_bias")
    return {
        "bias": [name for name, biased in zip("qkvo", (inner, inner, inner, outer), strict=True) if biased]
    }


def _helium_heads(config: Config) -> Mapped:
    """Interleaved RoPE; the output projection is square and never biased."""
    bias = ["q", "k", "v"] if config.flag("attention_bias") else False
    return {"bias": bias, "position": hf.rope(config, hf.square_heads(config), pairing="interleaved")}


COSMOS3_WEIGHTS = {
    **hf.LLAMA,
    "[model.]layers.*.mlp.fc1.*": "layers.*.ffn.up_proj.*",
    "[model.]layers.*.mlp.fc2.*": "layers.*.ffn.down_proj.*",
    **{
        f"layers.*.self_attn.to_{stored}.*": f"layers.*.attention.{name}_proj.*"
        for stored, name in {"q": "q", "k": "k", "v": "v", "out": "o"}.items()
    },
}


CWM_PERIOD = 4
"""Of four layers the first has no window, where `layer_types` says nothing."""


def _cwm(config: Config) -> Mapped:
    """As Llama, with windows in three of four layers and no bias in attention."""
    hf.check_window(config)
    config.ignore("attention_bias")  # the class has none whatever the file says
    return llama_like(config, slides=lambda index: index % CWM_PERIOD != 0)


APERTUS_FIXED = Auxiliary("a constant of the activation function")
APERTUS_WEIGHTS = {
    **hf.LLAMA,
    **hf.QK_NORM,
    "[model.]layers.*.attention_layernorm.weight": "layers.*.attention_norm.weight",
    "[model.]layers.*.feedforward_layernorm.weight": "layers.*.ffn_norm.weight",
    "[model.]layers.*.mlp.act_fn.alpha_p": "layers.*.ffn.activation.alpha_p",
    "[model.]layers.*.mlp.act_fn.alpha_n": "layers.*.ffn.activation.alpha_n",
    "[model.]layers.*.mlp.act_fn.beta": APERTUS_FIXED,
    "[model.]layers.*.mlp.act_fn.eps": APERTUS_FIXED,
}


def _apertus(config: Config) -> Mapped:
    """As Llama with normalized queries and keys, and an ungated network of xIELU."""
    config.ignore("qk_norm", "post_norm", "mlp_bias")  # as the class is, whatever the file says
    return llama_like(config, heads={"qk_norm": hf.PER_HEAD}, ffn=ungated(config))


def _apertus1p5(config: Config) -> Mapped:
    """As Apertus. `output_vocab_size` is the rows of a head without the codes of images and sounds."""
    mapping, rows = _apertus(config), config.optional_size("output_vocab_size")
    table = config.size("vocab_size")
    if rows is None or rows.value == table.value:
        return mapping
    if rows.value > table.value:
        what = f"output_vocab_size {rows} is beyond the vocab_size of {table}"
        raise config.error(what, at=config.place("output_vocab_size"))
    beyond = table.derive(table.value - rows.value)
    embedding = {**mapping["embedding"], "extra_rows": beyond}
    return {**mapping, "vocab_size": rows, "embedding": embedding}


BITNET_WEIGHTS = {
    **hf.LLAMA,
    "[model.]layers.*.self_attn.attn_sub_norm.weight": "layers.*.attention.inner_norm.weight",
    "[model.]layers.*.mlp.ffn_sub_norm.weight": "layers.*.ffn.inner_norm.weight",
}


def _bitnet(config: Config) -> Mapped:
    """As Llama, with a norm before the output projection and before the down projection."""
    hf.square_heads(config)
    norm = hf.rmsnorm(config)
    return llama_like(config, heads={"inner_norm": norm}, ffn={**hf.gated(config), "inner_norm": norm})


NANOCHAT_WEIGHTS = {
    **hf.LLAMA,
    "[model.]layers.*.mlp.fc1.weight": "layers.*.ffn.up_proj.weight",
    "[model.]layers.*.mlp.fc2.weight": "layers.*.ffn.down_proj.weight",
}


def _nanochat(config: Config) -> Mapped:
    """Norms without weights, one after the embeddings too; RoPE clockwise, then normalized heads."""
    norm, cap = hf.rmsnorm(config) | {"weight": False}, hf.optional_number(config, "final_logit_softcapping")
    place = hf.rope(config, hf.head_dim(config))
    if place.value["kind"] == "rope":
        place = place.derive({**place.value, "clockwise": True})
    return llama_like(
        config,
        heads={"position": place, "qk_norm": {"per": "head", "when": "after_rope"}},
        ffn=ungated(config),
        norm=norm,
        embedding={"norm": norm},
        head=None if cap is None else {"softcap": cap},
    )


def _smollm3(config: Config) -> Mapped:
    """As Llama, without position in every fourth layer; no_rope_layers is 1 where there is RoPE."""
    config.ignore("rope_parameters", "rope_scaling", "sliding_window")  # where no layer has a use for them
    config.ignore("max_window_layers")
    count, interval = config.layers(), config.size("no_rope_layer_interval").value
    rotated = config.per_layer("no_rope_layers", count) or [(i + 1) % interval != 0 for i in range(count)]
    width = hf.window(config) if config.flag("use_sliding_window") else None
    types = hf.layer_types(config, [hf.SLIDING if width and not rotates else hf.FULL for rotates in rotated])
    if width is None and hf.SLIDING in types:
        what = f"layer_types names {hf.SLIDING}, but there is no window"
        raise config.error(what, "state use_sliding_window and sliding_window", config.place("layer_types"))
    kinds = [(bool(rotates), kind == hf.SLIDING) for rotates, kind in zip(rotated, types, strict=True)]
    layers = {
        (rotates, slides): _smollm3_layer(config, rotates=rotates, width=width if slides else None)
        for rotates, slides in dict.fromkeys(kinds)
    }
    return hf.decoder(config, hf.rmsnorm(config), [layers[kind] for kind in kinds])


def _smollm3_layer(config: Config, *, rotates: bool, width: ConfigValue[int] | None) -> Mapped:
    """One layer, with RoPE or without any position."""
    bias, place = config.flag("attention_bias"), None if rotates else {"kind": "none"}
    attend = hf.attention(config, hf.head_dim(config), bias=bias, position=place, window=width)
    return {"kind": "pre_norm", "attention": attend, "ffn": hf.gated(config, bias=config.flag("mlp_bias"))}


DIFFLLAMA_WEIGHTS = {
    **hf.LLAMA,
    **{
        f"[model.]layers.*.self_attn.lambda_{name}": f"layers.*.attention.difference.lambda_{name}"
        for name in ("q1", "k1", "q2", "k2")
    },
}


def _diffllama(config: Config) -> Mapped:
    """As Llama with differential attention, whose lambda starts higher from layer to layer."""
    norm = hf.rmsnorm(config) | {"weight": False}
    heads = {"kind": "differential", "n_kv_heads": hf.key_value_heads(config), "norm": norm}
    return llama_like(config, heads=heads, ffn=hf.gated(config), networks=_with_lambda_init)


def _with_lambda_init(layers: list[Mapped]) -> list[Mapped]:
    """The layers with the initial value of lambda: 0.8 - 0.6 exp(-0.3 index)."""
    starts = [0.8 - 0.6 * exp(-0.3 * index) for index in range(len(layers))]
    return [
        {**layer, "attention": {**layer["attention"], "lambda_init": start}}
        for layer, start in zip(layers, starts, strict=True)
    ]


DOGE_WEIGHTS: Weights = {
    **hf.LLAMA,
    **hf.QK_NORM,
    "[model.]layers.*.self_attn.dt_proj.*": "layers.*.attention.value_gate.dt_proj.*",
    "[model.]layers.*.self_attn.A": "layers.*.attention.value_gate.rate.scale",
    "[model.]layers.*.input_residual": "layers.*.attention_stream_scale.scale",
    "[model.]layers.*.post_attention_residual": "layers.*.ffn_stream_scale.scale",
}


def _doge(config: Config) -> Mapped:
    """As Qwen 3 with keep_window_size chosen keys, and a trained scale on each residual stream.

    is_moe true is refused: its class chooses experts by scores that mix the tokens of a pass.
    """
    config.only("is_moe", False)
    config.only("sliding_window", None, default=None)
    config.ignore("hidden_dropout", "num_experts", "num_experts_per_tok", "norm_topk_prob")
    bias = config.flag("attention_bias")
    gate = hf.without_none({"top_k": config.size("keep_window_size"), "bias": bias or None})
    heads = {"bias": bias, "qk_norm": hf.PER_HEAD, "value_gate": gate}
    return llama_like(config, heads=heads, block={"stream_scale": True})


FAMILIES = {
    "llama": like_llama(
        "Llama and models of its class (SmolLM 1 and 2, Yi, Vicuna): LlamaConfig and LlamaForCausalLM."
    ),
    "arcee": like_llama(
        "Arcee's foundation models (AFM-4.5B): ArceeConfig and ArceeForCausalLM.", ffn=ungated
    ),
    "iquestcoder": Family("IQuest-Coder: IQuestCoderConfig and LlamaForCausalLM.", _iquestcoder, hf.LLAMA),
    # positions have three axes, which are equal for text
    "cosmos3_edge_text": like_llama(
        "Cosmos 3 Edge's text part: Cosmos3EdgeTextConfig and Cosmos3EdgeForConditionalGeneration.",
        COSMOS3_WEIGHTS,
        ffn=ungated,
    ),
    "jais2": like_llama("Jais 2: Jais2Config and Jais2ForCausalLM.", ffn=ungated, norm=_layernorm),
    "seed_oss": like_llama(
        "Seed-OSS: SeedOssConfig and SeedOssForCausalLM.",
        ignored=("residual_dropout",),
        heads=_seed_oss_heads,
    ),
    "helium": like_llama("Helium of Kyutai: HeliumConfig and HeliumForCausalLM.", heads=_helium_heads),
    "cwm": Family("Code World Model of Meta: CwmConfig and CwmForCausalLM.", _cwm, hf.LLAMA),
    "apertus": Family("Apertus: ApertusConfig and ApertusForCausalLM.", _apertus, APERTUS_WEIGHTS),
    "apertus1p5_text": Family(
        "Apertus 1.5's text part: Apertus1p5TextConfig and Apertus1p5TextForCausalLM.",
        _apertus1p5,
        APERTUS_WEIGHTS,
    ),
    "bitnet": Family("BitNet b1.58: BitNetConfig and BitNetForCausalLM.", _bitnet, BITNET_WEIGHTS),
    "nanochat": Family("nanochat: NanoChatConfig and NanoChatForCausalLM.", _nanochat, NANOCHAT_WEIGHTS),
    "smollm3": Family("SmolLM 3: SmolLM3Config and SmolLM3ForCausalLM.", _smollm3, hf.LLAMA),
    "diffllama": Family(
        "DiffLlama: DiffLlamaConfig and DiffLlamaForCausalLM.", _diffllama, DIFFLLAMA_WEIGHTS
    ),
    "doge": Family(
        "Doge, whose keys are chosen by gates on their values: DogeConfig and DogeForCausalLM.",
        _doge,
        DOGE_WEIGHTS,
    ),
}
