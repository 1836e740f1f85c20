"""LongCat-Flash."""

from __future__ import annotations

from math import prod

from archcli.load import huggingface as hf
from archcli.load.huggingface import Auxiliary, Config, ConfigValue, Family, Mapped, Parts, Weights

ALIASES = {
    "num_hidden_layers": "num_layers",
    "intermediate_size": "ffn_hidden_size",
    "moe_intermediate_size": "expert_ffn_hidden_size",
    "num_experts": "n_routed_experts",
    "num_local_experts": "n_routed_experts",
    "num_experts_per_tok": "moe_topk",
}
FIXED = {
    "mla_scale_q_lora": True,
    "mla_scale_kv_lora": True,
    "zero_expert_type": "identity",
    "attention_method": "MLA",
    "router_bias": False,
}
"""Keys of published files that the class does not read, with the values by which it works."""


def _longcat(config: Config) -> Mapped:
    """Latents scaled by sqrt(D / rank); softmax scores with a correction; some experts return the token."""
    for key, value in FIXED.items():
        config.only(key, value, default=value)
    _check_sums(config)
    _note_unused(config)
    attention = hf.latent_attention(config, "interleaved")
    for which in ("q", "kv"):
        rank = config.size(f"{which}_lora_rank")
        attention[f"{which}_multiplier"] = rank.derive((config.size("hidden_size").value / rank.value) ** 0.5)
    router = {
        "normalized": False,
        "scale": config.number("routed_scaling_factor"),
        "correction": True,
        "zero_experts": _zero(config) or None,
    }
    dense = hf.gated(config, width="intermediate_size")
    layer = {
        "kind": "shortcut_moe",
        "attention": attention,
        "dense": dense,
        "ffn": hf.experts(config, router=router),
    }
    return hf.decoder(config, hf.rmsnorm(config), [layer] * config.layers())


def _note_unused(config: Config) -> None:
    """Note the input weights of zero experts, which the class holds and no pass reads."""
    sizes = (_zero(config), config.size("moe_intermediate_size"), config.size("hidden_size"))
    unused = 2 * config.layers() * prod(size.value for size in sizes)
    if unused:
        config.note(f"the class holds {unused:,} more parameters, for zero experts that compute nothing")


def _zero(config: Config) -> ConfigValue[int]:
    """The number of zero experts; null is none."""
    return config.count("zero_expert_num", default=0)


def _check_sums(config: Config) -> None:
    """Refuse a qk_head_dim or num_hidden_layers (which counts attentions) that contradicts other keys."""
    sums = {
        "num_hidden_layers": 2 * config.layers(),
        "qk_head_dim": config.size("qk_nope_head_dim").value + config.size("qk_rope_head_dim").value,
    }
    for key, needed in sums.items():
        value = config.data.get(key)
        if value is not None and value != needed:
            what = f"{key} {hf.short_repr(value)} contradicts the other keys, which make {needed}"
            raise config.error(what, "leave it out", config.place(key))


def _longcat_weights(config: Config) -> Weights:
    """Weight names of both halves of a layer, and of unread gate and up matrices of zero experts."""
    real, zero = config.size("num_experts").value, _zero(config).value
    stacked = "[model.]layers.*.mlp.experts"
    both = ("layers.*.ffn.experts.gate_proj.weight", "layers.*.ffn.experts.up_proj.weight")
    attention = {
        name.replace("self_attn.", "self_attn.*."): str(ours).replace("attention.", "sublayers.*.attention.")
        for name, ours in {**hf.LLAMA, **hf.MLA}.items()
        if ".self_attn." in name
    }
    return {
        **{name: hf.LLAMA[name] for name in ("[model.]embed_tokens.weight", "[model.]norm.*", "lm_head.*")},
        **attention,
        **{
            f"[model.]layers.*.mlps.*.{which}_proj.weight": f"layers.*.sublayers.*.dense.{which}_proj.weight"
            for which in ("gate", "up", "down")
        },
        "[model.]layers.*.input_layernorm.*.weight": "layers.*.sublayers.*.attention_norm.weight",
        "[model.]layers.*.post_attention_layernorm.*.weight": "layers.*.sublayers.*.dense_norm.weight",
        **{name: rule for name, rule in hf.EXPERTS.items() if ".experts." in name},
        f"{stacked}.gate_up_proj": Parts(both, axis=1, unread=zero),
        **{
            f"{stacked}.{real + i}.{which}_proj.weight": Auxiliary(hf.UNREAD)
            for i in range(zero)
            for which in ("gate", "up")
        },
        "[model.]layers.*.mlp.router.classifier.weight": "layers.*.ffn.router.weight",
        "[model.]layers.*.mlp.router.e_score_correction_bias": "layers.*.ffn.route.correction_bias",
        "[model.]mtp.**": Auxiliary(hf.PREDICTION),
    }


FAMILIES = {
    "longcat_flash": Family(
        "LongCat-Flash, two layers in one beside experts: LongcatFlashConfig and LongcatFlashForCausalLM.",
        _longcat,
        _longcat_weights,
        aliases=ALIASES,
    ),
}
