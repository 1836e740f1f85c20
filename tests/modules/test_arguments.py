"""What the public functions refuse, and in which words."""

import re
from inspect import signature

import numpy as np
import pytest
import typer

import archcli
from archcli.commands.flops import run
from archcli.commands.line.parameters import as_command
from archcli.errors import ArchError
from table import every_row

FUNCTIONS = (
    archcli.build,
    archcli.compare,
    archcli.count_flops,
    archcli.count_kv_cache,
    archcli.count_params,
    archcli.formula,
    archcli.register,
    archcli.survey,
    archcli.sweep,
)
GPT2 = archcli.load("gpt2")


@every_row(
    ("call", "message"),
    [
        (
            lambda: archcli.count_flops(GPT2, seq_len=-5),
            "count_flops: seq_len must be a whole number above 0",
        ),
        (lambda: archcli.count_flops(GPT2, mla="nope"), "count_flops: mla must be"),
        (lambda: archcli.count_flops(GPT2, mask="none"), 'mask must be exact or dense, not "none"'),
        (lambda: archcli.count_flops(GPT2, {"seq_len": 3}), "request must be a Request, not a dict"),
        (
            lambda: archcli.count_flops(GPT2, archcli.Request(), seq_len=2048),
            "seq_len stands beside a request; state it in the Request alone",
        ),
        (
            lambda: archcli.count_flops(GPT2, archcli.Request(seq_len=np.array([3]))),
            "request must hold whole numbers: archcli.formula counts in symbols",
        ),
        (archcli.count_flops, "count_flops: missing a required argument: 'model'"),
        (lambda: archcli.count_flops(GPT2, None, 3), "count_flops: too many positional arguments"),
        (lambda: archcli.count_kv_cache(GPT2, -100), "context must be a whole number above 0, not -100"),
        (lambda: archcli.count_kv_cache(GPT2, 0), "context must be a whole number above 0, not 0"),
        (lambda: archcli.count_kv_cache(GPT2, memory="80k"), "write KiB (powers of 1,024)"),
        (lambda: archcli.count_kv_cache(GPT2, memory=-1), "memory must be a whole number of at least 0"),
        (lambda: archcli.count_params(GPT2, "nope"), "count_params: unknown dtype 'nope'"),
        (lambda: archcli.count_params(GPT2, 16), "dtype must be text, not 16"),
        (lambda: archcli.count_params(GPT2, depth=-1), "depth must be a whole number of at least 0, not -1"),
        (
            lambda: archcli.count_params(GPT2, depth=True),
            "a whole number of at least 0, not True",
        ),
        (lambda: archcli.count_flops(GPT2, batch_size=float("nan")), "above 0, not nan"),
        (lambda: archcli.count_flops(GPT2, batch_size=float("-inf")), "above 0, not -inf"),
        (lambda: archcli.count_flops(GPT2, batch_size={"n": 3}), "above 0, not a dict"),
        (lambda: archcli.count_flops(GPT2, batch_size=(3,)), "above 0, not a tuple"),
        (lambda: archcli.count_flops(GPT2, phase=None), "train, prefill or decode, not None"),
        (lambda: archcli.count_flops(GPT2, sp="yes"), 'sp must be True or False, not "yes"'),
        (lambda: archcli.count_memory(GPT2, plan=3), "plan must be a dict from names, not 3"),
        (
            lambda: archcli.count_memory(GPT2, plan={"dp": None}),
            "dp must be a whole number above 0, not None",
        ),
        (lambda: archcli.predict(GPT2, "h100-sxm", price_per_hour=float("nan")), "not nan"),
        (lambda: archcli.Request(forms=3), "forms must be a dict, each value text, not 3"),
        (lambda: archcli.count_params(7), "an int is no architecture"),
        (lambda: archcli.survey(GPT2, columns="params"), 'columns must be a list, each text, not "params"'),
        (lambda: archcli.survey(GPT2, where=[3]), "where.0 must be text, not 3"),
        (lambda: archcli.survey(GPT2, sort=3), "sort must be text, not 3"),
        (lambda: archcli.survey(GPT2, by="month"), 'by must be year or series, not "month"'),
        (lambda: archcli.compare(GPT2), "compare needs two models or more"),
        (lambda: archcli.compare(GPT2, GPT2, context=0), "context must be a whole number above 0, not 0"),
        (lambda: archcli.formula(GPT2, seq_len=0), "formula: seq_len must be a whole number above 0, not 0"),
        (lambda: archcli.sweep(GPT2, 5), "values must be a dict from names, not 5"),
        (lambda: archcli.sweep(GPT2, {1: [1]}), "values must be a dict from names"),
        (lambda: archcli.sweep(GPT2, vary=3), "vary must be a list of texts, not 3"),
        (lambda: archcli.sweep(GPT2, vary="d_ff=8", top=0), "top must be a whole number above 0, not 0"),
        (lambda: archcli.sweep(GPT2, vary="d_ff=8", check=1), "check must be True or False, not 1"),
        (lambda: archcli.sweep(GPT2, vary="d_ff=8", write_yaml=3), "write_yaml must be a folder, not 3"),
        (
            lambda: archcli.load("gpt2", "d_ff=4"),
            (
                "load: overrides must be a list, each text, or a dict, each value True or False, "
                'or a whole number, or a number, or text, not "d_ff=4"'
            ),
        ),
        (lambda: archcli.load("gpt2", override=["d_ff=4"]), "did you mean overrides?"),
        (lambda: archcli.build(GPT2, attention="flash"), 'attention must be sdpa or eager, not "flash"'),
        (lambda: archcli.register("mamba", 4), "place must be text, not 4"),
        (
            lambda: archcli.register("mamba", "mamba.py"),
            "'mamba.py' is no place of a class",
        ),
        (lambda: archcli.register("", "a:B"), "'' is no name of a kind"),
    ],
)
def test_a_value_that_an_argument_does_not_take_is_refused(call, message):
    with pytest.raises(ArchError, match=re.escape(message)):
        call()


