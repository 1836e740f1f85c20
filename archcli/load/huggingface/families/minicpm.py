"""MiniCPM 1, 2 and 4, whose class is in their repositories: MiniCPMConfig."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import LLAMA
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("minicpm",)
OWN = {"mlp_bias": None, "tie_word_embeddings": True, "scale_emb": 1, "dim_model_base": 1, "scale_depth": 1}


def mapping(config: Config) -> Mapped:
    """As Llama; scaled embeddings, residuals and logits (arXiv:2404.06395 section 3.1)."""
    config = config.of_class(OWN, like="llama")
    config.only("num_experts", None, 0, default=None)
    if config.get("sparse_config", default=None):
        config.note("sparse_config selects blocks of keys in long contexts; attention is counted dense")
    config.ignore("mup_denominator", "num_experts_per_tok")
    depth, base, width = (config.number(key) for key in ("scale_depth", "dim_model_base", "hidden_size"))
    return llama_like(
        config,
        heads={"bias": config.flag("attention_bias")},
        block={"residual_multiplier": depth.derive(depth.value / config.layers() ** 0.5)},
        embedding={"scale": config.number("scale_emb")},
        head={"scale": base.derive(base.value / width.value)},
    )


WEIGHTS: Weights = LLAMA
