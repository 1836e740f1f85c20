"""DBRX: DbrxConfig and DbrxForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.parts.attention import attention, even_split, optional_number
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.experts import experts
from archcli.load.huggingface.parts.networks import activation, layernorm
from archcli.load.huggingface.parts.rope import position, stated
from archcli.load.huggingface.weights.map import Parts, Weights
from archcli.load.huggingface.weights.names import FUSED

MODEL_TYPES = ("dbrx",)
ALIASES = {
    "hidden_size": "d_model",
    "num_attention_heads": "n_heads",
    "num_hidden_layers": "n_layers",
    "max_position_embeddings": "max_seq_len",
}
HEADS = {"kv_n_heads": 1}
NETWORK = {
    "ffn_hidden_size": 3584,
    "moe_num_experts": 4,
    "moe_top_k": 1,
    "moe_normalize_expert_weights": 1.0,
}
EPS = 1e-5


def mapping(config: Config) -> Mapped:
    """Pre-norm, LayerNorm without biases, GQA with RoPE and clipped projections, experts in each layer."""
    config = config.of_class(**ALIASES)
    config.only("tie_word_embeddings", False, default=False)
    config.ignore("emb_pdrop", "num_key_value_heads")
    layer = {"kind": "pre_norm", "attention": _attention(config), "ffn": _experts(config)}
    return decoder(config, layernorm(EPS, bias=False), [layer] * config.layers())


def _attention(config: Config) -> Mapped:
    """The base of RoPE stands beside the heads; rope_parameters go before it, as the class has them alone."""
    inner, width = config.inner("attn_config", HEADS), even_split(config)
    theta = {"rope_theta": inner.number("rope_theta")} if inner.get("rope_theta", default=None) else {}
    return attention(
        config,
        width,
        position=position(config, width, {**theta, **stated(config)}),
        clip=optional_number(inner, "clip_qkv"),
        head_dim=None,  # the fused matrix is hidden_size wide: heads have to divide it
        kind="gqa",
        n_kv_heads=inner.size("kv_n_heads"),
    )


def _experts(config: Config) -> Mapped:
    inner = config.inner("ffn_config", NETWORK)
    inner = inner.of_class(NETWORK, num_experts="moe_num_experts", num_experts_per_tok="moe_top_k")
    expert = {
        "kind": "glu",
        "d_ff": inner.size("ffn_hidden_size"),
        "activation": activation(inner.inner("ffn_act_fn", {}), "name", default="silu"),
    }
    return experts(inner, expert=expert, router={"normalized": _divides(inner)})


def _divides(inner: Config) -> ConfigValue[bool]:
    """Whether weights are divided by their sum, their norm of order 1; null is no norm."""
    key = "moe_normalize_expert_weights"
    if inner.stated_null(key):
        return ConfigValue(False, inner.place(key))
    inner.only(key, 1.0)
    return inner.number(key).derive(True)


LAYER = "[transformer.]blocks.*"
STACKS = {"w1": ("gate_proj", False), "v1": ("up_proj", False), "w2": ("down_proj", True)}
WEIGHTS: Weights = {
    "[transformer.]wte.weight": "embedding.tokens.weight",
    f"{LAYER}.norm_attn_norm.norm_1.weight": "layers.*.attention_norm.weight",
    f"{LAYER}.norm_attn_norm.attn.Wqkv.weight": Parts(tuple(name[:-1] + "weight" for name in FUSED)),
    f"{LAYER}.norm_attn_norm.attn.out_proj.weight": "layers.*.attention.o_proj.weight",
    f"{LAYER}.norm_attn_norm.norm_2.weight": "layers.*.ffn_norm.weight",
    f"{LAYER}.ffn.router.layer.weight": "layers.*.ffn.router.weight",
    **{
        f"{LAYER}.ffn.experts.mlp.{theirs}": Parts(
            (f"layers.*.ffn.experts.{ours}.weight",), merged=True, transposed=turned
        )
        for theirs, (ours, turned) in STACKS.items()
    },
    "[transformer.]norm_f.weight": "final_norm.weight",
    "lm_head.weight": "lm_head.weight",
}
