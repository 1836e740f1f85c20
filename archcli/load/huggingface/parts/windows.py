"""Sliding windows: which layers of a model have one."""

from __future__ import annotations

from collections.abc import Callable

from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.parts.attention import Flag
from archcli.load.huggingface.value import ConfigValue, Mapped

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
    stated = config.get("layer_types", default=None)
    slides = not isinstance(stated, list) or SLIDING in stated
    if config.stated_null("sliding_window") and slides and not null:
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
    types = layer_types(config, _unstated(config, count, slides if width else None))
    if width is None and SLIDING in types:
        what = f"layer_types names {SLIDING}, but there is no window"
        raise config.error(what, "state sliding_window", config.place("layer_types"))
    made = {kind: layer(width if kind == SLIDING else None) for kind in dict.fromkeys(types)}
    return [made[kind] for kind in types]


def _unstated(config: Config, count: int, slides: Callable[[int], bool] | None) -> list[str]:
    """The kind of attention of each layer by its index, which is not asked where `layer_types` is stated."""
    if slides is None or config.get("layer_types", default=None) is not None:
        return [FULL] * count
    return [SLIDING if slides(index) else FULL for index in range(count)]


def layer_types(config: Config, default: list[str]) -> list[str]:
    """The kind of attention of each layer: sliding or full."""
    stated = config.per_layer("layer_types", len(default)) or default
    types = [FULL if kind == "attention" else kind for kind in stated]
    unknown = [kind for kind in types if kind not in (SLIDING, FULL)]
    if unknown:
        what = f"layer_types {short_repr(unknown[0])} is not supported"
        raise config.error(what, f"known: {SLIDING}, {FULL}", config.place("layer_types"))
    return types
