"""Columns of recurrent layers: how many layers mix how, what their states take, and conditions on them."""

import pytest

from archcli.load.source import load, load_text
from archcli.measure.survey.columns import describe
from archcli.measure.survey.compare.differences import ModelSettings
from archcli.measure.survey.compare.report import Compared, compare_models
from archcli.measure.survey.show import list_rows
from combinations.hybrids import HYBRIDS, hybrid
from surveying import survey_models
from table import sampled_rows

H, P, N, G, K, Q = 4, 6, 5, 2, 3, 4
STATE = H * P * N + K * (H * P + 2 * G * N)
LINEAR_STATE = 4 * (4 * 4 + 4)
GPT2 = load("gpt2").model


def described(name):
    return describe(name, load_text(hybrid(name), name).model)


@pytest.mark.parametrize(
    ("name", "mixers", "share", "state"),
    [
        ("mamba2", "2 mamba2", 0, 2 * STATE),
        ("bamba", "4 mamba2 + 2 gqa", 2 / 6, 4 * STATE),
        ("nemotron-h", "4 mamba2 + 2 gqa", 2 / 6, 4 * STATE),
        ("latent", "4 linear + 2 mla", 2 / 6, 4 * LINEAR_STATE),
        ("networks-alone", "2 linear", 0, 2 * LINEAR_STATE),
    ],
)
def test_mixers_by_layer_and_what_their_states_take(name, mixers, share, state):
    found = described(name)
    assert (found["mixers"], found["attention_share"], found["state_bytes"]) == (mixers, share, 2 * state)


def test_sizes_of_the_state_are_those_of_the_recurrent_layers():
    found = described("bamba")
    keys = ("state_heads", "state_dim", "state_head_dim", "conv_kernel", "scan_chunk")
    assert tuple(found[key] for key in keys) == (H, N, P, K, Q)
    assert (found["n_heads"], found["n_kv_heads"], found["head_ratio"]) == (4, 2, 4 * 6 / 16)


def test_a_model_of_attention_has_none_of_it():
    found = describe("gpt2", GPT2)
    keys = ("mixers", "attention_share", "state_bytes", "state_heads", "state_dim", "conv_kernel")
    assert {found[key] for key in keys} == {None}


def models(*names):
    return [(name, load_text(hybrid(name), name).model) for name in names]


@pytest.mark.parametrize(
    ("condition", "names"),
    [
        ("attention_share<0.4", ["mamba2", "bamba"]),
        ("attention_share=none", ["gpt2"]),
        ("state_bytes>0", ["mamba2", "bamba", "windows"]),
        ("mixers~gqa", ["bamba", "windows"]),
        ("state_dim=5", ["mamba2", "bamba", "windows"]),
    ],
)
def test_conditions_on_them(condition, names):
    listed = [*models("mamba2", "bamba", "windows"), ("gpt2", GPT2)]
    assert [row["name"] for row in survey_models(listed, where=[condition]).rows] == names


def test_a_section_of_the_models_that_have_states():
    tables = {table.title: table for table in survey_models([*models("bamba"), ("gpt2", GPT2)]).tables}
    assert [record["name"] for record in tables["Recurrence"].records] == ["bamba"]
    assert "Recurrence" not in {table.title for table in survey_models([("gpt2", GPT2)]).tables}


def compared(*names):
    listed = [*models(*names), ("gpt2", GPT2)]
    report = compare_models(
        [Compared(name, name, ModelSettings(model, {})) for name, model in listed], context=100
    )
    return {row["key"]: row for row in report.rows}


def test_compare_shows_what_is_constant_and_how_many_layers_attend():
    rows = compared("bamba")
    assert (rows["state_bytes"]["value_1"], rows["state_bytes"]["value_2"]) == (2 * 4 * STATE, 0)
    assert rows["kv_bytes"]["value_1"] == 2 * (4 * STATE + 2 * 100 * 2 * 2 * 6)
    assert rows["attention_share"]["value_1"] == 2 / 6
    assert rows["mixers"]["value_1"] == "4 mamba2 + 2 gqa"


@sampled_rows("name", HYBRIDS, 4)
def test_show_lists_the_sizes_of_every_recurrent_layer(name):
    report, layers = list_rows(load_text(hybrid(name), name).model), HYBRIDS[name]
    shown = report.totals["recurrences"]
    # layers that are stated alike stand once, as the first of them
    assert [entry["path"] for entry in shown] == [
        f"layers.{i}"
        for i, layer in enumerate(layers)
        if any(word in layer for word in ("mixer: ", "kind: conv_gqa", "kind: cca"))
        and layer not in layers[:i]
    ]
    mamba = {"n_heads": H, "key_dim": N, "value_dim": P, "n_groups": G, "chunk": Q, "conv_kernel": K}
    for entry in shown:
        if entry["mixer"] == "mamba2":
            assert {key: entry[key] for key in mamba} == mamba
    assert (report.tables[-1].title == "Recurrent layers") is bool(shown)
    assert [table.title for table in list_rows(GPT2).tables] == ["Forward"]
