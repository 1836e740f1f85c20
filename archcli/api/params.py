"""count_params: `archcli params` in Python."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated

from archcli.api.asking.modules import takes_modules
from archcli.api.asking.options import Depth
from archcli.api.asking.question import Option, asks
from archcli.api.asking.subject import Subject, given
from archcli.errors import ArchError
from archcli.load.source import is_checkpoint
from archcli.measure.params import count_params as count
from archcli.measure.report import Report
from archcli.modules import Model
from archcli.modules.models.model import ModelLike
from archcli.modules.stored.dtypes import DtypeName
from archcli.plugins import part

Against = Annotated[
    str | None,
    Option(
        "Compare with a .safetensors file, its index, a folder, or org/name on the hub.", metavar="CHECKPOINT"
    ),
]
Explain = Annotated[
    str | None,
    Option("Say which formula gave a row: layers.*.attention, layers.3.ffn.", metavar="PATH"),
]
WeightsDtype = Annotated[
    DtypeName | None,
    Option(
        "Type of an element, fp32, bf16, fp8, int4, or a stored format: q8_0, nf4, mxfp4 and others. "
        "[default: bf16]",
        metavar="DTYPE",
        reads="text",
        completes="dtypes",
    ),
]
USUAL = "bf16"


@dataclass(frozen=True)
class ParamsOptions:
    """Options of `archcli params`."""

    model: ModelLike
    dtype: WeightsDtype = None
    depth: Depth = 3
    _: KW_ONLY
    against: Against = None
    explain: Explain = None


def params_report(subject: Subject, options: ParamsOptions) -> Report:
    """The report on a loaded model. Raises ArchError where two reports are asked for."""
    if options.explain is not None and options.against is not None:
        raise ArchError("--explain and --against ask for different reports", "leave one of them out")
    if options.explain is not None:
        explained: Report = part("shapes.explained")(subject, options.model, options.explain)
        return explained
    if options.against is not None:
        return subject.named(part("running.against_report")(subject, options.against))
    return subject.named(
        count(_known(subject.model, options.dtype), options.dtype or USUAL, options.depth), options
    )


def _known(model: Model, dtype: str | None) -> Model:
    """The model; with a dtype, the plain one in place of a form of unknown bytes."""
    return model.replace(quantization=None, published_in=None) if dtype and model.unknown_form else model


def headers_report(options: ParamsOptions, overrides: Sequence[str] = ()) -> Report | None:
    """The report on a checkpoint without a config.json; None for an architecture."""
    if not is_checkpoint(options.model):
        return None
    values = {**dataclasses.asdict(options), "set": [*overrides] or None}
    usual = {field.name: field.default for field in dataclasses.fields(options)} | {"set": None}
    changed = [name for name, value in values.items() if name != "model" and value != usual[name]]
    if changed:
        what = f"--{changed[0]} is for an architecture, and these are a checkpoint's tensors by themselves"
        raise ArchError(what, "leave it out, or give a config.json")
    report: Report = part("running.headers_report")(str(options.model))
    return report


@takes_modules("params")
@asks(ParamsOptions)
def count_params(options: ParamsOptions) -> Report:
    """Parameters and bytes of an architecture: the report of `archcli params`.

    `totals` holds params, active_params (per token), bytes in `dtype` and parameters by group;
    `rows` are the same by path, cut after `depth` steps. With `against`, a checkpoint, the report compares
    its tensors by name and shape; with `explain`, the path of a row, it says which formula gave that.

    A torch.nn.Module and its inputs may stand in place of a model: `count_params(module)`.

    Example: `count_params("llama-3.1-8b").totals["params"]` is 8,030,261,248.
    """
    return headers_report(options) or params_report(given(options.model), options)
