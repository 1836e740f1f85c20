"""The peak of a training step, a prefill and a decode: within 1 KiB of torch's live storages."""

import pytest

from archcli.load.source import load
from archcli.runtime.memory.models import WitnessSetting
from peaks_compared import inference_peaks, training_peaks

KIB = 1024
SMALL = "vocab_size=512"
"""A vocabulary with which neither the loss nor the embedding has the peak, but a layer."""
MODELS = {
    "gpt2": ["n_layers=4"],
    "gpt2-medium": ["n_layers=7"],
    "opt-125m": ["n_layers=5"],
    "pythia-1.4b": ["n_layers=3"],
    "gpt-j-6b": ["n_layers=3"],
    "gpt-neox-20b": ["n_layers=3"],
    "phi-2": ["n_layers=3"],
    "bloom-560m": ["n_layers=4"],
    "falcon-7b": ["n_layers=3"],
    "starcoder2-3b": ["n_layers=4"],
    "olmo-1b": ["n_layers=4"],
    "olmo-2-1b": ["n_layers=3"],
    "nemotron-4-15b": ["n_layers=3"],
    "llama-3.2-1b": ["n_layers=5"],
    "smollm2-135m": ["n_layers=7"],
    "qwen2.5-0.5b": ["n_layers=6"],
    "qwen3-0.6b": ["n_layers=7"],
    "qwen3-8b": ["n_layers=3"],
    "gemma-2b": ["n_layers=4"],
    "gemma-3-1b": ["n_layers=7"],
    "mistral-7b-v0.1": ["n_layers=3"],
    "command-r7b": ["n_layers=4"],
    "stablelm-2-1.6b": ["n_layers=4"],
    "granite-3.0-2b": ["n_layers=4"],
    "smollm3-3b": ["n_layers=5"],
}
CUDA, CPU = WitnessSetting(), WitnessSetting(backend="cpu")
FP32 = WitnessSetting("fp32")
EAGER = WitnessSetting(attention="eager")
CASES = [
    (name, changes, batch, seq, setting)
    for name in MODELS
    for changes, batch, seq, setting in (
        ([SMALL], 1, 1000, CUDA),
        ([SMALL], 3, 100, FP32),
        ([], 2, 64, CUDA),
        ([], 3, 500, CUDA),
        ([SMALL], 2, 300, CPU),
        ([SMALL], 2, 300, EAGER),
    )
]
