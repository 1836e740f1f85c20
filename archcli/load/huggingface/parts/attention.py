"""Attention by the keys of Llama and of DeepSeek: heads, widths, biases, scales, windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.config_json import ConfigValue, Mapped, without_none
from archcli.load.huggingface.parts.rope import parameters, position, rope


def optional_number(config: Config, name: str) -> ConfigValue[float] | None:
    """A number, or None where the file says null."""
    absent = config.stated_null(name) or config.get(name, default=None) is None
    return None if absent else config.number(name)


def positive(config: Config, name: str) -> ConfigValue[float]:
    """A number above 0."""
    number = config.number(name)
    if number.value <= 0:
        raise config.error(f"{name} must be above 0, not {number}", at=number.place)
    return number


def multiplier(config: Config, name: str) -> ConfigValue[float] | None:
    """A factor above 0, or None where it is 1."""
    factor = positive(config, name)
    return None if factor == 1 else factor


Flag = bool | ConfigValue[bool]


def even_split(config: Config) -> ConfigValue[int]:
    """head_dim = hidden_size / heads."""
    heads, hidden = config.size("num_attention_heads"), config.size("hidden_size")
    return ConfigValue(hidden.value // heads.value, config.place("hidden_size", "num_attention_heads"))


def head_dim(config: Config) -> ConfigValue[int]:
    """head_dim, else the class's default; null, or no default, means hidden_size / heads."""
    width = even_split(config)
    if not config.stated_null("head_dim"):
        width = config.size("head_dim", default=width)
    if width.value < 1:
        heads, hidden = config.size("num_attention_heads"), config.size("hidden_size")
        what = f"{heads} heads are more than hidden_size {hidden}"
        raise config.error(what, "state head_dim", heads.place)
    return width


def square_heads(config: Config) -> ConfigValue[int]:
    """head_dim of a class that takes hidden_size for the width of all heads together."""
    width, heads, hidden = head_dim(config), config.size("num_attention_heads"), config.size("hidden_size")
    if width.value * heads.value != hidden.value:
        what = f"{heads} heads of width {width} do not make hidden_size {hidden}"
        hint = "its output projection takes hidden_size: with this width every forward of the class fails"
        raise config.error(what, hint, config.place("head_dim", "num_attention_heads"))
    return width


def head_counts(heads: ConfigValue[int], kv_heads: ConfigValue[int]) -> Mapped:
    """The kind of attention by its numbers of heads: MHA, MQA or GQA."""
    kind = {heads.value: {"kind": "mha"}, 1: {"kind": "mqa"}}
    return {**kind.get(kv_heads.value, {"kind": "gqa", "n_kv_heads": kv_heads}), "n_heads": heads}


def key_value_heads(config: Config) -> ConfigValue[int]:
    """num_key_value_heads, else the class's default; null means as many as query heads."""
    heads = config.size("num_attention_heads")
    if config.stated_null("num_key_value_heads"):
        return heads
    return config.size("num_key_value_heads", default=heads)


def attention(
    config: Config,
    width: ConfigValue[int],
    *,
    bias: Flag | list[str] = False,
    position: Any = None,
    **more: Any,
) -> Mapped:
    """Grouped-query attention by the keys of Llama; `more` are further fields of the mapping."""
    heads, kv_heads = config.size("num_attention_heads"), key_value_heads(config)
    position = rope(config, width) if position is None else position
    shape = {
        # left out where it is the default, d_model / n_heads
        "head_dim": width if width.value * heads.value != config.size("hidden_size") else None,
        "bias": bias or None,
        "position": position,
    }
    return without_none({**head_counts(heads, kv_heads), **shape, **more})


PER_HEAD = {"per": "head"}
"""Queries and keys normalized head by head, with a gain that the heads share."""


def query_scale(config: Config, width: ConfigValue[int]) -> ConfigValue[float] | None:
    """query_pre_attn_scalar^-0.5, or None where it equals the default 1 / sqrt(head_dim)."""
    scalar = positive(config, "query_pre_attn_scalar")
    return None if scalar == width else scalar.derive(float(scalar.value**-0.5))


def latent_attention(config: Config, pairing: str | None = None, position: Any = None) -> Mapped:
    """Multi-head latent attention by DeepSeek's keys.

    Without `position` it has RoPE by the usual keys, with this `pairing`, or that of rope_interleave.
    """
    if pairing is None:
        pairing = "interleaved" if config.flag("rope_interleave") else "half"
    if position is None:
        position = rope(config, config.size("qk_rope_head_dim"), pairing=pairing, scales_scores=True)
    ranks = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
    rank = None if config.stated_null("q_lora_rank") else config.optional_size("q_lora_rank")
    config.ignore("num_key_value_heads", "head_dim", "qk_head_dim")
    return without_none(
        {
            "kind": "mla",
            "n_heads": config.size("num_attention_heads"),
            "q_lora_rank": rank,
            **{key: config.size(key) for key in ranks},
            "bias": config.flag("attention_bias") or None,
            # the classes give these norms no eps, so it is the default of RMSNorm, whatever the file says
            "latent_norm": {"kind": "rmsnorm", "eps": 1e-6},
            "position": position,
        }
    )


