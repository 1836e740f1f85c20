"""What params, flops, memory, show and summary answer of a config.json that archcli does not describe.

A reader of an installed distribution, archcli's own for transformers among them, makes its module; it is run
as a module of one's own is.
"""

from __future__ import annotations

import os
import re
import runpy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archcli.api.asking.modules import ModuleOptions
from archcli.errors import ArchError, UndescribedError, install, quote
from archcli.load.source import load
from archcli.measure.flops import count_flops
from archcli.measure.params import count_params
from archcli.measure.report import Report
from archcli.modules import Model
from archcli.modules.spec.request import Request
from archcli.plugins import every
from archcli.wings.running.api.own import ModuleQuestion, answer, call_of, question_of, split, stated_question

if TYPE_CHECKING:
    from archcli.wings.running.runtime.own.run import OwnCall

GROUP = "archcli.readers"
"""The entry points by which a distribution offers modules for types that nothing describes."""
SHAPE = re.compile(r"input_ids=int64\[(\d+),(\d+)\]")
STORED = ("dtype", "torch_dtype", "quantization_config")
"""Keys of how a file stores its weights, which the class is built without."""
OF_BYTES = ("params", "memory")
"""Commands that answer bytes."""
MAPPINGS = "models/auto/auto_mappings.py"
NEEDED = ("torch", "transformers")
MOST_BY_ITSELF = 2**28
"""Parameters of a class that is run with values, unasked, where it looks at them."""


def of_class(
    command: str, error: UndescribedError, options: Any, own: ModuleOptions, beside: Mapping[str, Any]
) -> Report:
    """The answer of a command line; raises the error itself where no reader has a class."""
    what = "is for an architecture that archcli describes"
    question = stated_question(command, options, own, beside, what)
    return _answered(command, error, own.input, {}, question)


def compared(command: str, model: str, options: Any, own: ModuleOptions, beside: Mapping[str, Any]) -> Report:
    """The answer by the class of a config.json, with what archcli's description has otherwise."""
    try:
        loaded = load(model)
    except UndescribedError as error:
        return of_class(command, error, options, own, beside)
    if loaded.config is None:
        raise ArchError(f"{quote(model)} is no config.json, which --by-class needs", "leave --by-class out")
    unread = UndescribedError(f"transformers has no class for {quote(model)}", "leave --by-class out")
    unread.config = loaded.config
    report = of_class(command, unread, options, own, beside)
    return replace(report, notes=(*report.notes, *_differences(report, loaded.model)))


def _differences(report: Report, model: Model) -> Iterator[str]:
    """What the description of a model counts, beside a class's report."""
    pairs = {"parameters": (report.totals.get("params"), count_params(model).totals["params"])}
    ids = [SHAPE.fullmatch(text) for text in report.inputs["input"]]
    if "matmul_flops" in report.totals and len(ids) == 1 and ids[0]:
        batch, tokens = (int(size) for size in ids[0].groups())
        request = Request(report.inputs["phase"], batch, tokens)
        ours = count_flops(model, request).totals["matmul_flops"]
        pairs["matmul FLOPs"] = (report.totals["matmul_flops"], ours)
    for name, (theirs, ours) in pairs.items():
        if theirs is not None:
            more = "equal" if theirs == ours else f"the class has {theirs - ours:+,}"
            yield f"archcli's description has {ours:,} {name}: {more}."


def of_python(command: str, error: UndescribedError, inputs: Any = None, **options: Any) -> Report:
    """The answer of a Python function; raises the error itself where no reader has a class."""
    args, kwargs = split(inputs)
    return _answered(command, error, args, kwargs, question_of(command, options))


def _answered(
    command: str,
    error: UndescribedError,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    question: ModuleQuestion,
) -> Report:
    device = "cpu" if command == "profile" else question.run_on
    module = _module(error, device)
    source = str(type(module).__module__)
    call = call_of(module, args, kwargs, source, question)
    if args or kwargs:
        report = answer(command, call, question)
    elif command == "params":
        # nothing runs, and not every class has a forward
        report = answer(command, replace(call, kwargs={}, method="eval"), question)
    else:
        report = _of_made_inputs(command, error, replace(call, run_on=device), question)
    return _named(report, source, error.config)


def _of_made_inputs(command: str, error: UndescribedError, call: OwnCall, question: ModuleQuestion) -> Report:
    """The report of inputs made for the class; on real tensors where a small one looks at values."""
    from archcli.wings.running.runtime.classes.inputs import with_inputs
    from archcli.wings.running.runtime.own.failures import RunError

    def report(call: OwnCall) -> Report:
        def ask(made: Mapping[str, Any]) -> Report:
            return answer(command, replace(call, kwargs=made), question)

        return with_inputs(call.module, call.run_on, ask)

    try:
        return report(call)
    except RunError as failure:
        size = sum(weight.numel() for weight in call.module.parameters())
        if not failure.needs_values or call.run_on != "meta" or size > MOST_BY_ITSELF:
            raise
    return report(replace(call, module=_module(error, "cpu"), run_on="cpu"))


def _named(report: Report, source: str, config: Mapping[str, Any]) -> Report:
    """The report with the library of the class in its heading, and notes of what counted."""
    library = source.partition(".")[0]
    name = f"{report.model['name']} of {library} {version(library)}"
    notes = [f"Counted by the class {name}, not by archcli's description."]
    if report.command in OF_BYTES and any(config.get(key) for key in STORED):
        notes.append("Bytes are of weights as the class builds them, not in the dtype or form of the file.")
    return replace(report, model={**report.model, "name": name}, notes=(*notes, *report.notes))


def _module(error: UndescribedError, run_on: str) -> Any:
    """The module of a config.json. Raises the error, with what to install, where there is no reader."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    for reader in () if missing else every(GROUP):
        module = reader(error.config, run_on)
        if module is not None:
            return module
    if not missing:
        raise error
    first, *others = error.problems
    hint = f"{first.hint} where {' and '.join(NEEDED)} are there: {install(*NEEDED)}"
    raise ArchError([replace(first, hint=hint), *others])


def class_model(data: Mapping[str, Any], run_on: str = "meta") -> Any:
    """The model of a config.json by transformers' class, without values on meta; the reader that is here.

    None for a type that transformers lacks, before torch is imported. Raises ArchError where the class
    cannot be built.
    """
    if not _has(data.get("model_type")):
        return None
    from archcli.wings.running.runtime.weights.transformers import CLOSED

    os.environ.update(CLOSED)  # before transformers is imported
    from archcli.wings.running.runtime.classes.model import (
        class_model,  # brings torch and transformers, which take seconds
    )

    return class_model(data, run_on)


def _has(kind: Any) -> bool:
    """Whether transformers may have a type, by its own table, which imports nothing; true of none stated."""
    package = find_spec("transformers")
    table = Path(package.origin).parent / MAPPINGS if package and package.origin else None
    if kind is None or table is None or not table.exists():
        return True
    return isinstance(kind, str) and kind in runpy.run_path(str(table))["CONFIG_MAPPING_NAMES"]
