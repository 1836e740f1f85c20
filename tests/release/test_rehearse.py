"""release/rehearse.py: where a release is tried, what is seen there, and when it may be uploaded."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import archcli
import clean_machine
import docs_site
import environments
import examples
import rehearse

ROOT = Path(__file__).parents[2]
PROJECT = rehearse.PROJECT
HOME = "https://example.com/a/archcli"


WRITERS = {
    "into the home": (
        'mkdir -p "$HOME/.cache/x"',
        ["home/.cache was written unasked", "home/.cache/x was written unasked"],
    ),
    "beside the picture": ("touch log", ["place/log was written unasked"]),
    "nothing at all": ("rm -f picture.svg", ["place/picture.svg was not written"]),
}


@pytest.mark.sample(2, whole=True)
@pytest.mark.parametrize(("line", "faults"), WRITERS.values(), ids=WRITERS)
def test_what_nobody_asked_for_is_seen(line, faults, tmp_path, capsys):
    program = tmp_path / "env" / "bin" / "archcli"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho done > picture.svg\necho done\n{line}\n")
    program.chmod(0o755)
    assert clean_machine.try_out(program) == faults
    program.write_text("#!/bin/sh\nexit 3\n")
    assert len(clean_machine.try_out(program)) == len(clean_machine.STEPS) + len(clean_machine.ASKED_FOR)


@pytest.mark.long
def test_a_python_is_the_one_it_says(tmp_path):
    series = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert environments.answers(Path(sys.executable), series)
    assert not environments.answers(Path(sys.executable), "3.9")
    assert not environments.answers(tmp_path / "nowhere", series)
    assert environments.pythons()[series] == Path(sys.executable)


def test_the_examples_of_readme_that_need_no_more_packages_are_tried():
    commands = [command for command, _ in examples.examples((ROOT / "README.md").read_text())]
    assert commands[:3] == [f"archcli {verb} llama-3.1-8b" for verb in ("params", "flops", "kvcache")]
    assert len(commands) > 5
    assert not [command for command in commands if command.split()[1] in examples.NEED_MORE]
    output = "$ archcli list --where x\na\n\nb\n$ archcli profile gpt2\n"
    assert examples.examples(f"```console\n{output}```\n") == [("archcli list --where x", "a\n\nb")]


def test_an_example_that_prints_something_else_is_a_fault(tmp_path):
    program = tmp_path / "archcli"
    program.write_text("#!/bin/sh\necho no\n")
    program.chmod(0o755)
    (tmp_path / "place").mkdir()
    faults = examples.run_examples(program, tmp_path / "place", {"PATH": "/usr/bin:/bin"})
    shown = [command for command, output in examples.examples((ROOT / "README.md").read_text()) if output]
    assert [fault.partition(": exit")[0] for fault in faults] == shown != []


def test_it_is_not_ready_before_it_has_an_address(monkeypatch, tmp_path):
    (tmp_path / "CHANGELOG.md").write_text("## Unreleased\n\n- A line.\n\n## 0.1.0\n")
    monkeypatch.setattr(rehearse, "ROOT", tmp_path)
    monkeypatch.setattr(rehearse, "version", lambda: "0.1.0")
    monkeypatch.setattr(rehearse, "call", lambda *_, **__: " M file\n")
    reasons = rehearse.left(["3.11"])
    assert [reason for reason in reasons if "[project.urls]" in reason] or PROJECT.get("urls")
    assert [reason for reason in reasons if "[project.urls]" not in reason] == [
        "CHANGELOG.md has no dated section, ## 0.1.0 (YYYY-MM-DD)",
        "CHANGELOG.md has lines under Unreleased",
        "classifiers name Python 3.12, 3.13, 3.14, not tried here",
        "the working tree has changes that are not committed",
    ]
    assert rehearse.press(reasons, tmp_path)[0] == "NOT READY:"
    (tmp_path / "CHANGELOG.md").write_text("## Unreleased\n\n## 0.1.0 (2026-12-01)\n\n- A line.\n")
    monkeypatch.setattr(rehearse, "call", lambda *_, **__: "")
    monkeypatch.setattr(rehearse, "PROJECT", PROJECT | {"urls": dict.fromkeys(rehearse.URLS, HOME)})
    assert rehearse.left([*environments.SERIES]) == []
    assert rehearse.press([], tmp_path)[0].startswith("READY")
    monkeypatch.setattr(rehearse, "version", lambda: "0.2.0")
    assert rehearse.left([*environments.SERIES]) == [
        "CHANGELOG.md has no dated section, ## 0.2.0 (YYYY-MM-DD)"
    ]


def test_a_tag_of_another_version_ends_it_before_anything_is_built(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", ["rehearse.py", "--output", str(tmp_path), "--tag", "v9.9.9"])
    with pytest.raises(
        SystemExit, match=re.escape(f"v9.9.9, and archcli/__init__.py states {archcli.__version__}")
    ):
        rehearse.main()
    assert [*tmp_path.iterdir()] == []


def test_entry_and_recipe_get_the_addresses_and_the_sum(monkeypatch, tmp_path):
    monkeypatch.setattr(
        rehearse, "PROJECT", {"urls": {"Documentation": "https://example.com/docs/", "Source": HOME}}
    )
    (tmp_path / "sdist").write_bytes(b"")
    rehearse.fill(tmp_path, tmp_path / "sdist")
    assert (
        json.loads((tmp_path / "schemastore.json").read_text())["url"]
        == "https://example.com/docs/schema.json"
    )
    recipe = yaml.safe_load((tmp_path / "recipe.yaml").read_text())
    assert recipe["about"]["homepage"] == HOME
    assert recipe["source"]["sha256"] == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_every_python_is_tried_by_the_workflow():
    [jobs] = [yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())["jobs"]]
    job = jobs["tests"]
    assert tuple(job["strategy"]["matrix"]["python"]) == environments.SERIES
    run = " ".join(step.get("run", "") for step in job["steps"])
    for command in (
        ".ci/readme 1",
        ".ci/readme 2",
        "ruff check .",
        "ruff format --check .",
        "mypy",
        "release/rehearse.py",
    ):
        assert command in run
    named = {line.rsplit(" ", 1)[1] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)}
    assert named <= {*environments.SERIES}
    assert f">={min(named)}" == PROJECT["requires-python"]


@pytest.mark.parametrize(
    ("block", "start"), [("1", "python3 -m venv"), ("2", "python3 -m venv"), ("9", "README has no")]
)
def test_a_block_of_readme_runs_as_it_is_written(block, start, tmp_path):
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "readme", tmp_path / ".ci")
    shown = re.sub(
        r"\.venv/bin/", "echo ", (ROOT / "README.md").read_text().replace("python3", "echo python3")
    )
    (tmp_path / "README.md").write_text(shown)
    done = subprocess.run(
        [tmp_path / ".ci" / "readme", block], capture_output=True, text=True, check=False, timeout=500
    )
    assert (done.returncode, start in done.stdout) == (int(block == "9"), True)


def test_pages_are_listed_by_section_with_their_first_sentence(tmp_path):
    (tmp_path / "index.md").write_text("# archcli\n\nIt counts\n[parameters](a.md). And more.\n")
    (tmp_path / "a.md").write_text("# A\n\n<!-- made: x -->\n\nFirst of e.g. two. Second.\n")
    listed = docs_site.sections(
        "site_name: x\nnav:\n  - Home: index.md\n  - Background:\n      - A: a.md\n  - B: a.md\n"
    )
    assert listed == {"Docs": [("Home", "index.md"), ("B", "a.md")], "Background": [("A", "a.md")]}
    text = docs_site.llms(tmp_path, listed, "https://example.com/")
    assert text == (
        f"# archcli\n\n> It counts parameters. And more.\n\n{docs_site.ASK_IT}\n\n## Docs\n\n"
        "- [Home](https://example.com/index.md): It counts parameters.\n"
        "- [B](https://example.com/a.md): First of e.g. two.\n\n"
        "## Optional\n\n- [A](https://example.com/a.md): First of e.g. two.\n"
    )
