"""What transformers says of multimodal models. Regenerates the figures of `wrappers.json`.

    python tests/oracle/regenerate_wrappers.py [ID …]

`wrappers.json` holds a config, the processor's settings and images for each. The processor of transformers
makes a blank image ready; the class is built on torch's meta device, its parameters are counted by part, and
`FlopCounterMode` counts the eager `get_image_features`: 2 per multiply-add. Classes that compute with sizes
that are not there on meta have no images, but parameters. None of our code takes part.
"""

import json
import re
import sys
from pathlib import Path

import numpy as np
import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

FIGURES = Path(__file__).parent / "wrappers.json"
PROJECTOR = re.compile(r"multi_modal_projector|mm_projector|merger|image_newline|\.connector\.|downsample")
TOWER = re.compile(r"vision_tower|vision_model|\.visual\.|vision_encoder")


def part_of(name):
    """The part that a tensor of the class is in."""
    if PROJECTOR.search(name):
        return "projector"
    return "vision_tower" if TOWER.search(name) else "language_model"


def model_of(entry):
    """The class of an entry on meta."""
    config = transformers.AutoConfig.for_model(**entry["config"])
    with torch.device("meta"):
        classes = transformers.AutoModelForImageTextToText
        return classes.from_config(config, attn_implementation="eager").eval()


def inputs(entry, size):
    """What the processor makes of a blank image: numbers on meta, sizes and grids real."""
    processor = getattr(transformers, entry["processor"]["image_processor_type"])
    settings = {key: value for key, value in entry["processor"].items() if key != "image_processor_type"}
    made = processor(**settings)(np.zeros((*size, 3), dtype=np.uint8), return_tensors="pt")
    return {
        key: value.to("meta") if key == "pixel_values" else value
        for key, value in made.items()
        if key in {"pixel_values", "image_grid_thw", "image_sizes"}
    }


def figures(entry):
    """Parameters by part, and tokens and FLOPs of each image."""
    model, parts, seen = model_of(entry), {}, []
    for name, tensor in model.named_parameters():
        parts[part_of(name)] = parts.get(part_of(name), 0) + tensor.numel()
    for size in entry["images"]:
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            features = model.get_image_features(**inputs(entry, size))
        rows = getattr(features, "pooler_output", features)
        rows = rows if isinstance(rows, torch.Tensor) else torch.cat([*rows])
        seen.append({"features": rows.shape[:-1].numel(), "flops": counter.get_total_flops()})
    return {"params": parts, "seen": seen}


if __name__ == "__main__":
    known = json.loads(FIGURES.read_text())
    for name in sys.argv[1:] or known:
        known[name] |= figures(known[name])
    FIGURES.write_text(
        "{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in known.items()) + "\n}\n"
    )
