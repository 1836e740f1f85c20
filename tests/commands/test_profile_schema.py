"""`archcli schema --of profile`.

What it says, and that all that is printed fits it, interrupted runs included.

The fixtures `cli` and `archcli` hold every document of every test against it; here are the forms that no
other test prints.
"""

import json
from importlib import import_module

import pytest
from jsonschema import ValidationError

from archcli.wings.running.api.profiling.program import inputs_of
from archcli.wings.running.api.profiling.program_options import ProgramOptions
from archcli.wings.running.api.profiling.program_prediction import beside_prediction
from archcli.wings.running.profile.program.report import program_report
from archcli.wings.running.recording.program import CountedStep, PlacedTime, ProgramRecording
from archcli.wings.running.runtime.profile import record as profile
from archcli.wings.running.runtime.profile import variants as profile_variants
from archcli.wings.serving.recorded.schema import first_violation, is_comparison, json_schema, keys
from conforming import validator

LATER = {"disturbance", "warnings"}
"""Keys of totals that profiles saved by an earlier archcli lack."""
RUNS = {
    "forward": (),
    "training": ("--phase", "train"),
    "by kinds of layer": ("--per-kind",),
    "cut": ("--layers", 1, "--set", "d_ff=40"),
    "compared": ("--vs", "norm.kind=layernorm", "--set", "d_ff=40"),
}


@pytest.fixture
def printed(cli, tiny):
    """printed("--per-kind"): (exit code, the document)."""

    def run(*args):
        done = cli("profile", tiny, "-s", 8, "--threads", 1, "--json", *args)
        return done.code, json.loads(done.out)

    return run


@pytest.fixture
def interrupted(monkeypatch):
    """Ctrl-C before the third pair or round of passes."""
    honest = profile.rounds

    def stopping(*args, **options):
        for i in honest(*args, **options):
            if i == 2:
                raise KeyboardInterrupt
            yield i

    for module in (profile, profile_variants):
        monkeypatch.setattr(module, "rounds", stopping)


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("args", RUNS.values(), ids=RUNS)
def test_what_is_printed_fits(printed, args):
    code, document = printed(*args, "--pairs", 1, "--no-ceilings")
    assert code == 0
    assert first_violation(document) is None


@pytest.mark.long
@pytest.mark.parametrize("args", [RUNS["forward"], RUNS["compared"]], ids=["one", "compared"])
def test_what_is_printed_of_an_interrupted_run_fits(printed, interrupted, args):
    code, document = printed(*args, "--pairs", 5)
    assert code == 130
    assert document["totals"]["partial"] is True
    assert first_violation(document) is None


@pytest.mark.long
def test_the_schema_names_every_key_with_a_meaning():
    assert [key for key in keys() if len(key["meaning"]) < 5] == []
    for record in json_schema()["$defs"].values():
        assert record["additionalProperties"] is False
        assert record["description"]


@pytest.mark.long
def test_what_the_reports_are_made_of_is_what_is_required(printed):
    _, document = printed("--pairs", 1)
    totals = json_schema()["$defs"]["Totals"]
    assert set(totals["required"]) | LATER == set(document["totals"])
    assert (
        set(totals["properties"]) - set(totals["required"])
        == {
            "wall_s_range",
            "wall_s_sd",
            "estimates",
            "kinds",
            "prediction",
            "ends",
            "ranks",
            "communication",
            "by_part",
            "media",
        }
        | LATER
    )


@pytest.mark.long
def test_a_profile_saved_before_they_were_there_still_fits(printed):
    _, document = printed("--pairs", 1)
    for key in LATER:
        del document["totals"][key]
    assert first_violation(document) is None


WATCHED = ProgramRecording(
    steps=9,
    plain_s=(1.0,),
    traced_s=(1.0,),
    placed=(PlacedTime("up", "forward", "addmm", "contraction", 0.5, 2),),
    modules={"up": "Linear"},
    counted=CountedStep(8, 1, {("up", "forward", "contraction"): 8}, {"fp32": 8}, {"lstm": 1}),
    tokens=(2, 4),
    optimizers=("AdamW",),
)
"""A recording by hand; programs that run are in test_profile_program.py."""


