"""Phi 1 to 4, and Phi-3.5-MoE."""

from __future__ import annotations

from archcli.load import huggingface as hf
from archcli.load.huggingface import (
    Auxiliary,
    Config,
    ConfigValue,
    Family,
    Mapped,
    Parts,
    Rule,
    Weights,
    rope,
)
from archcli.load.huggingface.weights.auxiliary import TOWER
from archcli.load.huggingface.whole.gpt_like import GPT_ALIASES, inner_width
from archcli.load.huggingface.whole.llama_like import llama_like


def _phi(config: Config) -> Mapped:
    """Parallel block with one norm, biases everywhere including the head; RoPE on part of each head."""
    width, norm = hf.head_dim(config), hf.layernorm(config.number("layer_norm_eps"))
    qk_norm = {"norm": norm} if config.flag("qk_layernorm") else None
    layer = {
        "kind": "parallel",
        "attention": hf.attention(
            config, width, bias=True, position=rope(config, width, partial=0.5), qk_norm=qk_norm
        ),
        "ffn": hf.mlp(config, config.size("intermediate_size"), "hidden_act"),
    }
    return hf.decoder(config, norm, [layer] * config.layers(), head={"bias": True})


PHI_WEIGHTS: Weights = {
    **hf.LLAMA,
    "[model.]layers.*.self_attn.dense.*": "layers.*.attention.o_proj.*",
    "[model.]layers.*.self_attn.q_layernorm.*": "layers.*.attention.q_norm.*",
    "[model.]layers.*.self_attn.k_layernorm.*": "layers.*.attention.k_norm.*",
    "[model.]layers.*.mlp.fc1.*": "layers.*.ffn.up_proj.*",
    "[model.]layers.*.mlp.fc2.*": "layers.*.ffn.down_proj.*",
    "[model.]final_layernorm.*": "final_norm.*",
}


# PhiConfig of configuration_phi.py in the first revisions of microsoft/phi-1_5 and phi-2
PHI_MSFT_DEFAULTS = {
    "vocab_size": 50304,
    "n_positions": 2048,
    "n_embd": 1024,
    "n_layer": 20,
    "n_head": 16,
    "rotary_dim": 32,
    "activation_function": "gelu_new",
    "layer_norm_epsilon": 1e-5,
    "pad_vocab_size_multiple": 64,
    "tie_word_embeddings": False,
}
PHI_MSFT_UNREAD = ("flash_attn", "flash_rotary", "fused_dense", "attn_pdrop", "embd_layer", "phyagi_version")


