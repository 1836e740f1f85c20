"""Phi-1, 1.5 and 2 as first published, with classes in their repositories: PhiConfig."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.parts.attention import attention, even_split
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.feed_forward import mlp
from archcli.load.huggingface.parts.gpt_like import GPT_ALIASES, inner_width
from archcli.load.huggingface.parts.norms import layernorm
from archcli.load.huggingface.value import Mapped
from archcli.load.huggingface.weights.names import FUSED
from archcli.load.huggingface.weights.rules import Parts, Weights

MODEL_TYPES = ("phi-msft", "mixformer-sequential")

DEFAULTS = {
    "vocab_size": 50304,
    "n_positions": 2048,
    "n_embd": 1024,
    "n_layer": 20,
    "n_head": 16,
    "rotary_dim": 32,
    "activation_function": "gelu_new",
    "layer_norm_epsilon": 1e-5,
    "pad_vocab_size_multiple": 64,
    "tie_word_embeddings": False,
}
ALIASES = {**GPT_ALIASES, "num_key_value_heads": "n_head_kv"}
RUNNING = ("flash_attn", "flash_rotary", "fused_dense", "attn_pdrop", "embd_layer", "phyagi_version")


def mapping(config: Config) -> Mapped:
    """Parallel block with one norm, biases everywhere including the head; RoPE on rotary_dim of each head."""
    config = config.of_class(DEFAULTS, **ALIASES)
    config.ignore(*RUNNING)
    stated = config.inner("architecture", {"block_cls": "parallel"})
    stated.only("block_cls", "parallel")
    words, multiple = config.size("vocab_size"), config.size("pad_vocab_size_multiple").value
    padded = words.derive(-(-words.value // multiple) * multiple)
    width, rotated, norm = (
        even_split(config),
        config.size("rotary_dim"),
        layernorm(config.number("layer_norm_epsilon")),
    )
    rope = {"kind": "rope"} | ({"rotary_dim": rotated} if rotated.value < width.value else {})
    layer = {
        "kind": "parallel",
        "attention": attention(config, width, bias=True, position=rope),
        "ffn": mlp(config, inner_width(config), "activation_function"),
    }
    return decoder(config, norm, [layer] * config.layers(), head={"bias": True}, vocab_size=padded)


def weights(config: Config) -> Weights | None:
    """Weight names; those of mixformer-sequential count the embedding as the first layer."""
    if config.model_type != "phi-msft":
        return None
    return {
        "[transformer.]embd.wte.weight": "embedding.tokens.weight",
        "[transformer.]h.*.ln.*": "layers.*.attention_norm.*",
        "[transformer.]h.*.mixer.Wqkv.*": Parts(FUSED),
        "[transformer.]h.*.mixer.out_proj.*": "layers.*.attention.o_proj.*",
        "[transformer.]h.*.mlp.fc1.*": "layers.*.ffn.up_proj.*",
        "[transformer.]h.*.mlp.fc2.*": "layers.*.ffn.down_proj.*",
        "lm_head.ln.*": "final_norm.*",
        "lm_head.linear.*": "lm_head.*",
    }
