"""Vision transformers with a class token: ViT, DeiT, BEiT, DINOv2 with and without registers, DINOv3."""

from __future__ import annotations

from typing import Any

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.family import Family
from archcli.load.huggingface.parts.networks import ACTIVATIONS, activation, gated, layernorm, mlp
from archcli.load.huggingface.weights.map import Parts, Rule, Weights
from archcli.load.huggingface.whole.vit_like import flat, labels, patches, sides, unread_token, vit_like

CLASSIFIER = "ForImageClassification"
FRONT = "front_end"
LAYERS = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "o_proj"}


def _biases(config: Config) -> bool | list[str]:
    """The biases of attention where q, k and v may have none."""
    return True if config.flag("qkv_bias").value else ["o"]


def _kind(config: Config, prefix: str, *endings: str) -> str:
    """The ending of the file's class; the base model's without one."""
    config.only_architectures(*(prefix + ending for ending in ("Model", *endings)))
    return config.architecture.removeprefix(prefix) or "Model"


def _pooled(config: Config) -> Mapped:
    """The base model's pooler: a square matrix and an activation on the class token."""
    width = config.size("hidden_size")
    size = config.size("pooler_output_size", default=width)
    if size.value != width.value:
        what = f"a pooler of {size} is not supported"
        raise config.error(what, f"hidden_size is {width}", size.place)
    act = config.value("pooler_act")
    function = "tanh" if act.value == "tanh" else ACTIVATIONS.get(str(act.value))
    if function is None:
        raise config.error(f"pooler_act {act.value!r} is not supported", at=act.place)
    return {"kind": "first", "dense": True, "activation": function}


def _vit(config: Config) -> Mapped:
    """ViT: a class token, learned positions, biases on q, k and v."""
    config.ignore("pooler_output_size", "pooler_act")
    ends: Mapped = {"pooling": _pooled(config)}
    if _kind(config, "ViT", CLASSIFIER) == CLASSIFIER:
        ends = {"pooling": {"kind": "first"}, **labels(config)}
    return vit_like(config, patches(config), attention={"bias": _biases(config)}, **ends)


def _vit_msn(config: Config) -> Mapped:
    """MSN: ViT without a pooler."""
    ends: Mapped = {}
    if _kind(config, "ViTMSN", CLASSIFIER) == CLASSIFIER:
        ends = {"pooling": {"kind": "first"}, **labels(config)}
    return vit_like(config, patches(config), attention={"bias": _biases(config)}, **ends)


def _ijepa(config: Config) -> Mapped:
    """I-JEPA: ViT without a class token; the mean of all tokens is classified."""
    config.ignore("pooler_output_size", "pooler_act")
    ends: Mapped = {}
    if _kind(config, "IJepa", CLASSIFIER) == CLASSIFIER:
        ends = {"pooling": {"kind": "mean"}, **labels(config)}
    front_end = patches(config, class_token=False)
    return vit_like(config, front_end, attention={"bias": _biases(config)}, **ends)


def _deit(config: Config) -> Mapped:
    """DeiT: as ViT, with a token that learns from a teacher."""
    config.ignore("pooler_output_size", "pooler_act")
    kind = _kind(config, "DeiT", CLASSIFIER, f"{CLASSIFIER}WithTeacher")
    ends: Mapped = {"pooling": _pooled(config)}
    if kind != "Model":
        ends = {"pooling": {"kind": "first"}, **labels(config), "teacher": kind.endswith("Teacher")}
    front_end = patches(config, teacher_token=True)
    return vit_like(config, front_end, attention={"bias": _biases(config)}, **ends)


BEIT_HEADS = (
    "vocab_size",
    "pool_scales",
    "use_auxiliary_head",
    "auxiliary_loss_weight",
    "auxiliary_channels",
    "auxiliary_num_convs",
    "auxiliary_concat_input",
    "semantic_loss_ignore_index",
    "add_fpn",
    "pooler_output_size",
    "pooler_act",
)


