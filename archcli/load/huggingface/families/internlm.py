"""InternLM 1 to 3, as Llama with biases."""

from __future__ import annotations

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Family, Mapped, Parts, Weights
from archcli.load.huggingface.whole.llama_like import llama_like

DEFAULTS = {"attention_bias": None, "mlp_bias": None, "vocab_size": 103168, "bias": True}


def _internlm(config: Config) -> Mapped:
    """As Llama; `bias` biases the four projections of attention, `rotary` states the base of RoPE.

    A dynamic base changes nothing within the context that the model was trained for.
    """
    rotary = hf.parameters(config, "rotary")
    heads: Mapped = {"bias": config.flag("bias")}
    if "base" in rotary:
        heads["position"] = hf.position(config, hf.head_dim(config), {"rope_theta": rotary["base"]})
    return llama_like(config, heads=heads)


def _internlm2(config: Config) -> Mapped:
    """As Llama; `bias` biases the four projections of attention."""
    return llama_like(config, heads={"bias": config.flag("bias")})


def _internlm2_weights(config: Config) -> Weights:
    """Weight names; a fused matrix holds queries, key and value, one key head after another."""
    heads = config.size("num_attention_heads")
    groups = config.size("num_key_value_heads", default=heads).value
    return {
        "[model.]tok_embeddings.weight": "embedding.tokens.weight",
        "[model.]layers.*.attention.wqkv.*": Parts(hf.FUSED, groups=groups),
        "[model.]layers.*.attention.wo.*": "layers.*.attention.o_proj.*",
        "[model.]layers.*.attention_norm.*": "layers.*.attention_norm.*",
        "[model.]layers.*.ffn_norm.*": "layers.*.ffn_norm.*",
        "[model.]layers.*.feed_forward.w1.*": "layers.*.ffn.gate_proj.*",
        "[model.]layers.*.feed_forward.w3.*": "layers.*.ffn.up_proj.*",
        "[model.]layers.*.feed_forward.w2.*": "layers.*.ffn.down_proj.*",
        "[model.]norm.*": "final_norm.*",
        "output.weight": "lm_head.weight",
    }


def _internlm3(config: Config) -> Mapped:
    """As Llama with one flag for all biases, which its own files call qkv_bias and bias."""
    bias, ffn_bias = config.flag("attention_bias"), config.flag("mlp_bias")
    if bias != ffn_bias.value:
        what = f"qkv_bias {bias.value} beside bias {ffn_bias.value} is not supported"
        raise config.error(what, "its class has both or none", config.place("attention_bias", "mlp_bias"))
    return llama_like(config)


FAMILIES = {
    "internlm": Family(
        "InternLM of 2023, whose class is in its repositories: InternLMConfig.",
        _internlm,
        hf.LLAMA,
        defaults=DEFAULTS,
        defaults_of="llama",
    ),
    "internlm2": Family(
        "InternLM 2 and 2.5, whose class is in their repositories: InternLM2Config.",
        _internlm2,
        _internlm2_weights,
        defaults=DEFAULTS,
        defaults_of="llama",
    ),
    "internlm3": Family(
        "InternLM 3: InternLM3Config and LlamaForCausalLM.",
        _internlm3,
        hf.LLAMA,
        aliases={"attention_bias": "qkv_bias", "mlp_bias": "bias"},
    ),
}
