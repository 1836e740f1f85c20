"""What transformers says of multimodal models that hear. Regenerates the figures of `hearing.json`.

    python tests/oracle/regenerate_hearing.py [ID …]

`hearing.json` holds a small config for each, and lengths of spectrograms in frames. The class is built with
eager attention, its parameters are counted by part, and `FlopCounterMode` counts `get_audio_features`: 2 per
multiply-add. None of our code takes part.
"""

import json
import re
import sys
from pathlib import Path

import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

FIGURES = Path(__file__).parent / "hearing.json"
PARTS = {
    "projector": re.compile(
        r"multi_modal_projector|merger|audio_bos_eos|embed_vision\.|embed_audio\.|\.projector\."
    ),
    "audio_tower": re.compile(r"audio_tower|(?<!vision_)model\.encoder\."),
    "vision_tower": re.compile(r"vision_tower|vision_model|\.visual\."),
}
LAST = ("granite_speech", "granite_speech_plus", "gemma4", "nemotron_h_omni")
"""Models whose spectrograms have mel bins last."""
MASKED = {
    "gemma4": "input_features_mask",
    "granite_speech": None,
    "granite_speech_plus": None,
    "nemotron_h_omni": None,
}
THINKERS = "feature_attention_mask"
PADDED = {"qwen3_asr": 100}
"""Models whose processor pads to whole chunks of so many frames."""


def part_of(name):
    """The part that a tensor of the class is in."""
    return next((part for part, names in PARTS.items() if names.search(name)), "language_model")


def model_of(entry):
    """The class of an entry, with random weights."""
    config = transformers.AutoConfig.for_model(**entry["config"])
    cls = getattr(transformers, entry["class"])
    return cls._from_config(config, attn_implementation="eager").eval()


def inputs(entry, frames):
    """A spectrogram of so many frames, and what tells them from padding."""
    kind = entry["config"]["model_type"]
    length = -(-frames // PADDED.get(kind, 1)) * PADDED.get(kind, 1)
    shape = (1, length, entry["mels"]) if kind in LAST else (1, entry["mels"], length)
    name = MASKED.get(kind, THINKERS if kind.endswith("thinker") else "input_features_mask")
    if kind == "dots3_note":  # samples in the place of a mask
        return {"input_features": torch.zeros(shape), "chunk_sample_lengths": torch.tensor([160 * frames])}
    mask = (torch.arange(length)[None] < frames).to(torch.bool if kind == "gemma4" else torch.long)
    return {"input_features": torch.zeros(shape), **({} if name is None else {name: mask})}


def heard(model, entry, frames):
    """Tokens and FLOPs of a spectrogram."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        hears = model if hasattr(model, "get_audio_features") else model.model
        features = hears.get_audio_features(**inputs(entry, frames))
    rows = getattr(features, "pooler_output", features)
    rows = rows if isinstance(rows, torch.Tensor) else torch.cat([*rows])
    return {"features": rows.shape[:-1].numel(), "flops": counter.get_total_flops()}


def figures(entry):
    """Parameters by part, and tokens and FLOPs of each length."""
    model, parts = model_of(entry), {}
    for name, tensor in model.named_parameters():
        parts[part_of(name)] = parts.get(part_of(name), 0) + tensor.numel()
    return {"params": parts, "heard": [heard(model, entry, frames) for frames in entry["frames"]]}


if __name__ == "__main__":
    known = json.loads(FIGURES.read_text())
    for name in sys.argv[1:] or known:
        known[name] |= figures(known[name])
    FIGURES.write_text(
        "{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in known.items()) + "\n}\n"
    )
