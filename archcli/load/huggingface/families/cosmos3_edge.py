"""Cosmos 3 Edge's text part: Cosmos3EdgeTextConfig and Cosmos3EdgeForConditionalGeneration."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.networks import mlp
from archcli.load.huggingface.weights.names import LLAMA
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("cosmos3_edge_text",)
WEIGHTS = {
    **LLAMA,
    "[model.]layers.*.mlp.fc1.*": "layers.*.ffn.up_proj.*",
    "[model.]layers.*.mlp.fc2.*": "layers.*.ffn.down_proj.*",
    **{
        f"layers.*.self_attn.to_{stored}.*": f"layers.*.attention.{name}_proj.*"
        for stored, name in {"q": "q", "k": "k", "v": "v", "out": "o"}.items()
    },
}


def mapping(config: Config) -> Mapped:
    """As Llama with an ungated network of squared ReLU; three-axis positions are equal for text."""
    config = config.of_class()
    ffn = mlp(config, config.size("intermediate_size"), "hidden_act", bias=config.flag("mlp_bias"))
    return llama_like(config, heads={"bias": config.flag("attention_bias")}, ffn=ffn)
