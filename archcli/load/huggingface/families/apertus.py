"""Apertus: ApertusConfig and ApertusForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import PER_HEAD
from archcli.load.huggingface.parts.networks import mlp
from archcli.load.huggingface.weights.map import Auxiliary
from archcli.load.huggingface.weights.names import LLAMA, QK_NORM
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("apertus",)
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 12000000.0,
    "factor": 8.0,
    "original_max_position_embeddings": 8192,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
}
FIXED = Auxiliary("a constant of the activation function")
WEIGHTS = {
    **LLAMA,
    **QK_NORM,
    "[model.]layers.*.attention_layernorm.weight": "layers.*.attention_norm.weight",
    "[model.]layers.*.feedforward_layernorm.weight": "layers.*.ffn_norm.weight",
    "[model.]layers.*.mlp.act_fn.alpha_p": "layers.*.ffn.activation.alpha_p",
    "[model.]layers.*.mlp.act_fn.alpha_n": "layers.*.ffn.activation.alpha_n",
    "[model.]layers.*.mlp.act_fn.beta": FIXED,
    "[model.]layers.*.mlp.act_fn.eps": FIXED,
}


def mapping(config: Config) -> Mapped:
    """As Llama with normalized queries and keys, and an ungated network of xIELU."""
    config = config.of_class()
    config.ignore("qk_norm", "post_norm", "mlp_bias")  # as the class is, whatever the file says
    ffn = mlp(config, config.size("intermediate_size"), "hidden_act", bias=False)
    return llama_like(config, heads={"bias": config.flag("attention_bias"), "qk_norm": PER_HEAD}, ffn=ffn)