SHORTEST_SPARSE = 512
"""The fewest tokens from which sparse attention is accepted: shorter inputs are counted over all pairs."""


def all_pairs_for_blocks(config: Config) -> None:
    """Note that BigBird's attention is counted over all pairs, as its class runs all but long inputs."""
    config.only("attention_type", "block_sparse", "original_full")
    if config.get("attention_type") != "block_sparse":
        return
    sparse = (5 + 2 * config.count("num_random_blocks").value) * config.size("block_size").value
    if sparse < SHORTEST_SPARSE:
        what = f"block_size {config.get('block_size')} makes attention sparse from {sparse:,} tokens on"
        raise config.error(what, f"supported: from {SHORTEST_SPARSE} on", config.place("block_size"))
    config.note(f"attention is counted over all pairs; beyond {sparse:,} tokens the class runs it in blocks")


def two_sided_windows(config: Config) -> list[ConfigValue[int]]:
    """Longformer's window of each layer, half of it to either side: one number for all, or a list."""
    entry, depth = config.value("attention_window"), config.layers()
    sizes = entry.value if isinstance(entry.value, list) else [entry.value] * depth
    if len(sizes) != depth or not all(type(size) is int and size > 0 and size % 2 == 0 for size in sizes):
        what = f"attention_window {short_repr(entry.value)} is not supported"
        raise config.error(what, "an even number above 0, or one for each layer", entry.place)
    return [entry.derive(size) for size in sizes]


def seen_near(layer: Mapped, windows: list[ConfigValue[int]]) -> list[Mapped]:
    """The layer with each of these windows in turn."""
    return [
        {**layer, "attention": {**layer["attention"], "sparsity": {"kind": "longformer", "window": window}}}
        for window in windows
    ]


SLIDING, FULL = "sliding_attention", "full_attention"


def window(config: Config) -> ConfigValue[int] | None:
    """The sliding window; null and 0 both mean none."""
    if config.stated_null("sliding_window") or config.get("sliding_window", default=None) == 0:
        return None
    return config.optional_size("sliding_window")


def check_window(config: Config, *, null: bool = False) -> None:
    """Refuse a window of 0, with which layers see nothing, and null where some layer needs a window.

    `null` allows null, where the class says what it means.
    """
    types = config.get("layer_types", default=None)
    may_slide = not isinstance(types, list) or SLIDING in types
    if config.stated_null("sliding_window") and may_slide and not null:
        raise config.error(
            "sliding_window null is not supported", "state the window, or no layer that has one"
        )
    config.optional_size("sliding_window")


def windows(
    config: Config,
    layer: Callable[[ConfigValue[int] | None], Mapped],
    slides: Callable[[int], bool],
    *,
    used: Flag = True,
) -> list[Mapped]:
    """All layers, some of them with a sliding window where `used` is true.

    `layer_types` names those that have one; without it `slides` tells by the layer's index.
    """
    count, width = config.layers(), window(config)
    width = width if used else None
    types = layer_types(config, _types_by_index(config, count, slides if width else None))
    if width is None and SLIDING in types:
        what = f"layer_types names {SLIDING}, but there is no window"
        raise config.error(what, "state sliding_window", config.place("layer_types"))
    layers = {kind: layer(width if kind == SLIDING else None) for kind in dict.fromkeys(types)}
    return [layers[kind] for kind in types]


def _types_by_index(config: Config, count: int, slides: Callable[[int], bool] | None) -> list[str]:
    """The kind of attention of each layer by its index, for files without `layer_types`."""
    # slides may read keys, which a file with layer_types need not have
    if slides is None or config.get("layer_types", default=None) is not None:
        return [FULL] * count
    return [SLIDING if slides(index) else FULL for index in range(count)]


def layer_types(config: Config, default: list[str]) -> list[str]:
    """The kind of attention of each layer: sliding or full."""
    kinds = config.per_layer("layer_types", len(default)) or default
    types = [FULL if kind == "attention" else kind for kind in kinds]
    unknown = [kind for kind in types if kind not in (SLIDING, FULL)]
    if unknown:
        what = f"layer_types {short_repr(unknown[0])} is not supported"
        raise config.error(what, f"known: {SLIDING}, {FULL}", config.place("layer_types"))
    return types


def near_and_far(config: Config, width: ConfigValue[int]) -> tuple[ConfigValue[Mapped], ConfigValue[Mapped]]:
    """RoPE of the windowed layers, and of the global ones, which use `rope_scaling` and `rope_theta`."""
    near = {
        "rope_theta": config.number("rope_local_base_freq"),
        **parameters(config, "rope_parameters", SLIDING),
    }
    far = {**parameters(config, "rope_parameters", FULL), **parameters(config, "rope_scaling")}
    return position(config, width, near), position(config, width, far)
