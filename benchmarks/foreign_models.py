"""Models of other libraries in small sizes, beyond those of foreign.py: what a stranger may bring."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from foreign_transformers import DECODER, IDS, TRANSFORMERS, Made, Maker


def tv(path: str, *shape: int, **options: Any) -> Maker:
    """A model of torchvision: `models.<path>` on a tensor of a shape."""

    def make() -> Made:
        import torchvision

        module: Any = torchvision.models
        *folders, name = path.split(".")
        for folder in folders:
            module = getattr(module, folder)
        if "weights_backbone" not in options and folders and folders[0] in {"detection", "segmentation"}:
            options["weights_backbone"] = None
        return getattr(module, name)(weights=None, **options), (torch.randn(*shape),)

    return make


def detector(name: str) -> Maker:
    """A detector of torchvision on a list of two pictures; it looks at its boxes."""

    def make() -> Made:
        import torchvision

        build = getattr(torchvision.models.detection, name)
        sizes = {"min_size": 64, "max_size": 96} if "rcnn" in name else {}
        model = build(weights=None, weights_backbone=None, num_classes=5, **sizes)
        return model, ([torch.rand(3, 64, 80), torch.rand(3, 64, 64)],)

    return make


def raft() -> Made:
    """Optical flow: a volume of correlations, looked up 12 times."""
    from torchvision.models.optical_flow import raft_small

    return raft_small(weights=None), (torch.randn(1, 3, 128, 128), torch.randn(1, 3, 128, 128))


def quantized_mobilenet() -> Made:
    """A quantized model of torchvision."""
    from torchvision.models.quantization import mobilenet_v2

    torch.backends.quantized.engine = "fbgemm"
    return mobilenet_v2(weights=None, quantize=True), (torch.randn(1, 3, 64, 64),)


def timm_model(name: str, size: int) -> Maker:
    """A model of timm."""

    def make() -> Made:
        import timm

        return timm.create_model(name, pretrained=False), (torch.randn(1, 3, size, size),)

    return make


def diffusion(name: str, options: dict[str, Any], inputs: Callable[[], dict[str, Any]]) -> Maker:
    """A model of diffusers."""

    def make() -> Made:
        import diffusers

        return getattr(diffusers, name)(**options), inputs()

    return make


def _sd3() -> dict[str, Any]:
    return {
        "hidden_states": torch.randn(1, 4, 16, 16),
        "encoder_hidden_states": torch.randn(1, 7, 32),
        "pooled_projections": torch.randn(1, 64),
        "timestep": torch.tensor([3.0]),
    }


SD3 = {
    "sample_size": 16,
    "in_channels": 4,
    "num_layers": 2,
    "attention_head_dim": 16,
    "num_attention_heads": 4,
    "joint_attention_dim": 32,
    "caption_projection_dim": 64,
    "pooled_projection_dim": 64,
    "out_channels": 4,
}


def _flux() -> dict[str, Any]:
    return {
        "hidden_states": torch.randn(1, 16, 16),
        "encoder_hidden_states": torch.randn(1, 7, 32),
        "pooled_projections": torch.randn(1, 32),
        "timestep": torch.tensor([0.5]),
        "img_ids": torch.zeros(16, 3),
        "txt_ids": torch.zeros(7, 3),
        "guidance": torch.tensor([3.5]),
    }


FLUX = {
    "in_channels": 16,
    "num_layers": 1,
    "num_single_layers": 1,
    "attention_head_dim": 16,
    "num_attention_heads": 4,
    "joint_attention_dim": 32,
    "pooled_projection_dim": 32,
    "axes_dims_rope": (4, 4, 8),
    "guidance_embeds": True,
}


def _control() -> dict[str, Any]:
    return {
        "sample": torch.randn(1, 4, 16, 16),
        "timestep": 3,
        "encoder_hidden_states": torch.randn(1, 7, 32),
        "controlnet_cond": torch.randn(1, 3, 128, 128),
    }


CONTROL = {
    "block_out_channels": (32, 64),
    "layers_per_block": 1,
    "cross_attention_dim": 32,
    "norm_num_groups": 8,
    "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
    "attention_head_dim": 4,
}


def adapted(kind: str, **options: Any) -> Maker:
    """A small Llama with an adapter of peft."""

    def make() -> Made:
        import peft
        from transformers import LlamaConfig, LlamaForCausalLM

        base = LlamaForCausalLM(LlamaConfig(**DECODER))
        return peft.get_peft_model(base, getattr(peft, kind)(task_type="CAUSAL_LM", **options)), {
            "input_ids": IDS
        }

    return make


QV = ["q_proj", "v_proj"]
MODELS: dict[str, Maker] = {
    **{
        f"torchvision:{name}": detector(name)
        for name in ("fasterrcnn_mobilenet_v3_large_fpn", "ssdlite320_mobilenet_v3_large")
    },
    "torchvision:lraspp_mobilenet_v3_large": tv("segmentation.lraspp_mobilenet_v3_large", 2, 3, 64, 64),
    "torchvision:r3d_18": tv("video.r3d_18", 1, 3, 4, 32, 32),
    "torchvision:mc3_18": tv("video.mc3_18", 1, 3, 4, 32, 32),
    "torchvision:raft_small": raft,
    "torchvision:mobilenet_v2, quantized": quantized_mobilenet,
    **{
        f"timm:{name}": timm_model(name, size)
        for name, size in {
            "eva02_tiny_patch14_224": 224,
            "maxvit_pico_rw_256": 256,
            "coat_lite_tiny": 224,
            "eca_nfnet_l0": 64,
            "volo_d1_224": 224,
            "hiera_tiny_224": 224,
            "fastvit_t8": 64,
            "vit_small_patch14_reg4_dinov2": 518,
            "xcit_nano_12_p16_224": 224,
            "lambda_resnet26t": 64,
            "halonet26t": 256,
            "sequencer2d_s": 224,
        }.items()
    },
    **TRANSFORMERS,
    "diffusers:SD3Transformer2DModel": diffusion("SD3Transformer2DModel", SD3, _sd3),
    "diffusers:FluxTransformer2DModel": diffusion("FluxTransformer2DModel", FLUX, _flux),
    "diffusers:ControlNetModel": diffusion("ControlNetModel", CONTROL, _control),
    "diffusers:VQModel": diffusion(
        "VQModel",
        {"block_out_channels": (32,), "norm_num_groups": 8, "num_vq_embeddings": 16},
        lambda: {"sample": torch.randn(1, 3, 32, 32)},
    ),
    "peft:IA3": adapted(
        "IA3Config", target_modules=["k_proj", "v_proj", "down_proj"], feedforward_modules=["down_proj"]
    ),
    "peft:DoRA": adapted("LoraConfig", r=4, target_modules=QV, use_dora=True),
    "peft:prefix": adapted("PrefixTuningConfig", num_virtual_tokens=4),
    "peft:LoHa": adapted("LoHaConfig", r=4, target_modules=QV),
}
"""Makers of (module, inputs) by `package:name`."""
