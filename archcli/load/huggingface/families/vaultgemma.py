"""VaultGemma: VaultGemmaConfig and VaultGemmaForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.parts.attention import head_dim, query_scale
from archcli.load.huggingface.parts.feed_forward import gated
from archcli.load.huggingface.parts.norms import rmsnorm
from archcli.load.huggingface.parts.numbers import optional_number
from archcli.load.huggingface.parts.windows import check_window
from archcli.load.huggingface.value import Mapped
from archcli.load.huggingface.weights.names import LLAMA
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("vaultgemma",)
DEFAULTS = {
    "vocab_size": 256000,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "hidden_activation": "gelu_pytorch_tanh",
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-6,
    "attention_bias": False,
    "query_pre_attn_scalar": 256,
    "sliding_window": 4096,
    "final_logit_softcapping": 30.0,
    "attn_logit_softcapping": 50.0,
    "tie_word_embeddings": True,
}
WEIGHTS = {
    **LLAMA,
    "[model.]layers.*.pre_feedforward_layernorm.weight": "layers.*.ffn_norm.weight",
}


def mapping(config: Config) -> Mapped:
    """Gemma 2 without the norms after attention and network."""
    config = config.of_class(DEFAULTS)
    check_window(config)
    cap, last_cap = (optional_number(config, f"{at}_logit_softcapping") for at in ("attn", "final"))
    scale = query_scale(config, head_dim(config))
    return llama_like(
        config,
        heads={"bias": config.flag("attention_bias"), "scale": scale, "softcap": cap},
        ffn=gated(config, act="hidden_activation"),
        norm=rmsnorm(config, offset=1),
        slides=lambda index: (index + 1) % 2 != 0,
        embedding={"scale": "sqrt_d_model"},
        head=None if last_cap is None else {"softcap": last_cap},
        tied=True,
    )
