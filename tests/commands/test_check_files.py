"""`archcli check` on files of every sort.

Patches that apply, names, encodings, config.json, what layers share, standard input.
"""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from checking import BROKEN, apply, rows


def test_what_it_suggests_applies_and_ends_every_finding(cli, broken):
    patch = cli("check", broken, "--suggest").out
    apply(patch)
    text = Path(broken).read_text()
    assert text == BROKEN.replace("128257", "128320").replace("_heads: 7", "_heads: 8").replace(
        "100", "128", 1
    ).replace("14335", "14336")
    done = cli("check", broken)
    assert done.code == 0
    assert done.out == "1 model checked: no findings.\n"


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
    assert "does not read 'a_new_key'" in json.loads(done.out)["notes"][0]
    assert "note: " in cli("check", tmp_path).out


def test_a_patch_of_a_config_json_writes_its_own_keys(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = json.dumps(CONFIG, indent=1)
    Path("config.json").write_text(text)
    apply(cli("check", "config.json", "--suggest", "--select", "HWD").out)
    assert Path("config.json").read_text() == text.replace("2817", "2816")
    assert cli("check", "config.json", "--select", "HWD").code == 0


def test_what_a_config_json_does_not_state_is_given_as_an_option(cli, tmp_path, monkeypatch):
    """n_inner left out is 4 n_embd, so that no value of the file is the one to change."""
    monkeypatch.chdir(tmp_path)
    Path("config.json").write_text(
        json.dumps({"model_type": "gpt2", "n_embd": 780, "n_head": 12, "vocab_size": 50304})
    )
    assert cli("check", "config.json", "--suggest", "--select", "HWD").out == (
        "# config.json: not stated in a file that could be patched; as options of archcli:\n"
        "#   --set groups.0.layer.ffn.d_ff=3136\n"
    )


SHARED = """\
vocab_size: 32000
d_model: 512
norm: {kind: rmsnorm}
layer:
  {kind: pre_norm, attention: {kind: mha, n_heads: 8, position: {kind: rope}}, ffn: {kind: glu, d_ff: 1400}}
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
  - n_layers: 2
    layer: &one
      kind: pre_norm
      attention: {kind: mha, n_heads: 8, position: {kind: rope}}
      ffn: {kind: glu, d_ff: 1400}
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


@pytest.mark.sample(2, whole=True)
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
    subprocess.run(
        [shutil.which("git"), "apply", "--whitespace=nowarn", "p"],
        check=True,
        capture_output=True,
        timeout=300,
    )
    mended = (
        written.replace(b"128257", b"128320")
        .replace(b"_heads: 7", b"_heads: 8")
        .replace(b"dim: 100", b"dim: 128")
    )
    assert Path("m.yaml").read_bytes() == mended.replace(b"14335", b"14336")
    assert cli("check", "m.yaml").code == 0


@pytest.mark.sample(1, whole=True)
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


def test_a_key_that_is_written_anew_ends_its_line_as_the_others_do(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = SHARED.replace(
        "norm: {kind: rmsnorm}\n", "norm: {kind: rmsnorm}\nembedding:\n  scale: 1.5\n"
    ).replace("1400", "1408")
    Path("m.yaml").write_bytes(text.replace("\n", "\r\n").encode())
    cli("check", "m.yaml", "--suggest", "-o", "p")
    subprocess.run(
        [shutil.which("git"), "apply", "--whitespace=nowarn", "p"],
        check=True,
        capture_output=True,
        timeout=300,
    )
    assert (
        Path("m.yaml").read_bytes()
        == text.replace("  scale", "  tied: true\n  scale").replace("\n", "\r\n").encode()
    )


def test_a_name_with_a_blank_ends_as_git_ends_it(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a b.yaml").write_text(BROKEN)
    assert cli("check", "a b.yaml", "--suggest").out.startswith("--- a/a b.yaml\t\n+++ b/a b.yaml\t\n")


@pytest.mark.long
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
    assert cli("check", "x/m.yaml", "y/m.yaml").out == "2 models checked: no findings.\n"


@pytest.mark.long
def test_standard_input_is_checked(archcli):
    done = archcli("check", "-", "--format", "concise", text_in=BROKEN)
    assert done.returncode == 1
    assert done.stdout.startswith("<stdin>:2:13: warning[HWD004]")
    assert archcli("check", "-", "--suggest", text_in=BROKEN).stdout.startswith(
        "# <stdin>: not stated in a file that could be patched; as options of archcli:\n"
        "#   --set vocab_size=128320\n"
    )


def test_a_key_that_is_not_written_is_written_by_the_patch(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = Path(__file__).parents[2].joinpath("presets/llama-3.2-1b.yaml").read_text()
    Path("m.yaml").write_text(re.sub(r"embedding: .*\n", "", text))
    patch = cli("check", "m.yaml", "--suggest", "--select", "VOC002").out
    assert patch.endswith("\n#   --set embedding.tied=true\n")
    Path("m.yaml").write_text(text.replace("tied: true", "scale: 1.0"))
    patch = cli("check", "m.yaml", "--suggest", "--select", "VOC002").out
    apply(patch)
    assert "embedding: {tied: true, scale: 1.0}" in Path("m.yaml").read_text()


def test_sarif_names_absolute_paths_as_such(cli, broken, tmp_path):
    document = json.loads(cli("check", tmp_path / broken, "--format", "sarif").out)
    [location] = document["runs"][0]["results"][0]["locations"]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == (tmp_path / broken).as_uri()


FOREIGN = {
    "another program's": '{"a": 1}',
    "with a name": '{"name": "app", "version": 2}',
    "with a kind": '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}',
    "with comments": '// of a compiler\n{"compilerOptions": {},}',
    "broken": "{",
    "a list": "[1, 2]",
    "a word": '"x"',
    "of an unknown family": '{"model_type": "zzz", "hidden_size": 8}',
    "of a diffusion model": '{"_class_name": "UNet2DConditionModel", "act_fn": "silu"}',
}


@pytest.mark.sample(2, whole=True)
@pytest.mark.parametrize("text", FOREIGN.values(), ids=FOREIGN)
def test_a_config_json_of_no_known_model_is_refused_by_name_and_skipped_in_folders(cli, tmp_path, text):
    path = tmp_path / "config.json"
    path.write_text(text)
    for skipped in ((path, "--skip-files"), (tmp_path,)):
        done = cli("check", *skipped, "--json")
        assert (done.code, json.loads(done.out)["totals"]["models"]) == (0, 0)
        assert done.err.startswith(f"note: {skipped[0]} is skipped: ")
        assert done.err.count("\n") == 1
    for refused in (cli("check", path), cli("check", tmp_path, "--strict-files"), cli("params", path)):
        assert (refused.code, refused.out) == (2, "")
        assert "config.json" in refused.err


def test_what_is_checked_beside_a_skipped_file_counts(cli, broken):
    Path("config.json").write_text('{"a": 1}')
    done = cli("check", "config.json", broken, "--format", "concise", "--skip-files")
    assert done.code == 1
    assert "broken.yaml:10:55: error[ATT001]" in done.out
    assert done.err.startswith("note: config.json is skipped: ")
    done = cli("check", "config.json", "llama-3.2-1b", "--severity", "error")
    assert (done.code, "1 model checked" in done.out) == (2, True)
    assert "config.json: error: neither an architecture nor a config.json of a model" in done.err


def test_the_hook_skips_what_is_no_model(cli, tmp_path):
    hook = (Path(__file__).parents[2] / ".pre-commit-hooks.yaml").read_text()
    (tmp_path / "config.json").write_text(FOREIGN["another program's"])
    [entry] = re.findall(r"entry: archcli (.+)", hook)
    assert cli(*entry.split(), tmp_path / "config.json").code == 0


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config.json", '{"model_type": "llama", "hidden_size": "x"}'),
        ("config.json", '{"model_type": "llama", "hidden_size": 8,}'),
        ("config.json", '{"vocab_size": 8, "d_model": [}'),
        ("other.json", '{"a": 1}'),
        ("x.arch.yaml", "a: 1"),
    ],
)
def test_mistakes_in_a_model_are_never_skipped(cli, tmp_path, name, text):
    (tmp_path / name).write_text(text)
    done = cli("check", tmp_path / name)
    assert (done.code, done.out) == (2, "")
    assert "skipped" not in done.err
