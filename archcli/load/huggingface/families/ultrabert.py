"""UltraBERT: UltrabertConfig, UltrabertForMaskedLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import FULL, SLIDING, attention, head_dim, layer_types
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.parts.rope import parameters, position
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import LLAMA
from archcli.load.huggingface.whole.bert_like import heads_of

MODEL_TYPES = ("ultrabert",)
THETA = {FULL: 2560000.0, SLIDING: 10000.0}
HEADS = {"Model": (), "ForMaskedLM": ("words",), "ForTokenClassification": ("labels",)}


def mapping(config: Config) -> Mapped:
    """As Llama, where every token sees every other; two layers of three near ones alone.

    The head's transform is two matrices without bias, by way of prediction_head_size.
    """
    config = config.of_class()
    config.ignore("classifier_pooling", "classifier_dropout")
    for key in ("attention_windows", "rope_theta", "rope_scaling"):
        config.only(key, None, default=None)
    types = layer_types(config, [SLIDING if (index + 1) % 3 else FULL for index in range(config.layers())])
    made = {kind: _layer(config, kind) for kind in dict.fromkeys(types)}
    head = {"activation": "gelu_tanh", "bottleneck": config.size("prediction_head_size"), "bias": False}
    fields = heads_of(config, "Ultrabert", HEADS, head)
    return decoder(config, rmsnorm(config), [made[kind] for kind in types], kind="encoder", **fields)


def _layer(config: Config, kind: str) -> Mapped:
    width, window = head_dim(config), config.size("sliding_window")
    stated = {"rope_theta": config.number("rope_theta", default=THETA[kind])}
    near = {"sparsity": {"kind": "longformer", "window": window.derive(2 * window.value)}}
    heads = attention(
        config,
        width,
        bias=config.flag("attention_bias"),
        position=position(config, width, {**stated, **parameters(config, "rope_parameters", kind)}),
        causal=False,
        **(near if kind == SLIDING else {}),
    )
    return {"kind": "pre_norm", "attention": heads, "ffn": gated(config, bias=config.flag("mlp_bias"))}


WEIGHTS: Weights = {
    **{name: rule for name, rule in LLAMA.items() if name != "lm_head.*"},
    **{name.replace("[model.]", "ultrabert."): rule for name, rule in LLAMA.items() if "[" in name},
    "cls.weight": "lm_head.weight",
    "head.linear1.weight": "lm_head_transform.weight",
    "head.linear2.weight": "lm_head_transform_back.weight",
    "head.decoder.weight": "lm_head.weight",
    "lm_head.weight": "lm_head.weight",
    "projection_head.linear1.weight": "lm_head_transform.weight",
    "projection_head.linear2.weight": "lm_head_transform_back.weight",
    "classifier.*": "classifier.*",
}
