"""Parts of a model with towers: parameters of each, and FLOPs of an image or a sound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from archcli.measure.flops import count_flops
from archcli.measure.params import count_params
from archcli.modules.spec.request import Request
from archcli.wings.drawing.api.reporting.subjects import ReportedModel


def parts_of(models: Sequence[ReportedModel]) -> list[dict[str, Any]]:
    """A record for each part of each model with towers: its parameters, and its FLOPs of a medium.

    Integers are strings: a JavaScript number is exact only up to 2^53.
    """
    records: list[dict[str, Any]] = []
    for reported in models:
        model = reported.subject.model
        if not model.towers:
            continue
        media = [
            entry
            for tower in model.towers
            for entry in count_flops(model, Request(media=(tower.usual,))).totals["media"]
        ]
        for part, params in count_params(model).totals["by_part"].items():
            flops = sum(entry["by_part"].get(part, 0) for entry in media)
            records.append(
                {
                    "model": reported.subject.name,
                    "part": part.replace("_", " "),
                    "params": str(params),
                    "flops": str(flops) if flops else None,
                    "media": "; ".join(map(_described, media)),
                }
            )
    return records


def _described(entry: dict[str, Any]) -> str:
    """An image or a sound in words: an image of 336 x 336 pixels is 576 tokens."""
    sizes = " x ".join(f"{size:,}" for size in entry["size"])
    medium = f"an image of {sizes} pixels" if entry["kind"] == "image" else f"a sound of {sizes} frames"
    return f"{medium} is {entry['tokens']:,} tokens"


__all__ = ["parts_of"]
