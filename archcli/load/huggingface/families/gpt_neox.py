"""GPT-NeoX and Pythia: GPTNeoXConfig and GPTNeoXForCausalLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import even_split
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import layernorm, mlp
from archcli.load.huggingface.parts.rope import rope
from archcli.load.huggingface.weights.map import Parts, Weights
from archcli.load.huggingface.weights.names import FUSED

MODEL_TYPES = ("gpt_neox",)

ALIASES = {"rope_theta": "rotary_emb_base", "partial_rotary_factor": "rotary_pct"}


def mapping(config: Config) -> Mapped:
    """Parallel with two norms, or serial; RoPE on a quarter of each head."""
    config = config.of_class(**ALIASES)
    heads, position = config.size("num_attention_heads"), rope(config, even_split(config), partial=0.25)
    bias = config.flag("attention_bias")
    parallel = config.flag("use_parallel_residual")
    layer = {
        **({"kind": "parallel", "n_norms": 2} if parallel else {"kind": "pre_norm"}),
        "attention": {"kind": "mha", "n_heads": heads, "bias": bias, "position": position},
        "ffn": mlp(config, config.size("intermediate_size"), "hidden_act"),
    }
    return decoder(config, layernorm(config.number("layer_norm_eps")), [layer] * config.layers())


def weights(config: Config) -> Weights:
    """Weight names; a fused matrix holds queries, keys and values head by head.

    The output head is `embed_out` in files and `lm_head` in transformers 5.
    """
    heads = config.of_class(**ALIASES).size("num_attention_heads").value
    return {
        "[gpt_neox.]embed_in.weight": "embedding.tokens.weight",
        "[gpt_neox.]layers.*.input_layernorm.*": "layers.*.attention_norm.*",
        "[gpt_neox.]layers.*.post_attention_layernorm.*": "layers.*.ffn_norm.*",
        "[gpt_neox.]layers.*.attention.query_key_value.*": Parts(FUSED, groups=heads),
        "[gpt_neox.]layers.*.attention.dense.*": "layers.*.attention.o_proj.*",
        "[gpt_neox.]layers.*.mlp.dense_h_to_4h.*": "layers.*.ffn.up_proj.*",
        "[gpt_neox.]layers.*.mlp.dense_4h_to_h.*": "layers.*.ffn.down_proj.*",
        "[gpt_neox.]final_layer_norm.*": "final_norm.*",
        "lm_head.weight": "lm_head.weight",
        "embed_out.weight": "lm_head.weight",
    }
