"""`archcli check` as a linter's user meets it: places, codes, silencing, formats, exit codes."""

import html
import json
import re
import shutil
from pathlib import Path

import pytest

from archcli.load.presets import evidence_index, preset_text, presets
from checking import BROKEN, codes, rows

PLACES = {"HWD004": (2, "128257"), "ATT001": (10, "7,"), "HWD002": (10, "100"), "HWD001": (11, "14335")}


def test_one_finding_for_each_mistake_at_its_place(cli, broken):
    done = cli("check", broken, "--json")
    found = {row["code"]: (row["where"]["line"], row["where"]["column"]) for row in rows(done)}
    lines = BROKEN.split("\n")
    assert found == {code: (line, lines[line - 1].rindex(word) + 1) for code, (line, word) in PLACES.items()}
    assert len(rows(done)) == 4
    assert done.code == 1


def test_a_preset_is_clean(cli):
    assert cli("check", "llama-3.1-8b").code == 0


def test_the_full_form_draws_the_line_and_names_the_source(cli, broken):
    out = cli("check", broken, "--select", "HWD001").out
    first, finding, *_ = out.split("\n\n")
    assert first == "1 model checked: 1 warning."
    assert finding.startswith("broken.yaml:11:48: warning[HWD001]: d_ff 14,335 is no multiple of 64")
    assert "^^^^^" in out
    assert "= help: --set groups.0.layer.ffn.d_ff=14336" in out
    assert "= source: " in out


def test_the_concise_form_is_a_line_each(cli, broken):
    *lines, last = cli("check", broken, "--format", "concise").out.splitlines()
    assert [
        re.match(r"broken\.yaml:\d+:\d+: (error|warning)\[[A-Z]+\d+\] ", line) is not None for line in lines
    ] == [True] * 4
    assert last == "1 model checked: 1 error, 3 warnings."


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
    assert "--select 'HWD9': no rule's code begins with it" in done.err
    assert "did you mean FFN001" in done.err


def test_the_model_itself_may_ignore(cli, broken):
    Path(broken).write_text("ignore: [HWD, ATT001]\n" + BROKEN)
    assert codes(cli("check", broken, "--json")) == []
    assert codes(cli("check", broken, "--json", "--extend-select", "HWD001")) == ["HWD001"]
    Path(broken).write_text("ignore: [hwd, ATT001]\n" + BROKEN)
    assert codes(cli("check", broken, "--json")) == []
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


def test_json_says_all_there_is(cli, broken):
    document = json.loads(cli("check", broken, "--json", "--select", "HWD001").out)
    assert list(document) == [
        "schema_version",
        "command",
        "model",
        "inputs",
        "convention",
        "totals",
        "rows",
        "notes",
    ]
    assert document["totals"] == {
        "models": 1,
        "findings": 1,
        "errors": 0,
        "warnings": 1,
        "infos": 0,
        "by_code": {"HWD001": 1},
    }
    [row] = document["rows"]
    assert row["value"] == 14335
    assert row["where"] == {
        "file": "broken.yaml",
        "line": 11,
        "column": 48,
        "end_column": 53,
        "path": "groups.0.layer.ffn.d_ff",
    }
    assert row["fixes"] == [{"path": "groups.0.layer.ffn.d_ff", "value": 14336}]


def test_github_annotations_are_workflow_commands(cli, broken):
    Path("a,b: c%.yaml").write_text(BROKEN)
    lines = cli("check", "a,b: c%.yaml", "--format", "github").out.splitlines()
    command = re.compile(
        r"::(error|warning|notice) file=[^,:]+,line=\d+,col=\d+,endColumn=\d+,title=[^,:]+::.+"
    )
    assert [bool(command.fullmatch(line)) for line in lines] == [True] * 4
    assert lines[0].startswith("::warning file=a%2Cb%3A c%25.yaml,line=2,col=13,endColumn=19,title=HWD004 ")