@every_row("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_an_unknown_argument_names_those_near_it(function):
    known = [
        name for name, each in signature(function).parameters.items() if each.kind is not each.VAR_POSITIONAL
    ]
    near = known[-1]
    with pytest.raises(ArchError) as refused:
        function(**{near + "s": 1})
    assert len(str(refused.value).splitlines()) == 1
    assert str(refused.value).startswith(
        f"{function.__name__}: unknown argument '{near}s'; did you mean {near}"
    )


def test_everything_wrong_in_a_call_is_said_at_once():
    with pytest.raises(ArchError) as refused:
        archcli.count_flops("no such model", phase="warp", seq_len=1.5, mask=3)
    assert [str(problem).split()[1] for problem in refused.value.problems] == ["seq_len", "phase", "mask"]


@pytest.mark.parametrize("name", ["batch_size", "seq_len", "source_len"])
def test_both_doors_say_the_same(name):
    with pytest.raises(ArchError) as refused:
        archcli.count_flops(GPT2, **{name: 0})
    parse = signature(as_command(run)).parameters[name].annotation.__metadata__[0].parser
    with pytest.raises(typer.BadParameter) as option:
        parse("0")
    assert refused.value.problems[0].what == str(option.value)
    assert parse("8k") == 8000


def test_whole_numbers_of_numpy_are_taken():
    counted = archcli.count_flops(GPT2, batch_size=np.int64(2), seq_len=np.int32(7))
    assert counted.totals == archcli.count_flops(GPT2, batch_size=2, seq_len=7).totals
    assert type(counted.inputs["seq_len"]) is int


@pytest.mark.torch
def test_dtypes_of_torch_are_taken():
    import torch

    assert archcli.count_params(GPT2, torch.float32).totals["bytes"] == 4 * 124_439_808
