"""`archcli scale`: what it reports, the YAML that it writes, budgets, and what it refuses."""

import json
import re
from pathlib import Path

import pytest

import archcli
from archcli.api.asking.subject import subject
from archcli.errors import ArchError
from archcli.wings.shapes.api.scale import ScaleOptions, scaled
from archcli.wings.shapes.scale.laws import LAWS
from covering import COVERING
from table import every_row


@pytest.fixture
def answered(cli):
    """The totals of a command line."""

    def run(*asked):
        done = cli("scale", *asked, "--json")
        assert (done.code, done.err) == (0, "")
        return json.loads(done.out)["totals"]

    return run


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("factor", [0.7, 1.9, 10])
@pytest.mark.parametrize("name", COVERING)
def test_the_yaml_has_the_parameters_that_are_reported(name, factor, tmp_path):
    base = archcli.count_params(name).totals["params"]
    try:
        answer = scaled(subject(name, []), ScaleOptions(name, round(base * factor)))
    except ArchError as error:
        pytest.skip(str(error))
    file = tmp_path / "scaled.yaml"
    file.write_text(answer.yaml)
    totals, counted = answer.report.totals, archcli.count_params(file).totals
    assert totals["params"] == counted["params"]
    assert totals["active_params"] == counted["active_params"]
    per_token = archcli.count_flops(file, phase="train", seq_len=answer.report.inputs["seq_len"]).totals
    tokens = answer.report.inputs["seq_len"]
    assert totals["flops_per_token"] == per_token["matmul_flops"] / tokens


@pytest.mark.long
def test_the_command_writes_what_params_counts(cli, answered, tmp_path):
    file = tmp_path / "own.yaml"
    done = cli("scale", "gpt2", "--params", "774M", "--write-yaml", file, "--json")
    assert done.code == 0
    totals = json.loads(done.out)["totals"]
    assert json.loads(cli("params", file, "--json").out)["totals"]["params"] == totals["params"]
    assert json.loads(cli("check", file, "--exit-zero", "--json").out)["totals"]["errors"] == 0
    assert f"{totals['name']}" in file.read_text()


@pytest.mark.long
def test_rows_have_every_size_of_the_base(cli):
    document = json.loads(cli("scale", "llama-3.1-8b", "--params", "13e9", "--json").out)
    rows = {row["field"]: row for row in document["rows"]}
    words = rows["vocab_size"]
    assert (words["base"], words["value"], words["change"], words["off"]) == (128256, 128256, "kept", 0.0)
    assert words["paths"] == ["vocab_size"]
    d_model, d_ff = rows["d_model"]["value"], rows["d_ff"]
    assert {name: row["change"] for name, row in rows.items() if row["change"] != "kept"} == {
        **dict.fromkeys(("d_model", "n_layers"), "chosen"),
        "n_heads": "scaled",
        "d_ff": "rounded",
    }
    assert d_ff["exact"] == 14336 * d_model / 4096
    assert d_ff["off"] == d_ff["value"] / d_ff["exact"] - 1
    assert d_ff["value"] == document["totals"]["values"]["groups.0.layer.ffn.d_ff"]


@pytest.mark.long
def test_alternatives_are_other_widths(answered):
    totals = answered("gpt2", "--params", "3e9")
    widths = [totals["d_model"], *(one["d_model"] for one in totals["alternatives"])]
    assert len(widths) == len({*widths}) == 4
    assert abs(totals["off"]) < 0.02


