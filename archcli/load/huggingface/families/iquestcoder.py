"""IQuest-Coder: IQuestCoderConfig and LlamaForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.networks import gated
from archcli.load.huggingface.weights.names import LLAMA
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("iquestcoder",)
WEIGHTS = LLAMA


def mapping(config: Config) -> Mapped:
    """As Llama."""
    config = config.of_class()
    config.only("clip_qkv", None, default=None)
    config.only("use_sliding_window", None, False, default=None)
    bias, ffn = config.flag("attention_bias"), gated(config, bias=config.flag("mlp_bias"))
    return llama_like(config, heads={"bias": bias}, ffn=ffn)
