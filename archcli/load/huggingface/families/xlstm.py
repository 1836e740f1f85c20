"""xLSTM-7B, layers of mLSTM and SwiGLU: xLSTMConfig and xLSTMForCausalLM."""

from dataclasses import replace

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.parts.attention import optional_number, positive
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.weights.map import Weights

MODEL_TYPES = ("xlstm",)
UNREAD = """
    norm_reduction_force_float32 chunkwise_kernel sequence_kernel step_kernel mode return_last_states
    autocast_kernel_dtype inference_state_dtype max_inference_chunksize add_out_norm
    tie_word_embeddings add_post_blocks_norm cell_norm_eps force_bos_token_insert forward_backend_name
    head_dim igate_bias_init_range mlstm_round_up_to_multiple_of
"""
"""Keys of how it is run, and those that the class does not read: it ends in a norm and ties nothing."""


def mapping(config: Config) -> Mapped:
    """Pre-norm, mLSTM with a sigmoid output gate, SwiGLU; gates and logits are bounded by a softcap."""
    config = _completed(config.of_class(num_hidden_layers="num_blocks"))
    config.ignore(*UNREAD.split())
    config.only("weight_mode", "single")  # of fused matrices the class cannot be made
    config.only("use_bias", False)  # it adds one to each RMSNorm
    eps, cap = positive(config, "norm_eps"), optional_number(config, "output_logit_soft_cap")
    ffn = {"kind": "glu", "activation": "silu", "d_ff": _network(config)}
    layer = {"kind": "pre_norm", "mixer": _mlstm(config, eps), "ffn": ffn}
    head = None if cap is None else {"softcap": cap}
    untied = {"tied": False}
    norm = {"kind": "rmsnorm", "eps": eps}
    return decoder(config, norm, [layer] * config.layers(), embedding=untied, head=head)


def _completed(config: Config) -> Config:
    """The file with its hidden_size, for which embedding_dim stands where that is null."""
    width = config.optional_size("embedding_dim")
    if width is None:
        return config
    if config.stated_null("hidden_size"):
        return replace(config, data={**config.data, "hidden_size": width.value})
    hidden = config.size("hidden_size")
    if width.value != hidden.value:
        what = f"embedding_dim {width} and hidden_size {hidden} are one width"
        raise config.error(what, "make them equal", width.place)
    return config


def _mlstm(config: Config, eps: ConfigValue[float]) -> Mapped:
    """The mixer; a null gate_soft_cap leaves gates as they are."""
    cap = optional_number(config, "gate_soft_cap")
    return {
        "kind": "mlstm",
        "n_heads": config.size("num_heads"),
        "key_head_dim": _head_dim(config, "qk_dim_factor"),
        "value_head_dim": _head_dim(config, "v_dim_factor"),
        "chunk": config.size("chunk_size"),
        "gate_softcap": cap,
        "eps": positive(config, "eps"),
        "norm": {"kind": "layernorm", "eps": eps, "gate": "after", "activation": "sigmoid"},
    }


def _head_dim(config: Config, key: str) -> ConfigValue[int]:
    """The width of a head of keys or values: a factor of the model's width, shared by the heads."""
    factor, heads = positive(config, key), config.size("num_heads")
    width = int(config.size("hidden_size").value * factor.value)
    if not width or width % heads.value:
        what = f"{key} {factor} makes a width of {width}, which {heads} heads do not divide"
        raise config.error(what, "state a factor whose width they divide", factor.place)
    return factor.derive(width // heads.value)


def _network(config: Config) -> ConfigValue[int]:
    """The network's width: a factor of the model's, rounded up to a multiple."""
    factor, multiple = positive(config, "ffn_proj_factor"), config.size("ffn_round_up_to_multiple_of").value
    width = config.size("hidden_size").value * factor.value
    return factor.derive(int((width + multiple - 1) // multiple * multiple))


LAYER = "[backbone.]blocks.*"
MIXER = f"{LAYER}.mlstm_layer"
OURS = {
    **{name: f"{name}_proj" for name in "qkv"},
    **{f"{name}gate_preact": f"{ours}_proj" for name, ours in (("o", "g"), ("i", "i"), ("f", "f"))},
    "multihead_norm": "norm",
    "out_proj": "o_proj",
}
WEIGHTS: Weights = {
    "[backbone.]embeddings.weight": "embedding.tokens.weight",
    f"{LAYER}.norm_mlstm.weight": "layers.*.mixer_norm.weight",
    **{f"{MIXER}.{theirs}.*": f"layers.*.mixer.{ours}.*" for theirs, ours in OURS.items()},
    f"{LAYER}.norm_ffn.weight": "layers.*.ffn_norm.weight",
    f"{LAYER}.ffn.proj_up_gate.weight": "layers.*.ffn.gate_proj.weight",
    f"{LAYER}.ffn.proj_up.weight": "layers.*.ffn.up_proj.weight",
    f"{LAYER}.ffn.proj_down.weight": "layers.*.ffn.down_proj.weight",
    "[backbone.]out_norm.weight": "final_norm.weight",
    "lm_head.weight": "lm_head.weight",
}
