"""What transformers says of videos. Regenerates the figures of `videos.json`.

    python tests/oracle/regenerate_videos.py [ID …]

`videos.json` holds a small config, the size that a video processor states, and videos of T frames of H x W
pixels for each. The sides are those of the processor's own function; its class, which needs torchvision, is
not made. The class of the model runs on a CPU, as Qwen's windows are numbers, and `FlopCounterMode` counts
the eager features of all frames: 2 per multiply-add. None of our code takes part.
"""

import json
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

FIGURES = Path(__file__).parent / "videos.json"
FAMILIES = {
    "qwen2_vl": "qwen2_vl",
    "qwen2_5_vl": "qwen2_vl",
    "qwen3_vl": "qwen3_vl",
    "qwen3_5": "qwen3_vl",
    "glm4v": "glm4v",
}
"""The module whose `smart_resize` the video processor of a model type calls."""
TORCHVISION = ("torchvision", "torchvision.transforms", "torchvision.transforms.v2")


def smart_resize(module):
    """The function of a processor's module, which imports torchvision and calls it elsewhere alone."""
    functional = "torchvision.transforms.v2.functional"
    stubs = {name: ModuleType(name) for name in (*TORCHVISION, functional)}
    for name, stub in stubs.items():
        above, _, last = name.rpartition(".")
        if above:
            setattr(stubs[above], last, stub)
    with patch.dict(sys.modules, stubs):
        place = f"transformers.models.{module}.video_processing_{module}"
        return import_module(place).smart_resize


def model_of(entry):
    """The class of an entry, small and on a CPU: its windows and places follow from numbers."""
    config = transformers.AutoConfig.for_model(**entry["config"])
    torch.manual_seed(0)
    classes = transformers.AutoModelForImageTextToText
    return classes.from_config(config, attn_implementation="eager").eval()


def grid(entry, vision, video):
    """(pieces of frames, rows, columns of patches) of a video."""
    frames, height, width = video
    kind = entry["config"]["model_type"]
    low, high = entry["size"]["shortest_edge"], entry["size"]["longest_edge"]
    sizes = {"height": height, "width": width, "min_pixels": low, "max_pixels": high}
    sizes["factor"] = vision.patch_size * vision.spatial_merge_size
    if FAMILIES[kind] != "qwen2_vl":
        sizes |= {"num_frames": frames, "temporal_factor": vision.temporal_patch_size}
    sides = smart_resize(FAMILIES[kind])(**sizes)
    return (-(-frames // vision.temporal_patch_size), *(side // vision.patch_size for side in sides))


def features(entry, model, video):
    """The features of all frames."""
    vision, frames = model.config.vision_config, video[0]
    if "shortest_edge" in entry["size"]:
        t, h, w = grid(entry, vision, video)
        width = 3 * vision.temporal_patch_size * vision.patch_size**2
        pixels = torch.ones((t * h * w, width))
        return model.model.get_video_features(pixels, torch.tensor([[t, h, w]]))
    pixels = torch.ones((frames, 3, entry["size"]["height"], entry["size"]["width"]))
    if model.config.model_type == "smolvlm":
        return model.model.get_image_features(pixels[None])
    if model.config.model_type == "internvl":
        return model.model.get_image_features(pixels)
    return model.model.get_video_features(pixels[None])


def figures(entry):
    """Tokens and FLOPs of each video."""
    model, seen = model_of(entry), []
    for video in entry["videos"]:
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            made = features(entry, model, video)
        rows = made.pooler_output
        rows = rows if isinstance(rows, torch.Tensor) else torch.cat([*rows])
        seen.append({"features": rows.shape[:-1].numel(), "flops": counter.get_total_flops()})
    return {"seen": seen}


if __name__ == "__main__":
    known = json.loads(FIGURES.read_text())
    for name in sys.argv[1:] or known:
        known[name] |= figures(known[name])
    FIGURES.write_text(
        "{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in known.items()) + "\n}\n"
    )
