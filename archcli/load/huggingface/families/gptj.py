"""GPT-J and CodeGen: GPTJConfig, CodeGenConfig and their ForCausalLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import layernorm, mlp
from archcli.load.huggingface.weights.map import Parts, Weights
from archcli.load.huggingface.whole.gpt_like import GPT_ALIASES, SUMMARY, inner_width

MODEL_TYPES = ("gptj", "codegen")

FUSED = tuple(f"layers.*.attention.{which}_proj.*" for which in "qvk")
SHARDS = 4
"""CodeGen's fused matrix holds queries, values and keys anew for each of the four devices that trained it."""


def mapping(config: Config) -> Mapped:
    """Parallel with one norm, MHA without bias, interleaved RoPE, biased feed-forward network and head."""
    config = config.of_class(**GPT_ALIASES)
    config.only("rotary", True, default=True)
    config.only("scale_attn_weights", True, default=True)
    config.ignore("gradient_checkpointing", *SUMMARY)
    heads = config.size("num_attention_heads")
    if config.get("model_type", default="") == "codegen" and heads.value % SHARDS:
        raise config.error(
            f"n_head {heads} is no multiple of {SHARDS}", "its class has no other", heads.place
        )
    config.restated(head_dim=config.size("hidden_size").value // heads.value)
    position = {"kind": "rope", "rotary_dim": config.size("rotary_dim"), "pairing": "interleaved"}
    layer = {
        "kind": "parallel",
        "attention": {"kind": "mha", "n_heads": heads, "position": position},
        "ffn": mlp(config, inner_width(config), "activation_function"),
    }
    norm = layernorm(config.number("layer_norm_epsilon"))
    return decoder(config, norm, [layer] * config.layers(), head={"bias": True})


WEIGHTS: Weights = {
    "[transformer.]wte.weight": "embedding.tokens.weight",
    "[transformer.]h.*.ln_1.*": "layers.*.attention_norm.*",
    "[transformer.]h.*.attn.qkv_proj.*": Parts(FUSED, groups=SHARDS),
    "[transformer.]h.*.attn.q_proj.*": "layers.*.attention.q_proj.*",
    "[transformer.]h.*.attn.k_proj.*": "layers.*.attention.k_proj.*",
    "[transformer.]h.*.attn.v_proj.*": "layers.*.attention.v_proj.*",
    "[transformer.]h.*.attn.out_proj.*": "layers.*.attention.o_proj.*",
    "[transformer.]h.*.mlp.fc_in.*": "layers.*.ffn.up_proj.*",
    "[transformer.]h.*.mlp.fc_out.*": "layers.*.ffn.down_proj.*",
    "[transformer.]ln_f.*": "final_norm.*",
    "lm_head.*": "lm_head.*",
}
