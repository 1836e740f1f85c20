"""What is published: wheel and sdist, the pre-commit hook, the conda recipe, the JSON Schema."""

import json
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from importlib.util import find_spec
from pathlib import Path

import jsonschema
import pytest
import yaml

import archcli
import clean_machine
import environments
import rehearse
from table import every_row

ROOT = Path(__file__).parents[2]
PROJECT = rehearse.PROJECT
RECIPE = yaml.safe_load((ROOT / "release" / "conda" / "recipe.yaml").read_text())
HOME = "https://example.com/a/archcli"
URLS = f'[project.urls]\nSource = "{HOME}"\nDocumentation = "https://example.com/docs"\n\n[project.scripts]'
PACKED = (
    "archcli",
    "presets",
    "devices",
    "engines",
    "trainers",
    "LICENSE",
    "NOTICE",
    "README.md",
    "CHANGELOG.md",
    "hatch_build.py",
    "pyproject.toml",
)


def build(folder, *, urls=False, target="wheel"):
    """A wheel or an sdist of a copy of what is packed, with addresses or without."""
    for name in PACKED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    if urls:
        text = (folder / "pyproject.toml").read_text()
        (folder / "pyproject.toml").write_text(text.replace("[project.scripts]", URLS))
    command = [sys.executable, "-P", "-m", "hatchling", "build", "-t", target, "-d", str(folder / "dist")]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=500)
    [built] = (folder / "dist").iterdir()
    return built


def metadata(wheel):
    with zipfile.ZipFile(wheel) as packed:
        [name] = [name for name in packed.namelist() if name.endswith(".dist-info/METADATA")]
        return message_from_bytes(packed.read(name))


@every_row(
    ("text", "with_address", "without"),
    [
        ("[a](docs/a.md#b)", f"[a]({HOME}/blob/v1/docs/a.md#b)", "a"),
        (
            "[`a`](docs/a.md), [b](c.md)",
            f"[`a`]({HOME}/blob/v1/docs/a.md), [b]({HOME}/blob/v1/c.md)",
            "`a`, b",
        ),
        ("![A [b] c](p.svg)", f"![A [b] c]({HOME}/raw/v1/p.svg)", "A [b] c"),
        ("[a](#here)", f"[a]({HOME}/blob/v1/README.md#here)", "a"),
        ("[a](https://example.com)", "[a](https://example.com)", "[a](https://example.com)"),
        ("```py\nf[a](b)\n```", "```py\nf[a](b)\n```", "```py\nf[a](b)\n```"),
    ],
)
def test_links_of_the_readme_lead_to_the_repository_or_are_text(text, with_address, without):
    with_links = runpy.run_path(str(ROOT / "hatch_build.py"))["with_links"]
    assert with_links(text, f"{HOME}/{{}}/v1") == with_address
    assert with_links(text, "") == without


@pytest.mark.long
@pytest.mark.parametrize("urls", [False, True])
def test_the_wheel_says_what_it_is(urls, tmp_path):
    wheel = build(tmp_path, urls=urls)
    said = metadata(wheel)
    assert wheel.name == f"archcli_llm-{archcli.__version__}-py3-none-any.whl"
    assert (said["Name"], said["Version"]) == ("archcli-llm", archcli.__version__)
    linked = re.findall(r"\]\(([^)]+)\)", said.get_payload())
    if urls:
        assert "Documentation, https://example.com/docs" in said.get_all("Project-URL")
        assert len(linked) > 30
        assert all(re.match(rf"{HOME}/(blob|raw)/v{archcli.__version__}/", link) for link in linked)
    else:
        assert said.get_all("Project-URL") is None
        assert linked == []


