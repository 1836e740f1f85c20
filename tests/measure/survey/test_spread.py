"""What a survey makes of many models: medians, years, an order, the columns asked for."""

import pytest

from archcli.errors import ArchError
from archcli.measure.survey.columns import COLUMNS
from archcli.modules import (
    GLU,
    Decoder,
    Group,
)
from small import decoder, layer
from surveying import survey_models
from table import every_row


def widths(*sizes):
    return [
        (f"m{i}", decoder(Group(n_layers=1, layer=layer(ffn=GLU(d_ff=d_ff))))) for i, d_ff in enumerate(sizes)
    ]


@pytest.mark.parametrize(
    ("sizes", "spread"),
    [
        ((40, 8, 32, 16, 24), {"n": 5, "min": 8, "q1": 16, "median": 24, "q3": 32, "max": 40}),
        (
            (8, 16, 24, 32),
            {"n": 4, "min": 8, "q1": 8 + 0.75 * 8, "median": 20, "q3": 24 + 0.25 * 8, "max": 32},
        ),
        ((8, 16, 24, 34), {"n": 4, "min": 8, "q1": 14, "median": 20, "q3": 26.5, "max": 34}),
        ((8,), dict.fromkeys(("min", "q1", "median", "q3", "max"), 8) | {"n": 1}),
    ],
)
def test_medians_and_quartiles(sizes, spread):
    found = survey_models(widths(*sizes)).totals["spread"]["d_ff"]
    assert {key: found[key] for key in spread} == spread
    assert all(isinstance(found[key], int) == (value % 1 == 0) for key, value in spread.items())


def test_a_year_has_a_spread_of_its_own(monkeypatch):
    released = {"m0": "2023-07", "m1": 2023, "m2": "2024-01", "m3": None}
    monkeypatch.setattr(Decoder, "released", property(lambda self: released.get(self.name)), raising=False)
    models = [(name, model.replace(name=name)) for name, model in widths(8, 16, 24, 80)]
    report = survey_models(models, ["d_ff"], by="year")
    assert [(row["year"], row["n"], row["median"]) for row in report.rows] == [
        (2023, 2, 12),
        (2024, 1, 24),
        ("not stated", 1, 80),
    ]
    assert report.totals["spread"]["d_ff"]["median"] == 20
    assert [record["year"] for record in report.tables[0].records] == ["2023", "2024", "not stated"]
    shown = survey_models(models, ["year"], where=["year>=2024"])
    assert (shown.rows[0]["year"], shown.tables[0].records[0]["year"]) == (2024, "2024")
    assert report.tables[0].footer["year"] == "all"


def names(report):
    return [row["name"] for row in report.rows]


def test_chosen_and_in_order():
    models = widths(40, 8, 32, 16)
    assert names(survey_models(models, where=["d_ff>=16", "d_ff_ratio<5"], sort="d_ff:desc")) == ["m2", "m3"]
    assert names(survey_models(models, sort="d_ff")) == ["m1", "m3", "m2", "m0"]
    assert names(survey_models(models, where=["attention=GQA", "pattern~ul", "name!=m0"])) == [
        "m1",
        "m2",
        "m3",
    ]
    assert names(survey_models(models, where=["params>1M"])) == []
    assert names(survey_models(models, where=["n_experts!=none"])) == []
    assert names(survey_models(models, where=["n_experts=none", "tied=false", "d_ff<=8"])) == ["m1"]


def test_columns_are_those_asked_for():
    report = survey_models(widths(8), ["d_ff", "pattern"])
    assert [list(row) for row in report.rows] == [["name", "d_ff", "pattern", "mixed"]]
    assert list(report.totals["spread"]) == ["d_ff"]


def test_all_columns_are_in_the_data():
    assert [*survey_models(widths(8)).rows[0]] == ["name", *COLUMNS, "mixed"]


@every_row(
    ("options", "said"),
    [
        ({"columns": ["parms"]}, "--columns: unknown column 'parms'; did you mean params?"),
        ({"sort": "parms:desc"}, "--sort:1:8: unknown column 'parms'; did you mean params?"),
        ({"sort": "params:up"}, "unknown order 'up'"),
        ({"where": ["params"]}, "--where:1:9: 'params' is not a condition"),
        ({"where": ["params>>3"]}, "'params>>3' is not a condition"),
        ({"where": ["parms>3", "d_f<2"]}, "unknown column 'd_f'"),
    ],
)
def test_an_unknown_column_is_an_error(options, said):
    with pytest.raises(ArchError) as error:
        survey_models([], **options)
    assert said in str(error.value)
    assert len(error.value.problems) == len(options.get("where", [0]))
