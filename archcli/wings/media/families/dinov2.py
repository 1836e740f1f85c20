"""DINOv2 with and without registers, DINOv3 and TIPSv2: vision transformers with scaled branches."""

from __future__ import annotations

from typing import Any

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Family, Mapped, Parts, Weights
from archcli.wings.media.huggingface.whole.vit_like import (
    CLASSIFIER,
    FRONT,
    MODERN,
    STORED,
    class_ending,
    flat,
    labels,
    named_front,
    named_layers,
    patches,
    qkv_biases,
    unread_token,
    vit_like,
)


def _swiglu(config: Config) -> Mapped:
    """DINOv2's gated network: two thirds of mlp_ratio times the width, up to a multiple of 8."""
    width, ratio = config.size("hidden_size"), config.number("mlp_ratio")
    inner = int(width.value * ratio.value)
    if not config.flag("use_swiglu_ffn").value:
        return hf.mlp(config, width.derive(inner), "hidden_act")
    d_ff = width.derive((int(inner * 2 / 3) + 7) // 8 * 8)
    return {"kind": "glu", "d_ff": d_ff, "activation": "silu", "bias": True}


def _dinov2(config: Config, prefix: str = "Dinov2", **more: Any) -> Mapped:
    """DINOv2: scaled branches; positions are resized to any image."""
    is_classifier = class_ending(config, prefix, CLASSIFIER) == CLASSIFIER
    masks = prefix != "Dinov2" or config.flag("use_mask_token").value
    return vit_like(
        config,
        patches(config, antialias=True if prefix != "Dinov2" else None, **more),
        attention={"bias": qkv_biases(config)},
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
    class_ending(config, "DINOv3ViT")
    config.ignore("pos_embed_shift", "pos_embed_jitter", "pos_embed_rescale")
    bias_keys = {"q": "query_bias", "k": "key_bias", "v": "value_bias", "o": "proj_bias"}
    biased = [ours for ours, key in bias_keys.items() if config.flag(key).value]
    bias, width = config.flag("mlp_bias"), config.size("intermediate_size")
    if config.flag("use_gated_mlp").value:
        ffn = hf.gated(config, bias=bias)
    else:
        ffn = {"kind": "mlp", "d_ff": width, "activation": hf.activation(config, "hidden_act"), "bias": bias}
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


def _tipsv2(config: Config) -> Mapped:
    """TIPSv2: DINOv2's encoder with registers, whose table of positions is resized linearly."""
    config.only_architectures("Tipsv2VisionModel")
    registers = config.count("num_register_tokens")
    return vit_like(
        config,
        patches(config, antialias=True, resize="bilinear", registers=registers),
        attention={"bias": qkv_biases(config)},
        ffn=_swiglu(config),
        layer={"layer_scale": config.number("layerscale_value")},
        **unread_token(config.size("hidden_size")),
    )


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
        **named_front(f"[{base}.]embeddings"),
        f"[{base}.]embeddings.register_tokens": flat(f"{FRONT}.registers.weight"),
        f"[{base}.]embeddings.mask_token": flat("mask_token.weight"),
        **named_layers(f"[{base}.]encoder.layer.*", {**MODERN, **stored, **SCALES, **GATED}),
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
    **named_layers("model.layer.*", {**MODERN, **SCALES, **GATED}),
    **named_layers("layer.*", {**MODERN, **SCALES, **GATED}),
    "norm.*": "final_norm.*",
}

TIPSV2: Weights = {
    **_dinov2_weights("vision_model"),
    "cls_token": flat(f"{FRONT}.class_token.weight", 2),
    "pos_embed": flat(f"{FRONT}.positions.weight"),
    "register_tokens": flat(f"{FRONT}.registers.weight"),
    "mask_token": flat("mask_token.weight"),
    "patch_embed.proj.*": f"{FRONT}.patches.*",
    **named_layers(
        "blocks.*",
        {
            "norm1.*": "attention_norm.*",
            "norm2.*": "ffn_norm.*",
            "ls1.gamma": "attention_layer_scale.scale",
            "ls2.gamma": "ffn_layer_scale.scale",
            "attn.proj.*": "attention.o_proj.*",
            "mlp.fc1.*": "ffn.up_proj.*",
            "mlp.fc2.*": "ffn.down_proj.*",
            "mlp.w3.*": "ffn.down_proj.*",
        },
    ),
    "blocks.*.attn.qkv.*": Parts(tuple(f"layers.*.attention.{n}_proj.*" for n in "qkv")),
    "blocks.*.mlp.w12.*": FUSED,
    "norm.*": "final_norm.*",
}
FAMILIES = {
    "dinov2": Family(
        "DINOv2: Dinov2Config, Dinov2Model and its classifier.", _dinov2, _dinov2_weights("dinov2")
    ),
    "dinov2_with_registers": Family(
        "DINOv2 with registers: Dinov2WithRegistersConfig and its classes.",
        _dinov2_with_registers,
        _dinov2_weights("dinov2_with_registers"),
    ),
    "dinov3_vit": Family("DINOv3: DINOv3ViTConfig, DINOv3ViTModel.", _dinov3, DINOV3),
    "tipsv2_vision_model": Family(
        "TIPSv2's encoder of images: Tipsv2VisionConfig, Tipsv2VisionModel.",
        _tipsv2,
        TIPSV2,
    ),
}
