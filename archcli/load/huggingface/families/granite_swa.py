"""Granite with sliding windows: GraniteSWAConfig and GraniteSWAForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.weights.names import LLAMA
from archcli.load.huggingface.whole.llama_like import GRANITE_DEFAULTS, granite_with_windows

MODEL_TYPES = ("granite_swa",)
DEFAULTS = {
    **GRANITE_DEFAULTS,
    "vocab_size": 100352,
    "hidden_size": 2560,
    "intermediate_size": 8192,
    "num_hidden_layers": 24,
    "num_attention_heads": 20,
    "num_key_value_heads": 4,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
    "sliding_window": 128,
}
WEIGHTS = {**LLAMA, "[model.]layers.*.self_attn.sinks": "layers.*.attention.sinks.weight"}


def mapping(config: Config) -> Mapped:
    """As Granite, with windows and sinks; some layers may have no position."""
    return granite_with_windows(config.of_class(DEFAULTS), tied=True)
