"""The first line of `archcli memory`: whether it fits, the result of `--fit`, or what would fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from archcli.errors import either
from archcli.units import binary_bytes
from archcli.wings.serving.memory.answers.question import Fit, MemoryQuestion
from archcli.wings.serving.memory.answers.tables import (
    PHASES,
    USUAL_DEVICES,
    device_in_words,
    engine_in_words,
    memory_in_words,
)
from archcli.wings.serving.memory.answers.verdict import margin_in_words, verdict_of
from archcli.wings.serving.memory.plan import DeviceMemory

Record = Mapping[str, Any]
SUBJECTS = {"train": "Training", "serve": "Serving"}
"""Phases as the subject of a sentence."""
MOST_NAMED = 4
"""Devices that the first line names."""


def headline(question: MemoryQuestion, totals: Record) -> str:
    """The result of `--fit`, else whether it fits, else the peak; below it the memory of serving."""
    fitted, device = totals["fit"], question.device
    weights = f"{binary_bytes(totals['parts']['weights'])} of weights{_in_ram(totals)}"
    if fitted is not None and "devices" in fitted:
        return f"{_devices_that_fit(question, fitted)}; one would need {_peak(question, totals)}, {weights}"
    if fitted is not None and device is not None and fitted["value"] is not None:
        return f"{_fitted(question, device, fitted)}, {weights}"
    if device is None:
        return f"{_peak(question, totals)} {_moment(totals)}, {weights}"
    serving = totals.get("serving")
    fits = verdict_in_words(device, SUBJECTS["train"] if serving else "", totals["verdict"])
    verdict = f"{fits}: {_peak(question, totals)} {_moment(totals)}, {weights}"
    return "\n".join([verdict, *([_serving(device, serving)] if serving else [])])


def _moment(totals: Record) -> str:
    """`(prefill, while lm_head runs)`."""
    while_running = f", while {totals['path']} runs" if totals["path"] else ""
    return f"({totals['moment']}{while_running})"


def _in_ram(totals: Record) -> str:
    """`, 549 GiB in RAM of 1.00 TiB`: of a training step with an offload."""
    record = totals.get("offload")
    if record is None or "in_ram" not in record:
        return ""
    limit = record["ram_limit_bytes"]
    return f", {binary_bytes(record['ram_bytes'])} in RAM{f' of {binary_bytes(limit)}' if limit else ''}"


def _peak(question: MemoryQuestion, totals: Record) -> str:
    """The peak in words, with the bytes outside of the model if they make the difference."""
    where = " of the largest rank" if question.plan.devices > 1 else ""
    peak = f"{binary_bytes(totals['peak_bytes'])} at the peak{where}"
    device = question.device
    if device is None or totals["fits"]:
        return peak
    answer = question.answer()
    if totals["peak_bytes"] > answer.device_of(device).memory_bytes or answer.ram_lacking > 0:
        return peak
    return f"{peak} and up to {binary_bytes(totals['beyond_bytes'])} beyond the model"


SURVEY_OF_TRAINING = "Computers of one device, such as Macs, count alone; a network of cards is not stated."
VERBS = {"fits": "fits into", "tight": "is tight on", "no": "does not fit into"}


def verdict_in_words(device: DeviceMemory, subject: str = "", verdict: str = "fits") -> str:
    """`Fits into 2 x h100-sxm (79.1 GiB each)`, `Tight on 2 x …`, or `Serving does not fit into …`."""
    memory = memory_in_words(device) + " each" * (device.n_devices > 1)
    if device.unlike:
        memory = ", ".join(binary_bytes(card.memory_bytes) for card in device.unlike)
    of_each = "" if device.stated else f" ({memory})"
    verb = VERBS[verdict]
    opening = f"{subject} {verb}" if subject else verb.removeprefix("is ").capitalize()
    return f"{opening} {device_in_words(device)}{of_each}"


def _serving(device: DeviceMemory, serving: Record) -> str:
    """The memory of serving the same model, as some who ask about training mean running it."""
    peak = f"{binary_bytes(serving['peak_bytes'])} at the peak"
    what = f"one sequence of {serving['seq_len']:,} tokens, {serving['weights']}, {serving['engine']}"
    verdict = verdict_in_words(device, SUBJECTS["serve"], serving["verdict"])
    return f"{verdict}: {peak} ({what}); --phase serve says more"


def serving_record(question: MemoryQuestion) -> dict[str, Any]:
    """The memory of serving in the headline, by JSON's keys."""
    answer, device = question.answer(), question.device
    return {
        "seq_len": question.settings.tokens(question.model),
        "peak_bytes": answer.peak_bytes,
        "beyond_bytes": answer.beyond.bytes,
        "weights": question.model.stored_as or question.settings.dtype,
        "engine": engine_in_words(question.settings),
        "fits": None if device is None else answer.fits(device),
        "verdict": verdict_of(question, answer),
    }


