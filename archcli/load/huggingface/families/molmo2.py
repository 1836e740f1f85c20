"""Molmo 2's text part: Molmo2TextConfig and Molmo2ForConditionalGeneration."""

from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import PER_HEAD, attention, head_dim
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.parts.rope import rope
from archcli.load.huggingface.weights.map import Parts, Weights
from archcli.load.huggingface.weights.names import FUSED, LLAMA, QK_NORM

MODEL_TYPES = ("molmo2_text",)
ALIASES = {"attention_bias": "qkv_bias", "rms_norm_eps": "layer_norm_eps"}
NORMS = {"qwen3": PER_HEAD, "olmo": {"per": "full"}}
MORE = "image_tokens"
"""Vectors of tokens beyond the vocabulary, which text does not hold and the head does not predict."""


def mapping(config: Config) -> Mapped:
    """As Qwen 3, or with norms of all heads as one and after each sublayer; some layers' RoPE is unscaled."""
    config = config.of_class(**ALIASES)
    config.only("qk_norm_type", *NORMS)
    width, count, scaled = head_dim(config), config.layers(), config.get("rope_scaling_layers", default=None)
    if scaled is not None and not isinstance(scaled, list):
        what = f"rope_scaling_layers must be a list, not {short_repr(scaled)}"
        raise config.error(what, at=config.place("rope_scaling_layers"))
    place = rope(config, width)
    plain = place.derive({key: value for key, value in place.value.items() if key != "scaling"})
    norm, bias = (
        NORMS[config.get("qk_norm_type")],
        ["q", "k", "v"] if config.flag("attention_bias") else False,
    )
    kind, ffn = "norm_after" if config.flag("norm_after") else "pre_norm", gated(config)
    made = {
        is_scaled: {
            "kind": kind,
            "attention": attention(config, width, bias=bias, qk_norm=norm, position=position),
            "ffn": ffn,
        }
        for is_scaled, position in ((True, place), (False, plain))
    }
    more = config.count("additional_vocab_size")
    unread = {MORE: [more.value, config.size("hidden_size").value]} if more else None
    layers = [made[scaled is None or index in scaled] for index in range(count)]
    return decoder(config, rmsnorm(config), layers, unread=unread)


def weights(config: Config) -> Weights:
    """As Llama, and as files store them: queries, keys and values in one, up before gate."""
    config = config.of_class(**ALIASES)
    tables = ("embedding.tokens.weight", f"{MORE}.weight")
    layer = "[model.]transformer.blocks.*"
    return {
        **LLAMA,
        **QK_NORM,
        **({"[model.]embed_tokens.weight": Parts(tables)} if config.count("additional_vocab_size") else {}),
        "[model.]transformer.wte.embedding": tables[0],
        "[model.]transformer.wte.new_embedding": tables[1],
        "[model.]transformer.ln_f.weight": "final_norm.weight",
        f"{layer}.attn_norm.weight": "layers.*.attention_norm.weight",
        f"{layer}.ff_norm.weight": "layers.*.ffn_norm.weight",
        f"{layer}.self_attn.att_proj.*": Parts(FUSED),
        f"{layer}.self_attn.attn_out.weight": "layers.*.attention.o_proj.weight",
        f"{layer}.self_attn.q_norm.weight": "layers.*.attention.q_norm.weight",
        f"{layer}.self_attn.k_norm.weight": "layers.*.attention.k_norm.weight",
        f"{layer}.mlp.ff_proj.weight": Parts(
            ("layers.*.ffn.up_proj.weight", "layers.*.ffn.gate_proj.weight")
        ),
        f"{layer}.mlp.ff_out.weight": "layers.*.ffn.down_proj.weight",
    }
