"""Evolla's language model: EvollaConfig and EvollaForProteinText2Text without the encoder of proteins."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.networks import gated
from archcli.load.huggingface.weights.auxiliary import TOWER
from archcli.load.huggingface.weights.map import Auxiliary, Weights
from archcli.load.huggingface.weights.names import LLAMA
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("evolla",)
HEADED = ("EvollaForProteinText2Text",)
OF_PROTEINS = (
    "protein_encoder_config",
    *(f"resampler_{key}" for key in ("depth", "dim_head", "heads", "num_latents", "ff_mult")),
    "aligner_attention_probs_dropout_prob",
    *("add_cross_attention", "is_decoder"),
)
"""Keys of the encoder and of what condenses its output, and some that the class does not read."""

HELD = {
    "adapter_q": "query.weight",
    "adapter_q_bias": "query.bias",
    "adapter_k": "key_protein.weight",
    "adapter_k_bias": "key_protein.bias",
    "adapter_v": "value_protein.weight",
    "adapter_v_bias": "value_protein.bias",
    "adapter_o": "out_proj.weight",
    "adapter_norm": "attention_norm.weight",
    "adapter_ffn_norm": "ff.norm.weight",
    "adapter_ffn_norm_bias": "ff.norm.bias",
    "adapter_up_proj": "ff.fc1.weight",
    "adapter_down_proj": "ff.fc2.weight",
    "adapter_gate": "gate_attention",
    "adapter_ffn_gate": "gate_ffw",
    "adapter_o_bias": "out_proj.bias",
}
"""What an adapter to proteins holds, by our names and by those of its class."""


def mapping(config: Config) -> Mapped:
    """As Llama, never tied; adapters to proteins after some layers are passed by where there is none."""
    config = config.of_class()
    config.ignore(*OF_PROTEINS, "tie_word_embeddings")
    config.note("only the language model is counted, not the encoder of proteins (protein_encoder_config)")
    config.note("adapters to proteins are counted as parameters; text passes them by")
    held, period = _held(config), _period(config)

    def adapted(layers: list[Mapped]) -> list[Mapped]:
        """The layers with gated networks, and with adapters after the last of each period."""
        ffn = gated(config, bias=config.flag("mlp_bias"))
        ends = [{} if (index + 1) % period else {"unread": held} for index in range(len(layers))]
        return [{**layer, "ffn": ffn, **end} for layer, end in zip(layers, ends, strict=True)]

    heads = {"bias": config.flag("attention_bias")}
    return llama_like(config, heads=heads, networks=adapted, embedding={"tied": False})


def _period(config: Config) -> int:
    """The distance between layers with an adapter."""
    return max(config.layers() // config.size("aligner_num_add_layers").value, 1)


def _held(config: Config) -> Mapped:
    """The shapes of what an adapter holds."""
    d_model, n_heads = config.size("hidden_size").value, config.size("num_attention_heads").value
    inner, q = d_model * config.size("aligner_ffn_mult").value, d_model // n_heads * n_heads
    shapes = [
        *([q, d_model], [q], [q, d_model], [q], [q, d_model], [q], [d_model, d_model], [d_model]),
        *([d_model], [d_model], [inner, d_model], [d_model, inner], [1], [1]),
        *([[d_model]] if config.flag("aligner_enable_bias") else []),
    ]
    return dict(zip(HELD, shapes, strict=False))


WEIGHTS: Weights = {
    **LLAMA,
    **{f"[model.]layers.*.adapter.{theirs}": f"layers.*.{ours}.weight" for ours, theirs in HELD.items()},
    "[model.]protein_encoder.**": Auxiliary(TOWER),
}
