"""Small multimodal models, one of each kind of tower, and an image for each."""

from __future__ import annotations

from typing import Any

from archcli.load.source import load_given
from archcli.modules import Model
from archcli.modules.spec.request import Medium

TEXT = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 128,
}
VIT = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "image_size": 56,
    "patch_size": 14,
}
QWEN = {"depth": 6, "num_heads": 4, "patch_size": 14}
WINDOWS = {"window_size": 56, "fullatt_block_indexes": [2, 5]}
MERGED = {"hidden_size": 64, "intermediate_size": 96, "out_hidden_size": 64}
DEEP = {"patch_size": 16, "num_position_embeddings": 64, "deepstack_visual_indexes": [1, 3]}
TILED = {key: value for key, value in VIT.items() if key != "num_attention_heads"}
TILED |= {"num_hidden_layers": 6, "attention_heads": 4}
TILES = {"image_size": [56, 56], "patch_size": [14, 14]}

CONFIGS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], tuple[int, int]]] = {
    "llava": ({"model_type": "llama"}, {**VIT, "model_type": "clip_vision_model"}, {}, (56, 56)),
    "llava_next": (
        {"model_type": "llama"},
        {**VIT, "model_type": "clip_vision_model"},
        {"image_grid_pinpoints": [[56, 112], [112, 56]]},
        (50, 90),
    ),
    "paligemma": (
        {"model_type": "gemma", "head_dim": 16},
        {**VIT, "model_type": "siglip_vision_model", "projection_dim": 64},
        {},
        (56, 56),
    ),
    "gemma3": (
        {"model_type": "gemma3_text", "head_dim": 16},
        {**VIT, "model_type": "siglip_vision_model"},
        {"mm_tokens_per_image": 4},
        (56, 56),
    ),
    "qwen2_vl": (
        {"model_type": "qwen2_vl_text"},
        {**QWEN, "embed_dim": 64, "hidden_size": 64, "mlp_ratio": 2},
        {},
        (112, 140),
    ),
    "qwen2_5_vl": ({"model_type": "qwen2_5_vl_text"}, {**QWEN, **MERGED, **WINDOWS}, {}, (112, 140)),
    "qwen3_vl": (
        {"model_type": "qwen3_vl_text", "head_dim": 16},
        {**QWEN, **MERGED, **DEEP},
        {},
        (384, 320),
    ),
    "mllama": (
        {"model_type": "mllama_text_model", "cross_attention_layers": [1], "pad_token_id": 0},
        {**TILED, "num_global_layers": 2, "intermediate_layers_indices": [0, 2, 3], "vision_output_dim": 256},
        {},
        (56, 56),
    ),
    "internvl": ({"model_type": "qwen2"}, {**VIT, **TILES}, {}, (56, 56)),
}
"""By model_type: what its text part and its vision part state, further keys, and the size of an image."""


def small_model(name: str, **text: Any) -> tuple[Model, Medium]:
    """The model and an image; `text` replaces sizes of its language model."""
    of_text, vision, more, size = CONFIGS[name]
    parts = {"text_config": {**TEXT, **of_text, **text}, "vision_config": vision}
    return load_given({"model_type": name, **parts, **more}, ()).model, Medium("image", size)


RUN = sorted({*CONFIGS} - {"paligemma"})
"""Those whose towers are built; the projector of PaliGemma's config leads to another width."""


def running_model(name: str, **text: Any) -> tuple[Model, Medium]:
    """The same with a token and sections of rotary pairs that fit its sizes, so that its tower runs."""
    model, image = small_model(name, **text)
    towers = [tower.replace(token=7, sections=(2, 3, 3) if tower.sections else ()) for tower in model.towers]
    return model.replace(towers=tuple(towers)), image
