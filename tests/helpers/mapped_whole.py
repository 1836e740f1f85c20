"""archcli's answer for the whole of a multimodal config.json beside that of its class in transformers."""

from __future__ import annotations

from math import isqrt
from typing import Any, Literal, NamedTuple

import archcli
from archcli.errors import ArchError
from archcli.load.source import load_given

Verdict = Literal["exact", "lacks", "wrong", "traceback"]
LANGUAGE = "language_model"
BREAKS = {("mistral3", "pixtral"), ("mistral_large4", "pixtral"), ("llava", "pixtral"), ("fuyu", None)}
"""Types, and those of their tower, whose prompt has a token behind each row of an image."""


class Whole(NamedTuple):
    """Whether the whole model is counted exactly, what it lacks, or in what it is wrong."""

    verdict: Verdict
    what: str = ""


def whole_answer(config: dict[str, Any], theirs: dict[str, Any]) -> Whole:
    """archcli's answer for a config.json, of whose whole class `theirs` holds the figures."""
    try:
        loaded = load_given(config)
        lacks, differ = _params(loaded, theirs["params"])
        if not lacks and "hidden" not in theirs:
            differ += _medium(loaded.model, config, theirs)
    except ArchError as error:
        return Whole("lacks", error.problems[0].what)
    except Exception as error:  # noqa: BLE001 it is what a user would see
        return Whole("traceback", f"{type(error).__name__}: {error}")
    if differ:
        return Whole("wrong", "; ".join(differ))
    return Whole("lacks", lacks) if lacks else Whole("exact", theirs.get("hidden", ""))


def _params(loaded: Any, theirs: dict[str, int]) -> tuple[str, list[str]]:
    """What is not counted, and the parts that are, and differ."""
    totals = archcli.count_params(loaded.model).totals
    ours = totals.get("by_part", {LANGUAGE: totals["params"]})
    missing = [part for part in theirs if part not in ours]
    if not missing and ("params_with_towers" in totals or totals["params"] == sum(theirs.values())):
        return "", _differing("params", ours, theirs)
    notes = [note for note in loaded.notes if "not counted" in note]
    lacks = "; ".join(notes) or f"{' and '.join(missing) or 'a part beside it'} is not counted"
    # of a tower that is not counted, its projector is not either
    return lacks, _differing("params", {k: n for k, n in ours.items() if k.endswith("_tower")}, theirs)


def _medium(model: Any, config: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    """What differs for the image or the sound that the class was given."""
    image, frames = "x".join(map(str, theirs.get("image", ()))), theirs.get("frames")
    asked: dict[str, Any] = {"image": image} if image else {"audio_frames": frames}
    # a class computes all pairs of a causal tower; windows of others are batches of its own
    mask = "dense" if any(tower.model.is_causal for tower in model.towers) else "exact"
    medium = archcli.count_flops(model, mask=mask, **asked).totals["media"][0]
    tower = config.get("vision_config") or {}
    kinds = config["model_type"], tower.get("model_type")
    breaks = isqrt(theirs["rows"]) if kinds in BREAKS else 0
    tokens, size = theirs["rows"] + breaks, image or f"{frames} frames"
    differ = _differing(f"{size} FLOPs", medium["by_part"], theirs["flops"])
    if "crossed" in theirs:
        text = archcli.count_flops(model, **asked, seq_len=1, mask="dense").totals["matmul_flops"]
        differ += _differing("FLOPs", {"a text": text}, {"a text": theirs["crossed"]})
    return differ + ([f"{size} tokens {medium['tokens']} for {tokens}"] if medium["tokens"] != tokens else [])


def _differing(what: str, ours: dict[str, int], theirs: dict[str, int]) -> list[str]:
    """A text for each part in which they differ."""
    return [
        f"{what} of {part} {ours.get(part, 0)} for {theirs.get(part, 0)}"
        for part in (ours if what == "params" else {**ours, **theirs})
        if ours.get(part, 0) != theirs.get(part, 0)
    ]