def test_sarif_is_read_by_other_peoples_software(cli, broken, tmp_path):
    from sarif import loader

    cli("check", broken, "gpt2", "--format", "sarif", "-o", "found.sarif")
    [read] = loader.load_sarif_files(str(tmp_path / "found.sarif")).files
    records = read.get_records()
    assert read.get_distinct_tool_names() == ["archcli"]
    assert {record["Code"] for record in records if record["Location"] == "broken.yaml"} == set(PLACES)
    assert {
        (record["Severity"], record["Line"]) for record in records if record["Code"].startswith("ATT001")
    } == {("error", 10)}
    assert read.get_report().get_issue_count_for_severity("error") == 1


def test_a_finding_stands_among_the_presets(cli, broken):
    [row] = rows(cli("check", broken, "--json", "--select", "FFN002", "--set", "d_ff=4096000"))
    assert row["evidence"]["percentile"] == 100.0
    widest = max(entry["d_ff_ratio"] or 0 for entry in evidence_index())
    names = "|".join(entry["name"] for entry in evidence_index() if entry["d_ff_ratio"] == widest)
    assert row["evidence"]["nearest"][0]["value"] == widest
    assert [set(each) for each in row["evidence"]["nearest"]] == [{"name", "year", "value"}] * 3
    out = cli("check", broken, "--select", "FFN002", "--set", "d_ff=4096000").out
    assert re.search(rf"= seen: percentile 100 of \d+ models; nearest ({names}) (\(\d{{4}}\) )?\d", out)
    assert re.search(r"^Evidence: d_ff_ratio of \d+ models: least ", cli("rule", "FFN002").out, re.MULTILINE)


def test_overrides_are_told_apart(cli, broken):
    done = cli(
        "check",
        broken,
        "--select",
        "HWD001,CON",
        "--set",
        "groups.0.layer.ffn.d_ff=7",
        "--set",
        "d_model=4095",
        "--json",
    )
    assert sorted(row["value"] for row in rows(done) if row["code"] == "HWD001") == [7, 4095]


