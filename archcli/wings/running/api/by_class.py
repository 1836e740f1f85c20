"""params, flops, memory, show and summary for a config.json that archcli does not describe.

A reader of an installed distribution builds its module, such as archcli's reader of transformers' classes.
The module then runs as a user's own module does.
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
from archcli.load.yaml.text import read_start
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
"""The entry points of readers: each builds a module for a type that archcli does not describe."""
SHAPE = re.compile(r"input_ids=int64\[(\d+),(\d+)\]")
STORED = ("dtype", "torch_dtype", "quantization_config")
"""Keys on the storage of weights, which the class ignores when it is built."""
OF_BYTES = ("params", "memory")
"""Commands whose answers are bytes."""
AUTO, MAPPINGS = "models/auto", "auto_mappings.py"
NEEDED = ("torch", "transformers")
MOST_BY_ITSELF = 2**28
"""The most parameters of a class that runs with values, without --run-on cpu, if it needs them."""


def of_class(
    command: str, error: UndescribedError, options: Any, running: ModuleOptions, extra: Mapping[str, Any]
) -> Report:
    """The answer to a command line; raises `error` if no reader has a class."""
    what = "is for an architecture that archcli describes"
    question = stated_question(command, options, running, extra, what)
    return _answered(command, error, running.input, {}, question)


def compared(
    command: str, model: str, options: Any, running: ModuleOptions, extra: Mapping[str, Any]
) -> Report:
    """The answer by the class of a config.json, with the differences from archcli's description."""
    try:
        loaded = load(model)
    except UndescribedError as error:
        return of_class(command, error, options, running, extra)
    if loaded.config is None:
        raise ArchError(f"{quote(model)} is no config.json, which --by-class needs", "leave --by-class out")
    unread = UndescribedError(f"transformers has no class for {quote(model)}", "leave --by-class out")
    unread.config = loaded.config
    report = of_class(command, unread, options, running, extra)
    return replace(report, notes=(*report.notes, *_differences(report, loaded.model)))


def _differences(report: Report, model: Model) -> Iterator[str]:
    """Notes that compare a class's report with the description of the model."""
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
    """The answer of a Python function; raises `error` if no reader has a class."""
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
        # params needs no forward, which some classes lack: call `eval` instead
        report = answer(command, replace(call, kwargs={}, method="eval"), question)
    else:
        report = _of_made_inputs(command, error, replace(call, run_on=device), question)
    return _named(report, source, error.config)


def _of_made_inputs(command: str, error: UndescribedError, call: OwnCall, question: ModuleQuestion) -> Report:
    """The report on inputs made for the class; of a small class that reads values on real tensors."""
    from archcli.wings.running.runtime.classes.inputs import with_inputs
    from archcli.wings.running.runtime.own.failures import RunError

    def report(call: OwnCall) -> Report:
        def ask(inputs: Mapping[str, Any]) -> Report:
            return answer(command, replace(call, kwargs=inputs), question)

        return with_inputs(call.module, call.run_on, ask)

    try:
        return report(call)
    except RunError as failure:
        size = sum(weight.numel() for weight in call.module.parameters())
        if not failure.needs_values or call.run_on != "meta" or size > MOST_BY_ITSELF:
            raise
    return report(replace(call, module=_module(error, "cpu"), run_on="cpu"))


def _named(report: Report, source: str, config: Mapping[str, Any]) -> Report:
    """The report with the library of the class in its heading, and notes that the class counted."""
    library = source.partition(".")[0]
    name = f"{report.model['name']} of {library} {version(library)}"
    notes = [f"Counted by the class {name}, not by archcli's description."]
    if report.command in OF_BYTES and any(config.get(key) for key in STORED):
        notes.append("Bytes are of weights as the class builds them, not in the dtype or form of the file.")
    return replace(report, model={**report.model, "name": name}, notes=(*notes, *report.notes))


def _module(error: UndescribedError, run_on: str) -> Any:
    """The module of a config.json. Raises `error`, with what to install, if no reader has one."""
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
    """archcli's reader: the model of a config.json by transformers' class, on meta without values.

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
    """Whether transformers may have a type, by its tables, without importing it; True without a type."""
    package = find_spec("transformers")
    folder = Path(package.origin).parent / AUTO if package and package.origin else None
    if kind is None or folder is None or not (folder / MAPPINGS).exists():
        return True
    if not isinstance(kind, str):
        return False
    # a few types, gpt-sw3 among them, are added to the table by the code of another file
    code = folder / "configuration_auto.py"
    added = read_start(code, code.name).decode() if code.exists() else ""
    return kind in runpy.run_path(str(folder / MAPPINGS))["CONFIG_MAPPING_NAMES"] or f'"{kind}"' in added
