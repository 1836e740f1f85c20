"""What pyproject.toml promises about the package."""

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]


def test_the_dev_group_mirrors_the_dev_extra():
    assert PYPROJECT["dependency-groups"]["dev"] == PROJECT["optional-dependencies"]["dev"]


@pytest.mark.parametrize("requirement", PROJECT["dependencies"])
def test_base_dependencies_have_a_floor_and_no_cap(requirement):
    assert re.fullmatch(r"[a-z]+>=[0-9.]+", requirement)


def test_the_base_has_no_torch():
    assert {re.split(r"\W", requirement)[0] for requirement in PROJECT["dependencies"]} == {
        "typer",
        "rich",
        "pyyaml",
    }


def test_the_sdist_holds_what_the_tests_read():
    patterns = PYPROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    sources = [path.read_text() for path in (ROOT / "tests").rglob("*.py")]
    read = {name for source in sources for name in re.findall(r"\bROOT / \"([^\"/]+)", source)}
    assert {"docs", "mkdocs.yml", ".ci"} <= read
    not_packed = {"pyproject.toml", ".git"}  # hatch adds the one, and the other is the repository
    assert [n for n in read - not_packed if not any(fnmatch(f"/{n}", pattern) for pattern in patterns)] == []


def test_every_ignored_check_says_why():
    section = (
        (ROOT / "pyproject.toml").read_text().split("[tool.ruff.lint]")[1].split("[tool.ruff.lint.pylint]")[0]
    )
    silent = [
        line
        for line in section.splitlines()
        if re.match(r'  "[A-Z]+[0-9]*"', line) and "  #" not in line and " # " not in line
    ]
    assert silent == []


def test_the_changelog_knows_the_version():
    assert f"## {PROJECT['version']}" in (ROOT / "CHANGELOG.md").read_text()