@pytest.mark.long
def test_the_wheel_of_an_sdist_is_the_same(tmp_path):
    """As package managers build it: hatch_build.py and README are in the sdist."""
    (tmp_path / "a").mkdir()
    sdist = build(tmp_path / "a", target="sdist")
    with tarfile.open(sdist) as packed:
        packed.extractall(tmp_path / "b", filter="data")
    [folder] = (tmp_path / "b").iterdir()
    command = [sys.executable, "-P", "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "c")]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=500)
    [wheel] = (tmp_path / "c").iterdir()
    assert metadata(wheel)["Name"] == "archcli-llm"


@pytest.mark.long
def test_a_wheel_answers_on_a_clean_machine(tmp_path):
    """In an environment that has only its dependencies; it needs the index of packages."""
    (tmp_path / "source").mkdir()
    programs = environments.environment(
        Path(sys.executable), tmp_path / "env", str(build(tmp_path / "source"))
    )
    assert clean_machine.try_out(programs / "archcli") == []


def test_the_recipe_asks_for_what_the_package_asks_for():
    wanted = {re.sub(r"(?=[<>=])", " ", requirement, count=1) for requirement in PROJECT["dependencies"]}
    assert {*RECIPE["requirements"]["run"]} == {"python >=${{ python_min }}", *wanted}
    system = rehearse.tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert {*RECIPE["requirements"]["host"]} == {
        "python ${{ python_min }}.*",
        "pip",
        *(requirement.replace(">=", " >=") for requirement in system),
    }
    assert RECIPE["context"] == {
        "version": archcli.__version__,
        "python_min": PROJECT["requires-python"].removeprefix(">="),
    }
    entry = [f"{name} = {place}" for name, place in PROJECT["scripts"].items()]
    assert RECIPE["build"]["python"]["entry_points"] == entry
    assert (RECIPE["package"]["name"], RECIPE["about"]["license"]) == (PROJECT["name"], PROJECT["license"])
    assert RECIPE["about"]["license_file"] == PROJECT["license-files"]


def test_the_image_holds_what_the_wheel_is_built_from():
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    names = {name for line in copied for name in line.split()}
    assert names == {*PACKED}
    let_in = re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    assert {*let_in} == names


def test_the_entry_of_schemastore_names_the_files_that_the_hook_checks():
    entry = json.loads((ROOT / "release" / "schemastore.json").read_text())
    assert {*entry} == {"name", "description", "fileMatch", "url"}
    [hook] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    for pattern in entry["fileMatch"]:
        assert re.search(hook["files"], pattern.replace("*", "models/a"))


@pytest.mark.long
def test_every_preset_fits_the_schema_as_others_read_it():
    """The package jsonschema, by the schema's own address."""
    schema = json.loads(
        subprocess.run(
            [sys.executable, "-m", "archcli", "schema"], capture_output=True, check=True, timeout=500
        ).stdout
    )
    assert schema["$id"].startswith("urn:")
    validator = jsonschema.Draft202012Validator(schema)
    faults = [
        (path.name, error.message)
        for path in sorted((ROOT / "presets").glob("*.yaml"))
        for error in validator.iter_errors(yaml.load(path.read_text(), Loader=Numbers))  # noqa: S506
    ]
    assert faults == []


class Numbers(yaml.SafeLoader):
    """YAML 1.2: 1e-5 is a number."""


Numbers.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d[\d_]*)(\.\d*)?([eE][-+]?\d+)$"), list("-+0123456789")
)


@pytest.mark.long
def test_the_hook_runs_in_another_repository(tmp_path):
    """Offline: what its environment would fetch is taken from this one."""
    hooks, used = tmp_path / "hooks", tmp_path / "used"
    for folder in (hooks, used):
        folder.mkdir()
    for name in (*PACKED, ".pre-commit-hooks.yaml"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, hooks / name)
    (used / "a.arch.yaml").write_text("vocab_size: 1000\nd_modle: 8\n")
    for folder in (hooks, used):
        git(folder, "init", "-q")
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", "x")
    done = try_repo(hooks, used, tmp_path)
    assert "archcli check" in done.stdout, done.stdout + done.stderr
    assert (done.returncode, "unknown key 'd_modle'" in done.stdout) == (1, True), done.stdout + done.stderr
    assert "site-packages" not in done.stdout


def git(folder, *args):
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *args], cwd=folder, check=True, capture_output=True, timeout=500)  # noqa: S607


def try_repo(hooks, used, scratch):
    """`pre-commit try-repo`, whose pip may fetch nothing and finds every package in this environment."""
    paths = {str(Path(find_spec(name).origin).parents[1]) for name in ("hatchling", "typer")}
    env = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(scratch),
        "PRE_COMMIT_HOME": str(scratch / "cache"),
        "PYTHONPATH": ":".join(paths),
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip reads it as: off
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    command = [
        sys.executable,
        "-m",
        "pre_commit",
        "try-repo",
        str(hooks),
        "archcli-check",
        "--all-files",
        "--verbose",
    ]
    return subprocess.run(
        command, cwd=used, env=env, capture_output=True, text=True, check=False, timeout=500
    )
