"""Persimmon of Adept: PersimmonConfig and PersimmonForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped, without_none
from archcli.load.huggingface.parts.attention import PER_HEAD, even_split, head_counts
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import layernorm, mlp
from archcli.load.huggingface.parts.rope import rope
from archcli.load.huggingface.weights.map import Parts, Weights
from archcli.load.huggingface.weights.names import FUSED, LLAMA

MODEL_TYPES = ("persimmon",)


def mapping(config: Config) -> Mapped:
    """Pre-norm, LayerNorm, normalized queries and keys, RoPE on half of each head, biases everywhere."""
    config = config.of_class()
    config.ignore("num_key_value_heads")
    heads = config.size("num_attention_heads")
    attention = {
        **head_counts(heads, heads),
        "bias": True,
        "position": rope(config, even_split(config), partial=0.5),
        "qk_norm": PER_HEAD if config.flag("qk_layernorm") else None,
    }
    ffn = mlp(config, config.size("intermediate_size"), "hidden_act")
    layer = {"kind": "pre_norm", "attention": without_none(attention), "ffn": ffn}
    return decoder(config, layernorm(config.number("layer_norm_eps")), [layer] * config.layers())


def weights(config: Config) -> Weights:
    """Weight names; queries, keys and values lie together head by head."""
    heads = config.of_class().size("num_attention_heads").value
    return {
        **LLAMA,
        "[model.]layers.*.self_attn.query_key_value.*": Parts(FUSED, groups=heads),
        "[model.]layers.*.self_attn.q_layernorm.*": "layers.*.attention.q_norm.*",
        "[model.]layers.*.self_attn.k_layernorm.*": "layers.*.attention.k_norm.*",
        "[model.]layers.*.self_attn.dense.*": "layers.*.attention.o_proj.*",
        "[model.]layers.*.mlp.dense_h_to_4h.*": "layers.*.ffn.up_proj.*",
        "[model.]layers.*.mlp.dense_4h_to_h.*": "layers.*.ffn.down_proj.*",
        "[model.]final_layernorm.*": "final_norm.*",
    }