def test_what_is_set_is_not_held_against_what_was_published(cli):
    assert cli("check", "llama-3.1-8b", "--set", "d_ff=14400").code == 0


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("columns", [80, 40])
def test_findings_fit_a_terminal(cli, broken, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("archcli.render.screen.sys.stdout.isatty", lambda: True, raising=False)
    for arguments in (
        ("check", broken, "gpt2", "--exit-zero"),
        ("rule", "FFN002"),
        ("rules", "--format", "table"),
    ):
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


@pytest.mark.long
def test_degrees_of_parallelism(cli):
    done = cli("check", "llama-3.1-8b", "--tp", "7", "--pp", "5", "--json")
    assert {row["code"] for row in rows(done)} >= {"HWD010", "HWD011", "HWD013"}
    assert cli("check", "llama-3.1-8b", "--tp", "8", "--pp", "8", "--json").out.count("HWD014") == 0
    copied = cli("check", "llama-3.1-8b", "--tp", "16", "--pp", "8", "--json")
    assert copied.code == 0
    assert [row["message"] for row in rows(copied)] == ["8 kv heads for --tp 16: each is stored 2 times"]
    assert cli("check", "deepseek-v3", "--ep", "64", "--select", "HWD").code == 0
    assert codes(cli("check", "deepseek-v3", "--ep", "48", "--select", "HWD", "--json")) == ["HWD012"]
    fixed = cli("check", "llama-3.1-8b", "--set", "d_ff=14401", "--tp", "8", "--json", "--select", "HWD001")
    assert rows(fixed)[0]["fixes"][0]["value"] == 14336  # 28 x 512: a multiple of 64 on each of 8 devices
    uneven = cli(
        "check",
        "llama-3.1-8b",
        "--tp",
        "12",
        "--set",
        "n_heads=24",
        "--set",
        "groups.0.layer.attention.head_dim=128",
        "--json",
    )
    assert {row["code"] for row in rows(uneven)} == {
        "HWD010"
    }  # 8 kv heads are not copied evenly to 12 devices


def test_overrides_have_a_place_of_their_own(cli):
    done = cli("check", "llama-3.1-8b", "--set", "d_ff=14335")
    assert done.code == 1
    assert "--set: warning[HWD001]" in done.out


@pytest.mark.parametrize(
    ("verb", "code"),
    [(["rule", "FFN002"], 0), (["rule", "ffn002", "--json"], 0), (["rules"], 0), (["rules", "--json"], 0)],
)
def test_rules_explain_themselves(cli, verb, code):
    done = cli(*verb)
    assert done.code == code
    assert "FFN002" in done.out


def test_a_rule_that_is_none_names_near_ones(cli):
    done = cli("rule", "FFN999")
    assert done.code == 2
    assert "did you mean FFN" in done.err


def test_what_saves_a_cache_is_told_in_bytes(cli):
    """command-r-v01's shape: 2 tables of 64 heads of 128 in 40 layers, 2 bytes each, 8192 tokens.

    8 heads of 64 hold an eighth.
    """
    shape = {
        "groups.0.n_layers": 40,
        "d_model": 8192,
        "d_ff": 22528,
        "max_seq_len": 8192,
        "groups.0.layer.attention.kind": "mha",
    }
    sizes = [
        word for name, value in {**shape, "n_heads": 64}.items() for word in ("--set", f"{name}={value}")
    ]
    whole = 2 * 2 * 64 * 128 * 40 * 8192 / 2**30
    [row] = rows(cli("check", "llama-2-7b", *sizes, "--json", "--select", "ATT005"))
    assert (
        row["help"]
        == f"n_kv_heads 8 would save {whole * 7 / 8:.3g} of {whole:.3g} GiB of cache (bf16, 8,192 tokens)"
    )


def test_what_is_known_of_a_preset_does_not_fail(cli, tmp_path):
    done = cli("check", "gpt2", "--select", "HWD004")
    assert (done.code, done.err) == (0, "")
    assert "  = known: 50,257 entries of GPT-2's tokenizer; nanoGPT pads them to 50,304\n" in done.out
    # of a changed preset, and of a file of one's own by its name, it is a finding as any other
    assert cli("check", "gpt2", "--select", "HWD004", "--set", "vocab_size=50257").code == 1
    copy = tmp_path / "gpt2.yaml"
    copy.write_text(preset_text("gpt2"))
    assert cli("check", copy, "--select", "HWD004").code == 1


@pytest.mark.long
def test_every_warning_of_a_preset_is_known(cli):
    assert cli("check", *presets()[::8]).code == 0


@pytest.mark.parametrize(
    ("d_ff", "fix"),
    [
        (5000, ""),  # 4,992 is no multiple of 64 that FFN002 would take: it asks for 1.5 x 4,096 at least
        (14300, "--set groups.0.layer.ffn.d_ff=14272"),
    ],
)
def test_a_fix_is_none_where_another_rule_refuses_the_field(cli, d_ff, fix):
    rows = json.loads(cli("check", "llama-3.1-8b", "--set", f"d_ff={d_ff}", "--json").out)["rows"]
    assert [row["fixes"] for row in rows if row["code"] == "HWD001"] == [
        [{"path": "groups.0.layer.ffn.d_ff", "value": 14272}] if fix else []
    ]


def test_a_picture_keeps_the_caret_and_the_fix(cli, broken):
    picture = cli("check", broken, "--format", "svg").out
    drawn = html.unescape("\n".join(re.findall(r"<text[^>]*>([^<]*)</text>", picture))).replace("\xa0", " ")
    full = cli("check", broken, "--format", "full").out
    carets = re.findall(r"\^+", full)
    assert carets
    assert re.findall(r"\^+", drawn) == carets
    assert len(re.findall("= *\n? *help:|help:", drawn)) == full.count("help:") > 0
