"""Changes that save memory, the cheapest first, and tables of other settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

from archcli.errors import ArchError
from archcli.graph import Row
from archcli.measure.kvcache.engine import CACHING, NO_ENGINE
from archcli.measure.passes import shape_pass
from archcli.measure.report import Column, Table
from archcli.measure.weights.stored_bytes import weight_bytes
from archcli.modules import Model
from archcli.modules.models.layers import LayerIndex
from archcli.modules.spec.arguments import ZeroStage
from archcli.wings.serving.memory.answers.question import MemoryQuestion
from archcli.wings.serving.memory.answers.tables import plan_options
from archcli.wings.serving.memory.plan import Plan, divisors
from archcli.wings.serving.memory.ranks import least_bytes
from archcli.wings.serving.memory.settings import COMPUTED

Record = dict[str, Any]


class Change(NamedTuple):
    """A change of one option: its text on a command line, and the changed settings."""

    option: str
    settings: dict[str, Any]


ONE = "--batch-size 1"
TRAINING = (
    Change("--attention flash", {"attention": "flash"}),
    Change("--loss fused", {"loss": "fused"}),
    Change("--loss chunked:8", {"loss": "chunked:8"}),
    Change("--optimizer adamw-mixed-fused", {"optimizer": "adamw-mixed-fused"}),
    Change("--recompute attention", {"recompute": "attention"}),
    Change("--recompute layers.*.ffn", {"recompute": "layers.*.ffn"}),
    Change("--recompute layer", {"recompute": "layer"}),
    Change(ONE, {"batch_size": 1}),
    Change("--optimizer adamw-fused", {"optimizer": "adamw-fused"}),
    Change("--optimizer adam8bit", {"optimizer": "adam8bit"}),
)
"""Changes of a training step, cheapest first: no recomputation, some, whole layers; less precision."""
SERVING = (
    Change("--attention flash", {"attention": "flash"}),
    Change("--chunk 512", {"chunk": 512}),
    Change(ONE, {"batch_size": 1}),
)
OF_GGUF = (
    *("q8_0", "q6_k", "q5_k_m", "q5_k_s", "q4_k_m", "q4_k_s", "q4_0", "iq4_xs"),
    *("q3_k_l", "q3_k_m", "iq3_xxs", "q2_k", "mxfp4-moe"),
)
"""Formats of llama.cpp that people load, in files of all models."""
OF_MACS = ("mlx-8bit", "mlx-6bit", "mlx-5bit", "mlx-4bit", "mlx-3bit")
"""Formats that run on Macs alone."""
FORMATS = (
    *("fp8", "fp8-block", "int8", *OF_GGUF),
    *("nf4", "nf4-double", "awq-int4", "gptq-int4", "nvfp4", "mxfp4"),
)
"""Formats of weights that engines serve on GPUs and processors."""
RARE = {"fp8-block", "nf4", "nf4-double", "nvfp4", "mxfp4", "mxfp4-moe"}
"""Formats that few models are published in."""
SMALLER_CACHES = ("fp8", "q8_0")
"""Cache dtypes of half the bytes, with little loss of quality."""
SLACK = 1.02
"""An estimate may exceed the memory by 2% before a format is skipped without a trace."""
FULL: ZeroStage = 3
"""The ZeRO stage that shards weights, gradients and optimizer states."""
CHANGES = {
    "train": TRAINING,
    "forward": (SERVING[0], SERVING[2]),
    "prefill": SERVING,
    "decode": (SERVING[0], SERVING[2]),
    "serve": SERVING,
}


def cheapest_change(question: MemoryQuestion) -> Record | None:
    """The first change with which the model fits, with its bytes; None if no single one is enough."""
    if question.device is None or question.answer().ram_lacking > 0:
        return None
    for option, changed in _changed(question):
        answer = peak_with(changed) if _may_fit(changed) else None
        if answer is not None and _fits(changed, answer["needed_bytes"]):
            return _largest_batch(question) if option == ONE else {"change": option, **answer}
    return None


def _may_fit(question: MemoryQuestion) -> bool:
    """Whether a pass may fit, by a lower bound of its bytes: if not, it need not be traced."""
    if question.device is None:
        return True
    try:
        least = least_bytes(question.traced, question.settings, question.plan)
    except ArchError:  # of a plan that the model cannot have
        return False
    return bool(least <= max(card.memory_bytes for card in question.device.unlike or (question.device,)))


def _largest_batch(question: MemoryQuestion) -> Record:
    """The change to the largest batch that fits, given that one sequence does."""
    low, high = 1, int(question.settings.batch_size)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if question.changed(batch_size=middle).fits() else (low, middle)
    return {"change": f"--batch-size {low}", **(peak_with(question.changed(batch_size=low)) or {})}


def _changed(question: MemoryQuestion) -> Iterator[tuple[str, MemoryQuestion]]:
    """(option, question) of each change."""
    settings = question.settings
    if settings.phase in CACHING and not settings.served and question.again is not None:
        # vLLM may not read the format
        with suppress(ArchError):
            yield "--engine vllm", question.again(engine="vllm", attention="flash", backend="cuda")
    attention, *further = CHANGES[settings.phase]
    yield from _with(question, attention)
    if settings.served:
        yield from _in_smaller_caches(question)
        yield from _by_experts(question)
    for change in further:
        yield from _with(question, change)
    plan = question.plan
    if plan.dp > 1 and plan.zero < FULL and question.settings.phase == "train":
        yield f"--zero {FULL}", replace(question, plan=replace(plan, zero=FULL))
    if question.settings.phase != "train":
        yield from _in_fewer_bits(question)


def _with(question: MemoryQuestion, change: Change) -> Iterator[tuple[str, MemoryQuestion]]:
    """The question with a change, where it is one."""
    changed = question.changed(**change.settings)
    if changed.settings != question.settings:
        yield change.option, changed


def _in_smaller_caches(question: MemoryQuestion) -> Iterator[tuple[str, MemoryQuestion]]:
    """The question with each smaller type of cache that its engine keeps."""
    engine, kept = question.settings.engine or NO_ENGINE, question.settings.cache_dtype
    for dtype in SMALLER_CACHES if kept in {None, *COMPUTED} else ():
        if dtype in engine.cache_dtypes and question.again is not None:
            with suppress(ArchError):  # of a model whose cache has no such type
                yield f"--kv-dtype {dtype}", question.again(kv_dtype=dtype, engine=engine.name)


def _by_experts(question: MemoryQuestion) -> Iterator[tuple[str, MemoryQuestion]]:
    """The question with experts spread over all devices, and attention by replicas of fewer and fewer."""
    n, plan = question.device.n_devices if question.device else 1, question.plan
    plans = [Plan(dp=n // tp, tp=tp, ep=n) for tp in reversed(divisors(n))] if n == plan.devices else []
    for spread in plans if n > 1 and not question.settings.splits_layers else ():
        enough = spread.dp <= question.settings.batch_size
        if enough and spread != plan and spread.suits(question.model, question.settings):
            yield plan_options(spread), replace(question, plan=spread)


def fitting_plan(question: MemoryQuestion) -> str | None:
    """The options of a plan that fits, of those that spread experts; None for none."""
    return next((option for option, changed in _by_experts(question) if changed.fits()), None)


def smaller_cache_or_format(question: MemoryQuestion) -> Record | None:
    """The first smaller cache, plan or format with which the model fits; None for none."""
    known = (_in_smaller_caches(question), _by_experts(question)) if question.settings.served else ()
    for option, changed in chain(*known, _in_fewer_bits(question)):
        answer = peak_with(changed) if _may_fit(changed) else None
        if answer is not None and _fits(changed, answer["needed_bytes"]):
            return {"change": option, **answer}
    return None


def _in_fewer_bits(question: MemoryQuestion) -> Iterator[tuple[str, MemoryQuestion]]:
    """The question with smaller weights in each usual format that may fit, the largest first.

    Those of the question's engine come first; one of another engine names it.
    """
    device, engine = question.device, question.settings.engine or NO_ENGINE
    if device is None:
        return
    answer = question.answer()
    whole, weights = whole_bytes(question), float(answer.largest.peak.weights)
    device = answer.device_of(device)
    others = []
    for size, name, stored in formats_by_bytes(question):
        # a trace is slow: skip formats that cannot fit. A rank's share of the weights stays the same but for
        # rounding
        most = SLACK * device.memory_bytes / device.utilization
        if size >= whole or weights * size / whole > most or name in RARE:
            continue
        if not engine.serves or question.again is None:
            yield f"--dtype {name}", stored
        elif name in engine.offered:
            with suppress(ArchError):  # of a device that the engine cannot run it on
                yield f"--dtype {name}", question.again(dtype=name, engine=engine.name)
        else:
            others.append(name)
    for name in others:
        with suppress(ArchError):  # of an engine that was named, and does not read it
            changed = question.again(dtype=name) if question.again else question
            yield f"--dtype {name} --engine {(changed.settings.engine or NO_ENGINE).name}", changed


def whole_bytes(question: MemoryQuestion) -> int:
    """Bytes of all weights of the question's model."""
    figures, dtype = question.traced.passes.figures, question.settings.dtype
    size = None if figures is None else figures.whole(question.model, dtype)
    return size or weight_bytes(question.model, _rows(question), dtype)


