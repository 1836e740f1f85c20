"""What transformers says of small multimodal models. Regenerates the figures of `small_towers.json`.

    python tests/oracle/regenerate_small_towers.py [ID …]

`small_towers.json` holds a small config for each, its class where no mapping names it, the processor's
settings that leave the image as it is, and one image. The class is built with numbers on the CPU; its
parameters are counted by part, and `FlopCounterMode` counts the eager `get_image_features`: 2 per
multiply-add. `reads` says what the class is given: `grid` patches in rows with their grid, of `frames` equal
frames; `patches` the same with an axis for each side; `pixels` an image, `list` one in a list of a list;
`naflex` patches of SigLIP 2, whose product that resizes the table of positions is not counted; `slices`
patches in a row, of MiniCPM. None of our code takes part.
"""

import json
import re
import sys
import warnings
from pathlib import Path

import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode
from transformers.models.auto import modeling_auto

FIGURES = Path(__file__).parent / "small_towers.json"
PARTS = {
    "image_generator": r"generation_|vqmodel",
    "projector": r"projector|merger|visual\.downsample|\.connector\.|aligner\.|resampler_model|vision_adapter"
    r"|vision_projection|mlp1",
    "vision_tower": r"vision_tower|vision_model|visual\.",
}
NAMES = modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
GIVEN = {"pixel_values", "image_grid_thw", "spatial_shapes", "pixel_attention_mask", "target_sizes"}


def part_of(name):
    """The part that a tensor of the class is in."""
    return next((part for part, words in PARTS.items() if re.search(words, name)), "language_model")


def model_of(entry):
    """The class of an entry, with numbers."""
    kind = entry["config"]["model_type"]
    stated = {key: value for key, value in entry["config"].items() if key != "model_type"}
    config = transformers.CONFIG_MAPPING[kind](**stated)
    cls = getattr(transformers, entry.get("class") or NAMES[kind])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cls._from_config(config, attn_implementation="eager").eval()


def inputs(entry):
    """What the class reads of an image of ones."""
    (height, width), patch = entry["image"], entry.get("patch", 1)
    h, w, reads = height // patch, width // patch, entry["reads"]
    if reads == "pixels":
        return {"pixel_values": torch.ones((1, 3, height, width))}
    if reads == "list":
        return {"pixel_values": torch.ones((1, 1, 3, height, width))}
    if reads == "slices":
        rows = torch.ones((1, 3, patch, h * w * patch))
        return {"pixel_values": rows, "target_sizes": torch.tensor([[h, w]], dtype=torch.int32)}
    numbers = entry.get("frames", 1) * 3 * patch * patch
    if reads == "naflex":
        rows = torch.ones((1, h * w, numbers))
        mask = torch.ones((1, h * w), dtype=torch.int64)
        return {"pixel_values": rows, "spatial_shapes": torch.tensor([[h, w]]), "pixel_attention_mask": mask}
    shape = (3, patch, patch) if reads == "patches" else (numbers,)
    return {"pixel_values": torch.ones((h * w, *shape)), "image_grid_thw": torch.tensor([[1, h, w]])}


def figures(entry):
    """Parameters by part, and tokens and FLOPs of the image."""
    model, parts = model_of(entry), {}
    for name, tensor in model.named_parameters():
        parts[part_of(name)] = parts.get(part_of(name), 0) + tensor.numel()
    holder = model if hasattr(model, "get_image_features") else model.model
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        features = holder.get_image_features(**inputs(entry))
    rows = getattr(features, "pooler_output", features)
    rows = rows if isinstance(rows, torch.Tensor) else torch.cat([*rows])
    flops = counter.get_total_flops()
    if entry["reads"] == "naflex":  # which resizes its table by a product
        table = model.model.vision_tower.embeddings.position_embedding.weight
        flops -= (
            2 * (entry["image"][0] // entry["patch"]) * (entry["image"][1] // entry["patch"]) * table.numel()
        )
    return {"params": parts, "tokens": rows.shape[:-1].numel(), "flops": flops}


if __name__ == "__main__":
    known = json.loads(FIGURES.read_text())
    for name in sys.argv[1:] or known:
        known[name] |= figures(known[name])
    FIGURES.write_text(
        "{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in known.items()) + "\n}\n"
    )
