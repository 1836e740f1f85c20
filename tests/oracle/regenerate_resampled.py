"""What transformers says of further multimodal models, small ones. Regenerates `resampled.json`.

    python tests/oracle/regenerate_resampled.py [ID …]

`resampled.json` holds a config, the processor's settings and images for each. The class is built on a CPU
with eager attention, where every kernel is a product that `FlopCounterMode` sees; its parameters are counted
by part, and the counter counts `get_image_features` of an image of noise that the processor of transformers
made ready. None of our code takes part.
"""

import inspect
import json
import re
import sys
from pathlib import Path

import numpy as np
import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

FIGURES = Path(__file__).parent / "resampled.json"
PARTS = {
    "projector": r"multi_modal_projector|\.connector\.|qformer|query_tokens|language_projection|\.merger\."
    r"|image_to_text_projection|image_newline|visual_embeddings_table|vision_projection|\.projector\.",
    "vision_tower": r"vision_tower|vision_model|vision_encoder|image_tower|video_tower|\.visual\.",
    "language_model": "",
}


def part_of(name):
    """The part that a tensor of the class is in."""
    return next(part for part, pattern in PARTS.items() if re.search(pattern, name))


def model_of(entry):
    """The class of an entry, of random weights."""
    config = transformers.AutoConfig.for_model(**entry["config"])
    torch.manual_seed(0)
    classes = transformers.AutoModelForImageTextToText
    return classes.from_config(config, attn_implementation="eager").eval().requires_grad_(False)


def inputs(entry, size, reads):
    """What the processor makes of noise, of the arguments that the class reads."""
    processor = getattr(transformers, entry["processor"]["image_processor_type"])
    settings = {key: value for key, value in entry["processor"].items() if key != "image_processor_type"}
    noise = np.random.default_rng(0).integers(1, 255, (*size, 3), dtype=np.uint8)
    made = processor(**settings)(noise, return_tensors="pt")
    return {key: value for key, value in made.items() if key in reads}


def rows_of(features):
    """How many vectors the language model reads."""
    rows = getattr(features, "pooler_output", None)
    rows = getattr(features, "last_hidden_state", features) if rows is None else rows
    rows = rows if isinstance(rows, torch.Tensor) else torch.cat([*rows])
    return rows.shape[:-1].numel()


def figures(entry):
    """Parameters by part, and vectors and FLOPs by part of each image."""
    model, parts, seen = model_of(entry), {}, []
    for name, tensor in model.named_parameters():
        parts[part_of(name)] = parts.get(part_of(name), 0) + tensor.numel()
    for size in entry["images"]:
        features_of = getattr(model, "model", model).get_image_features
        reads = inspect.signature(features_of).parameters
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            features = features_of(**inputs(entry, size, reads))
        seen.append({"features": rows_of(features), "flops": counter.get_total_flops()})
    return {"params": parts, "seen": seen}


def written(known):
    """The file's text: a line for each model."""
    return "{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in known.items()) + "\n}\n"


if __name__ == "__main__":
    known = json.loads(FIGURES.read_text())
    for name in sys.argv[1:] or known:
        known[name] |= figures(known[name])
    FIGURES.write_text(written(known))
