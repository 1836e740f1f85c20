"""The tools: what each asks, of which record its arguments are made, and how the question is answered.

A record and what answers it are imported when a tool is first listed or called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

from archcli.api.asking.question import by_field
from archcli.api.asking.subject import Subject
from archcli.commands.line.several import assigned
from archcli.errors import ArchError, suggest
from archcli.measure.report import Report
from archcli.modules.spec.values import Json
from archcli.wings.doors.commands.mcp.arguments import (
    MODEL,
    ROWS,
    SET,
    SET_ONE,
    Argument,
    arguments,
    check_names,
    checked,
    command_line,
    filled,
    record_of,
)
from archcli.wings.doors.commands.mcp.models import AskedModel, asked_model

MOST_MODELS = 4
SVG: Json = {
    "description": "An SVG, as an embedded resource, in place of text.",
    "type": "boolean",
    "default": False,
}
OWN = ("model", "models", "set", "rows", "svg")
"""Arguments that are no options of a record."""


class CancelledError(BaseException):
    """Nobody waits for the answer any longer. No Exception: it ends a question wherever it is raised."""


class Drawing(NamedTuple):
    """A drawing as text, or as SVG where that was asked for."""

    name: str
    text: str
    svg: str = ""


@dataclass(frozen=True)
class ToolCall:
    """A question: the record of its options, its models, their overrides, and whether it is cancelled."""

    options: Any
    models: Sequence[AskedModel]
    overrides: Sequence[str]
    stop: Event
    svg: bool = False

    def subject(self) -> Subject:
        """The only model."""
        return self.models[0].subject(self.overrides)

    def subjects(self) -> list[Subject]:
        """Every model, with the overrides of its own."""
        of_each = assigned(self.overrides, len(self.models))
        return [model.subject(sets) for model, sets in zip(self.models, of_each, strict=True)]

    def tick(self, *_: Any) -> None:
        """Hear of progress. Raises CancelledError where nobody waits for the answer."""
        if self.stop.is_set():
            raise CancelledError


Answered = Report | Drawing


@dataclass(frozen=True)
class Tool:
    """A tool of the server.

    home: the record of its options, `module:name`.
    answer: computes the report, or with `draws` the drawing.
    models: the fewest and the most models that it takes.
    lists: whether rows are the answer, not detail.
    first: whether a row comes first if not all have room.
    """

    name: str
    description: str
    home: str
    answer: Callable[[ToolCall], Answered]
    models: tuple[int, int] = (1, 1)
    lists: bool = False
    draws: bool = False
    first: Callable[[Mapping[str, Any]], bool] = bool

    @property
    def takes_several(self) -> bool:
        """Whether its argument is `models`, a list."""
        return self.models[1] > 1

    @cached_property
    def record(self) -> Any:
        """The record of its options."""
        return record_of(self.home)

    @cached_property
    def arguments(self) -> dict[str, Argument]:
        """The options that are arguments."""
        return arguments(self.record)

    @cached_property
    def schema(self) -> Json:
        """The JSON Schema of its arguments."""
        first = {"models": self._models()} if self.takes_several else {"model": MODEL}
        options = {name: argument.schema for name, argument in self.arguments.items()}
        last = {"svg": SVG} if self.draws else {"rows": ROWS}
        needed = [*first] if self.models[0] else []
        needed += [name for name, known in self.arguments.items() if known.is_required]
        sets = SET_ONE if self.takes_several else SET
        return {
            "type": "object",
            "properties": {**first, **options, "set": sets, **last},
            "required": needed,
            "additionalProperties": False,
        }

    def _models(self) -> Json:
        least, most = self.models
        text = f"{least} to {most} models, each a preset or the content of a config.json."
        items = {key: value for key, value in MODEL.items() if key != "description"}
        return {"description": text, "type": "array", "items": items, "minItems": least, "maxItems": most}

    def call(self, arguments: Mapping[str, Any], folder: Path | None, stop: Event) -> StatedCall:
        """The question of these arguments. Raises ArchError, with a hint, for wrong ones."""
        arguments = by_field(self.record, self._by_its_names(arguments))
        check_names(self.name, arguments, self.schema)
        present = {name: value for name, value in arguments.items() if value is not None}
        overrides = checked(self.name, "set", present.get("set", []), list[str])
        rows, svg = (checked(self.name, name, present.get(name, False), bool) for name in ("rows", "svg"))
        values = {name: value for name, value in present.items() if name not in OWN}
        options = filled(self.name, self.record, self.arguments, values)
        models = list(self._models_of(present, folder))
        args = [arg for name in self._in_order(values) for arg in self.arguments[name].as_typed(values[name])]
        line = command_line(self.name, [model.word for model in models], args, overrides)
        noted = [note for name in values if (note := self.arguments[name].note(values[name]))]
        return StatedCall(ToolCall(options, models, overrides, stop, svg), line, rows, noted)

    def _by_its_names(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The arguments with `models` of one renamed to `model`, or the reverse, as this tool names it."""
        several = self.takes_several
        key, alias = ("models", "model") if several else ("model", "models")
        value = arguments.get(alias)
        if value is None or arguments.get(key) is not None:
            return arguments
        if not several and not (isinstance(value, list) and len(value) == 1):
            return arguments
        renamed = value[0] if not several else value if isinstance(value, list) else [value]
        return {**{name: it for name, it in arguments.items() if name != alias}, key: renamed}

    def _in_order(self, values: Mapping[str, Any]) -> list[str]:
        """The options with a value; positional ones first, as they follow MODEL on the command line."""
        return sorted(values, key=lambda name: not self.arguments[name].option.argument)

    def _models_of(self, arguments: Mapping[str, Any], folder: Path | None) -> Iterator[AskedModel]:
        if not self.takes_several:
            if "model" in arguments:
                yield asked_model("model", arguments["model"], folder)
            return
        models = arguments["models"]
        least, most = self.models
        if not isinstance(models, list) or not least <= len(models) <= most:
            what = f"{self.name} takes a list of {least} to {most} models"
            raise ArchError(what, 'such as {"models": ["llama-3.1-8b", "qwen3-8b"]}')
        for i, model in enumerate(models):
            yield asked_model(f"models[{i}]", model, folder)


