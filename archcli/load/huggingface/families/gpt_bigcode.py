"""StarCoder and SantaCoder, GPT-2 with one head of keys: GPTBigCodeConfig and GPTBigCodeForCausalLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import head_counts
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import layernorm, mlp
from archcli.load.huggingface.weights.map import Parts, Weights
from archcli.load.huggingface.weights.names import FUSED, GPT2
from archcli.load.huggingface.whole.gpt_like import GPT_ALIASES, SUMMARY, inner_width

MODEL_TYPES = ("gpt_bigcode",)

SOFTMAX = ("attention_softmax_in_fp32", "scale_attention_softmax_in_fp32")
RUNNER = (
    "inference_runner",
    "max_batch_size",
    "pad_key_length",
    "pre_allocate_kv_cache",
    "validate_runner_input",
)
"""Keys of the first versions, which chose how it runs."""


def mapping(config: Config) -> Mapped:
    """As GPT-2, with MQA where multi_query is true."""
    config = config.of_class(**GPT_ALIASES)
    config.only("add_cross_attention", False)
    config.ignore("num_key_value_heads", *SOFTMAX, *RUNNER, *SUMMARY)
    scale = {} if config.flag("scale_attn_weights") else {"scale": 1.0}
    layer = {
        "kind": "pre_norm",
        "attention": {**_heads(config), "bias": True, **scale},
        "ffn": mlp(config, inner_width(config), "activation_function"),
    }
    norm = layernorm(config.number("layer_norm_epsilon"))
    return decoder(config, norm, [layer] * config.layers(), embedding={"position": {"kind": "learned"}})


def _heads(config: Config) -> Mapped:
    heads = config.size("num_attention_heads")
    return head_counts(heads, heads.derive(1) if config.flag("multi_query") else heads)


def weights(config: Config) -> Weights:
    """Weight names; in MHA a fused matrix holds queries, keys and values head by head."""
    config = config.of_class(**GPT_ALIASES)
    heads = 1 if config.flag("multi_query") else config.size("num_attention_heads").value
    return {
        **GPT2,
        "[transformer.]h.*.attn.c_attn.*": Parts(FUSED, groups=heads),
        "[transformer.]h.*.attn.c_proj.*": "layers.*.attention.o_proj.*",
        "[transformer.]h.*.mlp.c_fc.*": "layers.*.ffn.up_proj.*",
        "[transformer.]h.*.mlp.c_proj.*": "layers.*.ffn.down_proj.*",
    }