@pytest.mark.long
def test_a_size_has_the_tokens_that_its_law_asks_for(answered):
    totals = answered("gpt2", "--params", "1e9", "--law", "hoffmann-1", "--batch-tokens", "500k")
    n = totals["active_params"]
    assert totals["tokens"] == round(LAWS["hoffmann-1"].tokens(n))
    assert totals["flops_6nd"] == 6 * n * totals["tokens"]
    assert totals["steps"] == -(-totals["tokens"] // 500_000)
    assert totals["flops"] == pytest.approx(totals["flops_per_token"] * totals["tokens"], rel=1e-9)


@pytest.mark.long
@pytest.mark.parametrize("model", ["llama-3.1-8b", "mixtral-8x7b"])
def test_a_budget_is_spent_by_the_models_own_count(answered, model):
    totals = answered(model, "--compute", "1e21")
    assert totals["flops"] == pytest.approx(1e21, rel=1e-6)
    # the size is the law's for this budget, of a mixture its active parameters, to the nearest shape
    assert totals["active_params"] == pytest.approx(LAWS["besiroglu"].params(1e21), rel=0.06)
    assert totals["days"] is None


@pytest.mark.long
def test_hours_on_devices_are_the_days_of_predict(answered):
    totals = answered("gpt2", "--hours", "12", "--device", "4xh100-sxm")
    assert totals["days"]["expected"] == pytest.approx(0.5, rel=1e-6)
    assert totals["days"]["floor"] < totals["days"]["low"] < 0.5 < totals["days"]["high"]
    assert totals["device_hours"]["expected"] == pytest.approx(4 * 12, rel=1e-6)
    assert totals["active_params"] == pytest.approx(LAWS["besiroglu"].params(totals["flops"]), rel=0.06)


@pytest.mark.long
def test_a_device_without_constants_has_the_floor_alone(cli):
    document = json.loads(cli("scale", "gpt2", "--hours", "12", "--device", "mi300x", "--json").out)
    days = document["totals"]["days"]
    assert days["floor"] == pytest.approx(0.5, rel=1e-6)
    assert days["expected"] is days["low"] is days["high"] is None
    assert any(note.startswith("No measurements of mi300x are known") for note in document["notes"])


@pytest.mark.long
def test_what_does_not_fit_says_so(cli):
    document = json.loads(cli("scale", "gpt2", "--params", "70e9", "--device", "h100-sxm", "--json").out)
    assert document["totals"]["fits"] is False
    assert any(note.startswith("It does not fit into h100-sxm") for note in document["notes"])


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("asked", "training"),
    [
        (("gpt2", "--params", "1e9", "--law", "hoffmann-1"), "The law hoffmann-1 asks for "),
        (("gpt2", "--params", "70e9", "--device", "mi300x"), " days on mi300x, into which it does not fit."),
        (("gpt2", "--hours", "12", "--device", "4xh100-sxm"), ", 0.50 days (0.4"),
        (("mixtral-8x7b", "--compute", "1e21"), "The budget pays for 59.7B tokens, 21.7 an active parameter"),
    ],
)
def test_the_answer_is_a_sentence_above_the_tables(cli, answered, asked, training):
    totals, sentence = answered(*asked), cli("scale", *asked).out.splitlines()[0]
    assert sentence == f"{asked[0]}: {totals['sentence']}"
    assert f" parameters: d_model {totals['d_model']:,}, {totals['n_layers']} layers. " in sentence
    assert f"{totals['tokens_per_param']:.1f} a" in sentence
    assert training in sentence


@pytest.mark.long
def test_days_are_those_of_a_prediction_of_the_yaml(answered, tmp_path):
    answer = scaled(subject("gpt2", []), ScaleOptions("gpt2", 10**9, device="8xh100-sxm"))
    file = tmp_path / "own.yaml"
    file.write_text(answer.yaml)
    totals = answer.report.totals
    step = archcli.predict(
        file,
        "8xh100-sxm",
        "train",
        totals["batch_size"],
        answer.report.inputs["seq_len"],
        grad_accum=totals["grad_accum"],
        recompute=totals["recompute"],
        tokens=totals["tokens"],
    ).totals
    assert totals["days"] == step["training"]["days"]
    assert totals["fits"] is step["fits"] is True


@pytest.mark.long
def test_python_has_the_report_of_the_command(answered):
    assert archcli.scale("gpt2", 1e9).to_dict()["totals"] == answered("gpt2", "--params", "1B")
    assert archcli.scale("gpt2", "1B").totals["params"] == archcli.scale("gpt2", 10**9).totals["params"]
    kept = archcli.scale("llama-3.1-8b", 20e9, keep=["n_kv_heads"]).totals["values"]
    assert not any(path.endswith("n_kv_heads") for path in kept)


@pytest.mark.long
def test_it_breaks_no_rule_that_its_base_keeps(cli, tmp_path):
    base = {row["code"] for row in json.loads(cli("check", "gpt2", "--exit-zero", "--json").out)["rows"]}
    file = tmp_path / "own.yaml"
    cli("scale", "gpt2", "--params", "500M", "--write-yaml", file)
    found = json.loads(cli("check", file, "--exit-zero", "--json").out)["rows"]
    assert {row["code"] for row in found} <= base


