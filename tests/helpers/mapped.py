"""archcli's answer for a config.json beside that of its class in transformers."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import archcli
from archcli.errors import ArchError
from archcli.modules.spec.request import Medium, Request

Verdict = Literal["exact", "refused", "wrong", "traceback"]


UNCOUNTED = ("recurrence", "short_conv")
"""Components whose products torch's counter sees only in part, or too many of: scans of transformers without
kernels add the state element by element, and their convolutions are padded on both sides. FLOPs of models
that have one are not compared here, but with records in which these are products."""


class Answer(NamedTuple):
    """How archcli answers: exact, refused by name, wrong or a traceback, and in what."""

    verdict: Verdict
    what: str = ""


def answer(config: dict[str, Any], theirs: dict[str, Any], tokens: int) -> Answer:
    """archcli's answer for a config.json, of whose figures `theirs` knows some."""
    try:
        ours = figures(config, tokens, theirs)
    except ArchError as error:
        return Answer("refused", error.problems[0].what)
    except Exception as error:  # noqa: BLE001 it is what a user would see
        return Answer("traceback", f"{type(error).__name__}: {error}")
    differ = [f"{key} {ours[key]} for {theirs[key]}" for key in ours if ours[key] != theirs[key]]
    return Answer("wrong", "; ".join(differ)) if differ else Answer("exact")


def figures(config: dict[str, Any], tokens: int, theirs: dict[str, Any]) -> dict[str, int]:
    """archcli's figures of a config.json, as far as the class shows its own: parameters are the trainable."""
    model = archcli.load(config)
    if "image" in theirs:
        return figures_of_image(model, theirs)
    counted = {"params": archcli.count_params(model).totals["trainable_params"]}
    if theirs.get("flops") is not None:
        report = archcli.count_flops(model, seq_len=tokens, mask="dense")
        components = report.totals["by_component"]
        if not any(components.get(name) for name in UNCOUNTED):
            counted["flops"] = report.totals["matmul_flops"]
    if theirs.get("cached") is not None:
        # the class's cache shows keys and values alone, of layers that hold a state beside them too
        counted["cached"] = archcli.count_kv_cache(model, context=tokens).totals["kv_elements"]
    return counted


def figures_of_image(model: Any, theirs: dict[str, Any]) -> dict[str, int]:
    """archcli's parameters, and the FLOPs of the usual image or video of the class where that shows them."""
    totals = archcli.count_params(model).totals
    if getattr(model, "uncounted", ()):
        raise ArchError("the language model alone is counted, as a note says")
    counted = {"params": totals.get("params_with_towers") or totals["params"]}
    if theirs["flops"] is not None:
        size = tuple(theirs["image"])
        medium = Medium("image" if len(size) == len("HW") else "video", size)
        counted["flops"] = archcli.count_flops(model, Request(media=(medium,))).totals["matmul_flops"]
    return counted
