"""Defaults that several classes of transformers have in common, and the sinusoids of fairseq."""

from __future__ import annotations

from typing import Any

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped

BASE = 10000.0


def fairseq_sinusoid(config: Config, offset: int, **more: Any) -> Mapped:
    """The sinusoid of position + offset, its h = hidden_size / 2 frequencies 10000^(-i/(h-1)).

    In the usual form base^(-i/h) the base is 10000^(h/(h-1)).
    """
    width = config.size("hidden_size", "d_model")
    half = width.value // 2
    if width.value % 2 or half == 1:
        raise config.error(
            f"a sinusoid cannot be {width} wide here", "an even width of at least 4", width.place
        )
    position = {"kind": "sinusoidal", "pairing": "half", "base": BASE ** (half / (half - 1)), **more}
    return position | ({"offset": offset} if offset else {})
