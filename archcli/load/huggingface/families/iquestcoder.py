"""IQuest-Coder: IQuestCoderConfig and LlamaForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.networks import gated
from archcli.load.huggingface.weights.names import LLAMA
from archcli.load.huggingface.whole.llama_like import llama_defaults, llama_like

MODEL_TYPES = ("iquestcoder",)
DEFAULTS = llama_defaults(
    vocab_size=76800,
    hidden_size=5120,
    intermediate_size=27648,
    num_hidden_layers=80,
    num_attention_heads=40,
    num_key_value_heads=8,
    head_dim=128,
    max_position_embeddings=131072,
    rms_norm_eps=1e-5,
)
WEIGHTS = LLAMA


def mapping(config: Config) -> Mapped:
    """As Llama."""
    config = config.of_class(DEFAULTS)
    config.only("clip_qkv", None, default=None)
    config.only("use_sliding_window", None, False, default=None)
    bias, ffn = config.flag("attention_bias"), gated(config, bias=config.flag("mlp_bias"))
    return llama_like(config, heads={"bias": bias}, ffn=ffn)
