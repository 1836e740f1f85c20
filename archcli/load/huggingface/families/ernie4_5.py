"""ERNIE 4.5, dense, and the text part of PaddleOCR-VL: Ernie4_5Config and Ernie4_5ForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import head_dim
from archcli.load.huggingface.parts.networks import gated
from archcli.load.huggingface.parts.rope import rope
from archcli.load.huggingface.weights.names import LLAMA
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("ernie4_5", "paddleocr_vl_text")
WEIGHTS = LLAMA


def mapping(config: Config) -> Mapped:
    """As Llama with one flag for all biases; RoPE is interleaved but in PaddleOCR-VL, of three equal axes."""
    config = config.of_class()
    alone, bias = config.model_type == "ernie4_5", config.flag("use_bias")
    place = rope(config, head_dim(config), pairing="interleaved" if alone else "half")
    heads = {"bias": bias, "position": place}
    return llama_like(config, heads=heads, ffn=gated(config, bias=bias), tied=True)
