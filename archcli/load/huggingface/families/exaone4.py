"""EXAONE 4.0: Exaone4Config and Exaone4ForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.parts.attention import PER_HEAD, check_window, window
from archcli.load.huggingface.weights.names import NORM_AFTER
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("exaone4",)
WEIGHTS = NORM_AFTER


def mapping(config: Config) -> Mapped:
    """As OLMo 2 with norms per head; where layers have windows, the others have no position."""
    config = config.of_class()
    check_window(config, null=True)
    config.ignore("attention_bias")  # the class has none whatever the file says
    hybrid = window(config) is not None

    def heads(width: ConfigValue[int] | None) -> Mapped:
        return {"qk_norm": PER_HEAD, "position": {"kind": "none"} if hybrid and width is None else None}

    return llama_like(config, heads=heads, block={"kind": "norm_after"}, slides=lambda i: _slides(config, i))


def _slides(config: Config, index: int) -> bool:
    """Whether a layer has the window where `layer_types` says nothing: all but each fourth."""
    return (index + 1) % config.size("sliding_window_pattern").value != 0
