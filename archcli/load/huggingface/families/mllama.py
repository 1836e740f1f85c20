"""Llama 3.2 Vision's text part: MllamaTextConfig and MllamaForConditionalGeneration."""

from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import attention, even_split
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.weights.map import Parts, Rule, Weights
from archcli.load.huggingface.weights.names import LLAMA

MODEL_TYPES = ("mllama_text_model",)
MORE, N_MORE = "image_tokens", 8
"""Vectors of tokens beyond the vocabulary, which the head does not predict."""

HELD = {
    "cross_q": "cross_attn.q_proj",
    "cross_k": "cross_attn.k_proj",
    "cross_v": "cross_attn.v_proj",
    "cross_o": "cross_attn.o_proj",
    "cross_q_norm": "cross_attn.q_norm",
    "cross_k_norm": "cross_attn.k_norm",
    "cross_norm": "input_layernorm",
    "cross_ffn_norm": "post_attention_layernorm",
    "cross_gate_proj": "mlp.gate_proj",
    "cross_up_proj": "mlp.up_proj",
    "cross_down_proj": "mlp.down_proj",
    "cross_gate": "cross_attn_attn_gate",
    "cross_ffn_gate": "cross_attn_mlp_gate",
}
"""What a layer of cross-attention holds, by our names and by those of its class."""


def mapping(config: Config) -> Mapped:
    """As Llama; layers of cross-attention to an image are passed by where there is none."""
    config = config.of_class()
    config.ignore("head_dim")
    width, count, crossing = even_split(config), config.layers(), _crossing(config)
    own = {"kind": "pre_norm", "attention": attention(config, width), "ffn": gated(config)}
    idle = {"kind": "pre_norm", "unread": _held(config, width.value)}
    config.note("layers of cross-attention to images are counted as parameters; text passes them by")
    layers = [idle if index in crossing else own for index in range(count)]
    unread = {MORE: [N_MORE, config.size("hidden_size").value]}
    return decoder(config, rmsnorm(config), layers, unread=unread)


def _crossing(config: Config) -> set[int]:
    """The indices of the layers of cross-attention."""
    layers = config.get("cross_attention_layers")
    if not isinstance(layers, list) or not all(isinstance(index, int) for index in layers):
        what = f"cross_attention_layers must be a list of whole numbers, not {short_repr(layers)}"
        raise config.error(what, at=config.place("cross_attention_layers"))
    return {*layers}


def _held(config: Config, width: int) -> Mapped:
    """The shapes of what a layer of cross-attention holds."""
    d_model, d_ff = config.size("hidden_size").value, config.size("intermediate_size").value
    q = config.size("num_attention_heads").value * width
    kv = config.size("num_key_value_heads").value * width
    shapes = (
        *([q, d_model], [kv, d_model], [kv, d_model], [d_model, q], [width], [width], [d_model], [d_model]),
        *([d_ff, d_model], [d_ff, d_model], [d_model, d_ff], [1], [1]),
    )
    return dict(zip(HELD, shapes, strict=True))


def weights(config: Config) -> Weights:
    """As Llama, layer by layer: those of cross-attention have names in common with the others."""
    config = config.of_class()
    crossing = _crossing(config)
    names: dict[str, Rule] = {name: rule for name, rule in LLAMA.items() if "layers.*" not in name}
    names["[model.]embed_tokens.weight"] = Parts(("embedding.tokens.weight", f"{MORE}.weight"))
    for index in range(config.layers()):
        layer = f"layers.{index}."
        if index in crossing:
            for ours, theirs in HELD.items():
                ending = "" if theirs.endswith("_gate") else ".weight"
                names[f"[model.]{layer}{theirs}{ending}"] = f"{layer}{ours}.weight"
            continue
        for name, rule in LLAMA.items():
            if isinstance(rule, str) and "layers.*." in name:
                names[name.replace("layers.*.", layer)] = rule.replace("layers.*.", layer)
    return names