def _beit(config: Config) -> Mapped:
    """BEiT: biases by differences of row and column, no bias on keys, scaled branches, a mean as pooler."""
    config.ignore(*BEIT_HEADS, "qkv_bias")
    is_classifier = _kind(config, "Beit", CLASSIFIER) == CLASSIFIER
    image, patch, width = sides(config, "image_size"), sides(config, "patch_size"), config.size("hidden_size")
    grid = [image.value[i] // patch.value[i] for i in (0, 1)]
    learned = config.flag("use_absolute_position_embeddings").value
    front_end = patches(config, position=None if learned else "none", resize="none")
    front_end["resize"] = None
    bias = {"kind": "grid_bias", "grid": image.derive(grid)}
    norm, means = layernorm(config.number("layer_norm_eps")), config.flag("use_mean_pooling").value
    scale = config.number("layer_scale_init_value")
    more: Mapped = {"score_bias": bias} if config.flag("use_shared_relative_position_bias").value else {}
    if config.flag("use_mask_token").value:
        more |= unread_token(width)
    return vit_like(
        config,
        front_end,
        attention={
            "bias": ["q", "v", "o"],
            **({"position": bias} if config.flag("use_relative_position_bias").value else {}),
        },
        layer={"layer_scale": scale} if scale.value > 0 else {},
        final_norm=not means,
        pooling={"kind": "mean", "skipped": 1, "norm": norm} if means else {"kind": "first"},
        **(labels(config) if is_classifier else {}),
        **more,
    )


def _swiglu(config: Config) -> Mapped:
    """DINOv2's gated network: two thirds of mlp_ratio times the width, up to a multiple of 8."""
    width, ratio = config.size("hidden_size"), config.number("mlp_ratio")
    inner = int(width.value * ratio.value)
    if not config.flag("use_swiglu_ffn").value:
        return mlp(config, width.derive(inner), "hidden_act")
    d_ff = width.derive((int(inner * 2 / 3) + 7) // 8 * 8)
    return {"kind": "glu", "d_ff": d_ff, "activation": "silu", "bias": True}


def _dinov2(config: Config, prefix: str = "Dinov2", **more: Any) -> Mapped:
    """DINOv2: scaled branches; positions are resized to any image."""
    is_classifier = _kind(config, prefix, CLASSIFIER) == CLASSIFIER
    masks = prefix != "Dinov2" or config.flag("use_mask_token").value
    return vit_like(
        config,
        patches(config, antialias=True if prefix != "Dinov2" else None, **more),
        attention={"bias": _biases(config)},
        ffn=_swiglu(config),
        layer={"layer_scale": config.number("layerscale_value")},
        **({"pooling": {"kind": "first_and_mean"}, **labels(config)} if is_classifier else {}),
        **(unread_token(config.size("hidden_size")) if masks else {}),
    )


def _dinov2_with_registers(config: Config) -> Mapped:
    """DINOv2 with registers behind the class token."""
    return _dinov2(config, "Dinov2WithRegisters", registers=config.count("num_register_tokens"))


def _dinov3(config: Config) -> Mapped:
    """DINOv3: queries and keys turned by the centers of patches, registers, scaled branches."""
    _kind(config, "DINOv3ViT")
    config.ignore("pos_embed_shift", "pos_embed_jitter", "pos_embed_rescale")
    stated = {"q": "query_bias", "k": "key_bias", "v": "value_bias", "o": "proj_bias"}
    biased = [ours for ours, key in stated.items() if config.flag(key).value]
    bias, width = config.flag("mlp_bias"), config.size("intermediate_size")
    if config.flag("use_gated_mlp").value:
        ffn = gated(config, bias=bias)
    else:
        ffn = {"kind": "mlp", "d_ff": width, "activation": activation(config, "hidden_act"), "bias": bias}
    registers = config.count("num_register_tokens")
    front_end = patches(config, position="none", coordinates="centers", registers=registers)
    position = {"kind": "grid_rope", "theta": config.number("rope_theta"), "full_turns": True}
    return vit_like(
        config,
        front_end,
        attention={"bias": biased, "position": position},
        ffn=ffn,
        layer={"layer_scale": config.number("layerscale_value")},
        **unread_token(config.size("hidden_size")),
    )


def _front(theirs: str) -> Weights:
    """Names of the front end's tensors below this prefix."""
    return {
        f"{theirs}.cls_token": flat(f"{FRONT}.class_token.weight", 2),
        f"{theirs}.position_embeddings": flat(f"{FRONT}.positions.weight"),
        f"{theirs}.patch_embeddings.projection.*": f"{FRONT}.patches.*",
    }


def _named(layers: str, words: dict[str, str]) -> dict[str, Rule]:
    """Names of the layers' tensors, `words` being theirs for ours."""
    return {f"{layers}.{theirs}": f"layers.*.{ours}" for theirs, ours in words.items()}


MODERN = {f"attention.{name}.*": f"attention.{name}.*" for name in LAYERS.values()} | {
    "mlp.fc1.*": "ffn.up_proj.*",
    "mlp.fc2.*": "ffn.down_proj.*",
}
NORMS = {"layernorm_before.*": "attention_norm.*", "layernorm_after.*": "ffn_norm.*"}
STORED = {
    **{
        f"attention.attention.{theirs}.*": f"attention.{ours}_proj.*"
        for theirs, ours in {"query": "q", "key": "k", "value": "v"}.items()
    },
    "attention.output.dense.*": "attention.o_proj.*",
    "intermediate.dense.*": "ffn.up_proj.*",
    "output.dense.*": "ffn.down_proj.*",
}
"""Names in files that older transformers wrote."""


def _vit_weights(base: str, **more: Rule) -> Weights:
    """Names of ViT and DeiT, as in memory and as stored."""
    return {
        **_front(f"[{base}.]embeddings"),
        **_named(f"[{base}.]layers.*", {**MODERN, **NORMS}),
        **_named(f"[{base}.]encoder.layer.*", {**STORED, **NORMS}),
        f"[{base}.]layernorm.*": "final_norm.*",
        f"[{base}.]pooler.dense.*": "pooling.dense.*",
        "classifier.*": "classifier.*",
        **more,
    }


DEIT: Weights = {
    **_vit_weights("deit"),
    "[deit.]embeddings.distillation_token": flat(f"{FRONT}.teacher_token.weight", 2),
    "cls_classifier.*": "classifier.*",
    "distillation_classifier.*": "teacher_classifier.*",
}
BEIT: Weights = {
    **_vit_weights("beit"),
    **_named(
        "[beit.]layers.*",
        {
            "lambda_1": "attention_layer_scale.scale",
            "lambda_2": "ffn_layer_scale.scale",
            "relative_position_bias.relative_position_bias_table": "attention.score_bias.weight",
        },
    ),
    **_named(
        "[beit.]encoder.layer.*",
        {
            "lambda_1": "attention_layer_scale.scale",
            "lambda_2": "ffn_layer_scale.scale",
            "attention.attention.relative_position_bias.relative_position_bias_table": (
                "attention.score_bias.weight"
            ),
        },
    ),
    "[beit.]shared_position_bias.relative_position_bias_table": "score_bias.weight",
    "[beit.]encoder.relative_position_bias.relative_position_bias_table": "score_bias.weight",
    "[beit.]embeddings.mask_token": flat("mask_token.weight", 2),
    "[beit.]pooler.layernorm.*": "pooling.norm.*",
}
SCALES = {
    "norm1.*": "attention_norm.*",
    "norm2.*": "ffn_norm.*",
    "layer_scale1.lambda1": "attention_layer_scale.scale",
    "layer_scale2.lambda1": "ffn_layer_scale.scale",
}
GATED = {f"mlp.{theirs}.*": f"ffn.{theirs}.*" for theirs in ("gate_proj", "up_proj", "down_proj")}
FUSED = Parts(("layers.*.ffn.gate_proj.*", "layers.*.ffn.up_proj.*"))
"""Gate and up of DINOv2's files, one below the other."""


def _dinov2_weights(base: str) -> Weights:
    """Names of DINOv2, as in memory and as stored."""
    stored = {name: ours for name, ours in STORED.items() if name.startswith("attention.")}
    return {
        **_front(f"[{base}.]embeddings"),
        f"[{base}.]embeddings.register_tokens": flat(f"{FRONT}.registers.weight"),
        f"[{base}.]embeddings.mask_token": flat("mask_token.weight"),
        **_named(f"[{base}.]encoder.layer.*", {**MODERN, **stored, **SCALES, **GATED}),
        f"[{base}.]encoder.layer.*.mlp.weights_in.*": FUSED,
        f"[{base}.]encoder.layer.*.mlp.weights_out.*": "layers.*.ffn.down_proj.*",
        f"[{base}.]layernorm.*": "final_norm.*",
        "classifier.*": "classifier.*",
    }


DINOV3: Weights = {
    "embeddings.cls_token": flat(f"{FRONT}.class_token.weight", 2),
    "embeddings.register_tokens": flat(f"{FRONT}.registers.weight"),
    "embeddings.mask_token": flat("mask_token.weight", 2),
    "embeddings.patch_embeddings.*": f"{FRONT}.patches.*",
    **_named("model.layer.*", {**MODERN, **SCALES, **GATED}),
    **_named("layer.*", {**MODERN, **SCALES, **GATED}),
    "norm.*": "final_norm.*",
}

FAMILIES = {
    "vit": Family("ViT: ViTConfig, ViTModel, ViTForImageClassification.", _vit, _vit_weights("vit")),
    "vit_msn": Family(
        "MSN: ViTMSNConfig, ViTMSNModel, ViTMSNForImageClassification.", _vit_msn, _vit_weights("vit")
    ),
    "ijepa": Family(
        "I-JEPA: IJepaConfig, IJepaModel, IJepaForImageClassification.", _ijepa, _vit_weights("ijepa")
    ),
    "deit": Family("DeiT: DeiTConfig, DeiTModel and its classifiers.", _deit, DEIT),
    "beit": Family("BEiT: BeitConfig, BeitModel, BeitForImageClassification.", _beit, BEIT),
    "dinov2": Family(
        "DINOv2: Dinov2Config, Dinov2Model and its classifier.", _dinov2, _dinov2_weights("dinov2")
    ),
    "dinov2_with_registers": Family(
        "DINOv2 with registers: Dinov2WithRegistersConfig and its classes.",
        _dinov2_with_registers,
        _dinov2_weights("dinov2_with_registers"),
    ),
    "dinov3_vit": Family("DINOv3: DINOv3ViTConfig, DINOv3ViTModel.", _dinov3, DINOV3),
}
