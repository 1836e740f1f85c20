"""Encoders of Llama's layers: EuroBERT, UltraBERT and ESM Cambrian."""

from __future__ import annotations

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Family, Mapped, Weights
from archcli.load.huggingface.whole.bert_like import heads_of, is_wrapped
from archcli.load.huggingface.whole.llama_like import llama_like

EUROBERT_HEADS = {"Model": (), "ForMaskedLM": ("words",), "ForTokenClassification": ("labels",)}


def _eurobert(config: Config) -> Mapped:
    """Llama's layers with attention both ways; mlp_bias biases the head too."""
    config.ignore("mask_token_id", "classifier_pooling", "clf_pooling")
    bias = config.flag("mlp_bias")
    fields = heads_of(config, "EuroBert", EUROBERT_HEADS, {"transform": False, "bias": bias})
    return llama_like(config, kind="encoder", heads={"causal": False}, **fields)


ULTRABERT_THETA = {hf.FULL: 2560000.0, hf.SLIDING: 10000.0}
ULTRABERT_HEADS = {"Model": (), "ForMaskedLM": ("words",), "ForTokenClassification": ("labels",)}


def _ultrabert(config: Config) -> Mapped:
    """Llama's layers with attention both ways, two of three with a sliding window.

    The head's transform is two matrices without bias, with a bottleneck of prediction_head_size.
    """
    config.ignore("classifier_pooling", "classifier_dropout")
    for key in ("attention_windows", "rope_theta", "rope_scaling"):
        config.only(key, None, default=None)
    types = hf.layer_types(
        config, [hf.SLIDING if (index + 1) % 3 else hf.FULL for index in range(config.layers())]
    )
    layers = {kind: _ultrabert_layer(config, kind) for kind in dict.fromkeys(types)}
    head = {"activation": "gelu_tanh", "bottleneck": config.size("prediction_head_size"), "bias": False}
    fields = heads_of(config, "Ultrabert", ULTRABERT_HEADS, head)
    return hf.decoder(config, hf.rmsnorm(config), [layers[kind] for kind in types], kind="encoder", **fields)


def _ultrabert_layer(config: Config, kind: str) -> Mapped:
    width, window = hf.head_dim(config), config.size("sliding_window")
    rope = {
        "rope_theta": config.number("rope_theta", default=ULTRABERT_THETA[kind]),
        **hf.parameters(config, "rope_parameters", kind),
    }
    # sliding_window tokens on either side
    sliding = {"sparsity": {"kind": "longformer", "window": window.derive(2 * window.value)}}
    heads = hf.attention(
        config,
        width,
        bias=config.flag("attention_bias"),
        position=hf.position(config, width, rope),
        causal=False,
        **(sliding if kind == hf.SLIDING else {}),
    )
    return {"kind": "pre_norm", "attention": heads, "ffn": hf.gated(config, bias=config.flag("mlp_bias"))}


def _ultrabert_weights(config: Config) -> Weights:
    """The names of files of words alone, or of UltraVBERT's, whose head is called otherwise."""
    wrapped = is_wrapped(config, "Ultrabert")
    transform, heads = ("projection_head", ("lm_head",)) if wrapped else ("head", ("cls", "head.decoder"))
    return {
        **{name: rule for name, rule in hf.LLAMA.items() if name != "lm_head.*"},
        **{name.replace("[model.]", "ultrabert."): rule for name, rule in hf.LLAMA.items() if "[" in name},
        f"{transform}.linear1.weight": "lm_head_transform.weight",
        f"{transform}.linear2.weight": "lm_head_transform_back.weight",
        **{f"{head}.weight": "lm_head.weight" for head in heads},
        "classifier.*": "classifier.*",
    }


ESMC_DEFAULTS = {"rms_norm_eps": 1e-06}
ESMC_HEADS = {"Model": (), "ForMaskedLM": ("words",)}
ESMC_EPS = 1e-5
"""The eps of the class, whatever the file says."""
RESIDUAL_LAYERS = 36
"""The residual additions of each layer are divided by sqrt(layers / 36)."""


def _esmc(config: Config) -> Mapped:
    """Pre-norm, LayerNorm, RoPE, normalized queries and keys, SwiGLU; the head is never tied."""
    config.ignore("tie_word_embeddings", "mask_token_id", "rms_norm_eps", "classifier_dropout")
    heads, depth = config.size("num_attention_heads"), config.size("num_hidden_layers")
    config.only("num_key_value_heads", heads.value, default=heads)
    config.only("head_dim", hf.even_split(config).value, default=hf.even_split(config))
    gain = hf.layernorm(ESMC_EPS, bias=False)
    whole = llama_like(
        config,
        kind="encoder",
        norm=gain,
        heads={"causal": False, "qk_norm": {"per": "full", "norm": gain}},
        block={
            "norm": hf.layernorm(ESMC_EPS),
            "residual_multiplier": depth.derive((depth.value / RESIDUAL_LAYERS) ** -0.5),
        },
        **heads_of(config, "Esmc", ESMC_HEADS, {"activation": "gelu", "norm": hf.layernorm(ESMC_EPS)}),
    )
    return {**whole, "embedding": {**whole["embedding"], "tied": False}}


ESMC_WEIGHTS: Weights = {
    **{
        name.replace("[model.]", "[esmc.]"): rule
        for name, rule in {**hf.LLAMA, **hf.QK_NORM}.items()
        if name != "lm_head.*"
    },
    "lm_head.dense.*": "lm_head_transform.*",
    "lm_head.layer_norm.*": "lm_head_norm.*",
    "lm_head.decoder.*": "lm_head.*",
}


FAMILIES = {
    "eurobert": Family(
        "EuroBERT: EuroBertConfig, EuroBertForMaskedLM.",
        _eurobert,
        {**hf.LLAMA, "classifier.*": "classifier.*"},
    ),
    "ultrabert": Family("UltraBERT: UltrabertConfig, UltrabertForMaskedLM.", _ultrabert, _ultrabert_weights),
    "esmc": Family(
        "ESM Cambrian, of proteins: EsmcConfig, EsmcForMaskedLM.", _esmc, ESMC_WEIGHTS, defaults=ESMC_DEFAULTS
    ),
}