class StatedCall(NamedTuple):
    """A question, the same as a command line, whether all rows are wanted, notes on its values."""

    call: ToolCall
    line: str
    rows: bool
    notes: Sequence[str] = ()


def _params(call: ToolCall) -> Report:
    from archcli.api.params import params_report

    return params_report(call.subject(), call.options)


def _flops(call: ToolCall) -> Report:
    from archcli.api.flops import flops_report

    return flops_report(call.subject(), call.options)


def _kvcache(call: ToolCall) -> Report:
    from archcli.api.kvcache import cache_report

    return cache_report(call.subject(), call.options)


def _memory(call: ToolCall) -> Report:
    from archcli.wings.serving.api.memory import memory_report

    subject, options = call.subject(), call.options
    return subject.judged(
        "memory", lambda: memory_report(subject, options.question(subject.model), options, call.tick)
    )


def _predict(call: ToolCall) -> Report:
    from archcli.wings.serving.api.predict import predict_question, predict_report

    subject, options = call.subject(), call.options
    return subject.judged(
        "predict", lambda: predict_report(subject, predict_question(subject.model, options), options)
    )


def _fit(call: ToolCall) -> Report:
    from archcli.wings.serving.api.fit import fit_report

    options = call.options
    if options.device is None:
        # this machine is the server's, and its files are none of the question's
        raise ArchError("fit needs a device", "name one: device=rtx-4090, h100-sxm, m3-pro or 8xh100-sxm")
    if not call.models:
        return fit_report(options, call.overrides, call.tick)
    model = call.models[0]

    def read(name: str, overrides: Sequence[str]) -> Subject:
        # gpt-oss:20b of a catalogue comes back as gpt-oss-20b
        return (model if model.text else model._replace(value=name)).subject(overrides)

    return fit_report(replace(options, model=model.word), call.overrides, call.tick, read)


def _choose(call: ToolCall) -> Report:
    from archcli.wings.serving.api.choosing.choose import choose_report

    subject = call.subject()
    return subject.judged("choose", lambda: choose_report(call.options, subject, call.tick))


def _check(call: ToolCall) -> Report:
    from archcli.api.check import FileCheck, check_report
    from archcli.rules.base import Parallelism

    options = call.options
    parallel = Parallelism(options.tp, options.pp, options.ep)
    files = FileCheck(call.overrides, options.selection(), parallel, strict=True)
    checked = [files.of_model(call.models[0].loaded(call.overrides, strict=False))]
    inputs = options.inputs() | ({"set": list(call.overrides)} if call.overrides else {})
    return check_report(checked, inputs)


