"""gpt-oss."""

from __future__ import annotations

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, ConfigValue, Family, Mapped, Parts, Weights


def _gpt_oss(config: Config) -> Mapped:
    """GQA with sinks, every other layer in a sliding window; a mixture of biased experts in each layer."""
    config.ignore("hidden_act", "initial_context_length", "experts_per_token")
    ffn = _experts(config)

    def layer(window: ConfigValue[int] | None) -> Mapped:
        return {"kind": "pre_norm", "attention": _attention(config, window), "ffn": ffn}

    return hf.decoder(config, hf.rmsnorm(config), hf.windows(config, layer, lambda index: index % 2 == 0))


def _attention(config: Config, window: ConfigValue[int] | None) -> Mapped:
    width = hf.head_dim(config)
    position = hf.rope(config, width, theta=150000.0)
    return hf.attention(
        config, width, bias=config.flag("attention_bias"), position=position, window=window, sinks=True
    )


def _experts(config: Config) -> Mapped:
    """Biased experts, down((clip(up) + 1) * clip(gate) sigmoid(alpha clip(gate))), and a biased router."""
    expert = {
        "kind": "glu",
        "d_ff": config.size("intermediate_size"),
        "activation": {"kind": "swish", "beta": config.number("swiglu_alpha")},
        "bias": True,
        "limit": config.number("swiglu_limit"),
        "up_offset": 1,
    }
    return {
        "kind": "moe",
        "n_experts": config.size("num_experts"),
        "top_k": config.size("num_experts_per_tok"),
        "expert": expert,
        "router": {"scores": "softmax_after", "bias": True},
    }


def _gpt_oss_weights(config: Config) -> Weights:
    """Experts are stacked and stored [in, out]; the columns of gate and up take turns."""
    gates = {
        kind: tuple(f"layers.*.ffn.experts.{name}_proj.{kind}" for name in ("gate", "up"))
        for kind in ("weight", "bias")
    }
    width = config.size("intermediate_size").value
    return {
        **hf.LLAMA,
        "[model.]layers.*.self_attn.sinks": "layers.*.attention.sinks.weight",
        "[model.]layers.*.mlp.router.*": "layers.*.ffn.router.*",
        "[model.]layers.*.mlp.experts.gate_up_proj": Parts(
            gates["weight"], axis=1, groups=width, transposed=True
        ),
        "[model.]layers.*.mlp.experts.gate_up_proj_bias": Parts(gates["bias"], axis=1, groups=width),
        "[model.]layers.*.mlp.experts.down_proj": Parts(
            ("layers.*.ffn.experts.down_proj.weight",), transposed=True
        ),
        "[model.]layers.*.mlp.experts.down_proj_bias": "layers.*.ffn.experts.down_proj.bias",
    }


FAMILIES = {
    "gpt_oss": Family(
        "gpt-oss: GptOssConfig and GptOssForCausalLM.",
        _gpt_oss,
        _gpt_oss_weights,
        aliases={"num_experts": "num_local_experts"},
    ),
}
