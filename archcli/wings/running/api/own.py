"""summary and rows; and what params, flops, memory and show answer of a module of one's own.

A module is run once, on tensors without values, and becomes rows: see `archcli.wings.running.runtime.own`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from inspect import signature
from typing import TYPE_CHECKING, Annotated, Any, Literal

from archcli.api.asking.modules import ModuleOptions, RunOn, is_module
from archcli.api.asking.options import Depth, Optimizer
from archcli.api.asking.question import Option
from archcli.errors import ArchError, describe_argument, quote
from archcli.graph import Row
from archcli.load.hub.module_names import ModuleName
from archcli.measure.report import Report
from archcli.modules.spec.calls import bound
from archcli.wings.running.profile.summary import (
    flops_report,
    params_report,
    show_report,
    summary_report,
    uncounted_calls,
)
from archcli.wings.running.recording.own import ModuleRun
from archcli.wings.serving.api.engine import engine_of
from archcli.wings.serving.api.known_device.known import device_memory

if TYPE_CHECKING:
    from archcli.wings.running.runtime.own.run import OwnCall

RunPhase = Annotated[Literal["forward", "train"], Option("A forward, or a forward with its backward.")]
Module = Annotated[
    str,
    Option(
        "pkg.module:function, which returns a torch.nn.Module or (module, inputs); py: looks here too.",
        metavar="MODULE",
        completes="own_modules",
        argument=True,
    ),
]
OwnPhase = Annotated[Literal["forward", "train"] | None, Option("Without it a forward.")]


@dataclass(frozen=True)
class SummaryOptions:
    """Options of `archcli summary`."""

    module: Module
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
    optimizer: Optimizer = "adamw-mixed"
    device: str | None = None
    memory: str | int | None = None


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
    **by_name: Any,
) -> Report:
    """Parameters, shapes and FLOPs of any nn.Module by its modules: the report of `archcli summary`.

    It is run once on fake tensors, so that no weight is read and nothing is computed. `inputs` and `by_name`
    are what its forward takes, `named` those whose names are options here. A text such as "int64[1,2048]"
    stands for a tensor, and so does a shape, (1, 2048): of ids where the first layer is an embedding. Equal
    layers stand once, cut after `depth` steps of a path. `phase="train"` counts the backward of the output's
    sum, or of the `loss` of it. `call` is another method, `run_on` "cpu" runs on real tensors, and
    `allow_uncounted` notes products without a formula in place of an error.

    Example: `summary(build("gpt2", device="meta"), "int64[1,8]").totals["params"]` is 124,439,808.
    """
    options = {"depth": depth, "phase": phase, "call": call, "run_on": run_on}
    question = question_of("summary", {**options, "allow_uncounted": allow_uncounted})
    args, kwargs = inputs, {**by_name, **(named or {})}
    if "inputs" in kwargs and not args and not _takes_inputs(module, call):
        args, more = split(kwargs.pop("inputs"))
        kwargs |= more
    return answer("summary", _call(module, args, kwargs, question, loss), question)


def _takes_inputs(module: Any, call: str) -> bool:
    """Whether a method has an argument called `inputs`; else that name is what `memory` and others take."""
    method = getattr(module, call) if hasattr(module, call) else None
    return callable(method) and "inputs" in signature(method).parameters


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
    args, kwargs = split(inputs)
    options = {"phase": phase, "call": call, "run_on": run_on, "allow_uncounted": allow_uncounted}
    question = question_of("rows", options)
    return list(_counted(_call(module, args, kwargs, question, loss), question).rows)


def of_module(
    command: str,
    module: Any,
    inputs: Any = None,
    *more: Any,
    loss: Callable[..., Any] | None = None,
    **options: Any,
) -> Report:
    """What params, flops, memory, show and profile answer of a module and its inputs, in Python."""
    if more:
        raise ArchError("several inputs are given side by side", "give them in a tuple: (x, y)")
    question = question_of(command, options)
    return answer(command, _call(module, *split(inputs), question, loss), question)


def question_of(command: str, options: Mapping[str, Any]) -> ModuleQuestion:
    """The question of a command, with its usual values. Raises ArchError for options of architectures."""
    taken = {*TAKEN[command], "call", "run_on", "allow_uncounted"}
    refused = [name for name in options if name not in taken]
    if refused:
        hint = f"of a module of yours {command} takes {', '.join(sorted({*taken, 'loss'}))}"
        raise ArchError(f"{command} takes no {quote(refused[0])} of a module of yours", hint)
    usual = {"phase": "train"} if command == "memory" else {}
    if command == "profile":
        usual["run_on"] = "cpu"
    return ModuleQuestion(**bound(ModuleQuestion, (), {**usual, **options}, command).arguments)


def split(inputs: Any) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """(positional, named) inputs of what a caller gives as inputs."""
    if inputs is None:
        return (), {}
    if isinstance(inputs, Mapping):
        return (), inputs
    several = isinstance(inputs, list | tuple) and not _is_shape(inputs)
    return (tuple(inputs), {}) if several else ((inputs,), {})


def _is_shape(value: Any) -> bool:
    """Whether it is the shape of a tensor, as torchinfo takes it: (1, 256)."""
    return isinstance(value, list | tuple) and bool(value) and all(type(size) is int for size in value)


def _call(
    module: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    question: ModuleQuestion,
    loss: Callable[..., Any] | None,
) -> OwnCall:
    """The call of a module that Python gives. Raises ArchError for anything else."""
    if isinstance(module, type):
        raise ArchError(f"{quote(module.__name__)} is a class", f"give a module: {module.__name__}(...)")
    if not is_module(module):
        what = f"{describe_argument(module)} is no torch.nn.Module"
        raise ArchError(what, "give the module itself; of an architecture ask params, flops or show")
    if loss is not None and not callable(loss):
        raise ArchError(f"loss is {describe_argument(loss)}, no function", "it takes the output")
    return call_of(module, args, kwargs, type(module).__module__, question, loss)


def _named(named: ModuleName, inputs: Sequence[str], question: ModuleQuestion) -> OwnCall:
    """Import a module and prepare its call, with the inputs of the question or its own."""
    from archcli.wings.running.runtime.dtypes import require_device
    from archcli.wings.running.runtime.own.inputs import moved
    from archcli.wings.running.runtime.own.source import module_named

    require_device(question.run_on)
    named_module = module_named(named.name, question.run_on, here=named.here)
    args, kwargs = (inputs, {}) if inputs else (named_module.args, named_module.kwargs)
    call = call_of(named_module.module, args, kwargs, named.name, question)
    return moved(call) if question.run_on == "cuda" else call


def call_of(
    module: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    source: str,
    question: ModuleQuestion,
    loss: Callable[..., Any] | None = None,
) -> OwnCall:
    """The call of a module with tensors in place of the texts that state them."""
    from archcli.wings.running.runtime.own.inputs import filled
    from archcli.wings.running.runtime.own.run import OwnCall

    how = (question.call, question.phase or "forward", question.run_on)
    args = [f"[{','.join(map(str, value))}]" if _is_shape(value) else value for value in args]
    return filled(OwnCall(module, tuple(args), kwargs, source, *how, loss))


def _counted(call: OwnCall, question: ModuleQuestion) -> ModuleRun:
    """The run. Raises ArchError for products without a formula, unless they are allowed."""
    from archcli.wings.running.runtime.own.run import run_module

    run = run_module(call)
    if run.uncounted and not question.allow_uncounted:
        raise ArchError(
            f"no formula for {uncounted_calls(run)}: FLOPs are not known",
            "--allow-uncounted (allow_uncounted=True) counts the rest, and says so; register_flop_formula of "
            "torch.utils.flop_counter gives an operation one",
        )
    return run


def answer(command: str, call: OwnCall, question: ModuleQuestion) -> Report:
    """The report of a command on a call."""
    if command == "memory":
        return _memory(call, question)
    if command == "profile":
        return _profiled(call, question)
    if command == "flops":
        return flops_report(_counted(call, question))
    if command == "summary":
        return summary_report(_counted(call, question), question.depth)
    from archcli.wings.running.runtime.own.run import run_module, weights_of

    if command == "show":
        return show_report(run_module(call))
    return params_report(weights_of(call), question.depth)


def _memory(call: OwnCall, question: ModuleQuestion) -> Report:
    from archcli.wings.running.profile.own_memory import memory_report  # of memory alone
    from archcli.wings.running.runtime.own.run import run_module

    device = device_memory(question.device, question.memory)
    margin = engine_of("none").training_margin
    return memory_report(run_module(call, memory=True), question.optimizer, device, margin)


def _profiled(call: OwnCall, question: ModuleQuestion) -> Report:
    from archcli.wings.running.profile.own_module import profile_report
    from archcli.wings.running.runtime.own.timing import timed_module

    for option, device in (("device", question.device), ("run_on", question.run_on)):
        if device not in {None, "cpu"}:
            what = f"a module of yours is profiled on a CPU, and {option} is {quote(device or '')}"
            raise ArchError(what, "leave it out")
    return profile_report(timed_module(call, question.pairs))


TAKEN = {
    "params": ("depth",),
    "flops": ("phase",),
    "memory": ("phase", "optimizer", "device", "memory"),
    "profile": ("phase", "pairs", "device"),
    "rows": ("phase",),
    "show": (),
    "summary": ("depth", "phase"),
}
"""Options of a command that mean something of a module; all others are of architectures."""


def of_named(
    command: str,
    named: ModuleName,
    options: Any,
    running: ModuleOptions,
    extra: Mapping[str, Any] | None = None,
) -> Report:
    """The answer of a command about a named module. Raises ArchError for options of architectures.

    `extra` are options of the command that its record does not hold, by name.
    """
    what = f"is for an architecture, and {named.name} is a module of yours"
    question = stated_question(command, options, running, extra or {}, what)
    from archcli.wings.running.recording.own import only_here

    # before torch is imported, which takes seconds
    named = named._replace(here=only_here(named.name, here=named.here))
    from archcli.wings.running.runtime.own.inputs import input_form
    from archcli.wings.running.runtime.own.source import prints_to_errors

    for text in running.input:
        input_form(text)  # before anything is imported
    with prints_to_errors():
        return answer(command, _named(named, running.input, question), question)


def stated_question(
    command: str, options: Any, running: ModuleOptions, extra: Mapping[str, Any], what: str
) -> ModuleQuestion:
    """The question of a command line. Raises ArchError, with `what`, for options of architectures."""
    usual = {f.name: f.default for f in fields(options) if f.default is not MISSING}
    values = {name: getattr(options, name) for name in usual}
    set_ones = [name for name, value in values.items() if value != usual[name] and name not in TAKEN[command]]
    set_ones += [name for name, value in extra.items() if value]
    if set_ones:
        raise ArchError(f"--{set_ones[0].replace('_', '-')} {what}", "leave it out")
    taken = {name: values[name] for name in TAKEN[command] if values[name] is not None}
    how = {"call": running.call, "allow_uncounted": running.allow_uncounted}
    how |= {} if command == "profile" and running.run_on == "meta" else {"run_on": running.run_on}
    return question_of(command, {**how, **taken})
