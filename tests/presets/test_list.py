"""The list of presets says of each what the oracle says of it, and can be asked for those of a kind."""

import json
from functools import cache

import pytest

from archcli.load.presets import presets
from archcli.load.source import load
from archcli.measure.survey.columns import CONDITIONS, describe
from archcli.measure.survey.presets import select
from presets.test_presets import ORACLE
from table import every_row, sampled_rows

NARROW = {"gemma-3-1b", "gpt-oss-20b", "deepseek-v4-flash", "deepseek-v4-pro"}
"""Whose windows, or first blocks, are full before the shortest context that is recorded.

Below it, a token adds to every layer.
"""


@cache
def rows():
    """What is said of each preset, by its name."""
    return {name: describe(name, load(name).model) for name in presets()}


@sampled_rows("name", ORACLE, 4)
def test_says_what_the_oracle_says(name):
    truth = ORACLE[name]
    assert {key: rows()[name][key] for key in ("params", "active_params")} == {
        key: truth[key] for key in ("params", "active_params")
    }
    if "kv_elements" in truth and name not in NARROW:
        context, elements = next(iter(truth["kv_elements"].items()))
        assert rows()[name]["kv_bytes_per_token"] * int(context) == 2 * elements


def test_a_token_adds_to_windows_that_are_not_full():
    assert rows()["gemma-3-1b"]["kv_bytes_per_token"] == 2 * 26 * 2 * 256
    assert rows()["gpt-oss-20b"]["kv_bytes_per_token"] == 2 * 24 * 2 * 8 * 64


def test_a_constant_state_does_not_grow():
    assert rows()["performer"]["kv_bytes_per_token"] == 0


def asked(*where):
    return {row["name"] for row in select(list(rows().values()), CONDITIONS, where)}


def test_can_be_asked_for_those_of_a_kind():
    deepseek = {
        "deepseek-r1",
        "deepseek-v2",
        "deepseek-v2-lite",
        "deepseek-v3",
        "deepseek-v3.1",
        "deepseek-v3.2",
    }
    assert asked("attention=mla", "series=deepseek") == deepseek
    assert asked("kind=encoder", "released<2019") == {"bert-base-uncased", "bert-large-uncased"}
    assert asked("series=t5", "params>10B") == {"t5-11b", "flan-t5-xxl"}
    assert asked("pattern=window", "series=gpt") == {"gpt-oss-20b", "gpt-oss-120b"}


# condition: the same in Python
ALIKE = {
    "params in 7B..9B": lambda row: 7 * 10**9 <= row["params"] <= 9 * 10**9,
    "params in 7e9+-10%": lambda row: 6_300_000_000 <= row["params"] <= 7_700_000_000,
    "100 <= aspect_ratio <= 150": lambda row: (
        100 * row["n_layers"] <= row["d_model"] <= 150 * row["n_layers"]
    ),
    "params/active_params > 3": lambda row: row["params"] > 3 * row["active_params"],
    "n_heads*head_dim = d_model": lambda row: row["head_ratio"] == 1,
    "2*n_kv_heads <= n_heads": lambda row: row["n_kv_heads"] and 2 * row["n_kv_heads"] <= row["n_heads"],
}


@every_row(("condition", "alike"), ALIKE.items(), ids=ALIKE)
def test_can_be_asked_for_ranges_and_ratios(condition, alike):
    chosen = asked(condition)
    assert chosen == {name for name, row in rows().items() if alike(row)}
    assert 1 < len(chosen) < len(rows())


def test_every_key_of_a_record_can_be_asked_for():
    assert {column.key for column in CONDITIONS} == rows()["gpt2"].keys() - {"mixed"}


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "condition",
    [
        "params==124439808",
        "theta>=1M",
        "kind=encoder",
        "layers>=40",
        "n_layers<12",
        "tied=yes",
        "pattern~window",
    ],
)
def test_list_and_survey_take_the_same_conditions_and_choose_the_same(archcli, condition):
    listed, surveyed = (
        {row["name"] for row in json.loads(archcli(*command, "--where", condition, "--json").stdout)["rows"]}
        for command in (["list"], ["survey", "--all", "--columns", "params"])
    )
    assert listed == surveyed == asked(condition) != set()


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "command",
    [
        ["list"],
        ["survey"],
        ["survey", "--columns", "params,ffn"],
        ["survey", "--by", "year"],
        ["check", "gpt2"],
    ],
    ids=" ".join,
)
def test_a_csv_of_no_rows_has_its_header(archcli, command):
    none = ["--select", "ATT001"] if "check" in command else ["--where", "params>10T"]
    some = [*command, "--format", "csv"]
    assert archcli(*some, *none).stdout == archcli(*some).stdout.splitlines(keepends=True)[0]


@pytest.mark.long
def test_the_command_answers_a_mistake(archcli):
    done = archcli("list", "--where", "parms>1B")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "--where: error: unknown column 'parms'",
        "    --where parms>1B",
        "            ^^^^^",
        "  = help: did you mean params?",
    ]


@pytest.mark.long
def test_nothing_found_is_said(archcli):
    done = archcli("list", "--where", "params>10T", "--json")
    assert json.loads(done.stdout)["notes"] == ["no preset meets the conditions."]
    assert json.loads(done.stdout)["rows"] == []
