"""Granite with sliding windows: GraniteSWAConfig and GraniteSWAForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.weights.names import LLAMA
from archcli.load.huggingface.whole.llama_like import granite_with_windows

MODEL_TYPES = ("granite_swa",)
WEIGHTS = {**LLAMA, "[model.]layers.*.self_attn.sinks": "layers.*.attention.sinks.weight"}


def mapping(config: Config) -> Mapped:
    """As Granite, with windows and sinks; some layers may have no position."""
    return granite_with_windows(config.of_class(), tied=True)
