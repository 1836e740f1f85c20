"""Zyphra's Zamba 1 and 2: Mamba layers that share blocks of attention."""

from __future__ import annotations

from string import ascii_lowercase

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.family import Family
from archcli.load.huggingface.parts import zamba
from archcli.load.huggingface.parts.attention import key_value_heads
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import activation, gated, rmsnorm
from archcli.load.huggingface.parts.recurrent import LINEAR, Mamba2Keys, expanded, mamba2, mamba2_names
from archcli.load.huggingface.parts.rope import rope
from archcli.load.huggingface.weights.map import Parts, Rule, Weights
from archcli.load.huggingface.whole.mamba_like import JAMBA, mamba

ZAMBA_NETWORK = ("gate_proj", "up_proj", "down_proj")


def _zamba(config: Config) -> Mapped:
    """Mamba-1 mixers with heads; some read the stream with what a block of attention adds to it."""
    config.ignore(*zamba.UNREAD)
    layers = _zamba_kinds(config)
    inner = config.size("expand").value * config.size("hidden_size").value
    if inner % config.size("n_mamba_heads").value:
        what = f"n_mamba_heads {config.size('n_mamba_heads')} do not divide the {inner} channels of Mamba"
        raise config.error(what, at=config.place("n_mamba_heads"))
    act = activation(config, "hidden_mamba_act")
    mixer = mamba(config, n_heads=config.size("n_mamba_heads"), activation=act)
    block = zamba.concat_block(config, _zamba_width(config), gated(config), {"kind": "none"})
    shared = {"a": block} if zamba.HYBRID in layers else None
    return decoder(config, rmsnorm(config), zamba.hybrid(config, layers, mixer, ["a"]), shared=shared)


def _zamba_kinds(config: Config) -> list[str]:
    period, offset = config.size("attn_layer_period"), config.count("attn_layer_offset")
    after = range(max(0, config.layers() - 3))
    regular = [zamba.HYBRID if i % period.value == offset.value else LINEAR for i in after]
    return zamba.kinds(config, [LINEAR, LINEAR, zamba.HYBRID, *regular])


