"""Zyphra's Zamba 1 and 2: Mamba layers that share blocks of attention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from string import ascii_lowercase
from typing import Any

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, ConfigValue, Family, Mapped, Parts, Rule, Weights, attention
from archcli.load.huggingface.weights.hybrid import of_layers
from archcli.load.huggingface.whole.mamba_like import JAMBA, mamba

HYBRID = "hybrid"
"""The kind of a layer that uses a shared block before its mixer."""

UNREAD = ("num_logits_to_keep", "use_mamba_kernels", "time_step_max", "time_step_floor")


def _kinds(config: Config, default: Sequence[str]) -> list[str]:
    """The kind of each layer; the class wants as many as num_hidden_layers."""
    if config.get("layer_types", default=None) is not None:
        return hf.kinds_of_layers(
            config, [hf.LINEAR] * config.layers(), (hf.LINEAR, HYBRID), key="layer_types"
        )
    if len(default) != config.layers():
        what = f"without layers_block_type the class makes {len(default)} layers, not {config.layers()}"
        raise config.error(what, "state layers_block_type", config.place("num_hidden_layers"))
    return [*default]


def _concat_block(config: Config, width: ConfigValue[int], ffn: Mapped, position: Any) -> Mapped:
    """A block of attention on the stream joined with the embeddings; scores have (width / 2)^-1/2."""
    scale = width.derive((width.value / 2) ** -0.5)
    attend = attention(config, width, position=position, head_dim=width, scale=scale)
    return {"kind": "concat", "attention": attend, "ffn": ffn}


def _mixing_layers(
    config: Config, layers: Sequence[str], mixer: Mapped, names: Sequence[str], **use: Any
) -> list[Mapped]:
    """All layers; those that use a shared block take the blocks of these names in turn.

    The class ties blocks as it ties the head: in an untied file each use would have its own weights.
    """
    if not config.flag("tie_word_embeddings") and len(_of_kind(layers, HYBRID)) > len(names):
        what = "tie_word_embeddings false unties the shared blocks in transformers too: it is not supported"
        raise config.error(what, "published models tie both", config.place("tie_word_embeddings"))
    plain: Mapped = {"kind": "pre_norm", "mixer": mixer}
    uses = [{"kind": "shared", "use": name, "project": True, **use, "mixer": mixer} for name in names]
    turns = {index: uses[nth % len(uses)] for nth, index in enumerate(_of_kind(layers, HYBRID))}
    return [turns.get(index, plain) for index in range(len(layers))]


def _of_kind(layers: Sequence[str], kind: str) -> list[int]:
    """The indices of the layers of a kind."""
    return [index for index, here in enumerate(layers) if here == kind]


def _names(
    layers: Sequence[str], n_blocks: int, block: str, mixer: Callable[[str], Weights], parts: Weights
) -> Weights:
    """Weight names of all layers: a shared block is called `block` in each layer that uses it.

    `parts` are its weights, `mixer` gives those of a mixer under a prefix.
    """
    stem, uses = "[model.]layers.*", _of_kind(layers, HYBRID)
    plain = {f"{stem}.input_layernorm.weight": "layers.*.mixer_norm.weight", **mixer(f"{stem}.mamba")}
    using = {
        f"{stem}.mamba_decoder.input_layernorm.weight": "layers.*.mixer_norm.weight",
        f"{stem}.linear.weight": "layers.*.shared_proj.weight",
        **mixer(f"{stem}.mamba_decoder.mamba"),
    }
    table: dict[str, Rule] = {**of_layers(plain, _of_kind(layers, hf.LINEAR)), **of_layers(using, uses)}
    # a state_dict has the block in every layer that uses it; archcli's is that of its first use
    for nth, index in enumerate(uses):
        first = uses[nth % n_blocks]
        for theirs, rule in parts.items():
            ours = rule.ours if isinstance(rule, Parts) else (str(rule),)
            weights = tuple(f"layers.{first}.shared.{name}" for name in ours)
            table[f"[model.]layers.{index}.{block}.{theirs}"] = Parts(weights, again=True)
    return table


BLOCK: Weights = {
    **{f"self_attn.{which}_proj.weight": f"attention.{which}_proj.weight" for which in "qkvo"},
    "input_layernorm.weight": "attention_norm.weight",
    "pre_ff_layernorm.weight": "ffn_norm.weight",
}
"""Weights of a shared block without those of its network."""

ENDS: Weights = {
    "[model.]embed_tokens.weight": "embedding.tokens.weight",
    "[model.]final_layernorm.weight": "final_norm.weight",
    "lm_head.weight": "lm_head.weight",
}


ZAMBA_NETWORK = ("gate_proj", "up_proj", "down_proj")


def _zamba(config: Config) -> Mapped:
    """Mamba-1 mixers with heads; before some of them a shared block of attention adds to the stream."""
    config.ignore(*UNREAD)
    layers = _zamba_kinds(config)
    inner = config.size("expand").value * config.size("hidden_size").value
    if inner % config.size("n_mamba_heads").value:
        what = f"n_mamba_heads {config.size('n_mamba_heads')} do not divide the {inner} channels of Mamba"
        raise config.error(what, at=config.place("n_mamba_heads"))
    act = hf.activation(config, "hidden_mamba_act")
    mixer = mamba(config, n_heads=config.size("n_mamba_heads"), activation=act)
    block = _concat_block(config, _zamba_width(config), hf.gated(config), {"kind": "none"})
    shared = {"a": block} if HYBRID in layers else None
    return hf.decoder(config, hf.rmsnorm(config), _mixing_layers(config, layers, mixer, ["a"]), shared=shared)


def _zamba_kinds(config: Config) -> list[str]:
    period, offset = config.size("attn_layer_period"), config.count("attn_layer_offset")
    # ZambaConfig begins with these three, and counts the period from the fourth on
    after = range(max(0, config.layers() - 3))
    regular = [HYBRID if i % period.value == offset.value else hf.LINEAR for i in after]
    return _kinds(config, [hf.LINEAR, hf.LINEAR, HYBRID, *regular])


def _zamba_width(config: Config) -> ConfigValue[int]:
    """The width of a head: head_dim, else 2 hidden_size / heads, as attention reads two vectors."""
    hidden, heads = config.size("hidden_size"), config.size("num_attention_heads")
    width = config.optional_size("attention_hidden_size")
    if width is not None and width.value != 2 * hidden.value:
        what = f"attention_hidden_size {width} must be twice hidden_size {hidden}"
        raise config.error(what, "attention reads the stream beside the embeddings", width.place)
    return config.optional_size("head_dim") or hidden.derive(2 * hidden.value // heads.value)


def _zamba_weights(config: Config) -> Weights:
    """Weight names; `in_proj` holds a row of x, then one of its gate, and so on."""
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

    parts = {**BLOCK, **network}
    return {**ENDS, **_names(_zamba_kinds(config), 1, "shared_transf", mixer, parts)}


ZAMBA2_KEYS = hf.Mamba2Keys(
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

ZAMBA2_KINDS = [
    hf.LINEAR,
    *([hf.LINEAR] * 5 + [HYBRID]) * 7,
    *[hf.LINEAR] * 4,
    HYBRID,
    *[hf.LINEAR] * 3,
    HYBRID,
    *[hf.LINEAR] * 2,
]
"""The default kinds of the layers."""


def _zamba2(config: Config) -> Mapped:
    """Mamba-2 mixers; before some of them a shared block with adapters adds to the stream."""
    config.ignore(*UNREAD, *ZAMBA2_UNREAD.split(), "attention_head_dim", "num_query_groups")
    layers, width = _kinds(config, ZAMBA2_KINDS), _zamba2_width(config)
    _note_idle(config, layers)
    blocks = _zamba2_blocks(config, layers)
    rotates = config.flag("use_mem_rope")
    position = hf.rope(config, width) if rotates else {"kind": "none"}
    if not rotates:
        config.ignore("rope_parameters", "rope_theta", "rope_scaling")
    block = _concat_block(config, width, _zamba2_network(config), position)
    use = {"adapter_rank": config.size("adapter_rank"), **_targets(config)}
    mapped = hf.decoder(
        config,
        hf.rmsnorm(config),
        _mixing_layers(config, layers, _zamba2_mixer(config), blocks, **use),
        shared=dict.fromkeys(blocks, block) if HYBRID in layers else None,
    )
    return {**mapped, "max_seq_len": ZAMBA2_LONG} if config.flag("use_long_context") else mapped


def _note_idle(config: Config, layers: list[str]) -> None:
    """Note ids in hybrid_layer_ids of layers without a shared block: the class has adapters for them."""
    named = config.get("hybrid_layer_ids", default=None)
    hybrid = {index for index, kind in enumerate(layers) if kind == HYBRID}
    idle = [index for index in named if index not in hybrid] if isinstance(named, list) else []
    if idle:
        what = f"hybrid_layer_ids names {', '.join(map(hf.short_repr, idle[:8]))}, no hybrid layers"
        config.note(f"{what}: adapters that the class holds for them are not counted")


def _zamba2_blocks(config: Config, layers: list[str]) -> list[str]:
    """The names of the shared blocks; one that no layer uses is not made."""
    count = min(config.size("num_mem_blocks").value, len(_of_kind(layers, HYBRID)))
    short = count <= len(ascii_lowercase)
    return [ascii_lowercase[i] if short else f"block_{i}" for i in range(max(1, count))]


def _zamba2_width(config: Config) -> ConfigValue[int]:
    """The width of a head, 2 hidden_size / heads, which has to be whole where attention has adapters."""
    hidden, heads = config.size("hidden_size"), config.size("num_attention_heads")
    uneven = hf.key_value_heads(config).value != heads.value or 2 * hidden.value % heads.value
    if config.flag("use_shared_attention_adapter") and uneven:
        what = f"adapters of attention are as wide as {heads} heads that share {2 * hidden.value}"
        raise config.error(what, "as many kv heads as heads", config.place("use_shared_attention_adapter"))
    return hidden.derive(2 * hidden.value // heads.value)


def _zamba2_network(config: Config) -> Mapped:
    hidden, biased = config.size("hidden_size"), config.flag("add_bias_linear")
    width = config.optional_size("intermediate_size") or hidden.derive(4 * hidden.value)
    function = hf.activation(config, "hidden_act")
    return {"kind": "glu", "d_ff": width, "activation": function, **({"bias": biased} if biased else {})}


def _targets(config: Config) -> Mapped:
    return {} if config.flag("use_shared_attention_adapter") else {"adapter_targets": ["gate_up"]}


def _zamba2_mixer(config: Config) -> Mapped:
    """A Mamba-2 mixer with an eps of 1e-5 in its norm and a lower limit of step sizes."""
    inner, heads, groups = hf.expanded(config), config.size("n_mamba_heads"), config.size("mamba_ngroups")
    if inner.value % heads.value:
        what = f"n_mamba_heads {heads} do not divide the {inner} channels of Mamba"
        raise config.error(what, at=heads.place)
    least = config.number("time_step_min").value
    width = inner.derive(inner.value // heads.value)
    return {
        **hf.mamba2(config, ZAMBA2_KEYS, width, activation=None, conv_bias=None),  # silu and a bias, always
        "norm": {"kind": "rmsnorm", "eps": 1e-5, "groups": groups},
        **({"step_limit": [least, None]} if least > 0 else {}),
    }


def _zamba2_weights(config: Config) -> Weights:
    """Weight names; a block lists adapters for all its uses, numbered in their order."""
    layers = _kinds(config, ZAMBA2_KINDS)
    uses, n_blocks = _of_kind(layers, HYBRID), len(_zamba2_blocks(config, layers))
    parts = {
        **BLOCK,
        "feed_forward.gate_up_proj.*": Parts(tuple(f"ffn.{which}_proj.*" for which in ("gate", "up"))),
        "feed_forward.down_proj.*": "ffn.down_proj.*",
    }
    names: dict[str, Rule] = {
        **ENDS,
        **_names(layers, n_blocks, "shared_transformer", hf.mamba2_names, parts),
    }
    for nth, index in enumerate(uses):
        ours = f"layers.{index}.shared"
        # adapters lie in the block, and so in every layer that uses the same block
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