def _compare(call: ToolCall) -> Report:
    from archcli.api.compare import compared

    return compared(call.subjects(), call.options)


def _explain(call: ToolCall) -> Report:
    from archcli.wings.shapes.api.explain import explained

    return explained(call.subject(), call.options)


def _sweep(call: ToolCall) -> Report:
    from archcli.wings.shapes.api.swept import swept

    return swept(call.subject(), call.options, call.tick)


def _draw(call: ToolCall) -> Drawing:
    from archcli.wings.drawing.api.draw import drawing_of

    drawing = drawing_of(call.subjects(), call.options)
    return Drawing(drawing.name, drawing.text(), drawing.svg() if call.svg else "")


def _is_figure(row: Mapping[str, Any]) -> bool:
    """Whether a row of a comparison is a figure, and not a setting."""
    return bool(row["unit"] != "text")


TOOLS = {
    tool.name: tool
    for tool in (
        Tool(
            "params",
            "How many parameters a model has: total, active for a token, by group, and the bytes of its "
            "weights. Exact.",
            "archcli.api.params:ParamsOptions",
            _params,
        ),
        Tool(
            "flops",
            "How many FLOPs a pass takes: forward, training, prefill, or a decoded token. Exact; a FLOP is "
            "half a multiply-add.",
            "archcli.api.flops:FlopsOptions",
            _flops,
        ),
        Tool(
            "kvcache",
            "How large the KV cache and recurrent states are for a context and a batch, by the attention of "
            "each layer; how many tokens fit a memory. Exact.",
            "archcli.api.kvcache:KvcacheOptions",
            _kvcache,
        ),
        Tool(
            "memory",
            "The memory at the peak of training or inference: weights, gradients, optimizer states, "
            "activations, cache; whether it fits, and what to change.",
            "archcli.wings.serving.api.memory:MemoryOptions",
            _memory,
        ),
        Tool(
            "predict",
            "How fast a model is on a device: time of a step or token, tokens per second, with a range, and "
            "what limits it.",
            "archcli.wings.serving.api.predict:PredictOptions",
            _predict,
        ),
        Tool(
            "fit",
            "Whether a model fits a device, in which format, context, how fast; or which presets fit it.",
            "archcli.wings.serving.api.fitting.question:FitOptions",
            _fit,
            models=(0, 1),
            lists=True,
        ),
        Tool(
            "choose",
            "Which devices, how many and for how much: those that nothing beats in price, speed and watts.",
            "archcli.wings.serving.api.choosing.choose:ChooseOptions",
            _choose,
            lists=True,
        ),
        Tool(
            "check",
            "Whether the shape of an architecture is sane: findings of design rules, each with its source.",
            "archcli.api.check:CheckOptions",
            _check,
            lists=True,
        ),
        Tool(
            "compare",
            "How architectures differ: settings, parameters, FLOPs and cache side by side.",
            "archcli.api.compare:CompareOptions",
            _compare,
            models=(2, 8),
            lists=True,
            first=_is_figure,
        ),
        Tool(
            "explain",
            "The formula of a model's parameters, FLOPs or cache, component by component, with its numbers.",
            "archcli.wings.shapes.api.explain:ExplainOptions",
            _explain,
            lists=True,
        ),
        Tool(
            "sweep",
            "Which shapes of an architecture meet conditions: vary fields, keep those that meet bounds, the "
            "best first.",
            "archcli.wings.shapes.api.sweep_question:SweepOptions",
            _sweep,
            lists=True,
        ),
        Tool(
            "draw",
            "One to four architectures drawn to scale, as text or as SVG: layers, attention, networks.",
            "archcli.wings.drawing.api.draw:DrawOptions",
            _draw,
            models=(1, MOST_MODELS),
            draws=True,
        ),
    )
}


def tool_of(name: str) -> Tool:
    """The tool of a name. Raises ArchError with the nearest ones."""
    if name not in TOOLS:
        raise ArchError(f"no tool '{name[:40]}'", suggest(name, TOOLS, "there are"))
    return TOOLS[name]