def _devices_that_fit(question: MemoryQuestion, fitted: Record) -> str:
    """`Training fits 8 x h200-sxm, 4 x mi355x or 16 x a100-sxm-80gb`."""
    fitting = [record for record in fitted["devices"] if record["fewest_devices"] is not None]
    usual = [record for record in fitting if record["device"] in USUAL_DEVICES]
    shown = (usual or fitting)[:MOST_NAMED]
    named = [f"{record['fewest_devices']:,} x {record['device']}" for record in shown]
    subject = SUBJECTS.get(question.settings.phase, PHASES[question.settings.phase].capitalize())
    return f"{subject} fits {either(named)}" if named else f"{subject} fits no number of any device"


def _fitted(question: MemoryQuestion, device: DeviceMemory, fitted: Record) -> str:
    """The result of `--fit`: `174 sequences of 8,192 tokens fit into 8 x h100-sxm: 79.0 GiB at the peak`."""
    settings, value = question.settings, fitted["value"]
    where, n = device_in_words(device), settings.batch_size
    peak = f"{binary_bytes(fitted['peak_bytes'])} at the peak"
    if "seq_len" in fitted:
        of_each = "" if n == 1 else f" in each of {n:,} sequences"
        return f"{value:,} tokens{of_each} fit into {where}: {peak}"
    if "batch_size" in fitted:
        many = "" if value == 1 else "s"
        what = f"{value:,} sequence{many} of {settings.tokens(question.model):,} tokens"
        of_replica = " on each replica" if settings.phase == "train" and question.plan.dp > 1 else ""
        return f"{what}{of_replica} fit{'' if many else 's'} into {where}: {peak}"
    if "rank" in fitted:
        return f"Adapters of rank {value:,} fit into {where}: {peak}"
    if "recompute" in fitted:
        return f"Fits into {where} with --recompute '{value}', the cheapest that does: {peak}"
    options = f" with {fitted['options']}" if fitted["options"] else ""
    return f"{'Fits into' if value == 1 else 'The fewest are'} {value:,} x {device.name}{options}: {peak}"


TIGHT = {"batch_size": "{:,} sequences are", "seq_len": "{:,} tokens are", "rank": "Rank {:,} is"}
"""What `--fit` found, by the key of its record."""


def fit_notes(question: MemoryQuestion, totals: Record, what_fits: Fit | None) -> Iterator[str]:
    """Notes: `--fit` found nothing, or what is tight; the one change with which the model would fit."""
    fit, device = totals["fit"], question.device
    if fit and "sure" in fit and fit["sure"] != fit["value"]:
        least = f"{fit['sure']:,}" if fit["sure"] else "none"
        tight = next(phrase for key, phrase in TIGHT.items() if key in fit).format(fit["value"])
        yield f"{tight} tight: beside {margin_in_words(question)}, {least} fit."
    if fit is not None and "devices" in fit:
        none = sum(record["fewest_devices"] is None for record in fit["devices"])
        if none:
            yield f"{none:,} kinds of device hold it in no number that was tried: --json has all."
        if question.settings.phase == "train":
            yield SURVEY_OF_TRAINING
    if fit is not None and device is not None and fit["value"] is None:
        yield f"--fit: nothing that was tried fits into {device.name}."
    if totals["fits"] is False and not (fit and fit["value"]):
        change = totals["change"]
        if change is None:
            may = ["recompute"] * (question.settings.phase == "train") + ["devices"]
            options = [f"--fit {name}" for name in may if name != what_fits]
            yield "No one option would make it fit" + (f": {either(options)} may." if options else ".")
        else:
            yield would_fit(change)


def would_fit(change: Record) -> str:
    """A sentence on a change: `With --dtype int8 it would fit: 9.0 GiB at the peak.`."""
    return f"With {change['change']} it would fit: {binary_bytes(change['peak_bytes'])} at the peak."
