"""Memory that timing a pass needs: the model, the pass at its peak, and torch itself.

A timed pass has no optimizer and no loss outside of the model: its backward begins with given gradients of
the outputs, which the caller holds as it holds the outputs.
"""

from __future__ import annotations

from collections.abc import Iterator

from archcli.arith import Number, prod, to_bytes
from archcli.errors import ArchError
from archcli.graph import Tensor, tree_map
from archcli.graph.kept import INT64, Backend, Execution
from archcli.measure.passes import Pass, shape_pass
from archcli.modules import Model
from archcli.modules.models.model import inferring
from archcli.modules.spec.request import InputSpec, Request
from archcli.units import gib
from archcli.wings.serving.launches.memory.tape import storage_of
from archcli.wings.serving.memory.traced import (
    MemoryMoment,
    TracedPass,
    cached_before,
    peak_bytes,
    trace_memory,
)

TORCH_BYTES = 400 * 2**20
"""torch itself, its threads, workspaces and tracer: what torch 2.13 took on Linux beside the rest."""


def run_memory(
    model: Model, request: Request, dtype: str, attention: str, backend: Backend = "cpu"
) -> dict[str, int]:
    """Bytes by purpose (weights, gradients, cache, …), and `needed_bytes` in total.

    gradients: those that exist after a training pass.
    cache: the one after the pass, together with the one before it, if there was one.
    activations: all else that is alive at the peak.
    torch: on a GPU the memory beyond the model, at its upper end.
    """
    request = request.resolved()
    train, width = request.phase == "train", int(to_bytes(1, dtype))
    model = model if train else inferring(model)
    execution = Execution(backend, attention != "eager", width, train, assumes=True)
    traced = trace_memory(model, request, execution)
    reads_media = train or request.in_prompt
    params = shape_pass(model, request).params() if reads_media else shape_pass(model).params()
    moments = list(_training(traced) if train else _inference(traced))
    peak = int(peak_bytes(moments)) + _input_bytes(model, request, width)
    last = moments[-1]
    cache = int(max(moment.cache for moment in moments))
    parts = {
        "weights_bytes": int(to_bytes(params, dtype)),
        "gradients_bytes": int(last.gradients),
        "activations_bytes": peak - int(last.gradients) - cache,
        "cache_bytes": cache,
        "torch_bytes": TORCH_BYTES if backend == "cpu" else _beyond_model(backend, training=train),
    }
    return {**parts, "needed_bytes": sum(parts.values())}


def _beyond_model(backend: Backend, *, training: bool) -> int:
    from archcli.wings.serving.memory.ranks import beyond_model  # of GPUs alone

    return beyond_model(backend, training=training).bytes


def compiled_memory(memory: dict[str, int], counted: Pass, dtype: str) -> dict[str, int]:
    """The memory of a pass, changed for torch.compile."""
    if counted.phase != "train":
        return memory
    # compiled code first makes the gradient of an expert's matrix for every token, then adds them up
    copies = (prod(row.inputs[0][:-1]) * row.unit_params for row in counted.rows if row.experts is not None)
    more = int(to_bytes(max(copies, default=0), dtype))
    return memory | {key: memory[key] + more for key in ("gradients_bytes", "needed_bytes")}


def require_memory(name: str, memory: dict[str, int], available: int | None, dtype: str) -> None:
    """Raise ArchError where a run needs more memory than `available`; None is unknown."""
    needed, weights = memory["needed_bytes"], memory["weights_bytes"]
    if available is None or needed <= available:
        return
    if weights > available:
        what, hint = f"{gib(weights)} of weights", "a smaller preset or --set n_layers=…"
    else:
        listed = {
            part.removesuffix("_bytes"): size
            for part, size in memory.items()
            if part not in {"needed_bytes", "torch_bytes"}
        }
        rest = ", ".join(f"{gib(size)} {part}" for part, size in listed.items() if size)
        what, hint = (
            f"about {gib(needed)} ({rest})",
            "a shorter --seq-len, a smaller --batch-size or --set n_layers=…",
        )
    narrower = "" if to_bytes(1, dtype) <= 2 else "--dtype bf16, "  # noqa: PLR2004
    raise ArchError(
        f"{name} in {dtype} needs {what}; this machine has {gib(available)} available",
        f"try {narrower}{hint}",
    )


def _inference(traced: TracedPass) -> Iterator[MemoryMoment]:
    """The moments of a pass without a backward; the caller owns the cache."""
    before = cached_before(traced)
    for moment in traced.ledger.moments:
        yield MemoryMoment(
            traced.request.phase, moment.path, temporaries=moment.temporaries, cache=before + moment.cache
        )


def _training(traced: TracedPass) -> Iterator[MemoryMoment]:
    """The moments of a forward and its backward, with the outputs and their gradients all along."""
    from archcli.wings.serving.memory.training.backward import Backward  # of training alone

    ledger, outputs = traced.ledger, _outputs(traced)
    places = [x.value.place for x in outputs]
    sizes = [prod(x.value.shape) * x.value.place.width for x in outputs]
    targets = 0 if traced.has_targets else sum(sizes)
    for moment in ledger.moments:
        yield MemoryMoment("forward", moment.path, kept=moment.kept, temporaries=moment.temporaries + targets)
    backward = Backward(ledger)
    backward.run(*zip([place.value for place in places], sizes, strict=True), held=True)
    held = _unkept(traced, outputs)
    for past in backward.moments:
        yield MemoryMoment(
            "backward",
            past.path,
            kept=past.kept,
            gradients=past.gradients,
            temporaries=past.temporaries + held,
        )


def _outputs(traced: TracedPass) -> list[Tensor]:
    """The tensors that a model returned, through which gradients flow."""
    tensors: list[Tensor] = []
    tree_map(tensors.append, Tensor, traced.output)
    return [x for x in tensors if x.value.grad]


def _unkept(traced: TracedPass, outputs: list[Tensor]) -> Number:
    """Bytes of the outputs that the backward itself does not keep."""
    storages = [storage_of(x) for x in outputs]
    records = {id(s.record): s.record for s in storages if s is not None}
    return sum((record.size for key, record in records.items() if key not in traced.ledger.saved), 0)


def _input_bytes(model: Model, request: Request, width: int) -> int:
    widths = {"ids": INT64, "features": width}
    specs: list[InputSpec] = []
    tree_map(specs.append, InputSpec, model.reads(request))
    return sum(int(prod(spec.shape)) * widths[spec.kind] for spec in specs)
