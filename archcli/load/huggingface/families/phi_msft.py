"""Phi-1, 1.5 and 2 as first published, with classes in their repositories: PhiConfig."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import attention, even_split
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import layernorm, mlp
from archcli.load.huggingface.weights.map import Parts, Rule, Weights
from archcli.load.huggingface.whole.gpt_like import GPT_ALIASES, inner_width

MODEL_TYPES = ("phi-msft", "mixformer-sequential")

OWN = {
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
    config = config.of_class(OWN, **ALIASES)
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


def weights(config: Config) -> Weights:
    """Weight names; mixformer-sequential counts the embedding as the first layer, the head as the last."""
    if config.get("model_type", default="") != "mixformer-sequential":
        return {
            "[transformer.]embd.wte.weight": "embedding.tokens.weight",
            **_layer("[transformer.]h.*", "layers.*"),
            "lm_head.ln.*": "final_norm.*",
            "lm_head.linear.*": "lm_head.*",
        }
    last = config.of_class(OWN, **ALIASES).layers() + 1
    layers = [_layer(f"layers.{i}", f"layers.{i - 1}") for i in range(1, last)]
    return {
        "layers.0.wte.weight": "embedding.tokens.weight",
        **{name: rule for layer in layers for name, rule in layer.items()},
        f"layers.{last}.ln.*": "final_norm.*",
        f"layers.{last}.linear.*": "lm_head.*",
    }


def _layer(theirs: str, ours: str) -> dict[str, Rule]:
    fused = tuple(f"{ours}.attention.{which}_proj.*" for which in "qkv")
    return {
        f"{theirs}.ln.*": f"{ours}.attention_norm.*",
        f"{theirs}.mixer.Wqkv.*": Parts(fused),
        f"{theirs}.mixer.out_proj.*": f"{ours}.attention.o_proj.*",
        f"{theirs}.mlp.fc1.*": f"{ours}.ffn.up_proj.*",
        f"{theirs}.mlp.fc2.*": f"{ours}.ffn.down_proj.*",
    }