@pytest.mark.parametrize("recording", [WATCHED, ProgramRecording(traced_s=(1.0,))], ids=["usual", "empty"])
def test_the_report_of_a_program_fits(recording):
    asked = ProgramOptions(against_prediction="gpt2", device="h100-sxm", batch_size=2, seq_len=4)
    report = program_report(recording, ["python", "train.py"], inputs_of(asked), {})
    document = beside_prediction(report, recording, asked).to_dict()
    assert document["totals"]["prediction"]["device"] == "h100-sxm"
    assert first_violation(document) is None
    validator().validate(document)


@pytest.fixture
def module_profile(cli, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "profiled_mlp.py").write_text("from torch import nn\nmlp = nn.Linear(4, 4)\n")
    done = cli("profile", "profiled_mlp:mlp", "--input", "input=fp32[2,4]", "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_the_report_of_a_module_fits(module_profile):
    assert first_violation(module_profile) is None
    assert module_profile["rows"][0]["op"] == "Linear"


def test_plot_draws_the_profile_of_a_module(module_profile, cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.json").write_text(json.dumps(module_profile))
    done = cli("plot", "m.json", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["totals"] == {"file": "profile.svg"}
    assert "Linear: where the time goes" in (tmp_path / "profile.svg").read_text()


def test_a_drawing_takes_the_profile_of_an_architecture_alone(module_profile, cli, tmp_path):
    (tmp_path / "m.json").write_text(json.dumps(module_profile))
    done = cli("draw", "gpt2", "--show", "time", "--profile", tmp_path / "m.json")
    assert (done.code, done.out) == (2, "")
    assert "a profile of Linear, and not of an architecture" in done.err


MISTAKES = {
    "totals": (lambda one: one.pop("totals"), "totals: missing"),
    "a class's share": (
        lambda one: one["totals"]["by_class"]["contraction"].pop("time_share"),
        "totals.by_class.contraction.time_share: missing",
    ),
    "a number in words": (
        lambda one: one["totals"].update(wall_s="1 s"),
        'totals.wall_s: must be a number of at least 0, not "1 s"',
    ),
    "no number at all": (
        lambda one: one["totals"].update(wall_s=float("inf")),
        "totals.wall_s: must be a number of at least 0, not .inf",
    ),
    "an operator": (lambda one: one["rows"].append({"path": "x"}), "rows.{rows}.class: missing"),
    "a key nobody knows": (
        lambda one: one["inputs"].update(speed=3),
        "inputs.speed: unknown key",
    ),
}


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize(("spoil", "words"), MISTAKES.values(), ids=MISTAKES)
def test_plot_says_where_a_file_does_not_fit(printed, cli, tmp_path, spoil, words):
    _, document = printed("--pairs", 1, "--no-ceilings")
    words = words.format(rows=len(document["rows"]))
    spoil(document)
    (tmp_path / "p.json").write_text(json.dumps(document))
    done = cli("plot", tmp_path / "p.json", "-o", tmp_path / "p.svg")
    assert (done.code, done.out) == (2, "")
    assert f"no profile as archcli writes it: {words}" in done.err
    assert len(done.err.splitlines()) <= 2
    assert not (tmp_path / "p.svg").exists()
    if ".inf" not in words:  # which JSON itself has no word for
        with pytest.raises(ValidationError):
            validator().validate(document)


@pytest.mark.long
def test_plot_draws_one_model_and_no_comparison(printed, cli, tmp_path):
    for args, code in (((), 0), (RUNS["compared"], 2)):
        _, document = printed("--pairs", 1, *args)
        assert is_comparison(document) is bool(args)
        (tmp_path / "p.json").write_text(json.dumps(document))
        assert cli("plot", tmp_path / "p.json", "-o", tmp_path / "p.svg").code == code


@pytest.mark.long
def test_the_command_prints_the_schema_and_a_table_of_it(cli):
    assert json.loads(cli("schema", "--of", "profile").out) == json_schema()
    table = cli("schema", "--of", "profile", "--format", "csv").out
    assert table.splitlines()[0] == "record,key,takes,always,meaning"
    assert len(table.splitlines()) == 1 + len(list(keys()))
    assert (
        import_module("archcli.load.spec.schema").json_schema()["title"]
        == json.loads(cli("schema").out)["title"]
    )
