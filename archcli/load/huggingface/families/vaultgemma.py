"""VaultGemma: VaultGemmaConfig and VaultGemmaForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import check_window, head_dim, optional_number, query_scale
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.weights.names import LLAMA
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("vaultgemma",)
WEIGHTS = {
    **LLAMA,
    "[model.]layers.*.pre_feedforward_layernorm.weight": "layers.*.ffn_norm.weight",
}


def mapping(config: Config) -> Mapped:
    """Gemma 2 without the norms after attention and network."""
    config = config.of_class()
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
