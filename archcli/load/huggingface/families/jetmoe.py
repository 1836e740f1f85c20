"""JetMoE: JetMoeConfig and JetMoeForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.experts import experts
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.parts.rope import rope
from archcli.load.huggingface.weights.map import Parts, Weights
from archcli.load.huggingface.weights.names import EXPERTS, LLAMA

MODEL_TYPES = ("jetmoe",)
ALIASES = {"head_dim": "kv_channels", "num_experts": "num_local_experts"}
ROUTER = {"scores": "softmax_after"}
NORM = {"kind": "rmsnorm", "eps": 1e-6}
"""The norms of the layers, which rms_norm_eps does not reach."""


def mapping(config: Config) -> Mapped:
    """Pre-norm, mixtures of attention heads and of networks with a bias; experts of both per token.

    num_attention_heads follows from the others.
    """
    config = config.of_class(**ALIASES)
    config.ignore("num_attention_heads", "aux_loss_coef")
    width, number, chosen = (config.size(key) for key in ("head_dim", "num_experts", "num_experts_per_tok"))
    kv_heads = config.size("num_key_value_heads")
    attend = {
        "kind": "moa",
        "n_heads": kv_heads.derive(kv_heads.value * chosen.value),
        "head_dim": width,
        "n_experts": number,
        "top_k": chosen,
        "router": ROUTER,
        "out_bias": True,
        "position": rope(config, width),
    }
    ffn = experts(config, expert=gated(config, act="activation_function"), router=ROUTER, out_bias=True)
    layer = {"kind": "pre_norm", "norm": NORM, "attention": attend, "ffn": ffn}
    return decoder(config, rmsnorm(config), [layer] * config.layers(), tied=True)


SELF = "[model.]layers.*.self_attention"
WEIGHTS: Weights = {
    **{name: rule for name, rule in LLAMA.items() if ".self_attn." not in name and ".mlp." not in name},
    f"{SELF}.experts.input_linear.weight": "layers.*.attention.q_experts.proj.weight",
    f"{SELF}.experts.output_linear.weight": "layers.*.attention.o_experts.proj.weight",
    f"{SELF}.experts.router.layer.weight": "layers.*.attention.router.weight",
    f"{SELF}.experts.bias": "layers.*.attention.out_bias.weight",
    f"{SELF}.kv_proj.weight": Parts(tuple(f"layers.*.attention.{part}_proj.weight" for part in "kv")),
    "[model.]layers.*.mlp.input_linear.weight": EXPERTS["[model.]layers.*.mlp.experts.gate_up_proj"],
    "[model.]layers.*.mlp.output_linear.weight": "layers.*.ffn.experts.down_proj.weight",
    "[model.]layers.*.mlp.router.layer.weight": "layers.*.ffn.router.weight",
    "[model.]layers.*.mlp.bias": "layers.*.ffn.out_bias.weight",
}
