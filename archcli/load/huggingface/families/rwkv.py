"""RWKV-4, recurrent time and channel mixing: RwkvConfig and RwkvForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue, Mapped, without_none
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import layernorm
from archcli.load.huggingface.weights.map import Parts, Weights

MODEL_TYPES = ("rwkv",)
FINAL_EPS = 1e-5
"""The eps of the last norm, which no key changes."""


def mapping(config: Config) -> Mapped:
    """Pre-norm, LayerNorm, one more of them after the embeddings.

    rescale_every halves the stream of deep layers at inference and the weights that write to it: the same
    network.
    """
    config = config.of_class(max_position_embeddings="context_length")
    config.ignore("rescale_every")
    hidden = config.size("hidden_size")
    width = config.size("attention_hidden_size", default=hidden)
    d_ff: ConfigValue[int] = config.size("intermediate_size", default=hidden.derive(4 * hidden.value))
    norm = layernorm(config.number("layer_norm_epsilon"))
    layer = {
        "kind": "pre_norm",
        "norm": norm,
        "mixer": without_none({"kind": "rwkv4", "width": None if width == hidden else width}),
        "ffn": {"kind": "rwkv_channel_mix", "d_ff": d_ff},
    }
    return decoder(config, layernorm(FINAL_EPS), [layer] * config.layers(), embedding={"norm": norm})


BLOCK = "[rwkv.]blocks.*"
TIME = {"key": "k", "value": "v", "receptance": "r"}
WEIGHTS: Weights = {
    "[rwkv.]embeddings.weight": "embedding.tokens.weight",
    "[rwkv.]blocks.0.pre_ln.*": "embedding.norm.*",
    f"{BLOCK}.ln1.*": "layers.*.mixer_norm.*",
    f"{BLOCK}.ln2.*": "layers.*.ffn_norm.*",
    f"{BLOCK}.attention.time_decay": "layers.*.mixer.wkv.decay",
    f"{BLOCK}.attention.time_first": "layers.*.mixer.wkv.first",
    f"{BLOCK}.attention.output.weight": "layers.*.mixer.o_proj.weight",
    **{
        f"{BLOCK}.{theirs}.{name}.weight": f"layers.*.{part}.{ours}_proj.weight"
        for theirs, part in (("attention", "mixer"), ("feed_forward", "ffn"))
        for name, ours in TIME.items()
    },
    **{
        f"{BLOCK}.{theirs}.time_mix_{name}": Parts((f"layers.*.{part}.{ours}_mix.weight",), flat=2)
        for theirs, part in (("attention", "mixer"), ("feed_forward", "ffn"))
        for name, ours in TIME.items()
        if (part, ours) != ("ffn", "v")
    },
    "[rwkv.]ln_out.*": "final_norm.*",
    "head.weight": "lm_head.weight",
}
