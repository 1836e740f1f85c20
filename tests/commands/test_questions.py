"""A question is stated once: the command, the Python function and the records of `measure` agree with it."""

from dataclasses import dataclass, fields
from inspect import signature

import pytest

import archcli
from archcli.api.asking.modules import ModuleOptions
from archcli.api.asking.question import part
from archcli.api.check import CheckOptions
from archcli.api.compare import CompareOptions
from archcli.api.survey import SurveyOptions
from archcli.commands.line.names import COMMANDS, place_of
from archcli.modules.spec.values import bare, hints
from archcli.plugins import imported
from archcli.wings.serving.api.memory import MemoryOptions
from archcli.wings.serving.api.plan_options import PlanOptions
from archcli.wings.serving.api.predict import PredictOptions
from archcli.wings.serving.api.programs.trainer import USUAL
from archcli.wings.serving.memory.plan import Plan
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.predict.answers.question import PredictSettings
from archcli.wings.shapes.api.scale import ScaleOptions
from archcli.wings.shapes.api.sweep_question import SweepOptions
from archcli.wings.shapes.scale.solve import ScaleSettings
from table import every_row

FUNCTIONS = {"list": "presets", "rules": "design_rules", "rule": "design_rules", "schema": "yaml_schema"}
"""Python functions by their command, where the name is another."""
OF_THE_LINE = {"overrides", "form", "as_json", "output"}
LINE_ALONE = {
    "check": {"statistics_only", "suggest", "exit_zero", "strict_files", "severity"},
    "devices": {"this"},
    "fit": {"on", "plot"},
    "memory": {"plot"},
    "plot": {"as_json"},
    "predict": {"plot"},
    "report": {"opened"},
    "profile": {"context", "repeat_process", "allocator", "tp", "dp", "plot", "trace"},
    "scale": {"write_yaml"},
    "schema": {"of"},
    "survey": {"no_presets"},
}
"""Options about the process, its exit code and its files, and of presets beside models."""


SERVES = {"mcp"}
"""Commands that answer nothing themselves."""


@every_row("command", [name for name in COMMANDS if name not in SERVES])
def test_a_function_has_the_options_of_its_command(command):
    run = imported(place_of(command))
    function = getattr(archcli, FUNCTIONS.get(command, command))
    options = set(signature(run).parameters) - LINE_ALONE.get(command, set())
    options -= OF_THE_LINE if command != "plot" else set()
    # in Python these stand beside a module in place of a model
    options -= {field.name for field in fields(ModuleOptions)}
    assert options <= set(signature(function).parameters)


@pytest.mark.parametrize(
    ("function", "record", "beside"),
    [
        (archcli.check, CheckOptions, {"severity"}),
        (archcli.compare, CompareOptions, set()),
        (archcli.survey, SurveyOptions, {"no_presets"}),
        (archcli.sweep, SweepOptions, set()),
    ],
    ids=["check", "compare", "survey", "sweep"],
)
def test_a_signature_that_is_written_out_is_that_of_its_record(function, record, beside):
    """Functions of several models, and sweep, which has two signatures."""
    stated = signature(function).parameters
    for field in fields(record):
        if field.name not in {*beside, "model"}:
            assert stated[field.name].default == field.default
            assert stated[field.name].annotation == bare(hints(record)[field.name])


@pytest.mark.parametrize(
    ("question", "record", "others"),
    [
        (
            MemoryOptions,
            MemorySettings,
            {
                "phase",
                "cache_dtype",
                "past",
                "engine",
                "dtype",
                "media",
                "split",
                "optimizer",
                "trained",
                "verifies",
            },
        ),
        (PlanOptions, Plan, set()),
        (PredictOptions, PredictSettings, {"new", "dtype", "engine"}),
        (ScaleOptions, ScaleSettings, set()),
    ],
    ids=["memory", "plan", "predict", "scale"],
)
def test_what_is_left_out_is_the_same_for_whoever_asks(question, record, others):
    usual = {field.name: field.default for field in fields(question)}
    usual |= {name: value for name, value in USUAL.items() if usual.get(name, "") is None}
    for field in fields(record):
        if field.name not in others:
            assert usual[field.name] == field.default


def test_an_option_that_is_renamed_in_one_place_is_not_lost():
    @dataclass(frozen=True)
    class Renamed:
        dp: int = 8

    with pytest.raises(AttributeError, match="zero"):
        part(Renamed(), Plan)


def test_a_plan_is_stated_once():
    whole = archcli.memory("gpt2", dp=8, zero=3)
    assert whole.totals == archcli.memory("gpt2", plan={"dp": 8, "zero": 3}).totals
    with pytest.raises(archcli.ArchError, match="dp stands beside plan"):
        archcli.memory("gpt2", dp=8, plan={"dp": 4})
