"""action.yml: its steps, and the script they run on a small repository, as GitHub's runner would."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
SCRIPT = ROOT / "release" / "action.py"
MODEL = """\
vocab_size: 32000
d_model: 512
norm: {kind: rmsnorm, eps: 1e-5}
groups:
  - n_layers: 8
    layer:
      kind: pre_norm
      attention: {kind: gqa, n_heads: 8, n_kv_heads: 2, position: rope}
      ffn: {kind: glu, activation: silu, d_ff: 1408}
"""
LAYER = 512 * (512 + 128 + 128 + 512) + 3 * 512 * 1408 + 2 * 512
PARAMS = 2 * 32000 * 512 + 8 * LAYER + 512
ODD = "new|<b>&.arch.yaml"

pytestmark = pytest.mark.long


@pytest.fixture
def git(tmp_path):
    """A repository with one model and the config.json of another program, both committed."""

    def run(*args):
        who = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
        command = ["git", *who, *args]
        return subprocess.run(
            command,
            cwd=tmp_path,
            check=True,
            capture_output=True,
            text=True,
            timeout=500,
        ).stdout.strip()

    run("init", "-q")
    (tmp_path / "model.arch.yaml").write_text(MODEL)
    (tmp_path / "config.json").write_text('{"model_type": "vit"}')
    commit(run)
    return run


def commit(git):
    git("add", "-A")
    git("commit", "-qm", "x")
    return git("rev-parse", "HEAD")


@pytest.fixture
def review(tmp_path):
    """Run the script: (exit code, log, the summary, the runner's outputs)."""

    def run(base, severity="error"):
        places = {
            name: tmp_path.parent / f"{tmp_path.name}-{name}"
            for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")
        }
        for place in places.values():
            place.write_text("")
        given = {"BASE": base, "PATHS": ACTION["inputs"]["paths"]["default"], "SEVERITY": severity}
        env = (
            os.environ
            | given
            | {name: str(place) for name, place in places.items()}
            | {"PYTHONPATH": str(ROOT)}
        )
        done = subprocess.run(
            [sys.executable, SCRIPT],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=500,
        )
        assert "Traceback" not in done.stderr
        return done.returncode, done.stdout + done.stderr, *(place.read_text() for place in places.values())

    return run


def test_changed_files_are_checked_and_counted(git, review, tmp_path):
    base = git("rev-parse", "HEAD")
    (tmp_path / "model.arch.yaml").write_text(MODEL.replace("n_layers: 8", "n_layers: 9"))
    (tmp_path / ODD).write_text(MODEL.replace("n_kv_heads: 2", "n_kv_heads: 3"))
    (tmp_path / "config.json").write_text('{"model_type": "vit", "x": 1}')
    commit(git)
    code, log, summary, outputs = review(base)
    assert code == 1
    assert f"::error file={ODD},line=8,col=54" in log
    change = f"{LAYER / PARAMS:+.2%}"
    grown = f"{PARAMS + LAYER:,}"
    assert f"| <code>model.arch.yaml</code> | {grown} | {PARAMS:,} | {change} | {grown} | 0 | 0 |" in summary
    assert "| <code>new&#124;&lt;b&gt;&amp;.arch.yaml</code> | – | – | – | – | 1 | 0 |" in summary
    assert "config.json" not in summary
    assert outputs == "sarif=archcli.sarif\n"
    [result] = [
        r
        for r in json.loads((tmp_path / "archcli.sarif").read_text())["runs"][0]["results"]
        if r["level"] == "error"
    ]
    assert result["ruleId"] == "ATT001"
    assert review(base, "never")[0] == 0


def test_nothing_changed_is_said(git, review):
    assert review(git("rev-parse", "HEAD")) == (0, "", "archcli: no model architecture changed.\n", "")


def test_the_first_push_of_a_branch_reviews_every_file(git, review):
    code, _, summary, _ = review("0" * 40)
    assert code == 0
    assert f"| <code>model.arch.yaml</code> | {PARAMS:,} | – | – |" in summary


def test_a_shallow_checkout_is_explained(git, review):
    code, log, _, _ = review("1" * 40)
    assert code == 1
    assert log.startswith("::error::git merge-base failed: ")
    assert "check out with fetch-depth: 0" in log


def test_a_file_that_cannot_be_read_fails(git, review, tmp_path):
    base = git("rev-parse", "HEAD")
    (tmp_path / "model.arch.yaml").write_text(MODEL.replace("d_ff", "d_f"))
    commit(git)
    code, log, summary, _ = review(base)
    assert code == 2
    assert "model.arch.yaml:9:42: error: unknown key 'd_f'" in log
    assert f"| <code>model.arch.yaml</code> | – | {PARAMS:,} | – | – | 0 | 0 |" in summary


def test_its_steps_run_that_script_in_an_environment_of_their_own():
    assert ACTION["runs"]["using"] == "composite"
    steps = ACTION["runs"]["steps"]
    assert [step.get("uses", "").partition("@")[0] for step in steps] == [
        "actions/setup-python",
        "",
        "",
        "github/codeql-action/upload-sarif",
    ]
    assert steps[1]["run"].endswith('install --quiet "$GITHUB_ACTION_PATH"')
    assert steps[2]["run"] == '"$RUNNER_TEMP/archcli/bin/python" "$GITHUB_ACTION_PATH/release/action.py"'
    assert {*steps[2]["env"]} == {"BASE", "PATHS", "SEVERITY"}
    assert steps[3]["if"].startswith("always()")  # findings are shown although they fail the job


def test_a_mistake_of_the_former_version_is_no_part_of_the_log(git, review, tmp_path):
    (tmp_path / "model.arch.yaml").write_text(MODEL.replace("d_ff", "d_f"))
    base = commit(git)
    (tmp_path / "model.arch.yaml").write_text(MODEL)
    commit(git)
    code, log, summary, _ = review(base)
    assert (code, "error" in log) == (0, False)
    assert f"| <code>model.arch.yaml</code> | {PARAMS:,} | – | – |" in summary
