"""Llama renamed, with classes in their authors' repositories: Yi, Baichuan, Orion, TeleChat."""

from __future__ import annotations

from typing import Any

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Family, Mapped, Parts, Weights
from archcli.load.huggingface.whole.llama_like import llama_like

UNBIASED = {"attention_bias": None, "mlp_bias": None}
YI = {"vocab_size": 64000, "num_key_value_heads": 4, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5}
XVERSE = {
    "vocab_size": 100278,
    "hidden_size": 5120,
    "intermediate_size": 13824,
    "num_hidden_layers": 40,
    "num_attention_heads": 40,
    "max_position_embeddings": 8192,
}


def _yi(config: Config) -> Mapped:
    """As Llama, without biases."""
    config.ignore("quantization_bit", "initializer_weight")
    return llama_like(config)


YI_WEIGHTS: Weights = {
    **hf.LLAMA,
    "[model.]layers.*.ln1.weight": "layers.*.attention_norm.weight",
    "[model.]layers.*.ln2.weight": "layers.*.ffn_norm.weight",
}


BAICHUAN = {**UNBIASED, "max_position_embeddings": None, "vocab_size": 64000}
BAICHUAN_7B = {"max_position_embeddings": 4096}
BAICHUAN_13B = {
    "hidden_size": 5120,
    "intermediate_size": 13696,
    "num_hidden_layers": 40,
    "num_attention_heads": 40,
    "model_max_length": 4096,
}
"""Defaults of the 7B and of the 13B, whose classes have the same name."""


def _baichuan(config: Config) -> Mapped:
    """As Llama; the 13B, whose files have no max_position_embeddings, with ALiBi.

    Baichuan 2 divides the rows of its head by their lengths, which changes no count.
    """
    has_rope = config.get("max_position_embeddings", default=None) is not None
    is_small = has_rope or config.architecture.startswith("BaiChuan")
    config.ignore("z_loss_weight", "model_max_length")
    if is_small:
        return llama_like(config.with_defaults(**BAICHUAN_7B))
    config = config.with_defaults(**BAICHUAN_13B)
    longest = config.size("model_max_length")
    return llama_like(config, heads={"position": {"kind": "alibi"}}, max_seq_len=longest)


ORION_DEFAULTS = {
    "attention_bias": None,
    "mlp_bias": None,
    "vocab_size": 84608,
    "intermediate_size": 15360,
    "num_hidden_layers": 40,
    "num_attention_heads": 40,
    "num_key_value_heads": 40,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-05,
}


def _orion(config: Config) -> Mapped:
    """As Llama with LayerNorm, whose eps is `rms_norm_eps`."""
    return llama_like(config, norm=hf.layernorm(config.number("rms_norm_eps")))


TELECHAT_DEFAULTS = {
    "vocab_size": 160256,
    "hidden_size": 4096,
    "ffn_hidden_size": 12288,
    "n_layer": 30,
    "n_head": 32,
    "hidden_act": "silu",
    "layer_norm_epsilon": 1e-5,
    "training_seqlen": 8192,
    "tie_word_embeddings": True,
}
TELECHAT_ALIASES = {
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "rms_norm_eps": "layer_norm_epsilon",
    "max_position_embeddings": "training_seqlen",
    "intermediate_size": "ffn_hidden_size",
}


def _telechat(config: Config) -> Mapped:
    """As Llama, with biases in the output projection of attention and in the down projection.

    `logn` and a longer base of RoPE change what lies beyond the context of training.
    """
    config.only("apply_residual_connection_post_layernorm", False, default=False)
    config.only("embed_layernorm", False, default=False)
    config.ignore("logn", "base_seqlen", "flash_attn", "skip_bias_add", "slow_but_exact", "unk_token_id")
    return llama_like(config, heads={"bias": ["o"]}, ffn=hf.gated(config) | {"bias": ["down"]})


def _telechat_weights(config: Config) -> Weights:
    """Weight names; a fused matrix holds the key and the value of one head after another."""
    heads = config.size("num_attention_heads")
    groups = config.size("num_key_value_heads", default=heads).value
    both = ("layers.*.attention.k_proj.weight", "layers.*.attention.v_proj.weight")
    return {
        "[transformer.]word_embeddings.weight": "embedding.tokens.weight",
        "[transformer.]h.*.input_layernorm.weight": "layers.*.attention_norm.weight",
        "[transformer.]h.*.self_attention.query.weight": "layers.*.attention.q_proj.weight",
        "[transformer.]h.*.self_attention.key_value.weight": Parts(both, groups=groups),
        "[transformer.]h.*.self_attention.dense.*": "layers.*.attention.o_proj.*",
        "[transformer.]h.*.post_attention_layernorm.weight": "layers.*.ffn_norm.weight",
        "[transformer.]h.*.mlp.gate_proj.weight": "layers.*.ffn.gate_proj.weight",
        "[transformer.]h.*.mlp.up_proj.weight": "layers.*.ffn.up_proj.weight",
        "[transformer.]h.*.mlp.down_proj.*": "layers.*.ffn.down_proj.*",
        "[transformer.]ln_f.weight": "final_norm.weight",
        "lm_head.weight": "lm_head.weight",
    }


def _renamed(**sizes: Any) -> Family:
    """A class of Llama's layers with another name and these defaults."""
    about = "Yi as first published, XVERSE and Aquila, with classes in their repositories: Llama's, renamed."
    return Family(about, _yi, YI_WEIGHTS, defaults={**UNBIASED, **sizes}, defaults_of="llama")


FAMILIES = {
    "Yi": _renamed(**YI, rope_theta=5000000.0),
    "aquila": _renamed(vocab_size=100008),
    "xverse": _renamed(**XVERSE),
    "baichuan": Family(
        "Baichuan 1 and 2, whose class is in their repositories: BaichuanConfig.",
        _baichuan,
        hf.renamed(hf.LLAMA, {"[model.]layers.*.self_attn.W_pack.*": Parts(hf.FUSED)}),
        defaults=BAICHUAN,
        defaults_of="llama",
    ),
    "orion": Family(
        "Orion-14B, whose class is in its repository: OrionConfig.",
        _orion,
        hf.LLAMA,
        defaults=ORION_DEFAULTS,
        defaults_of="llama",
    ),
    "telechat": Family(
        "TeleChat 1 and 2, whose class is in their repositories: TelechatConfig.",
        _telechat,
        _telechat_weights,
        aliases=TELECHAT_ALIASES,
        defaults=TELECHAT_DEFAULTS,
    ),
}