def _zamba_width(config: Config) -> ConfigValue[int]:
    """The width of a head: stated, or its share of twice the hidden size, which is what attention reads."""
    hidden, heads = config.size("hidden_size"), config.size("num_attention_heads")
    reads = config.optional_size("attention_hidden_size")
    if reads is not None and reads.value != 2 * hidden.value:
        what = f"attention_hidden_size {reads} must be twice hidden_size {hidden}"
        raise config.error(what, "attention reads the stream beside the embeddings", reads.place)
    return config.optional_size("head_dim") or hidden.derive(2 * hidden.value // heads.value)


def _zamba_weights(config: Config) -> Weights:
    """Weight names; rows of x and of its gate lie in turn in `in_proj`."""
    inner = config.size("expand").value * config.size("hidden_size").value
    network = {f"feed_forward.{which}.weight": f"ffn.{which}.weight" for which in ZAMBA_NETWORK}

    def mixer(theirs: str, ours: str = "layers.*.mixer") -> Weights:
        return {
            f"{theirs}.in_proj.*": Parts((f"{ours}.in_proj.*", f"{ours}.gate_proj.*"), groups=inner),
            f"{theirs}.out_proj.*": f"{ours}.out_proj.*",
            f"{theirs}.conv1d.*": f"{ours}.conv.*",
            f"{theirs}.x_proj_weight": f"{ours}.x_proj.weight",
            **{f"{theirs}.dt_proj_{name}": f"{ours}.dt_proj.{name}" for name in ("weight", "bias")},
            **{f"{theirs}.{name}": f"{ours}.scan.{name}" for name in ("A_log", "D")},
        }

    parts = {**zamba.BLOCK, **network}
    return {**zamba.ENDS, **zamba.names(_zamba_kinds(config), 1, "shared_transf", mixer, parts)}


ZAMBA2_KEYS = Mamba2Keys(
    n_heads="n_mamba_heads",
    groups="mamba_ngroups",
    chunk="chunk_size",
    bias="add_bias_linear",
    conv_bias="use_conv_bias",
)
ZAMBA2_UNREAD = """
    use_mem_eff_path mamba_headdim hybrid_layer_ids attention_hidden_size kv_channels ffn_hidden_size
    lora_rank state_size use_shared_mlp_adapter
"""
ZAMBA2_LONG = 16384
"""The context of use_long_context, whatever the file says."""

ZAMBA2_USUAL = [
    LINEAR,
    *([LINEAR] * 5 + [zamba.HYBRID]) * 7,
    *[LINEAR] * 4,
    zamba.HYBRID,
    *[LINEAR] * 3,
    zamba.HYBRID,
    *[LINEAR] * 2,
]
"""The layers of a file that does not tell theirs."""


def _zamba2(config: Config) -> Mapped:
    """Mamba-2 mixers; some read the stream with what one of the blocks, with adapters, adds to it."""
    config.ignore(*zamba.UNREAD, *ZAMBA2_UNREAD.split(), "attention_head_dim", "num_query_groups")
    layers, width = zamba.kinds(config, ZAMBA2_USUAL), _zamba2_width(config)
    blocks = _zamba2_blocks(config, layers)
    rotates = config.flag("use_mem_rope")
    position = rope(config, width) if rotates else {"kind": "none"}
    if not rotates:
        config.ignore("rope_parameters", "rope_theta", "rope_scaling")
    block = zamba.concat_block(config, width, _zamba2_network(config), position)
    use = {"adapter_rank": config.size("adapter_rank"), **_targets(config)}
    mapped = decoder(
        config,
        rmsnorm(config),
        zamba.hybrid(config, layers, _zamba2_mixer(config), blocks, **use),
        shared=dict.fromkeys(blocks, block) if zamba.HYBRID in layers else None,
    )
    return {**mapped, "max_seq_len": ZAMBA2_LONG} if config.flag("use_long_context") else mapped


def _zamba2_blocks(config: Config, layers: list[str]) -> list[str]:
    """The names of the shared blocks; one that no layer uses is not made."""
    count = min(config.size("num_mem_blocks").value, len(zamba.of_kind(layers, zamba.HYBRID)))
    short = count <= len(ascii_lowercase)
    return [ascii_lowercase[i] if short else f"block_{i}" for i in range(max(1, count))]


def _zamba2_width(config: Config) -> ConfigValue[int]:
    """The width of a head: its share of twice the hidden size; where keys have adapters an exact one."""
    hidden, heads = config.size("hidden_size"), config.size("num_attention_heads")
    uneven = key_value_heads(config).value != heads.value or 2 * hidden.value % heads.value
    if config.flag("use_shared_attention_adapter") and uneven:
        what = f"adapters of attention are as wide as {heads} heads that share {2 * hidden.value}"
        raise config.error(what, "as many kv heads as heads", config.place("use_shared_attention_adapter"))
    return hidden.derive(2 * hidden.value // heads.value)


def _zamba2_network(config: Config) -> Mapped:
    hidden, biased = config.size("hidden_size"), config.flag("add_bias_linear")
    width = config.optional_size("intermediate_size") or hidden.derive(4 * hidden.value)
    function = activation(config, "hidden_act")
    return {"kind": "glu", "d_ff": width, "activation": function, **({"bias": biased} if biased else {})}


def _targets(config: Config) -> Mapped:
    return {} if config.flag("use_shared_attention_adapter") else {"adapter_targets": ["gate_up"]}


def _zamba2_mixer(config: Config) -> Mapped:
    """Heads that make up the width; its norm has an eps of its own, and step sizes a least value."""
    inner, heads, groups = expanded(config), config.size("n_mamba_heads"), config.size("mamba_ngroups")
    if inner.value % heads.value:
        what = f"n_mamba_heads {heads} do not divide the {inner} channels of Mamba"
        raise config.error(what, at=heads.place)
    least = config.number("time_step_min").value
    width = inner.derive(inner.value // heads.value)
    return {
        **mamba2(config, ZAMBA2_KEYS, width, activation=None, conv_bias=None),  # silu and a bias, always
        "norm": {"kind": "rmsnorm", "eps": 1e-5, "groups": groups},
        **({"step_limit": [least, None]} if least > 0 else {}),
    }


def _zamba2_weights(config: Config) -> Weights:
    """Weight names; adapters are listed in the block, by the turn of the layer that uses them."""
    layers = zamba.kinds(config, ZAMBA2_USUAL)
    uses, n_blocks = zamba.of_kind(layers, zamba.HYBRID), len(_zamba2_blocks(config, layers))
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
            names |= _zamba2_adapters(f"[model.]layers.{holder}.shared_transformer", ours, nth)
    return names


def _zamba2_adapters(block: str, ours: str, nth: int) -> Weights:
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


FAMILIES = {
    "zamba": Family(
        "Zyphra's Zamba, Mamba layers that share one block of attention: ZambaConfig and ZambaForCausalLM.",
        _zamba,
        _zamba_weights,
        aliases={**JAMBA, "layer_types": "layers_block_type", "head_dim": "attention_head_dim"},
        defaults={"mamba_dt_rank": "auto"},
    ),
    "zamba2": Family(
        "Zyphra's Zamba 2, Mamba-2 layers that share blocks of attention: "
        "Zamba2Config and Zamba2ForCausalLM.",
        _zamba2,
        _zamba2_weights,
        aliases={"layer_types": "layers_block_type"},
    ),
}