def _phi_msft(config: Config) -> Mapped:
    """Parallel block with one norm, biases everywhere including the head; RoPE on rotary_dim of each head."""
    config.ignore(*PHI_MSFT_UNREAD)
    config.inner("architecture", {"block_cls": "parallel"}).only("block_cls", "parallel")
    vocab_size, multiple = config.size("vocab_size"), config.size("pad_vocab_size_multiple").value
    padded = vocab_size.derive(-(-vocab_size.value // multiple) * multiple)
    width, rotated = hf.even_split(config), config.size("rotary_dim")
    norm = hf.layernorm(config.number("layer_norm_epsilon"))
    rope = {"kind": "rope"} | ({"rotary_dim": rotated} if rotated.value < width.value else {})
    layer = {
        "kind": "parallel",
        "attention": hf.attention(config, width, bias=True, position=rope),
        "ffn": hf.mlp(config, inner_width(config), "activation_function"),
    }
    return hf.decoder(config, norm, [layer] * config.layers(), head={"bias": True}, vocab_size=padded)


def _phi_msft_weights(config: Config) -> Weights:
    """Weight names; mixformer-sequential counts the embedding as the first layer, the head as the last."""
    if config.get("model_type", default="") != "mixformer-sequential":
        return {
            "[transformer.]embd.wte.weight": "embedding.tokens.weight",
            **_phi_msft_layer("[transformer.]h.*", "layers.*"),
            "lm_head.ln.*": "final_norm.*",
            "lm_head.linear.*": "lm_head.*",
        }
    # layers of this nn.Sequential: 0 is the table, 1 to n the blocks, n + 1 the norm with the head
    last = config.layers() + 1
    layers = [_phi_msft_layer(f"layers.{i}", f"layers.{i - 1}") for i in range(1, last)]
    return {
        "layers.0.wte.weight": "embedding.tokens.weight",
        **{name: rule for layer in layers for name, rule in layer.items()},
        f"layers.{last}.ln.*": "final_norm.*",
        f"layers.{last}.linear.*": "lm_head.*",
    }


def _phi_msft_layer(theirs: str, ours: str) -> dict[str, Rule]:
    fused = tuple(f"{ours}.attention.{which}_proj.*" for which in "qkv")
    return {
        f"{theirs}.ln.*": f"{ours}.attention_norm.*",
        f"{theirs}.mixer.Wqkv.*": Parts(fused),
        f"{theirs}.mixer.out_proj.*": f"{ours}.attention.o_proj.*",
        f"{theirs}.mlp.fc1.*": f"{ours}.ffn.up_proj.*",
        f"{theirs}.mlp.fc2.*": f"{ours}.ffn.down_proj.*",
    }


LONG = {"su": "longrope", "yarn": "longrope"}
"""Names that old files give to the one scaling the class knows."""


def _phi3(config: Config) -> Mapped:
    """As Llama without any bias, with LongRoPE for long contexts."""
    width = hf.head_dim(config)
    layer = {
        "kind": "pre_norm",
        "attention": hf.attention(
            config, width, position=rope(config, width, partial=1.0, renamed=LONG), window=hf.window(config)
        ),
        "ffn": hf.gated(config),
    }
    return hf.decoder(config, hf.rmsnorm(config), [layer] * config.layers())


PHI3_WEIGHTS: Weights = hf.renamed(
    hf.LLAMA,
    {
        "[model.]layers.*.self_attn.qkv_proj.*": Parts(hf.FUSED),
        "[model.]layers.*.mlp.gate_up_proj.weight": hf.GATE_UP,
    },
)


def _phi3_v(config: Config) -> Mapped:
    """The language model of Phi-3-vision, which is Phi-3's."""
    config.ignore("img_processor", "embd_layer")
    config.note("only the language model is counted, not what sees the image (img_processor, embd_layer)")
    return _phi3(config)


PHI4_WEIGHTS = {
    **PHI3_WEIGHTS,
    "[model.]embed_tokens_extend.**": Auxiliary(TOWER),
}


PHI4_TOWERS = (
    hf.TowerRow(".vision:phi4_multimodal"),
    hf.TowerRow(".heard:phi4", "audio_config"),
)


def _phi4(config: Config) -> Mapped:
    """As Phi-3, beside towers for images and sound."""
    config.ignore(*(tower.key for tower in PHI4_TOWERS))
    place = rope(config, hf.head_dim(config), partial=1.0, renamed=LONG)
    return llama_like(config, heads={"position": place, "window": hf.window(config)})


PHIMOE_TOP_K = 2
"""Experts that the class's router chooses, whatever num_experts_per_tok says."""


def _phimoe(config: Config) -> Mapped:
    """As Mixtral with LayerNorm, biases, and two experts that are chosen one after the other."""
    config.ignore("input_jitter_noise")
    heads = {"position": _phimoe_position(config, hf.head_dim(config)), "window": hf.window(config)}
    head = {"bias": True} if config.flag("lm_head_bias") else None
    norm = hf.layernorm(config.number("rms_norm_eps"))
    return llama_like(config, heads=heads, ffn=_phimoe_experts(config), norm=norm, head=head)


def _phimoe_experts(config: Config) -> Mapped:
    top_k, jitter = config.value("num_experts_per_tok"), config.number("router_jitter_noise")
    if top_k != PHIMOE_TOP_K:
        config.note(f"num_experts_per_tok {top_k} is not read: the class's router chooses {PHIMOE_TOP_K}")
    if jitter.value <= 0:
        what = f"router_jitter_noise must be above 0, not {jitter}"
        raise config.error(what, "the router divides experts by it", jitter.place)
    router = {"scores": "sparsemixer", "jitter": jitter}
    return hf.experts(config, width="intermediate_size", router=router, top_k=top_k.derive(PHIMOE_TOP_K))


def _phimoe_position(config: Config, width: ConfigValue[int]) -> ConfigValue[Mapped]:
    """RoPE; LongRoPE's short_mscale and long_mscale, equal in published files, scale cosines and sines."""
    known = hf.rope_parameters(config)
    kind, short, long = (known.get(key) for key in ("rope_type", "short_mscale", "long_mscale"))
    kind = known.get("type") if kind is None else kind
    if kind is None or kind == "default":
        return hf.position(config, width, known)
    if kind != "longrope" or short is None or short != long:
        hint = "longrope with short_mscale equal to long_mscale is"
        raise config.error(f"rope scaling {kind} is not supported as stated", hint, kind.place)
    return hf.position(config, width, {**known, "attention_factor": short})


PHIMOE_WEIGHTS: Weights = {
    **hf.LLAMA,
    **hf.EXPERTS,
    **hf.MIXTRAL_EXPERTS,
    "[model.]layers.*.mlp.router.weight": "layers.*.ffn.router.weight",
}


FAMILIES = {
    "phi": Family("Phi-1, 1.5 and 2: PhiConfig and PhiForCausalLM.", _phi, PHI_WEIGHTS),
    **dict.fromkeys(
        ("phi-msft", "mixformer-sequential"),
        Family(
            "Phi-1, 1.5 and 2 as first published, with classes in their repositories: PhiConfig.",
            _phi_msft,
            _phi_msft_weights,
            aliases={**GPT_ALIASES, "num_key_value_heads": "n_head_kv"},
            defaults=PHI_MSFT_DEFAULTS,
        ),
    ),
    **dict.fromkeys(
        ("phi3", "phi4"),
        Family("Phi-3, 3.5 and 4: Phi3Config and Phi3ForCausalLM.", _phi3, PHI3_WEIGHTS, defaults_of="phi3"),
    ),
    "phi3_v": Family(
        "Phi-3-vision and 3.5-vision: Phi3VConfig and Phi3VForCausalLM of their repositories, on text.",
        _phi3_v,
        {**PHI3_WEIGHTS, "[model.]vision_embed_tokens.**": Auxiliary(TOWER)},
        defaults_of="phi3",
    ),
    "phi4_multimodal": Family(
        "Phi-4-multimodal: Phi4MultimodalConfig and Phi4MultimodalForCausalLM, its language model.",
        _phi4,
        PHI4_WEIGHTS,
        towers=PHI4_TOWERS,
    ),
    "phimoe": Family(
        "Phi-3.5-MoE: PhimoeConfig and PhimoeForCausalLM.",
        _phimoe,
        PHIMOE_WEIGHTS,
        aliases={"num_experts": "num_local_experts"},
    ),
}
