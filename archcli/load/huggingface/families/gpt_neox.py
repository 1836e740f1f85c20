"""EleutherAI's decoders and their kin: GPT-Neo, GPT-J, CodeGen, GPT-NeoX, StableLM, Persimmon."""

from __future__ import annotations

from typing import Any

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Family, Mapped, Parts, Weights, attention
from archcli.load.huggingface.whole.gpt_like import GPT_ALIASES, SUMMARY, inner_width

# an entry of attention_types is a pattern of kinds and how often it comes
GPT_NEO_KINDS, PAIR = ("global", "local"), 2
GPT_NEO_DROPPED = ("attention_dropout", "embed_dropout", "resid_dropout")


def _gpt_neo(config: Config) -> Mapped:
    """As GPT-2 with unscaled scores, a bias in attention's output projection alone, and local layers."""
    config.ignore("gradient_checkpointing", *GPT_NEO_DROPPED, *SUMMARY)
    ffn = hf.mlp(config, inner_width(config, "intermediate_size"), "activation_function")
    # GPT-Neo does not divide scores by sqrt(head_dim): Mesh TensorFlow put it into the initial weights
    attend = {"kind": "mha", "n_heads": config.size("num_attention_heads"), "bias": ["o"], "scale": 1.0}
    kinds = _gpt_neo_kinds(config)
    window = {"window": config.size("window_size")} if "local" in kinds else {}
    layers = {
        kind: {"kind": "pre_norm", "attention": {**attend, **more}, "ffn": ffn}
        for kind, more in (("global", {}), ("local", window))
    }
    norm = hf.layernorm(config.number("layer_norm_epsilon"))
    embedding = {"position": {"kind": "learned"}}
    return hf.decoder(config, norm, [layers[kind] for kind in kinds], embedding=embedding)


def _gpt_neo_kinds(config: Config) -> list[str]:
    """`global` or `local` of each layer: `attention_layers`, else attention_types written out."""
    key = "attention_layers" if config.get("attention_layers", default=None) else "attention_types"
    entry, count = config.value(key), config.layers()
    kinds = entry.value if key == "attention_layers" else _repeated(entry.value, count)
    if not isinstance(kinds, list) or any(kind not in GPT_NEO_KINDS for kind in kinds):
        what = f"{key} {hf.short_repr(entry.value)} is not understood"
        raise config.error(what, 'write attention_types: [[["global", "local"], 12]]', entry.place)
    if len(kinds) != count:
        number = len(kinds) if len(kinds) < count else "more"
        raise config.error(f"{key} names {number} layers, not {count}", at=entry.place)
    return kinds


def _repeated(types: Any, most: int) -> list[Any] | None:
    """[[["global", "local"], 12]] written out as 24 kinds; None for other forms.

    Far more than `most` kinds are not made.
    """
    kinds: list[Any] = []
    for entry in types if isinstance(types, list) else [None]:
        pattern, times = entry if isinstance(entry, list) and len(entry) == PAIR else (None, 0)
        if not isinstance(pattern, list) or type(times) is not int:
            return None
        kinds += pattern * min(times, most + 1)
    return kinds


GPT_NEO_WEIGHTS: Weights = hf.renamed(
    hf.GPT2,
    {
        **{
            f"[transformer.]h.*.attn.attention.{name}_proj.*": f"layers.*.attention.{ours}_proj.*"
            for name, ours in (("q", "q"), ("k", "k"), ("v", "v"), ("out", "o"))
        },
        "[transformer.]h.*.mlp.c_fc.*": "layers.*.ffn.up_proj.*",
        "[transformer.]h.*.mlp.c_proj.*": "layers.*.ffn.down_proj.*",
    },
)


# the order is q, v, k (CodeGenAttention of transformers), unlike in any other fused matrix
GPTJ_FUSED = tuple(f"layers.*.attention.{which}_proj.*" for which in "qvk")
SHARDS = 4
"""CodeGen's fused matrix holds queries, values and keys anew for each of the four devices that trained it."""


