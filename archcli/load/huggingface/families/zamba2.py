"""Zyphra's Zamba 2, Mamba-2 layers that share blocks of attention: Zamba2Config and Zamba2ForCausalLM."""

from string import ascii_lowercase

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.parts import zamba
from archcli.load.huggingface.parts.attention import key_value_heads
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import activation, rmsnorm
from archcli.load.huggingface.parts.recurrent import LINEAR, Mamba2Keys, expanded, mamba2, mamba2_names
from archcli.load.huggingface.parts.rope import rope
from archcli.load.huggingface.weights.map import Parts, Rule, Weights

MODEL_TYPES = ("zamba2",)
ALIASES = {"layer_types": "layers_block_type"}
KEYS = Mamba2Keys(
    n_heads="n_mamba_heads",
    groups="mamba_ngroups",
    chunk="chunk_size",
    bias="add_bias_linear",
    conv_bias="use_conv_bias",
)
UNREAD = """
    use_mem_eff_path mamba_headdim hybrid_layer_ids attention_hidden_size kv_channels ffn_hidden_size
    lora_rank state_size use_shared_mlp_adapter
"""
LONG = 16384
"""The context of use_long_context, whatever the file says."""

USUAL = [
    LINEAR,
    *([LINEAR] * 5 + [zamba.HYBRID]) * 7,
    *[LINEAR] * 4,
    zamba.HYBRID,
    *[LINEAR] * 3,
    zamba.HYBRID,
    *[LINEAR] * 2,
]
"""The layers of a file that does not tell theirs."""


def mapping(config: Config) -> Mapped:
    """Mamba-2 mixers; some read the stream with what one of the blocks, with adapters, adds to it."""
    config = config.of_class(**ALIASES)
    config.ignore(*zamba.UNREAD, *UNREAD.split(), "attention_head_dim", "num_query_groups")
    layers, width = zamba.kinds(config, USUAL), _width(config)
    blocks = _blocks(config, layers)
    rotates = config.flag("use_mem_rope")
    position = rope(config, width) if rotates else {"kind": "none"}
    if not rotates:
        config.ignore("rope_parameters", "rope_theta", "rope_scaling")
    block = zamba.concat_block(config, width, _network(config), position)
    use = {"adapter_rank": config.size("adapter_rank"), **_targets(config)}
    mapped = decoder(
        config,
        rmsnorm(config),
        zamba.hybrid(config, layers, _mixer(config), blocks, **use),
        shared=dict.fromkeys(blocks, block) if zamba.HYBRID in layers else None,
    )
    return {**mapped, "max_seq_len": LONG} if config.flag("use_long_context") else mapped


def _blocks(config: Config, layers: list[str]) -> list[str]:
    """The names of the shared blocks; one that no layer uses is not made."""
    count = min(config.size("num_mem_blocks").value, len(zamba.of_kind(layers, zamba.HYBRID)))
    short = count <= len(ascii_lowercase)
    return [ascii_lowercase[i] if short else f"block_{i}" for i in range(max(1, count))]


def _width(config: Config) -> ConfigValue[int]:
    """The width of a head: its share of twice the hidden size; where keys have adapters an exact one."""
    hidden, heads = config.size("hidden_size"), config.size("num_attention_heads")
    uneven = key_value_heads(config).value != heads.value or 2 * hidden.value % heads.value
    if config.flag("use_shared_attention_adapter") and uneven:
        what = f"adapters of attention are as wide as {heads} heads that share {2 * hidden.value}"
        raise config.error(what, "as many kv heads as heads", config.place("use_shared_attention_adapter"))
    return hidden.derive(2 * hidden.value // heads.value)


def _network(config: Config) -> Mapped:
    hidden, biased = config.size("hidden_size"), config.flag("add_bias_linear")
    width = config.optional_size("intermediate_size") or hidden.derive(4 * hidden.value)
    function = activation(config, "hidden_act")
    return {"kind": "glu", "d_ff": width, "activation": function, **({"bias": biased} if biased else {})}


def _targets(config: Config) -> Mapped:
    return {} if config.flag("use_shared_attention_adapter") else {"adapter_targets": ["gate_up"]}


def _mixer(config: Config) -> Mapped:
    """Heads that make up the width; its norm has an eps of its own, and step sizes a least value."""
    inner, heads, groups = expanded(config), config.size("n_mamba_heads"), config.size("mamba_ngroups")
    if inner.value % heads.value:
        what = f"n_mamba_heads {heads} do not divide the {inner} channels of Mamba"
        raise config.error(what, at=heads.place)
    least = config.number("time_step_min").value
    width = inner.derive(inner.value // heads.value)
    return {
        **mamba2(config, KEYS, width, activation=None, conv_bias=None),  # silu and a bias, always
        "norm": {"kind": "rmsnorm", "eps": 1e-5, "groups": groups},
        **({"step_limit": [least, None]} if least > 0 else {}),
    }


def weights(config: Config) -> Weights:
    """Weight names; adapters are listed in the block, by the turn of the layer that uses them."""
    config = config.of_class(**ALIASES)
    layers = zamba.kinds(config, USUAL)
    uses, n_blocks = zamba.of_kind(layers, zamba.HYBRID), len(_blocks(config, layers))
    parts = {
        **zamba.BLOCK,
        "feed_forward.gate_up_proj.*": Parts(tuple(f"ffn.{which}_proj.*" for which in ("gate", "up"))),
        "feed_forward.down_proj.*": "ffn.down_proj.*",
    }
    names: dict[str, Rule] = {
        **zamba.ENDS,
        **zamba.names(layers, n_blocks, "shared_transformer", mamba2_names, parts),
    }
    for nth, index in enumerate(uses):
        ours = f"layers.{index}.shared"
        for holder in uses[nth % n_blocks :: n_blocks]:
            names |= _adapters(f"[model.]layers.{holder}.shared_transformer", ours, nth)
    return names


def _adapters(block: str, ours: str, nth: int) -> Weights:
    """Names of the adapters of the nth use of a block."""
    network, wide = f"{block}.feed_forward.gate_up_proj_adapter_list.{nth}", ("gate", "up")
    attention = {
        f"{block}.self_attn.linear_{which}_adapter_list.{nth}.{i}.weight": Parts(
            (f"{ours}.attention.{which}_proj.adapter_{part}.weight",), again=True
        )
        for which in "qkv"
        for i, part in enumerate("AB")
    }
    return {
        **attention,
        f"{network}.0.weight": Parts((f"{ours}.ffn.gate_up_proj.adapter_A.weight",), again=True),
        f"{network}.1.weight": Parts(
            tuple(f"{ours}.ffn.{which}_proj.adapter_B.weight" for which in wide), again=True
        ),
    }
