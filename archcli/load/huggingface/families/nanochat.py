"""nanochat: NanoChatConfig and NanoChatForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import head_dim, optional_number
from archcli.load.huggingface.parts.networks import mlp, rmsnorm
from archcli.load.huggingface.parts.rope import rope
from archcli.load.huggingface.weights.names import LLAMA
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("nanochat",)
WEIGHTS = {
    **LLAMA,
    "[model.]layers.*.mlp.fc1.weight": "layers.*.ffn.up_proj.weight",
    "[model.]layers.*.mlp.fc2.weight": "layers.*.ffn.down_proj.weight",
}


def mapping(config: Config) -> Mapped:
    """Norms without weights, one after the embeddings too; RoPE clockwise, then normalized heads."""
    config = config.of_class()
    norm, cap = rmsnorm(config) | {"weight": False}, optional_number(config, "final_logit_softcapping")
    place = rope(config, head_dim(config))
    if place.value["kind"] == "rope":
        place = place.derive({**place.value, "clockwise": True})
    return llama_like(
        config,
        heads={
            "bias": config.flag("attention_bias"),
            "position": place,
            "qk_norm": {"per": "head", "when": "after_rope"},
        },
        ffn=mlp(config, config.size("intermediate_size"), "hidden_act", bias=False),
        norm=norm,
        embedding={"norm": norm},
        head=None if cap is None else {"softcap": cap},
    )
