"""Moshi's text decoder: MoshiConfig and MoshiForCausalLM, without its audio parts."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.networks import activation
from archcli.load.huggingface.weights.auxiliary import TOWER
from archcli.load.huggingface.weights.map import Auxiliary, Parts, Weights
from archcli.load.huggingface.weights.names import LLAMA
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("moshi",)


def mapping(config: Config) -> Mapped:
    """As Llama, with a table of one row more than there are words, and a window as wide as the context.

    The class never ties its head.
    """
    config = config.of_class()
    config.ignore("tie_word_embeddings", "audio_vocab_size", "audio_encoder_config", "depth_decoder_config")
    if "depth_decoder_config" in config.data or "audio_encoder_config" in config.data:
        config.note("only the text decoder is counted, not the depth decoder nor the audio encoder")
    both = config.size("ffn_dim")
    if both.value % 2:
        raise config.error(f"ffn_dim {both} must be even", "its halves are gate and up", both.place)
    ffn = {
        "kind": "glu",
        "d_ff": both.derive(both.value // 2),
        "activation": activation(config, "hidden_act"),
    }
    embedding = {"tied": False, "extra_rows": 1}
    return llama_like(config, ffn=ffn, slides=lambda _: True, embedding=embedding)


LANGUAGE: Weights = {
    **LLAMA,
    "[model.]layers.*.self_attn.q_proj.linear.*": "layers.*.attention.q_proj.*",
    "[model.]layers.*.self_attn.k_proj.linear.*": "layers.*.attention.k_proj.*",
    "[model.]layers.*.self_attn.v_proj.linear.*": "layers.*.attention.v_proj.*",
    "[model.]layers.*.self_attn.o_proj.linear.*": "layers.*.attention.o_proj.*",
    "[model.]layers.*.mlp.fc1.*": Parts(("layers.*.ffn.gate_proj.*", "layers.*.ffn.up_proj.*")),
    "[model.]layers.*.mlp.fc2.*": "layers.*.ffn.down_proj.*",
}
WEIGHTS: Weights = {
    **{f"[decoder.]{name}": rule for name, rule in LANGUAGE.items()},
    "embed_tokens.*.weight": Auxiliary(TOWER),
    "depth_decoder.**": Auxiliary(TOWER),
    "audio_encoder.**": Auxiliary(TOWER),
}
