"""GPT-J: GPTJConfig and GPTJForCausalLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.feed_forward import mlp
from archcli.load.huggingface.parts.norms import layernorm
from archcli.load.huggingface.value import Mapped
from archcli.load.huggingface.weights.rules import Weights

MODEL_TYPES = ("gptj",)

DEFAULTS = {
    "vocab_size": 50400,
    "n_positions": 2048,
    "n_embd": 4096,
    "n_layer": 28,
    "n_head": 16,
    "rotary_dim": 64,
    "activation_function": "gelu_new",
    "layer_norm_epsilon": 1e-5,
    "tie_word_embeddings": False,
}
ALIASES = {
    "hidden_size": "n_embd",
    "max_position_embeddings": "n_positions",
    "num_attention_heads": "n_head",
    "num_hidden_layers": "n_layer",
}


def mapping(config: Config) -> Mapped:
    """Parallel with one norm, MHA without bias, interleaved RoPE, biased feed-forward network and head."""
    config = config.of_class(DEFAULTS, **ALIASES)
    config.only("rotary", True, default=True)
    config.only("scale_attn_weights", True, default=True)
    config.ignore("summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj")
    width = config.size("hidden_size")
    position = {"kind": "rope", "rotary_dim": config.size("rotary_dim"), "pairing": "interleaved"}
    layer = {
        "kind": "parallel",
        "attention": {"kind": "mha", "n_heads": config.size("num_attention_heads"), "position": position},
        "ffn": mlp(
            config, config.size("n_inner", default=width.derive(4 * width.value)), "activation_function"
        ),
    }
    norm = layernorm(config.number("layer_norm_epsilon"))
    return decoder(config, norm, [layer] * config.layers(), head={"bias": True})


WEIGHTS: Weights = {
    "[transformer.]wte.weight": "embedding.tokens.weight",
    "[transformer.]h.*.ln_1.*": "layers.*.attention_norm.*",
    "[transformer.]h.*.attn.q_proj.*": "layers.*.attention.q_proj.*",
    "[transformer.]h.*.attn.k_proj.*": "layers.*.attention.k_proj.*",
    "[transformer.]h.*.attn.v_proj.*": "layers.*.attention.v_proj.*",
    "[transformer.]h.*.attn.out_proj.*": "layers.*.attention.o_proj.*",
    "[transformer.]h.*.mlp.fc_in.*": "layers.*.ffn.up_proj.*",
    "[transformer.]h.*.mlp.fc_out.*": "layers.*.ffn.down_proj.*",
    "[transformer.]ln_f.*": "final_norm.*",
    "lm_head.*": "lm_head.*",
}
