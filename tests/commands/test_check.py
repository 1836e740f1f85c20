"""`archcli check` as a linter's user meets it: places, codes, silencing, formats, patches, exit codes."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

BROKEN = """\
name: broken
vocab_size: 128257
d_model: 4096
max_seq_len: 8192
norm: {kind: rmsnorm, eps: 1e-5}
groups:
  - n_layers: 32
    layer:
      kind: pre_norm
      attention: {kind: gqa, n_heads: 32, n_kv_heads: 7, head_dim: 100, position: {kind: rope, theta: 500000}}
      ffn: {kind: glu, activation: silu, d_ff: 14335}
"""
PLACES = {"HWD004": (2, "128257"), "ATT001": (10, "7,"), "HWD002": (10, "100"), "HWD001": (11, "14335")}


@pytest.fixture
def broken(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("broken.yaml").write_text(BROKEN)
    return "broken.yaml"


def apply(patch):
    subprocess.run([shutil.which("git"), "apply", "-"], input=patch, text=True, check=True, capture_output=True)


def rows(done):
    return json.loads(done.out)["rows"]


def codes(done):
    return sorted(row["code"] for row in rows(done))


def test_one_finding_for_each_mistake_at_its_place(cli, broken):
    done = cli("check", broken, "--json")
    found = {row["code"]: (row["where"]["line"], row["where"]["column"]) for row in rows(done)}
    lines = BROKEN.split("\n")
    assert found == {code: (line, lines[line - 1].rindex(word) + 1) for code, (line, word) in PLACES.items()}
    assert len(rows(done)) == 4
    assert done.code == 1


def test_what_it_suggests_applies_and_ends_every_finding(cli, broken):
    patch = cli("check", broken, "--suggest").out
    apply(patch)
    text = Path(broken).read_text()
    assert text == BROKEN.replace("128257", "128320").replace("_heads: 7", "_heads: 8").replace("100", "128", 1).replace("14335", "14336")
    done = cli("check", broken)
    assert done.code == 0
    assert done.out == "1 model: nothing found.\n"


def test_a_preset_is_clean(cli):
    assert cli("check", "llama-3.1-8b").code == 0


def test_the_full_form_draws_the_line_and_names_the_source(cli, broken):
    out = cli("check", broken, "--select", "HWD001").out
    assert out.startswith("broken.yaml:11:48: warning[HWD001]: d_ff 14,335 is no multiple of 64")
    assert "^^^^^" in out
    assert "= help: --set groups.0.layer.ffn.d_ff=14336" in out
    assert "= source: " in out


def test_the_concise_form_is_a_line_each(cli, broken):
    *lines, last = cli("check", broken, "--format", "concise").out.splitlines()
    assert [re.match(r"broken\.yaml:\d+:\d+: (error|warning)\[[A-Z]+\d+\] ", line) is not None for line in lines] == [True] * 4
    assert last == "1 model: 1 error, 3 warnings."


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--select", "HWD"], ["HWD001", "HWD002", "HWD004"]),
        (["--select", "HWD", "--ignore", "HWD001,HWD004"], ["HWD002"]),
        (["--ignore", "HWD", "--extend-select", "HWD002"], ["ATT001", "HWD002"]),
        (["--select", "att"], ["ATT001"]),
        (["--ignore", "ALL"], []),
        (["--ignore", "ALL", "--extend-select", "ATT"], ["ATT001"]),
        (["--select", "ATT,HWD001"], ["ATT001", "HWD001"]),
    ],
)
def test_rules_are_chosen_by_prefix_the_longest_winning(cli, broken, options, expected):
    assert codes(cli("check", broken, "--json", *options)) == expected


def test_an_unknown_prefix_names_near_ones(cli, broken):
    done = cli("check", broken, "--select", "HWD9", "--ignore", "FNN001")
    assert done.code == 2
    assert "--select 'HWD9' is the beginning of no rule's code" in done.err
    assert "did you mean FFN001" in done.err


def test_the_model_itself_may_ignore(cli, broken):
    Path(broken).write_text("ignore: [HWD, ATT001]\n" + BROKEN)
    assert codes(cli("check", broken, "--json")) == []
    assert codes(cli("check", broken, "--json", "--extend-select", "HWD001")) == ["HWD001"]
    Path(broken).write_text("ignore: [XYZ]\n" + BROKEN)
    assert "CON002" in codes(cli("check", broken, "--json"))


@pytest.mark.parametrize(
    ("comment", "left"),
    [
        ("# archcli: ignore[HWD001]", []),
        ("# archcli: ignore", []),
        ("#archcli:ignore[FFN001, HWD]", []),
        ("# archcli: ignore[FFN001]", ["HWD001"]),
        ("# archcli: ignore[]", ["HWD001"]),
        ("# some archcli remark", ["HWD001"]),
    ],
)
def test_a_comment_silences_its_line(cli, broken, comment, left):
    Path(broken).write_text(BROKEN.replace("14335}", "14335} " + comment))
    assert codes(cli("check", broken, "--json", "--select", "HWD001")) == left


def test_information_never_fails_and_severity_moves_the_floor(cli, broken):
    assert cli("check", "gpt2", "--select", "NRM").code == 0
    assert cli("check", broken, "--select", "HWD").code == 1
    assert cli("check", broken, "--select", "HWD", "--severity", "error").code == 0
    assert cli("check", broken, "--severity", "error").code == 1
    assert cli("check", broken, "--exit-zero").code == 0


def test_statistics_count_by_rule(cli, broken):
    shutil.copy(broken, "copy.yaml")
    out = cli("check", broken, "copy.yaml", "--statistics").out
    assert re.search(r"^HWD001 +warning +2 ", out, re.MULTILINE)


def test_many_models_at_once_and_a_file_that_is_none(cli, broken):
    Path("none.yaml").write_text("d_model: [")
    Path("unknown.yaml").write_text(BROKEN.replace("d_ff:", "dff:"))
    done = cli("check", broken, "none.yaml", "gpt2", "unknown.yaml", "--format", "concise")
    assert done.code == 2
    assert "3 infos" not in done.err
    assert "broken.yaml:10:55: error[ATT001]" in done.out
    assert "none.yaml:1:11" in done.err
    assert "did you mean d_ff?" in done.err
    assert "Traceback" not in done.err


def test_json_says_all_there_is(cli, broken):
    document = json.loads(cli("check", broken, "--json", "--select", "HWD001").out)
    assert list(document) == ["schema_version", "command", "model", "inputs", "convention", "totals", "rows", "notes"]
    assert document["totals"] == {"models": 1, "findings": 1, "errors": 0, "warnings": 1, "infos": 0, "by_code": {"HWD001": 1}}
    [row] = document["rows"]
    assert row["value"] == 14335
    assert row["where"] == {"file": "broken.yaml", "line": 11, "column": 48, "end_column": 53, "path": "groups.0.layer.ffn.d_ff"}
    assert row["fixes"] == [{"path": "groups.0.layer.ffn.d_ff", "value": 14336}]


def test_github_annotations_are_workflow_commands(cli, broken):
    Path("a,b: c%.yaml").write_text(BROKEN)
    lines = cli("check", "a,b: c%.yaml", "--format", "github").out.splitlines()
    command = re.compile(r"::(error|warning|notice) file=[^,:]+,line=\d+,col=\d+,endColumn=\d+,title=[^,:]+::.+")
    assert [bool(command.fullmatch(line)) for line in lines] == [True] * 4
    assert lines[0].startswith("::warning file=a%2Cb%3A c%25.yaml,line=2,col=13,endColumn=19,title=HWD004 ")


def test_sarif_is_read_by_other_peoples_software(cli, broken, tmp_path):
    from sarif import loader

    cli("check", broken, "gpt2", "--format", "sarif", "-o", "found.sarif")
    [read] = loader.load_sarif_files(str(tmp_path / "found.sarif")).files
    records = read.get_records()
    assert read.get_distinct_tool_names() == ["archcli"]
    assert {record["Code"] for record in records if record["Location"] == "broken.yaml"} == set(PLACES)
    assert {(record["Severity"], record["Line"]) for record in records if record["Code"].startswith("ATT001")} == {("error", 10)}
    assert read.get_report().get_issue_count_for_severity("error") == 1


def test_a_config_json_is_checked_too(cli, tmp_path):
    config = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 1024,
        "intermediate_size": 2817,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "num_hidden_layers": 16,
        "vocab_size": 32000,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    done = cli("check", tmp_path, "--json", "--severity", "error")
    assert "HWD001" in codes(done)
    assert done.code == 0


def test_degrees_of_parallelism(cli):
    done = cli("check", "llama-3.1-8b", "--tp", "3", "--pp", "5", "--json")
    assert {row["code"] for row in rows(done)} >= {"HWD010", "HWD011"}
    assert cli("check", "llama-3.1-8b", "--tp", "16", "--pp", "8").code == 0


def test_overrides_have_a_place_of_their_own(cli):
    done = cli("check", "llama-3.1-8b", "--set", "d_ff=14335")
    assert done.code == 1
    assert "--set: warning[HWD001]" in done.out


def test_a_key_that_is_not_written_is_written_by_the_patch(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = Path(__file__).parents[2].joinpath("presets/llama-3.2-1b.yaml").read_text()
    Path("m.yaml").write_text(re.sub(r"embedding: .*\n", "", text))
    patch = cli("check", "m.yaml", "--suggest", "--select", "VOC002").out
    assert patch == "# m.yaml: --set embedding.tied=true\n"
    Path("m.yaml").write_text(text.replace("tied: true", "scale: 1.0"))
    patch = cli("check", "m.yaml", "--suggest", "--select", "VOC002").out
    apply(patch)
    assert "embedding: {tied: true, scale: 1.0}" in Path("m.yaml").read_text()


@pytest.mark.parametrize(
    ("verb", "code"), [(["rule", "FFN002"], 0), (["rule", "ffn002", "--json"], 0), (["rules"], 0), (["rules", "--json"], 0)]
)
def test_rules_explain_themselves(cli, verb, code):
    done = cli(*verb)
    assert done.code == code
    assert "FFN002" in done.out


def test_a_rule_that_is_none_names_near_ones(cli):
    done = cli("rule", "FFN999")
    assert done.code == 2
    assert "did you mean FFN" in done.err
