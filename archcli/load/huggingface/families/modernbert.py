"""ModernBERT: ModernBertConfig, ModernBertForMaskedLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped, without_none
from archcli.load.huggingface.parts.attention import FULL, SLIDING, even_split, layer_types
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import activation, gated, layernorm
from archcli.load.huggingface.parts.rope import parameters, position
from archcli.load.huggingface.weights.map import Parts, Weights
from archcli.load.huggingface.weights.names import FUSED
from archcli.load.huggingface.whole.bert_like import heads_of

MODEL_TYPES = ("modernbert",)
OWN = {"global_attn_every_n_layers": 3}
THETA = {FULL: ("global_rope_theta", 160000.0), SLIDING: ("local_rope_theta", 10000.0)}
HEADS = {"Model": (), "ForMaskedLM": ("words",)}
UNREAD = (
    "classifier_pooling",
    "deterministic_flash_attn",
    "initializer_cutoff_factor",
    "layer_norm_eps",
    "mlp_dropout",
    "reference_compile",
    "repad_logits_with_grad",
    "sparse_pred_ignore_index",
    "sparse_prediction",
)


def mapping(config: Config) -> Mapped:
    """Pre-norm, GeGLU, RoPE; of three layers two see the tokens near them, on both sides.

    The first layer reads the embeddings' norm, and so has none of its own before attention.
    """
    config = config.of_class(OWN)
    config.ignore(*UNREAD)
    norm = layernorm(config.number("norm_eps"), bias=config.flag("norm_bias"))
    period, count = config.size("global_attn_every_n_layers").value, config.layers()
    types = layer_types(config, [SLIDING if index % period else FULL for index in range(count)])
    made = {kind: _layer(config, kind) for kind in dict.fromkeys(types)}
    layers = [{**made[types[0]], "normed": "ffn"}, *(made[kind] for kind in types[1:])]
    head = {
        "activation": activation(config, "classifier_activation"),
        "transform_bias": config.flag("classifier_bias"),
        "bias": config.flag("decoder_bias"),
    }
    return decoder(
        config,
        norm,
        layers,
        kind="encoder",
        embedding={"norm": norm},
        **heads_of(config, "ModernBert", HEADS, head),
    )


def _layer(config: Config, kind: str) -> Mapped:
    """A layer that sees all tokens, or `local_attention` of them, half to each side."""
    width, window = even_split(config), config.size("local_attention")
    key, theta = THETA[kind]
    stated = {**parameters(config, "rope_parameters", kind), **parameters(config, "rope_scaling")}
    base = config.number(key, default=theta)
    attention = {
        "kind": "mha",
        "n_heads": config.size("num_attention_heads"),
        "bias": config.flag("attention_bias"),
        "causal": False,
        "position": position(config, width, {"rope_theta": base, **stated}),
        "sparsity": {"kind": "longformer", "window": window} if kind == SLIDING else None,
    }
    ffn = gated(config, act="hidden_activation", bias=config.flag("mlp_bias"))
    return {"kind": "pre_norm", "attention": without_none(attention), "ffn": ffn}


WEIGHTS: Weights = {
    "[model.]embeddings.tok_embeddings.weight": "embedding.tokens.weight",
    "[model.]embeddings.norm.*": "embedding.norm.*",
    "[model.]layers.*.attn_norm.*": "layers.*.attention_norm.*",
    "[model.]layers.*.attn.Wqkv.*": Parts(FUSED),
    "[model.]layers.*.attn.Wo.*": "layers.*.attention.o_proj.*",
    "[model.]layers.*.mlp_norm.*": "layers.*.ffn_norm.*",
    "[model.]layers.*.mlp.Wi.*": Parts(("layers.*.ffn.gate_proj.*", "layers.*.ffn.up_proj.*")),
    "[model.]layers.*.mlp.Wo.*": "layers.*.ffn.down_proj.*",
    "[model.]final_norm.*": "final_norm.*",
    "head.dense.*": "lm_head_transform.*",
    "head.norm.*": "lm_head_norm.*",
    "decoder.*": "lm_head.*",
    "projection_head.dense.*": "lm_head_transform.*",
    "projection_head.norm.*": "lm_head_norm.*",
    "lm_head.*": "lm_head.*",
}
