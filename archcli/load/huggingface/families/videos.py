"""Encoders of videos in blocks of frames: ViViT and VideoMAE."""

from __future__ import annotations

from typing import Any

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Family, Mapped, Parts, Rule, Weights
from archcli.load.huggingface.whole.conv_like import size_list
from archcli.load.huggingface.whole.vit_like import (
    FRONT,
    MODERN,
    NORMS,
    STORED,
    flat,
    named_layers,
    qkv_biases,
    sides,
    vit_like,
)

AXES = 3
"""Sides of a block: frames, height and width."""


def _front_end(config: Config, block: list[int], **more: Any) -> Mapped:
    """Blocks of a video of the length of training."""
    return {
        "kind": "video_patches",
        "n_frames": config.size("num_frames"),
        "image_size": sides(config, "image_size"),
        "in_channels": config.size("num_channels"),
        "block": block,
        **more,
    }


def _vivit(config: Config) -> Mapped:
    """ViViT: a class token, a row of positions for each block, a pooler."""
    config.only_architectures("VivitModel")
    width = config.size("hidden_size")
    size = config.size("pooler_output_size", default=width)
    act = config.value("pooler_act")
    function = "tanh" if act.value == "tanh" else hf.ACTIVATIONS.get(str(act.value))
    if size.value != width.value or function is None:
        raise config.error("a pooler of another width or activation is not supported", at=act.place)
    pooling = {"kind": "first", "dense": True, "activation": function}
    front_end = _front_end(config, size_list(config, "tubelet_size", AXES))
    return vit_like(config, front_end, attention={"bias": qkv_biases(config)}, pooling=pooling)


def _videomae(config: Config) -> Mapped:
    """VideoMAE without its decoder: no class token, positions of sines, no bias on keys."""
    config.only_architectures("VideoMAEModel")
    config.ignore(
        "decoder_num_attention_heads",
        "decoder_hidden_size",
        "decoder_num_hidden_layers",
        "decoder_intermediate_size",
        "norm_pix_loss",
    )
    biased = ["q", "v", "o"] if config.flag("qv_bias").value else ["o"]
    block = [config.size("tubelet_size").value, *sides(config, "patch_size").value]
    front_end = _front_end(config, block, class_token=False, positions="sinusoidal")
    normed = not config.flag("use_mean_pooling").value
    return vit_like(config, front_end, attention={"bias": biased}, final_norm=normed)


def _kernel(config: Config, block: list[int]) -> Parts:
    """The matrix of blocks, which is stored as the kernel of a convolution."""
    return Parts((f"{FRONT}.patches.weight",), folded=(config.size("num_channels").value, *block))


def _vivit_names(config: Config) -> Weights:
    """Names of ViViT's tensors, in memory and as stored."""
    patches = "[vivit.]embeddings.patch_embeddings.projection"
    return {
        f"{patches}.weight": _kernel(config, size_list(config, "tubelet_size", AXES)),
        f"{patches}.bias": f"{FRONT}.patches.bias",
        "[vivit.]embeddings.cls_token": flat(f"{FRONT}.class_token.weight", 2),
        "[vivit.]embeddings.position_embeddings": flat(f"{FRONT}.positions.weight"),
        **named_layers("[vivit.]layers.*", {**MODERN, **NORMS}),
        **named_layers("[vivit.]encoder.layer.*", {**STORED, **NORMS}),
        "[vivit.]layernorm.*": "final_norm.*",
        "[vivit.]pooler.dense.*": "pooling.dense.*",
    }


def _videomae_names(config: Config) -> Weights:
    """Names of VideoMAE's tensors: the biases of queries and values stand beside their matrices."""
    patches = "[videomae.]embeddings.patch_embeddings.projection"
    block = [config.size("tubelet_size").value, *sides(config, "patch_size").value]
    biases: dict[str, Rule] = {
        f"[videomae.]encoder.layer.*.attention.attention.{n}_bias": f"layers.*.attention.{n}_proj.bias"
        for n in "qv"
    }
    return {
        f"{patches}.weight": _kernel(config, block),
        f"{patches}.bias": f"{FRONT}.patches.bias",
        **named_layers("[videomae.]encoder.layer.*", {**STORED, **NORMS}),
        **biases,
        "[videomae.]layernorm.*": "final_norm.*",
    }


FAMILIES = {
    "vivit": Family("ViViT: VivitConfig, VivitModel.", _vivit, _vivit_names),
    "videomae": Family("VideoMAE's encoder: VideoMAEConfig, VideoMAEModel.", _videomae, _videomae_names),
}
