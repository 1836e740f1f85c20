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


CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 1024,
    "intermediate_size": 2817,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "num_hidden_layers": 16,
    "max_position_embeddings": 4096,
    "vocab_size": 32000,
    "a_new_key": 3,
}


def test_a_config_json_is_checked_in_its_own_lines(cli, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG, indent=1))
    done = cli("check", tmp_path, "--json")
    places = {row["code"]: row["where"] for row in rows(done)}
    lines = path.read_text().split("\n")
    assert {where["file"] for where in places.values()} == {str(path)}
    assert lines[places["HWD001"]["line"] - 1] == ' "intermediate_size": 2817,'
    assert places["HWD001"]["path"] == "groups.0.layer.ffn.d_ff"
    assert places["VOC002"]["line"] == 1  # the file does not say whether the tables are tied
    assert "'a_new_key' was not understood" in json.loads(done.out)["notes"][0]
    assert "note: " in cli("check", tmp_path).out


def test_a_config_json_is_no_yaml_to_be_patched(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("config.json").write_text(json.dumps(CONFIG))
    assert cli("check", "config.json", "--suggest", "--select", "HWD").out == "# config.json: --set groups.0.layer.ffn.d_ff=2816\n"
    assert cli("check", "config.json", "--select", "HWD", "--set", "groups.0.layer.ffn.d_ff=2816").code == 0


SHARED = """\
vocab_size: 32000
d_model: 512
norm: {kind: rmsnorm}
layer: {kind: pre_norm, attention: {kind: mha, n_heads: 8, position: {kind: rope}}, ffn: {kind: glu, d_ff: 1400}}
groups:
  - n_layers: 2
  - n_layers: 4
    pattern: [{attention: {window: 128}}, {}]
"""
ALIASED = """\
vocab_size: 32000
d_model: 512
norm: {kind: rmsnorm}
groups:
  - {n_layers: 2, layer: &one {kind: pre_norm, attention: {kind: mha, n_heads: 8, position: {kind: rope}}, ffn: {kind: glu, d_ff: 1400}}}
  - {n_layers: 2, layer: *one}
"""


@pytest.mark.parametrize("text", [SHARED, ALIASED], ids=["layer", "alias"])
def test_what_layers_share_is_told_once_and_mended_once(cli, tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    Path("m.yaml").write_text(text)
    [row] = rows(cli("check", "m.yaml", "--json", "--select", "HWD001"))
    assert text.split("\n")[row["where"]["line"] - 1][row["where"]["column"] - 1 :].startswith("1400")
    assert {fix["path"].split(".")[1] for fix in row["fixes"]} == {"0", "1"}
    apply(cli("check", "m.yaml", "--suggest").out)
    assert Path("m.yaml").read_text() == text.replace("1400", "1408")


@pytest.mark.parametrize(
    "written",
    [
        BROKEN.replace("\n", "\r\n").encode(),
        b"\xef\xbb\xbf" + BROKEN.encode(),
        b"\xef\xbb\xbf" + BROKEN.replace("name: broken\n", "").replace("\n", "\r\n").encode(),
        BROKEN.rstrip("\n").encode(),
        BROKEN.replace("broken", "b\u00fcrste").encode(),
    ],
    ids=["crlf", "mark", "mark-crlf-first-line", "no-end", "utf-8"],
)
def test_a_patch_keeps_what_it_does_not_change(cli, tmp_path, monkeypatch, written):
    monkeypatch.chdir(tmp_path)
    Path("m.yaml").write_bytes(written)
    done = cli("check", "m.yaml", "--suggest", "-o", "p")
    assert done.code == 1
    subprocess.run([shutil.which("git"), "apply", "--whitespace=nowarn", "p"], check=True, capture_output=True)
    mended = written.replace(b"128257", b"128320").replace(b"_heads: 7", b"_heads: 8").replace(b"dim: 100", b"dim: 128")
    assert Path("m.yaml").read_bytes() == mended.replace(b"14335", b"14336")
    assert cli("check", "m.yaml").code == 0


@pytest.mark.parametrize("name", ["a b.yaml", 'a"b\\c.yaml', "\u00fc.yaml", "x/../a.yaml", "x/y/a.yaml"])
def test_a_patch_finds_files_of_any_name(cli, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    Path("x/y").mkdir(parents=True)
    Path(name).write_text(BROKEN)
    apply(cli("check", name, "--suggest").out)
    assert cli("check", name).code == 0
    Path(name).write_text(BROKEN)
    apply(cli("check", str(tmp_path.resolve() / name), "--suggest").out)
    assert cli("check", name).code == 0


def test_control_characters_of_a_name_are_not_printed(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "a\x1b[31m\n.yaml"
    Path(name).write_text(BROKEN)
    for form in ("full", "concise", "github", "sarif", "json", "md", "csv"):
        out = cli("check", name, "--format", form).out
        assert "\x1b" not in out, form
    assert "a\\x1b[31m\\n.yaml:2:13: warning[HWD004]" in cli("check", name, "--format", "concise").out
    apply(cli("check", name, "--suggest").out)
    assert cli("check", name).code == 0


def test_a_file_is_checked_once_and_two_of_one_name_are_kept_apart(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in "xy":
        Path(folder).mkdir()
        Path(folder, "m.yaml").write_text(BROKEN if folder == "x" else BROKEN.replace("7,", "8,"))
    done = cli("check", "x/m.yaml", "./x/m.yaml", "y/m.yaml", tmp_path / "x" / "m.yaml", "--json")
    assert json.loads(done.out)["totals"]["models"] == 2
    assert [row["where"]["file"] for row in rows(done)] == ["x/m.yaml"] * 4 + ["y/m.yaml"] * 3
    apply(cli("check", "x/m.yaml", "y/m.yaml", "--suggest").out)
    assert Path("x/m.yaml").read_text() == Path("y/m.yaml").read_text()
    assert cli("check", "x/m.yaml", "y/m.yaml").out == "2 models: nothing found.\n"


def test_standard_input_is_checked(archcli):
    done = archcli("check", "-", "--format", "concise", text_in=BROKEN)
    assert done.returncode == 1
    assert done.stdout.startswith("<stdin>:2:13: warning[HWD004]")
    assert archcli("check", "-", "--suggest", text_in=BROKEN).stdout.startswith("# <stdin>: --set vocab_size=128320\n")


def test_a_finding_stands_among_the_presets(cli, broken):
    [row] = rows(cli("check", broken, "--json", "--select", "FFN002", "--set", "d_ff=65536"))
    assert row["evidence"]["percentile"] == 100.0
    assert [set(each) for each in row["evidence"]["nearest"]] == [{"name", "year", "value"}] * 3
    out = cli("check", broken, "--select", "FFN002", "--set", "d_ff=65536").out
    assert re.search(r"= seen: percentile 100 of \d+ models; nearest gemma-2b (\(2024\) )?8, ", out)
    assert re.search(r"\*\*Evidence:\*\* d_ff_ratio of \d+ models: least ", cli("rule", "FFN002").out)


def test_overrides_are_told_apart(cli, broken):
    done = cli("check", broken, "--select", "HWD001,CON", "--set", "groups.0.layer.ffn.d_ff=7", "--set", "d_model=4095", "--json")
    assert sorted(row["value"] for row in rows(done) if row["code"] == "HWD001") == [7, 4095]


def test_what_is_set_is_not_held_against_what_was_published(cli):
    assert cli("check", "llama-3.1-8b", "--set", "d_ff=14400").code == 0


@pytest.mark.parametrize("columns", [80, 40])
def test_findings_fit_a_terminal(cli, broken, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("archcli.render.screen.sys.stdout.isatty", lambda: True, raising=False)
    for arguments in (("check", broken, "gpt2", "--exit-zero"), ("rule", "FFN002"), ("rules", "--format", "table")):
        lines = re.sub(r"\x1b\[[0-9;]*m", "", cli(*arguments).out).splitlines()
        assert max(map(len, lines)) <= columns


@pytest.mark.parametrize(("no_color", "coloured"), [(None, True), ("1", False)])
def test_colour_is_for_terminals(cli, broken, monkeypatch, no_color, coloured):
    plain = cli("check", broken, "--format", "concise").out
    monkeypatch.setattr("archcli.render.screen.sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color:
        monkeypatch.setenv("NO_COLOR", no_color)
    out = cli("check", broken, "--format", "concise").out
    assert re.sub(r"\x1b\[[0-9;]*m", "", out) == plain
    assert ("\x1b[1;31m" in out) == coloured
    assert "\x1b" not in plain


def test_degrees_of_parallelism(cli):
    done = cli("check", "llama-3.1-8b", "--tp", "7", "--pp", "5", "--json")
    assert {row["code"] for row in rows(done)} >= {"HWD010", "HWD011", "HWD013"}
    assert cli("check", "llama-3.1-8b", "--tp", "8", "--pp", "8", "--json").out.count("HWD014") == 0
    copied = cli("check", "llama-3.1-8b", "--tp", "16", "--pp", "8", "--json")
    assert copied.code == 0
    assert [row["message"] for row in rows(copied)] == ["8 kv heads on 16 devices: each is kept 2 times"]
    assert cli("check", "deepseek-v3", "--ep", "64", "--select", "HWD").code == 0
    assert codes(cli("check", "deepseek-v3", "--ep", "48", "--select", "HWD", "--json")) == ["HWD012"]
    fixed = cli("check", "llama-3.1-8b", "--set", "d_ff=14335", "--tp", "8", "--json", "--select", "HWD001")
    assert rows(fixed)[0]["fixes"][0]["value"] == 14336  # 28 x 512: a multiple of 64 on each of 8 devices


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


def test_sarif_names_absolute_paths_as_such(cli, broken, tmp_path):
    document = json.loads(cli("check", tmp_path / broken, "--format", "sarif").out)
    [location] = document["runs"][0]["results"][0]["locations"]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == (tmp_path / broken).as_uri()


def test_what_saves_a_cache_is_told_in_bytes(cli):
    """command-r-v01's shape: 2 tables of 64 heads of 128 in 40 layers, 2 bytes each, 8192 tokens; 8 heads of 64 hold an eighth."""
    shape = {"groups.0.n_layers": 40, "d_model": 8192, "d_ff": 22528, "max_seq_len": 8192, "groups.0.layer.attention.kind": "mha"}
    sizes = [word for name, value in {**shape, "n_heads": 64}.items() for word in ("--set", f"{name}={value}")]
    whole = 2 * 2 * 64 * 128 * 40 * 8192 / 2**30
    [row] = rows(cli("check", "llama-2-7b", *sizes, "--json", "--select", "ATT005"))
    assert row["help"] == f"8 kv heads here would save {whole * 7 / 8:.3g} of {whole:.3g} GiB of cache (bf16, 8,192 tokens)"
