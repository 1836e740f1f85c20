"""Peaks of a pass as archcli traces it, beside the most bytes that torch's storages take at once."""

from __future__ import annotations

from archcli.modules import Model
from archcli.modules.spec.request import Request
from archcli.wings.running.runtime.memory.models import WitnessSetting
from archcli.wings.running.runtime.memory.peak import inference_peak, training_step_peak
from archcli.wings.serving.memory.inference import inference_pass
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.memory.traced import highest
from archcli.wings.serving.memory.training.losses import recomputed
from archcli.wings.serving.memory.training.step import training_step


def settings_of(phase: str, batch: int, seq: int, setting: WitnessSetting, **settings) -> MemorySettings:
    """What is asked of archcli for the pass that torch runs in this setting."""
    attention = {"sdpa": "flash", "eager": "eager"}[setting.attention]
    return MemorySettings(
        phase, batch, seq, dtype=setting.dtype, attention=attention, backend=setting.backend, **settings
    )


def training_peaks(spec: Model, batch: int, seq: int, setting: WitnessSetting, **training) -> tuple[int, int]:
    """(ours, torch's) bytes beyond the weights at the peak of forward, loss and backward.

    `training` are settings of archcli's: loss, recompute, grad_accum.
    """
    asked = settings_of("train", batch, seq, setting, optimizer="sgd", **training)
    moments = training_step(spec, asked).moments
    peak = highest(moment for moment in moments if moment.stage != "optimizer step")
    theirs = training_step_peak(
        spec,
        batch,
        seq,
        setting=setting,
        chunks=int(asked.loss.partition(":")[2] or 0) or None,
        recomputed=recomputed(asked.recompute),
        micro_batches=asked.grad_accum,
    )
    return peak.bytes - peak.weights, theirs.bytes


def inference_peaks(
    spec: Model, phase: str, batch: int, seq: int, setting: WitnessSetting, chunk: int | None = None
) -> tuple[int, int]:
    """(ours, torch's) bytes beyond the weights at the peak of a prefill, whole or in chunks, or a decode."""
    asked = settings_of(phase, batch, seq, setting, chunk=chunk)
    peak = highest(inference_pass(spec, asked).moments)
    request = Request("prefill", batch, seq) if phase == "prefill" else asked.request(spec)
    theirs = inference_peak(spec, request, chunk=chunk, setting=setting)
    return peak.bytes - peak.weights, theirs.bytes
