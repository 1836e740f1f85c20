"""GPT of 2018, before GPT-2: OpenAIGPTConfig and OpenAIGPTLMHeadModel."""

from __future__ import annotations

from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.networks import layernorm
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import GPT2
from archcli.load.huggingface.whole.gpt_like import GPT_ALIASES, SUMMARY, post_norm_decoder

MODEL_TYPES = ("openai-gpt",)

ACTIVATIONS = {"gelu": "gelu_tanh", "relu": "relu", "silu": "silu", "swish": "silu"}


def mapping(config: Config) -> Mapped:
    """Post-norm without a final norm, learned positions, MHA, a network 4 d_model wide, all biased."""
    config = config.of_class(**GPT_ALIASES)
    config.ignore("n_inner", "n_special", "predict_special_tokens", *SUMMARY)
    name, width = config.value("afn"), config.size("hidden_size")
    if not isinstance(name.value, str) or name.value not in ACTIVATIONS:
        what = f"activation {short_repr(name.value)} is not supported"
        raise config.error(what, "known: " + ", ".join(ACTIVATIONS), name.place)
    function = name.derive(ACTIVATIONS[name.value])
    ffn = {"kind": "mlp", "d_ff": width.derive(4 * width.value), "activation": function, "bias": True}
    return post_norm_decoder(config, layernorm(config.number("layer_norm_epsilon")), ffn)


WEIGHTS: Weights = {
    **GPT2,
    "[transformer.]tokens_embed.weight": "embedding.tokens.weight",
    "[transformer.]positions_embed.weight": "embedding.positions.weight",
}
