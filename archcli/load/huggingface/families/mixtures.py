"""Decoders with experts in every layer: DBRX and JetMoE."""

from __future__ import annotations

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, ConfigValue, Family, Mapped, Parts, Weights

DBRX_ALIASES = {
    "hidden_size": "d_model",
    "num_attention_heads": "n_heads",
    "num_hidden_layers": "n_layers",
    "max_position_embeddings": "max_seq_len",
}
DBRX_HEADS = {"kv_n_heads": 1}
DBRX_NETWORK = {
    "ffn_hidden_size": 3584,
    "moe_num_experts": 4,
    "moe_top_k": 1,
    "moe_normalize_expert_weights": 1.0,
}
# nn.LayerNorm's default, which DbrxConfig has no key for
DBRX_EPS = 1e-5


def _dbrx(config: Config) -> Mapped:
    """Pre-norm, LayerNorm without biases, GQA with RoPE and clipped projections, experts in each layer."""
    config.only("tie_word_embeddings", False, default=False)
    config.ignore("emb_pdrop", "num_key_value_heads")
    layer = {"kind": "pre_norm", "attention": _dbrx_attention(config), "ffn": _dbrx_experts(config)}
    return hf.decoder(config, hf.layernorm(DBRX_EPS, bias=False), [layer] * config.layers())


def _dbrx_attention(config: Config) -> Mapped:
    """GQA with clipped projections by attn_config; its rope_theta gives way to rope_parameters."""
    inner, width = config.inner("attn_config", DBRX_HEADS), hf.even_split(config)
    theta = {"rope_theta": inner.number("rope_theta")} if inner.get("rope_theta", default=None) else {}
    return hf.attention(
        config,
        width,
        position=hf.position(config, width, {**theta, **hf.rope_parameters(config)}),
        clip=hf.optional_number(inner, "clip_qkv"),
        head_dim=None,  # the fused matrix is hidden_size wide: heads have to divide it
        kind="gqa",
        n_kv_heads=inner.size("kv_n_heads"),
    )


def _dbrx_experts(config: Config) -> Mapped:
    inner = config.inner("ffn_config", {}).with_defaults(**DBRX_NETWORK)
    inner = inner.with_words(num_experts="moe_num_experts", num_experts_per_tok="moe_top_k")
    expert = {
        "kind": "glu",
        "d_ff": inner.size("ffn_hidden_size"),
        "activation": hf.activation(inner.inner("ffn_act_fn", {}), "name", default="silu"),
    }
    return hf.experts(inner, expert=expert, router={"normalized": _divides(inner)})


def _divides(inner: Config) -> ConfigValue[bool]:
    """Whether the experts' weights are divided by their sum (norm 1.0); null leaves them as they are."""
    key = "moe_normalize_expert_weights"
    if inner.stated_null(key):
        return ConfigValue(False, inner.place(key))
    inner.only(key, 1.0)
    return inner.number(key).derive(True)


DBRX_LAYER = "[transformer.]blocks.*"
STACKS = {"w1": ("gate_proj", False), "v1": ("up_proj", False), "w2": ("down_proj", True)}
DBRX_WEIGHTS: Weights = {
    "[transformer.]wte.weight": "embedding.tokens.weight",
    f"{DBRX_LAYER}.norm_attn_norm.norm_1.weight": "layers.*.attention_norm.weight",
    f"{DBRX_LAYER}.norm_attn_norm.attn.Wqkv.weight": Parts(tuple(name[:-1] + "weight" for name in hf.FUSED)),
    f"{DBRX_LAYER}.norm_attn_norm.attn.out_proj.weight": "layers.*.attention.o_proj.weight",
    f"{DBRX_LAYER}.norm_attn_norm.norm_2.weight": "layers.*.ffn_norm.weight",
    f"{DBRX_LAYER}.ffn.router.layer.weight": "layers.*.ffn.router.weight",
    **{
        f"{DBRX_LAYER}.ffn.experts.mlp.{theirs}": Parts(
            (f"layers.*.ffn.experts.{ours}.weight",), merged=True, transposed=turned
        )
        for theirs, (ours, turned) in STACKS.items()
    },
    "[transformer.]norm_f.weight": "final_norm.weight",
    "lm_head.weight": "lm_head.weight",
}


JETMOE_ROUTER = {"scores": "softmax_after"}
NORM = {"kind": "rmsnorm", "eps": 1e-6}
"""The norms of the layers, which rms_norm_eps does not reach."""


def _jetmoe(config: Config) -> Mapped:
    """Pre-norm, mixtures of attention heads and of networks with a bias; experts of both per token.

    num_attention_heads follows from the others.
    """
    config.ignore("num_attention_heads", "aux_loss_coef")
    width, number, chosen = (config.size(key) for key in ("head_dim", "num_experts", "num_experts_per_tok"))
    kv_heads = config.size("num_key_value_heads")
    attend = {
        "kind": "moa",
        "n_heads": kv_heads.derive(kv_heads.value * chosen.value),
        "head_dim": width,
        "n_experts": number,
        "top_k": chosen,
        "router": JETMOE_ROUTER,
        "out_bias": True,
        "position": hf.rope(config, width),
    }
    ffn = hf.experts(
        config, expert=hf.gated(config, act="activation_function"), router=JETMOE_ROUTER, out_bias=True
    )
    layer = {"kind": "pre_norm", "norm": NORM, "attention": attend, "ffn": ffn}
    return hf.decoder(config, hf.rmsnorm(config), [layer] * config.layers(), tied=True)


SELF = "[model.]layers.*.self_attention"
JETMOE_WEIGHTS: Weights = {
    **{name: rule for name, rule in hf.LLAMA.items() if ".self_attn." not in name and ".mlp." not in name},
    f"{SELF}.experts.input_linear.weight": "layers.*.attention.q_experts.proj.weight",
    f"{SELF}.experts.output_linear.weight": "layers.*.attention.o_experts.proj.weight",
    f"{SELF}.experts.router.layer.weight": "layers.*.attention.router.weight",
    f"{SELF}.experts.bias": "layers.*.attention.out_bias.weight",
    f"{SELF}.kv_proj.weight": Parts(tuple(f"layers.*.attention.{part}_proj.weight" for part in "kv")),
    "[model.]layers.*.mlp.input_linear.weight": hf.EXPERTS["[model.]layers.*.mlp.experts.gate_up_proj"],
    "[model.]layers.*.mlp.output_linear.weight": "layers.*.ffn.experts.down_proj.weight",
    "[model.]layers.*.mlp.router.layer.weight": "layers.*.ffn.router.weight",
    "[model.]layers.*.mlp.bias": "layers.*.ffn.out_bias.weight",
}


FAMILIES = {
    "dbrx": Family("DBRX: DbrxConfig and DbrxForCausalLM.", _dbrx, DBRX_WEIGHTS, aliases=DBRX_ALIASES),
    "jetmoe": Family(
        "JetMoE: JetMoeConfig and JetMoeForCausalLM.",
        _jetmoe,
        JETMOE_WEIGHTS,
        aliases={"head_dim": "kv_channels", "num_experts": "num_local_experts"},
    ),
}
