"""Command R7B and Command A: Cohere2Config and Cohere2ForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.parts.attention import check_window, head_dim, positive
from archcli.load.huggingface.parts.networks import layernorm
from archcli.load.huggingface.parts.rope import rope
from archcli.load.huggingface.weights.names import LLAMA
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("cohere2",)
WEIGHTS = LLAMA


def mapping(config: Config) -> Mapped:
    """Parallel with one LayerNorm without bias; RoPE in layers with a window, no position in the others."""
    config = config.of_class()
    check_window(config)
    period = config.size("sliding_window_pattern", default=4).value
    near, bias = rope(config, head_dim(config), pairing="interleaved"), config.flag("attention_bias")
    scale, norm = positive(config, "logit_scale"), layernorm(config.number("layer_norm_eps"), bias=False)

    def heads(window: ConfigValue[int] | None) -> Mapped:
        return {"bias": bias, "position": {"kind": "none"} if window is None else near}

    return llama_like(
        config,
        heads=heads,
        block={"kind": "parallel"},
        norm=norm,
        slides=lambda index: (index + 1) % period != 0,
        head=None if scale == 1 else {"scale": scale},
        tied=True,
    )
