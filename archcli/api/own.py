"""summary and rows; and what params, flops, memory and show answer of a module of one's own.

A module is run once, on tensors without values, and becomes rows: `archcli.runtime.own` says how.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from archcli.api.asking.device import device_memory
from archcli.api.asking.module_options import ModuleOptions, RunOn, is_module
from archcli.api.asking.options import Depth, Optimizer
from archcli.api.asking.question import Option
from archcli.errors import ArchError, quote
from archcli.graph import Row
from archcli.load.presets import ModuleName, module_name
from archcli.measure.report import Report
from archcli.measure.survey.own_module import flops_report, params_report, show_report, summary_report
from archcli.modules.spec.calls import bound
from archcli.recording.own import InputForm, ModuleRun

if TYPE_CHECKING:
    from archcli.runtime.own.run import OwnCall

RunPhase = Annotated[Literal["forward", "train"], Option("A forward, or a forward with its backward.")]


OwnPhase = Annotated[Literal["forward", "train"] | None, Option("Without it a forward.")]


@dataclass(frozen=True)
class SummaryOptions:
    """What `archcli summary` asks."""

    model: str
    depth: Depth = 3
    phase: RunPhase = "forward"


@dataclass(frozen=True)
class ModuleQuestion:
    """What Python asks of a module, beside its inputs and its loss."""

    call: str = "forward"
    run_on: RunOn = "meta"
    allow_uncounted: bool = False
    depth: Depth = 3
    phase: OwnPhase = "forward"
    pairs: int | None = None
    optimizer: Optimizer = "adamw"
    device: str | None = None
    memory: str | int | None = None
    dtype: str | None = None


class ModuleCallAsked(NamedTuple):
    """A module, its inputs, and where both come from."""

    module: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    source: str
    loss: Callable[..., Any] | None = None


def summary(  # noqa: PLR0913
    module: Any,
    *inputs: Any,
    depth: int = 3,
    phase: str = "forward",
    named: Mapping[str, Any] | None = None,
    loss: Callable[..., Any] | None = None,
    call: str = "forward",
    run_on: str = "meta",
    allow_uncounted: bool = False,
) -> Report:
    """Parameters, shapes and FLOPs of any nn.Module by its modules: the report of `archcli summary`.

    It is run once on fake tensors, so that no weight is read and nothing is computed. `inputs` are what its
    forward takes, `named` those by name; a text such as "ids=int64[1,2048]" stands for a tensor. Equal layers
    stand once, cut after `depth` steps of a path. `phase="train"` counts the backward of the output's sum, or
    of the `loss` of it. `call` is another method, `run_on` "cpu" runs on real tensors, and `allow_uncounted`
    notes products without a formula in place of an error.

    Example: `summary(build("gpt2", device="meta"), "int64[1,8]").totals["params"]` is 124,439,808.
    """
    options = {"depth": depth, "phase": phase, "call": call, "run_on": run_on}
    question = _question("summary", {**options, "allow_uncounted": allow_uncounted})
    return summary_report(_counted(_given(module, inputs, named, loss), question), question.depth)


def rows(
    module: Any,
    inputs: Any = None,
    *,
    phase: str = "forward",
    loss: Callable[..., Any] | None = None,
    call: str = "forward",
    run_on: str = "meta",
    allow_uncounted: bool = False,
) -> list[Row]:
    """The rows of any nn.Module, as archcli's measures read them: paths, shapes, weights and costs.

    `inputs` are a tensor, a tuple of them, or a dict by name. The options are those of `summary`.

    Example: `rows(build("gpt2", device="meta"), "int64[1,8]")[-1].path` is final_norm.
    """
    args, kwargs = _split(inputs)
    options = {"phase": phase, "call": call, "run_on": run_on, "allow_uncounted": allow_uncounted}
    return list(_counted(_given(module, args, kwargs, loss), _question("rows", options)).rows)


def of_module(
    command: str,
    module: Any,
    inputs: Any = None,
    *,
    loss: Callable[..., Any] | None = None,
    **options: Any,
) -> Report:
    """What params, flops, memory and show answer of a module and its inputs, in Python."""
    args, kwargs = _split(inputs)
    return _answer(command, _given(module, args, kwargs, loss), _question(command, options))


def _question(where: str, options: Mapping[str, Any]) -> ModuleQuestion:
    arguments = bound(ModuleQuestion, (), options, where)
    return ModuleQuestion(**arguments.arguments)


def _split(inputs: Any) -> tuple[tuple[Any, ...], Mapping[str, Any] | None]:
    """(positional, named) inputs of what a caller gives as inputs."""
    if inputs is None:
        return (), None
    if isinstance(inputs, Mapping):
        return (), inputs
    return (tuple(inputs), None) if isinstance(inputs, list | tuple) else ((inputs,), None)


def _given(
    module: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None, loss: Callable[..., Any] | None
) -> ModuleCallAsked:
    if isinstance(module, str):
        found = module_name(module)
        if found is not None:
            asked = _named(found, (), "forward", "meta")
            own = (tuple(args), kwargs or {}) if args or kwargs else (asked.args, asked.kwargs)
            return ModuleCallAsked(asked.module, *own, found.name, loss)
    if not is_module(module):
        what = f"{quote(type(module).__name__)} is no torch.nn.Module"
        raise ArchError(what, "of an architecture ask params, flops or show")
    source = type(module).__module__
    if args and all(isinstance(text, str) for text in args):
        from archcli.runtime.own.source import Made, with_inputs

        made = with_inputs(Made(module, (), {}), [_form(text) for text in args], "forward", "meta")
        return ModuleCallAsked(module, made.args, {**made.kwargs, **(kwargs or {})}, source, loss)
    return ModuleCallAsked(module, tuple(args), kwargs or {}, source, loss)


def _named(found: ModuleName, forms: Sequence[InputForm], method: str, run_on: str) -> ModuleCallAsked:
    from archcli.runtime.own.source import module_named, with_inputs

    made = with_inputs(module_named(found.name, run_on, here=found.here), forms, method, run_on)
    return ModuleCallAsked(made.module, made.args, made.kwargs, found.name)


def _run(asked: ModuleCallAsked, question: ModuleQuestion, *, memory: bool = False) -> ModuleRun:
    from archcli.runtime.own.run import run_module

    return run_module(_call(asked, question), asked.source, memory=memory)


def _call(asked: ModuleCallAsked, question: ModuleQuestion) -> OwnCall:
    from archcli.runtime.own.run import OwnCall

    given = (asked.module, asked.args, asked.kwargs, question.call)
    return OwnCall(*given, question.phase or "forward", question.run_on, asked.loss)


def _counted(asked: ModuleCallAsked, question: ModuleQuestion) -> ModuleRun:
    """The run. Raises ArchError for products without a formula, unless they are allowed."""
    run = _run(asked, question)
    if run.uncounted and not question.allow_uncounted:
        missed = [f"{x.op} (in {x.path or run.name}, {x.calls} times)" for x in run.uncounted]
        raise ArchError(
            f"no formula for {', '.join(missed)}: FLOPs are not known",
            "--allow-uncounted (allow_uncounted=True) counts the rest, and says so; register_flop_formula of "
            "torch.utils.flop_counter gives an operation one",
        )
    return run


def _answer(command: str, asked: ModuleCallAsked, question: ModuleQuestion) -> Report:
    if command == "memory":
        from archcli.measure.memory.answers.own_module import memory_report  # of memory alone

        device = device_memory(question.device, question.memory)
        return memory_report(_run(asked, question, memory=True), question.optimizer, device)
    if command == "flops":
        return flops_report(_counted(asked, question))
    if command == "summary":
        return summary_report(_counted(asked, question), question.depth)
    if command == "profile":
        return _profiled(asked, question)
    if command == "params":
        from archcli.runtime.own.run import weights_of

        return params_report(weights_of(_call(asked, question), asked.source), question.depth)
    return show_report(_run(asked, question))


def _profiled(asked: ModuleCallAsked, question: ModuleQuestion) -> Report:
    from archcli.measure.profile.own_module import profile_report
    from archcli.runtime.own.timing import timed_module

    if question.device not in {None, "cpu"}:
        what = f"a module of yours is profiled on a CPU, and the device is {quote(question.device or '')}"
        raise ArchError(what, "leave --device out")
    call = _call(asked, question)
    return profile_report(timed_module(call, asked.source, question.pairs))


TAKEN = {
    "params": ("depth",),
    "flops": ("phase",),
    "memory": ("phase", "optimizer", "device", "memory"),
    "profile": ("phase", "pairs", "device"),
    "show": (),
    "summary": ("depth", "phase"),
}
"""Options of a command that mean something of a module; all others are of architectures."""


def of_named(
    command: str, found: ModuleName, options: Any, own: ModuleOptions, overrides: Sequence[str] | None
) -> Report:
    """The answer of a command about a named module. Raises ArchError for options of architectures."""
    given = {f.name: getattr(options, f.name) for f in fields(options) if f.name != "model"}
    usual = {f.name: f.default for f in fields(options)}
    beside = [name for name, value in given.items() if value != usual[name] and name not in TAKEN[command]]
    if beside or overrides:
        name = "set" if overrides else beside[0].replace("_", "-")
        what = f"--{name} is for an architecture, and {found.name} is a module of yours"
        raise ArchError(what, "leave it out")
    # a profile runs on real tensors
    run_on = "cpu" if command == "profile" else own.run_on
    asked = _named(found, [_form(text) for text in own.input], own.call, run_on)
    taken = {name: given[name] for name in TAKEN[command]}
    question = ModuleQuestion(own.call, own.run_on, own.allow_uncounted, **taken)
    return _answer(command, asked, question)


_FORM = re.compile(r"(?:([^\W\d]\w*)=)?([a-z]+\d*\w*)\[(\d+(?:,\d+)*)?\]")


def _form(text: str) -> InputForm:
    """The form of an input that `--input` states."""
    found = _FORM.fullmatch(text.replace(" ", ""))
    if found is None:
        hint = "'ids=int64[1,2048]' is one: name, dtype, shape"
        raise ArchError(f"--input {quote(text)} is no input", hint)
    name, dtype, sizes = found.groups()
    return InputForm(name or "", dtype, tuple(int(size) for size in sizes.split(",")) if sizes else ())
