"""The pass of a profile: its model, its request, and the kernels that run in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from archcli.commands.base import subject
from archcli.graph.kept import Backend, Execution
from archcli.launches import KernelRun, trace_kernels
from archcli.measure.passes import count_pass
from archcli.measure.predict.constants import WIDTHS
from archcli.modules import Model
from archcli.modules.models.layers import folded_path
from archcli.modules.spec.request import Request

PRESET = "preset "
FORMS = ("mla", "scan")


def model_of(document: Mapping[str, Any]) -> Model:
    """The model of a profile, with its changes, cut to its layers. Raises ArchError where it is gone."""
    inputs, source = document["inputs"], document["model"]["source"]
    model = subject(source.removeprefix(PRESET), inputs.get("set")).model
    if inputs["layers"] is None:
        return model
    from archcli.measure.profile.extrapolate.kinds import cut  # of profiles that ask for it

    return cut(model, inputs["layers"])


def request_of(inputs: Mapping[str, Any]) -> Request:
    """The pass of a profile, by its inputs."""
    forms = {name: inputs[name] for name in FORMS if inputs.get(name)}
    sizes = (inputs["batch_size"], inputs["seq_len"], inputs["past"], inputs["source_len"])
    return Request(inputs["phase"], *sizes, forms=forms).resolved()


def kernels_of(model: Model, request: Request, inputs: Mapping[str, Any]) -> tuple[KernelRun, ...]:
    """The kernels of a profile's pass, by its inputs; those of a rank without what it exchanges.

    Raises ArchError for an operation whose kernels are not known.
    """
    backend: Backend = "cpu" if inputs["device"] == "cpu" else "cuda"
    dtype, is_fused = inputs["dtype"], inputs["attention"] != "eager"
    execution = Execution(backend, is_fused, int(WIDTHS[dtype]), request.phase == "train")
    sent = frozenset(_sent(model, request))
    runs = trace_kernels(model, request, execution, dtype=dtype)
    return tuple(run for run in runs if folded_path(run.path) not in sent)


def _sent(model: Model, request: Request) -> Iterator[str]:
    """Paths of what ranks exchange, layers folded."""
    for row in count_pass(model, request).rows:
        if row.op.exchanges:
            yield folded_path(row.path)