FOUND = re.compile(
    r"\| (\S+) \| (\S+) \| (\d+) layers, ([\d,]+), d_ff ([\d,]+), (\d+)(?: / (\d+))? heads \|.*"
)
ROWS = FOUND.findall((Path(__file__).parents[2] / "docs" / "commands" / "scale.md").read_text())


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: "-".join(row[:2]))
def test_the_page_says_what_is_found(row):
    base, params, layers, d_model, d_ff, heads, kv_heads = row
    report = archcli.scale(base, params)
    values = {row["field"]: row["value"] for row in report.rows}
    assert report.totals["n_layers"] == int(layers)
    assert values["d_model"] == int(d_model.replace(",", ""))
    assert values["d_ff"] == int(d_ff.replace(",", ""))
    assert (values["n_heads"], values.get("n_kv_heads")) == (int(heads), int(kv_heads) if kv_heads else None)


SHARED = [("qwen3-8b", 32.8e9), ("deepseek-v3", 16e9), ("t5-base", 3e9), ("llama-3.1-8b", 2.9e9)]


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize(("base", "params"), SHARED)
def test_devices_can_share_the_heads(base, params):
    report = archcli.scale(base, params)
    heads = {row["field"]: row["value"] for row in report.rows if row["field"].endswith("_heads")}
    assert heads["n_heads"] % 4 == 0
    kv_heads = heads.get("n_kv_heads", 4)
    assert kv_heads % 4 == 0 or 4 % kv_heads == 0
    assert "HWD015" not in report.totals["breaks"]


@pytest.mark.long
def test_a_family_that_keeps_its_kv_heads_says_so(tmp_path):
    report = archcli.scale("qwen3-8b", 32.8e9)
    (note,) = [note for note in report.notes if note.startswith("n_kv_heads is kept")]
    assert "qwen3-0.6b, qwen3-1.7b" in note
    assert ("n_kv_heads", 8, "kept") in [(row["field"], row["value"], row["change"]) for row in report.rows]
    # Qwen2.5 has 2, 4 and 8; of another number than the family's nothing is known
    other = archcli.scale(archcli.load("qwen3-8b", ["n_kv_heads=4"]), 16e9)
    for free in (archcli.scale("qwen2.5-7b", 14e9), other):
        assert not any(note.startswith("n_kv_heads is kept") for note in free.notes)


@pytest.mark.long
@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize(
    ("base", "params", "heads"),
    # 12 of 64 in Pythia 160M, OPT 125M (arXiv:2205.01068, table 1) and GPT-3 125M; 14 of 64 in Qwen2.5-0.5B
    [("pythia-6.9b", 162e6, 12), ("gpt3-175b", 125e6, 12), ("qwen2.5-7b", 494e6, 14)],
)
def test_small_models_have_narrower_heads(base, params, heads):
    values = {row["field"]: row["value"] for row in archcli.scale(base, params).rows}
    assert (values["n_heads"], values["d_model"]) == (heads, 64 * heads)
    assert base != "pythia-6.9b" or values["rotary_dim"] == 16  # a quarter of a head, as of the large one


def test_the_page_has_rows():
    assert len(ROWS) == 13


@every_row(
    ("asked", "message"),
    [
        ((), "scale needs a size or a budget"),
        (("--params", "1e9", "--compute", "1e21"), "--params and --compute each ask for another size"),
        (("--params", "1e9", "--hours", "3"), "--hours needs a device"),
        (("--hours", "3"), "add --device 8xh100-sxm"),
        (("--hours", "-3", "--device", "h100-sxm"), "hours must be a number above 0"),
        (("--hours", "nan", "--device", "h100-sxm"), "hours must be a number above 0"),
        (("--params", "-1"), "'-1' is not a whole number"),
        (("--params", "0"), "params must be a whole number above 0"),
        (("--params", "1e17"), "params must be a whole number above 0 and of at most"),
        (("--params", "1000"), "1,000 parameters are fewer than the smallest shape has"),
        (("--compute", "1000"), "the law asks for a size that is not there"),
        (("--params", "1e9", "--keep", "n_headz"), "did you mean n_heads?"),
        (("--params", "1e9", "--keep", "d_model", "--keep", "n_layers"), "nothing is left to scale"),
        (("--params", "1e9", "--law", "kaplan"), "'kaplan' is not one of 'besiroglu'"),
        (("--params", "1e9", "--device", "h100x"), "no device 'h100x'"),
        (("--params", "1e9", "--write-yaml", "/dev/null/x.yaml"), "cannot write"),
    ],
)
def test_bad_input_is_a_line(cli, asked, message):
    done = cli("scale", "gpt2", *asked)
    assert done.code == 2
    assert done.out == ""
    assert message in done.err
    assert "Traceback" not in done.err
