"""Command R and R+ (and PaLM, whose block is the same): CohereConfig and CohereForCausalLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import attention, head_dim, positive
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import gated, layernorm
from archcli.load.huggingface.parts.rope import rope
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import LLAMA, QK_NORM

MODEL_TYPES = ("cohere",)


def mapping(config: Config) -> Mapped:
    """Parallel with one LayerNorm without bias, interleaved RoPE.

    use_qk_norm gives each head of queries and keys its own norm.
    """
    config = config.of_class()
    width, bias = head_dim(config), config.flag("attention_bias")
    qk_norm = {"per": "head_distinct"} if config.flag("use_qk_norm") else None
    layer = {
        "kind": "parallel",
        "attention": attention(
            config, width, bias=bias, position=rope(config, width, pairing="interleaved"), qk_norm=qk_norm
        ),
        "ffn": gated(config),
    }
    scale, norm = positive(config, "logit_scale"), layernorm(config.number("layer_norm_eps"), bias=False)
    head = None if scale == 1 else {"scale": scale}
    return decoder(config, norm, [layer] * config.layers(), head=head)


WEIGHTS: Weights = {**LLAMA, **QK_NORM}
