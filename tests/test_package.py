"""What pyproject.toml promises about the package."""

import re
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

import archcli
import house
from own_source import parsed, sources
from pages import PAGES, name
from table import every_row

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]


EXTRAS = PROJECT["optional-dependencies"]
MODULES = {"pynvml": "nvidia-ml-py", "yaml": "pyyaml", "resvg_py": "resvg-py"}
"""Modules whose distribution has another name."""
KINDS = ("What it does", "Counts and constants", "Added", "Changed", "Fixed")
"""Sections of a version in CHANGELOG.md."""
INSTALLED_BY_NAME = re.compile(r"archcli\[|\b(install|uvx|pipx run|uv add)\s+(-\S+\s+)*['\"]?archcli")
"""A command that asks a package index for archcli; a clone, `uvx --from . archcli`, is none."""


def names(requirements):
    return {re.split(r"[<>=\[;]", requirement)[0] for requirement in requirements}


def test_the_name_is_free_and_the_command_short():
    assert (PROJECT["name"], PROJECT["scripts"]) == (
        "archcli-llm",
        {"archcli": "archcli.cli:main"},
    )


def test_every_package_that_is_used_is_in_an_extra():
    users = [requirements for extra, requirements in EXTRAS.items() if extra not in {"dev", "docs"}]
    used = {one.target.split(".")[0] for one in house.imports(parsed("archcli"))}
    used -= {"archcli", *sys.stdlib_module_names}
    assert {MODULES.get(module, module) for module in used} == names(sum(users, PROJECT["dependencies"]))


def test_developers_have_every_extra():
    """But the site's, and 300 MB of clusters: .ci/run installs both for the second stage."""
    of_users = {
        one
        for extra, requirements in EXTRAS.items()
        if extra not in {"docs", "cluster"}
        for one in names(requirements)
    }
    assert of_users == names(EXTRAS["dev"])


@every_row(
    ("text", "sees"),
    [
        ("pip install archcli", True),
        ("pip install -q 'archcli[torch]'", True),
        ("uvx archcli params gpt2", True),
        ("pipx run archcli", True),
        ("with archcli[plot] a PNG", True),
        ("pip install -e '.[torch]'", False),
        ("pip install sympy numpy, then: archcli explain gpt2", False),
        ("uvx --from . archcli params gpt2", False),
        ("pipx install git+HOME/archcli", False),
    ],
)
def test_a_hint_that_installs_a_stranger_is_seen(text, sees):
    assert bool(INSTALLED_BY_NAME.search(text)) == sees


@pytest.mark.long
def test_no_message_and_no_page_installs_archcli_by_name():
    pages = {name(page): page.read_text() for page in [*PAGES, ROOT / "CONTRIBUTING.md"]}
    texts = {**sources("archcli"), **sources("benchmarks"), **pages}
    assert [where for where, text in texts.items() if INSTALLED_BY_NAME.search(text)] == []


def test_one_function_says_what_to_install():
    """Beside it only torch's size names a command, that of its CPU wheel."""
    saying = [where for where, text in sources("archcli").items() if "pip install" in text]
    assert saying == ["archcli.errors", "archcli.wings.running.runtime.require"]


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


def test_the_changelog_has_versions_with_dates_by_kind():
    text = (ROOT / "CHANGELOG.md").read_text()
    unreleased, *versions = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert unreleased == "Unreleased"
    assert versions[0].split()[0] == archcli.__version__
    assert [head for head in versions if not re.fullmatch(r"\d+\.\d+\.\d+ \(\d{4}-\d\d-\d\d\)", head)] == []
    for version in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        kinds = re.findall(r"^### (.+)$", version, re.MULTILINE)
        assert kinds == [kind for kind in KINDS if kind in kinds]