def _rows(question: MemoryQuestion) -> tuple[Row, ...]:
    """The rows of one token, which are the same in every format of the weights."""
    return question.traced.passed("shapes", lambda: shape_pass(question.model).rows)


def formats_by_bytes(question: MemoryQuestion) -> list[tuple[int, str, MemoryQuestion]]:
    """(bytes of all weights, format, question) of each known format, the largest first.

    Empty for a YAML with a `quantization` of its own.
    """
    model = question.model
    if not _is_plain(model):
        return []
    rows, layers = _rows(question), LayerIndex(model)
    sized = (
        (weight_bytes(stored.model, rows, stored.settings.dtype, layers), name, stored)
        for name, stored in _stored(question)
    )
    return sorted(sized, key=lambda it: -it[0])


def _is_plain(model: Model) -> bool:
    return model.quantization is None or bool(model.stored_as) or model.is_as_published


def sizes_of_formats(question: MemoryQuestion) -> list[tuple[int, str]]:
    """(bytes of all weights, format) of each known format, the largest first."""
    figures = question.traced.passes.figures
    if figures is None or _names(question) != FORMATS:
        return [(size, name) for size, name, _ in formats_by_bytes(question)]
    names = FORMATS if _is_plain(question.model) else ()
    sized = [(figures.weights[name], name) for name in names if name in figures.weights]
    return sorted(sized, key=lambda it: -it[0])


