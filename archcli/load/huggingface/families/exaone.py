"""EXAONE 3.0 and 3.5, by the class of their repositories or by that of transformers, ExaoneConfig."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.networks import gated
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("exaone",)

OWN = {"hidden_size": 2048, "max_position_embeddings": 2048, "tie_word_embeddings": True}
ALIASES = {
    "num_hidden_layers": "num_layers",
    "rms_norm_eps": "layer_norm_epsilon",
    "hidden_act": "activation_function",
}
"""The words of the repositories for those of transformers' class; files have either."""


def mapping(config: Config) -> Mapped:
    """As Llama; intermediate_size left out is four times the width."""
    config = config.of_class(OWN, **ALIASES)
    config.ignore("embed_dropout")
    width = 4 * config.size("hidden_size").value
    config = config.with_defaults(intermediate_size=width)
    bias, ffn = config.flag("attention_bias"), gated(config, bias=config.flag("mlp_bias"))
    return llama_like(config, heads={"bias": bias}, ffn=ffn)


WEIGHTS: Weights = {
    "[transformer.]wte.weight": "embedding.tokens.weight",
    "[transformer.]h.*.ln_1.weight": "layers.*.attention_norm.weight",
    "[transformer.]h.*.attn.attention.q_proj.weight": "layers.*.attention.q_proj.weight",
    "[transformer.]h.*.attn.attention.k_proj.weight": "layers.*.attention.k_proj.weight",
    "[transformer.]h.*.attn.attention.v_proj.weight": "layers.*.attention.v_proj.weight",
    "[transformer.]h.*.attn.attention.out_proj.weight": "layers.*.attention.o_proj.weight",
    "[transformer.]h.*.ln_2.weight": "layers.*.ffn_norm.weight",
    "[transformer.]h.*.mlp.c_fc_0.weight": "layers.*.ffn.gate_proj.weight",
    "[transformer.]h.*.mlp.c_fc_1.weight": "layers.*.ffn.up_proj.weight",
    "[transformer.]h.*.mlp.c_proj.weight": "layers.*.ffn.down_proj.weight",
    "[transformer.]ln_f.weight": "final_norm.weight",
    "lm_head.weight": "lm_head.weight",
}
