"""`archcli verify --memory`: compare kept bytes and peaks traced by archcli with torch's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import lcm
from typing import TYPE_CHECKING, Any, NamedTuple

from archcli.errors import ArchError
from archcli.graph.kept import Backend
from archcli.measure.passes import shape_pass
from archcli.modules import Model
from archcli.render.screen import progress
from archcli.wings.serving.memory.answers.recomputations import folded_rows, kept_rows
from archcli.wings.serving.memory.inference import inference_pass
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.memory.traced import MemoryMoment, highest, trace_memory
from archcli.wings.serving.memory.training.step import training_step

if TYPE_CHECKING:
    from archcli.wings.running.runtime.verify.result import VerifyResult

SHORT = 16
"""Tokens in the cache of decoding, if recurrent layers fill it token by token."""
MOST = 8192
"""The most tokens of a batch: run operator by operator, they take about a minute."""
SHORTENED = f"Recurrent layers fill a cache token by token: decoding is verified after {SHORT} of them."
LOSSLESS = "The model ends without a loss: the peak of a training step is left out."
UNGROUPED = "torch has no grouped product of experts in fp32 on meta: CUDA's operators are left out."


class MemoryFigure(NamedTuple):
    """archcli's figure of a pass: kept bytes by row, or the peak beyond the weights."""

    settings: MemorySettings
    figure: Any
    is_peak: bool


def verify_memory(name: str, model: Model, settings: MemorySettings) -> VerifyResult:
    """Compare kept bytes and peaks with torch's, for passes with these settings.

    Raises ArchError for more tokens than can be run in reasonable time.
    """
    _require_few(settings)
    tokens = settings.tokens(model)
    batch_size = lcm(settings.batch_size * tokens, model.token_multiple) // tokens
    # plain SGD, which adds no states to the peak: the optimizer's step is not compared
    train = replace(settings, phase="train", batch_size=batch_size, optimizer="sgd")
    backends, notes = _backends(model, settings)
    kept = [_kept(model, replace(train, backend=backend)) for backend in backends]
    passes = [train] if _has_loss(model) else []
    notes += [] if passes else [LOSSLESS]
    if model.caches:
        # decoding needs a filled cache, and recurrent layers of the built model fill it token by token
        short = _is_recurrent(model) and tokens > SHORT
        decode = replace(settings, phase="decode", seq_len=SHORT if short else tokens)
        passes += [replace(settings, phase="prefill"), decode]
        notes += [SHORTENED] if short else []
    else:
        passes.append(replace(settings, phase="forward"))
    # torch is imported only now, so that a model that cannot be traced is refused at once
    from archcli.wings.running.runtime.verify.result import VerifyResult

    # live storages can be observed only on a CPU: compare peaks of a CPU's operators
    figures = [*kept, *(_peak(model, replace(run, backend="cpu")) for run in passes)]
    return VerifyResult(tuple(_results(name, model, figures)), tuple(notes))


def _require_few(settings: MemorySettings) -> None:
    tokens = settings.batch_size * (settings.seq_len or 1)
    if tokens > MOST:
        raise ArchError(
            f"{tokens:,} tokens are too many to run operator by operator",
            f"--batch-size times --seq-len at most {MOST:,}",
        )


def _backends(model: Model, settings: MemorySettings) -> tuple[tuple[Backend, ...], list[str]]:
    """The operators that torch can run without a GPU, and a note on those it cannot."""
    mixes = any(row.experts is not None for row in shape_pass(model).rows)
    return (("cpu",), [UNGROUPED]) if mixes and settings.dtype == "fp32" else (("cuda", "cpu"), [])


def _has_loss(model: Model) -> bool:
    """Whether a training step ends with a loss: of logits, or the model's own."""
    return model.trains_on_targets or model.output_head is not None


def _is_recurrent(model: Model) -> bool:
    """Whether a layer has a state of fixed size."""
    from archcli.measure.passes import cache_pass
    from archcli.modules.spec.request import Request

    return bool(cache_pass(model, Request("prefill", 1, 2)).state_elements())


def _kept(model: Model, settings: MemorySettings) -> MemoryFigure:
    traced = trace_memory(model, settings.request(model), settings.execution())
    rows = folded_rows(kept_rows(model, traced))
    return MemoryFigure(settings, {row["path"]: row["kept_bytes"] for row in rows}, is_peak=False)


def _peak(model: Model, settings: MemorySettings) -> MemoryFigure:
    peak = highest(_moments(model, settings))
    return MemoryFigure(settings, int(peak.bytes - peak.weights), is_peak=True)


def _moments(model: Model, settings: MemorySettings) -> Iterable[MemoryMoment]:
    """The moments of a pass, without an optimizer's step."""
    if settings.phase != "train":
        return inference_pass(model, settings).moments
    # torch runs only forward and backward here
    return [m for m in training_step(model, settings).moments if m.stage != "optimizer step"]


def _results(name: str, model: Model, figures: list[MemoryFigure]) -> Iterator[Any]:
    """Run each pass in torch, with progress on a terminal."""
    from archcli.wings.running.runtime.memory.models import WitnessSetting
    from archcli.wings.running.runtime.verify.memory import verify_kept, verify_peak

    with progress(f"verifying the memory of {name}") as tick:
        for i, (settings, figure, is_peak) in enumerate(figures):
            tick(_activity(settings, is_peak=is_peak), i, len(figures))
            attention = "eager" if settings.attention == "eager" else "sdpa"
            setting = WitnessSetting(settings.dtype, attention, settings.backend)
            request = settings.request(model)
            if is_peak:
                yield verify_peak(model, request, setting, figure)
            else:
                yield from verify_kept(model, request, setting, figure)


def _activity(settings: MemorySettings, *, is_peak: bool) -> str:
    operators = "CUDA's" if settings.backend == "cuda" else "a CPU's"
    return f"peak of {settings.phase}" if is_peak else f"kept bytes with {operators} operators"