def _names(question: MemoryQuestion) -> tuple[str, ...]:
    on_mac = question.device is not None and question.device.family == "metal"
    return (*OF_GGUF, *OF_MACS) if on_mac else FORMATS


def _stored(question: MemoryQuestion) -> Iterator[tuple[str, MemoryQuestion]]:
    """The question with weights in each format that the model can be stored in."""
    plain = question.model.replace(quantization=None)
    for name in _names(question):
        try:
            stored, settings = replace(question.settings, dtype=name).stored(plain)
        except ArchError:
            # a row of some matrix is no whole number of this format's blocks
            continue
        yield name, replace(question, model=stored, settings=settings)


def peak_with(question: MemoryQuestion) -> Record | None:
    """The peak and its moment; None where the model cannot have these settings."""
    try:
        answer = question.answer()
    except ArchError:
        return None
    return {
        "peak_bytes": answer.peak_bytes,
        "needed_bytes": answer.needed_bytes,
        "moment": answer.largest.peak.stage,
    }


COLUMNS = (Column("peak_bytes", "peak", "bytes"), Column("moment", "at"), Column("fits", "fits", "flag"))


def alternatives(question: MemoryQuestion) -> Iterator[Table]:
    """A table each for recomputation, optimizers, losses and attention."""
    if question.settings.phase == "train":
        yield _recomputation_table(question)
    for name, values in _choices(question):
        records = [{"value": value, **record} for value, record in _records(question, name, values)]
        yield Table(f"by --{name}", (Column("value", name), *_shown(question)), records)


def _choices(question: MemoryQuestion) -> Iterator[tuple[str, tuple[Any, ...]]]:
    if question.settings.phase == "train":
        from archcli.wings.serving.memory.training.optimizers import OPTIMIZERS  # of training alone

        yield "optimizer", tuple(OPTIMIZERS)
        yield "loss", ("plain", "chunked:8", "fused")
    yield "attention", ("flash", "eager")


def _records(question: MemoryQuestion, name: str, values: tuple[Any, ...]) -> Iterator[tuple[Any, Record]]:
    for value in values:
        peak = peak_with(question.changed(**{name: value}))
        if peak is not None:
            yield value, {**peak, "fits": _fits(question, peak["needed_bytes"])}


def _recomputation_table(question: MemoryQuestion) -> Table:
    """A row for each pattern that frees memory, the most bytes per repeated FLOP first."""
    from archcli.wings.serving.memory.answers.recomputations import recomputations  # of this table alone

    records = [
        {
            "value": recomputation.setting,
            "peak_bytes": recomputation.peak_bytes,
            "moment": recomputation.moment,
            "freed_bytes": recomputation.freed_bytes,
            "repeated_flops": recomputation.repeated_flops,
            "fits": _fits(question, recomputation.needed_bytes),
        }
        for recomputation in recomputations(question, lambda text: None)  # noqa: ARG005
    ]
    freed = (Column("freed_bytes", "freed", "bytes"), Column("repeated_flops", "repeated", "flops"))
    peak, *rest = _shown(question)
    return Table("by --recompute", (Column("value", "recompute"), peak, *freed, *rest), records)


def _shown(question: MemoryQuestion) -> tuple[Column, ...]:
    return COLUMNS if question.device is not None else COLUMNS[:2]


def _fits(question: MemoryQuestion, needed: int) -> bool | None:
    if question.device is None:
        return None
    return (
        question.answer().fits(question.device)
        if question.device.unlike
        else needed <= question.device.memory_bytes
    )
