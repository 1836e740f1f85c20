"""Aria's language model: AriaTextConfig and AriaTextForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.experts import experts, shared_experts
from archcli.load.huggingface.parts.networks import gated
from archcli.load.huggingface.weights.map import Parts, Weights
from archcli.load.huggingface.weights.names import LLAMA, SHARED
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("aria_text",)
SIZES = {"intermediate_size": 4096, "moe_num_experts": 8, "moe_topk": 2, "moe_num_shared_experts": 2}


def mapping(config: Config) -> Mapped:
    """As Llama with experts, weighed by a softmax over the chosen, and shared ones.

    Routed experts are SwiGLU without biases, whatever hidden_act and mlp_bias say.
    """
    config = config.of_class(num_experts="moe_num_experts", num_experts_per_tok="moe_topk")
    shared = shared_experts(config, gated(config, bias=config.flag("mlp_bias")), key="moe_num_shared_experts")
    expert = {**gated(config), "activation": "silu"}
    ffn = experts(config, expert=expert, router={"scores": "softmax_after"}, shared=shared)
    return llama_like(config, heads={"bias": config.flag("attention_bias")}, ffn=ffn)


GATE_UP = tuple(f"layers.*.ffn.experts.{name}_proj.weight" for name in ("gate", "up"))
DOWN = ("layers.*.ffn.experts.down_proj.weight",)
WEIGHTS: Weights = {
    **LLAMA,
    **SHARED,
    "[model.]layers.*.mlp.router.weight": "layers.*.ffn.router.weight",
    **{
        f"[model.]layers.*.mlp.experts.{name}": Parts(GATE_UP, axis=1, transposed=True)
        for name in ("gate_up_proj", "fc1.weight")
    },
    **{
        f"[model.]layers.*.mlp.experts.{name}": Parts(DOWN, transposed=True)
        for name in ("down_proj", "fc2.weight")
    },
}
