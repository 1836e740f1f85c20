"""Doge, whose keys are chosen by gates on their values: DogeConfig and DogeForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped, without_none
from archcli.load.huggingface.parts.attention import PER_HEAD
from archcli.load.huggingface.parts.networks import gated
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import LLAMA, QK_NORM
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("doge",)
GATE, OF_GATE = "layers.*.attention.value_gate", "[model.]layers.*.self_attn"
WEIGHTS: Weights = {
    **LLAMA,
    **QK_NORM,
    f"{OF_GATE}.dt_proj.*": f"{GATE}.dt_proj.*",
    f"{OF_GATE}.A": f"{GATE}.rate.scale",
    "[model.]layers.*.input_residual": "layers.*.attention_stream_scale.scale",
    "[model.]layers.*.post_attention_residual": "layers.*.ffn_stream_scale.scale",
}


def mapping(config: Config) -> Mapped:
    """As Qwen 3; keep_window_size keys are read, and each sublayer weighs the stream it adds to.

    is_moe true is refused: its class chooses experts by scores that mix the tokens of a pass.
    """
    config = config.of_class()
    config.only("is_moe", False)
    config.only("sliding_window", None, default=None)
    config.ignore("hidden_dropout", "num_experts", "num_experts_per_tok", "norm_topk_prob")
    bias = config.flag("attention_bias")
    gate = without_none({"top_k": config.size("keep_window_size"), "bias": bias or None})
    heads = {"bias": bias, "qk_norm": PER_HEAD, "value_gate": gate}
    ffn = gated(config, bias=config.flag("mlp_bias"))
    return llama_like(config, heads=heads, ffn=ffn, block={"stream_scale": True})
