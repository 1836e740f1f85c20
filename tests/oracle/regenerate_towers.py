"""What transformers says of encoders of images and sounds. Regenerates the figures of `towers.json`.

    python tests/oracle/regenerate_towers.py [ID …]

`towers.json` holds a config for each, its class, and the sizes of what it reads. The class is built on
torch's meta device; its parameters are counted, frozen ones too, and `FlopCounterMode` counts its eager
forward: 2 per multiply-add, matrix products and convolutions, one image or sound. Not counted is the product
by which SigLIP 2 resizes its table of positions: an interpolation. None of our code takes part.
"""

import json
import sys
from pathlib import Path

import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

FIGURES = Path(__file__).parent / "towers.json"
INPUTS = {"image": "pixel_values", "frames": "input_features", "samples": "input_values"}


def model_of(entry):
    """The class of an entry on meta."""
    config = transformers.AutoConfig.for_model(**entry["config"])
    with torch.device("meta"):
        return getattr(transformers, entry["class"])._from_config(config, attn_implementation="eager").eval()


def inputs(entry, size):
    """What the class reads of an image or a sound of this size."""
    config, kind = entry["config"], entry["kind"]
    if config["model_type"] == "siglip2_vision_model":
        h, w = (side // config["patch_size"] for side in size)
        shapes = torch.tensor([[h, w]])
        pixels = torch.empty((1, h * w, 3 * config["patch_size"] ** 2), device="meta")
        return {"pixel_values": pixels, "spatial_shapes": shapes, "pixel_attention_mask": None}
    channels = {"image": (3,), "frames": (config.get("num_mel_bins"),), "samples": ()}[kind]
    return {INPUTS[kind]: torch.empty((1, *channels, *size), device="meta")}


def flops_of(model, entry, size):
    """FLOPs of the class for one image or sound."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(**inputs(entry, size))
    total = counter.get_total_flops()
    if entry["config"]["model_type"] != "siglip2_vision_model":
        return total
    table = model.embeddings.position_embedding.weight
    h, w = (side // entry["config"]["patch_size"] for side in size)
    return total - 2 * h * w * table.numel()


def figures(entry):
    """Parameters, and FLOPs of each size."""
    model = model_of(entry)
    flops = [flops_of(model, entry, size) for size in entry["sizes"]]
    return {"params": sum(tensor.numel() for tensor in model.parameters()), "flops": flops}


if __name__ == "__main__":
    known = json.loads(FIGURES.read_text())
    for name in sys.argv[1:] or known:
        known[name] |= figures(known[name])
    FIGURES.write_text(
        "{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in known.items()) + "\n}\n"
    )
