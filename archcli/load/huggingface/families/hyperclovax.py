"""HyperCLOVA X SEED: HyperCLOVAXConfig and HyperCLOVAXForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import optional_number
from archcli.load.huggingface.weights.names import LLAMA
from archcli.load.huggingface.whole.llama_like import granite_like, multiplier

MODEL_TYPES = ("hyperclovax",)
WEIGHTS = {
    **LLAMA,
    "[model.]layers.*.post_norm1.weight": "layers.*.attention_post_norm.weight",
    "[model.]layers.*.post_norm2.weight": "layers.*.ffn_post_norm.weight",
}


def mapping(config: Config) -> Mapped:
    """As Granite with a norm after each sublayer too; logits are multiplied, not divided."""
    config = config.of_class()
    kind = "sandwich" if config.flag("use_post_norm") else "pre_norm"
    scale, factor = optional_number(config, "attention_multiplier"), multiplier(config, "logits_scaling")
    heads = {"bias": config.flag("attention_bias"), "scale": scale}
    head = None if factor is None else {"scale": factor}
    return granite_like(config, heads=heads, block={"kind": kind}, head=head)
