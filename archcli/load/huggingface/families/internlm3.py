"""InternLM 3: InternLM3Config and LlamaForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.networks import gated
from archcli.load.huggingface.weights.names import LLAMA
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("internlm3",)
WEIGHTS = LLAMA


def mapping(config: Config) -> Mapped:
    """As Llama with one flag for all biases, which its own files call qkv_bias and bias."""
    config = config.of_class(attention_bias="qkv_bias", mlp_bias="bias")
    bias, ffn_bias = config.flag("attention_bias"), config.flag("mlp_bias")
    if bias != ffn_bias.value:
        what = f"qkv_bias {bias.value} beside bias {ffn_bias.value} is not supported"
        raise config.error(what, "its class has both or none", config.place("attention_bias", "mlp_bias"))
    return llama_like(config, heads={"bias": bias}, ffn=gated(config, bias=ffn_bias))