def _gptj(config: Config) -> Mapped:
    """Parallel with one norm, MHA without bias, interleaved RoPE, biased feed-forward network and head."""
    config.only("rotary", True, default=True)
    config.only("scale_attn_weights", True, default=True)
    config.ignore("gradient_checkpointing", *SUMMARY)
    heads = config.size("num_attention_heads")
    if config.get("model_type", default="") == "codegen" and heads.value % SHARDS:
        raise config.error(
            f"n_head {heads} is no multiple of {SHARDS}", "its class has no other", heads.place
        )
    config.restated(head_dim=config.size("hidden_size").value // heads.value)
    position = {"kind": "rope", "rotary_dim": config.size("rotary_dim"), "pairing": "interleaved"}
    layer = {
        "kind": "parallel",
        "attention": {"kind": "mha", "n_heads": heads, "position": position},
        "ffn": hf.mlp(config, inner_width(config), "activation_function"),
    }
    norm = hf.layernorm(config.number("layer_norm_epsilon"))
    return hf.decoder(config, norm, [layer] * config.layers(), head={"bias": True})


GPTJ_WEIGHTS: Weights = {
    "[transformer.]wte.weight": "embedding.tokens.weight",
    "[transformer.]h.*.ln_1.*": "layers.*.attention_norm.*",
    "[transformer.]h.*.attn.q_proj.*": "layers.*.attention.q_proj.*",
    "[transformer.]h.*.attn.k_proj.*": "layers.*.attention.k_proj.*",
    "[transformer.]h.*.attn.v_proj.*": "layers.*.attention.v_proj.*",
    "[transformer.]h.*.attn.out_proj.*": "layers.*.attention.o_proj.*",
    "[transformer.]h.*.mlp.fc_in.*": "layers.*.ffn.up_proj.*",
    "[transformer.]h.*.mlp.fc_out.*": "layers.*.ffn.down_proj.*",
    "[transformer.]ln_f.*": "final_norm.*",
    "lm_head.*": "lm_head.*",
}


def _gptj_weights(config: Config) -> Weights:
    """Weight names; CodeGen's queries, keys and values are one matrix."""
    if config.get("model_type", default="") != "codegen":
        return GPTJ_WEIGHTS
    return hf.renamed(GPTJ_WEIGHTS, {"[transformer.]h.*.attn.qkv_proj.*": Parts(GPTJ_FUSED, groups=SHARDS)})


def _gpt_neox(config: Config) -> Mapped:
    """Parallel with two norms, or serial; RoPE on a quarter of each head."""
    heads, position = config.size("num_attention_heads"), hf.rope(config, hf.even_split(config), partial=0.25)
    bias = config.flag("attention_bias")
    parallel = config.flag("use_parallel_residual")
    layer = {
        **({"kind": "parallel", "n_norms": 2} if parallel else {"kind": "pre_norm"}),
        "attention": {"kind": "mha", "n_heads": heads, "bias": bias, "position": position},
        "ffn": hf.mlp(config, config.size("intermediate_size"), "hidden_act"),
    }
    return hf.decoder(config, hf.layernorm(config.number("layer_norm_eps")), [layer] * config.layers())


def _gpt_neox_weights(config: Config) -> Weights:
    """Weight names; a fused matrix holds queries, keys and values head by head.

    The output head is `embed_out` in files and `lm_head` in transformers 5.
    """
    heads = config.size("num_attention_heads").value
    return {
        "[gpt_neox.]embed_in.weight": "embedding.tokens.weight",
        "[gpt_neox.]layers.*.input_layernorm.*": "layers.*.attention_norm.*",
        "[gpt_neox.]layers.*.post_attention_layernorm.*": "layers.*.ffn_norm.*",
        "[gpt_neox.]layers.*.attention.query_key_value.*": Parts(hf.FUSED, groups=heads),
        "[gpt_neox.]layers.*.attention.dense.*": "layers.*.attention.o_proj.*",
        "[gpt_neox.]layers.*.mlp.dense_h_to_4h.*": "layers.*.ffn.up_proj.*",
        "[gpt_neox.]layers.*.mlp.dense_4h_to_h.*": "layers.*.ffn.down_proj.*",
        "[gpt_neox.]final_layer_norm.*": "final_norm.*",
        "lm_head.weight": "lm_head.weight",
        "embed_out.weight": "lm_head.weight",
    }


def _japanese(config: Config) -> Mapped:
    """Pre-norm, LayerNorm, MHA with RoPE and a plain network; only the last layer's attention has a bias."""
    width, times = config.size("hidden_size"), config.size("intermediate_multiple_size")
    heads, position = config.size("num_attention_heads"), hf.rope(config, hf.even_split(config), partial=1.0)
    attend = {"kind": "mha", "n_heads": heads, "position": position}
    ffn = hf.mlp(config, times.derive(times.value * width.value), "hidden_act", bias=False)
    layer = {"kind": "pre_norm", "attention": attend, "ffn": ffn}
    last = {**layer, "attention": {**attend, "bias": ["o"]}}
    layers = [layer] * (config.layers() - 1) + [last]
    return hf.decoder(config, hf.layernorm(config.number("layer_norm_eps")), layers)


def _japanese_weights(config: Config) -> Weights:
    """Weight names; a fused matrix holds queries, keys and values head by head."""
    heads = config.size("num_attention_heads").value
    base = "[gpt_neox_japanese.]"
    return {
        f"{base}embed_in.weight": "embedding.tokens.weight",
        f"{base}layers.*.input_layernorm.*": "layers.*.attention_norm.*",
        f"{base}layers.*.post_attention_layernorm.*": "layers.*.ffn_norm.*",
        f"{base}layers.*.attention.query_key_value.*": Parts(hf.FUSED, groups=heads),
        f"{base}layers.*.attention.dense.*": "layers.*.attention.o_proj.*",
        f"{base}layers.*.attention.dense_bias": "layers.*.attention.o_proj.bias",
        f"{base}layers.*.mlp.dense_h_to_4h.*": "layers.*.ffn.up_proj.*",
        f"{base}layers.*.mlp.dense_4h_to_h.*": "layers.*.ffn.down_proj.*",
        f"{base}final_layer_norm.*": "final_norm.*",
        "embed_out.weight": "lm_head.weight",
    }


STABLELM = "StableLM 3B and StableLM 2: StableLmConfig and StableLmForCausalLM."


def _stablelm(config: Config) -> Mapped:
    """LayerNorm, RoPE on a quarter of each head, SwiGLU.

    The 12B is parallel with one norm, and normalizes queries and keys head by head. The first files call it
    stablelm_epoch, by the keys of its configuration_stablelm_epoch.py.
    """
    eps, width = config.number("layer_norm_eps"), hf.even_split(config)
    bias = ["q", "k", "v"] if config.flag("use_qkv_bias") else False
    qk_norm = (
        {"per": "head_distinct", "norm": hf.layernorm(eps, bias=False)}
        if config.flag("qk_layernorm")
        else None
    )
    layer = {
        "kind": "parallel" if config.flag("use_parallel_residual") else "pre_norm",
        "attention": attention(
            config, width, bias=bias, position=hf.rope(config, width, partial=0.25), qk_norm=qk_norm
        ),
        "ffn": hf.gated(config),
    }
    return hf.decoder(config, hf.layernorm(eps), [layer] * config.layers())


STABLELM_WEIGHTS: Weights = {
    **hf.LLAMA,
    # a LayerNorm for each head, `#` of them, are one gain [H, d] of archcli's
    "[model.]layers.*.self_attn.q_layernorm.norms.#.weight": "layers.*.attention.q_norm.weight",
    "[model.]layers.*.self_attn.k_layernorm.norms.#.weight": "layers.*.attention.k_norm.weight",
}


def _persimmon(config: Config) -> Mapped:
    """Pre-norm, LayerNorm, normalized queries and keys, RoPE on half of each head, biases everywhere."""
    config.ignore("num_key_value_heads")
    heads = config.size("num_attention_heads")
    attention = {
        **hf.head_counts(heads, heads),
        "bias": True,
        "position": hf.rope(config, hf.even_split(config), partial=0.5),
        "qk_norm": hf.PER_HEAD if config.flag("qk_layernorm") else None,
    }
    ffn = hf.mlp(config, config.size("intermediate_size"), "hidden_act")
    layer = {"kind": "pre_norm", "attention": hf.without_none(attention), "ffn": ffn}
    return hf.decoder(config, hf.layernorm(config.number("layer_norm_eps")), [layer] * config.layers())


def _persimmon_weights(config: Config) -> Weights:
    """Weight names; queries, keys and values lie together head by head."""
    heads = config.size("num_attention_heads").value
    return hf.renamed(
        hf.LLAMA,
        {
            "[model.]layers.*.self_attn.query_key_value.*": Parts(hf.FUSED, groups=heads),
            "[model.]layers.*.self_attn.q_layernorm.*": "layers.*.attention.q_norm.*",
            "[model.]layers.*.self_attn.k_layernorm.*": "layers.*.attention.k_norm.*",
            "[model.]layers.*.self_attn.dense.*": "layers.*.attention.o_proj.*",
            "[model.]layers.*.mlp.dense_h_to_4h.*": "layers.*.ffn.up_proj.*",
            "[model.]layers.*.mlp.dense_4h_to_h.*": "layers.*.ffn.down_proj.*",
            "[model.]final_layernorm.*": "final_norm.*",
        },
    )


FAMILIES = {
    "gpt_neo": Family(
        "GPT-Neo: GPTNeoConfig and GPTNeoForCausalLM.",
        _gpt_neo,
        GPT_NEO_WEIGHTS,
        aliases={"num_attention_heads": "num_heads", "num_hidden_layers": "num_layers"},
    ),
    **dict.fromkeys(
        ("gptj", "codegen"),
        Family(
            "GPT-J and CodeGen: GPTJConfig, CodeGenConfig and their ForCausalLM.",
            _gptj,
            _gptj_weights,
            aliases=GPT_ALIASES,
        ),
    ),
    "gpt_neox": Family(
        "GPT-NeoX and Pythia: GPTNeoXConfig and GPTNeoXForCausalLM.",
        _gpt_neox,
        _gpt_neox_weights,
        aliases={"rope_theta": "rotary_emb_base", "partial_rotary_factor": "rotary_pct"},
    ),
    "gpt_neox_japanese": Family(
        "GPT-NeoX Japanese: GPTNeoXJapaneseConfig and GPTNeoXJapaneseForCausalLM.",
        _japanese,
        _japanese_weights,
        aliases={"rope_theta": "rotary_emb_base", "partial_rotary_factor": "rotary_pct"},
    ),
    "stablelm": Family(STABLELM, _stablelm, STABLELM_WEIGHTS),
    "stablelm_epoch": Family(
        STABLELM,
        _stablelm,
        STABLELM_WEIGHTS,
        aliases={"layer_norm_eps": "norm_eps", "partial_rotary_factor": "rope_pct"},
        defaults_of="stablelm",
    ),
    "persimmon": Family(
        "Persimmon of Adept: PersimmonConfig and PersimmonForCausalLM.", _persimmon, _persimmon_weights
    ),
}
