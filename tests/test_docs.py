"""README and docs/ are complete and hang together: every command, option and public name; every link.

`pytest -n0 --renew tests/test_docs.py` writes the generated parts anew.
"""

import re
import tomllib

import pytest

import archcli
from archcli.commands.line.names import COMMANDS
from generated import command_line, options
from pages import CHINESE, DOCS, PAGES, README, READMES, ROOT, blocks, name, parts, remade
from table import every_row

LINK = re.compile(r"\]\(([^)\s]+)\)")
MOST_LINES = 180
FIRST_SCREEN = 24
"""Lines of a README that a visitor sees without a scroll."""


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_generated_parts_are_current(page, renew):
    if renew:
        page.write_text(remade(page))
    assert page.read_text() == remade(page)


def test_every_command_has_a_page_with_its_options():
    for command in command_line().commands:
        assert ("options", command) in parts(DOCS / "commands" / f"{command}.md")
    assert ("options", "") in parts(DOCS / "commands" / "index.md")


def test_every_option_is_on_the_page_of_its_command():
    for verb, command in command_line().commands.items():
        page = (DOCS / "commands" / f"{verb}.md").read_text()
        listed = [opt for parameter in command.params for opt in parameter.opts if opt.startswith("-")]
        assert all(re.search(rf"[`\s]{opt}[`,\s]", page) for opt in listed), verb


def test_options_are_read_from_the_command_line():
    assert ("-c, --context N", "Tokens in the cache.") in options(command_line().commands["kvcache"])


def test_every_public_name_is_on_the_page_of_the_api():
    shown = {argument for made, argument in parts(DOCS / "python.md") if made == "api"}
    assert shown == {*archcli.__all__}


def test_every_page_is_in_the_navigation():
    listed = re.findall(r"(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), flags=re.MULTILINE)
    assert sorted(listed) == sorted(
        page.relative_to(DOCS).as_posix() for page in PAGES if page not in READMES
    )


def test_the_side_bar_has_the_commands_in_the_order_of_the_tables():
    listed = re.findall(r"- (\w+): commands/\1\.md$", (ROOT / "mkdocs.yml").read_text(), flags=re.MULTILINE)
    table = (DOCS / "index.md").read_text().partition("<!-- made: commands")[2].partition("<!-- end -->")[0]
    tabled = re.findall(r"^\|[^|]*\| \[`(\w+)`\]", table, flags=re.MULTILINE)
    assert listed == tabled == [*COMMANDS]


@every_row("page", PAGES, ids=name)
def test_links_lead_to_files(page):
    links = [link for link in LINK.findall(page.read_text()) if not link.startswith(("http", "#"))]
    assert [link for link in links if not (page.parent / link.split("#")[0]).exists()] == []


def test_all_front_doors_say_the_same():
    """README, the help, the package's summary and the site: the same five questions."""
    questions = one_line(README.read_text()).split("a language model: ")[1].split(".")[0]
    assert questions.startswith("how large it is")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    index, site = (DOCS / "index.md").read_text(), (ROOT / "mkdocs.yml").read_text()
    for text in (command_line().help, project["description"], index, site):
        assert questions in one_line(text)


def one_line(text):
    return " ".join(text.split())


def test_every_command_has_a_question_on_the_first_page():
    asked = (DOCS / "index.md").read_text().split("## Commands")[0]
    groups = ("Count", "Design", "Judge", "Measure")
    listed = {name for name, group in COMMANDS.items() if group in groups}
    assert [name for name in listed - {"rule", "rules", "plot", "verify"} if f"[`{name}" not in asked] == []


@every_row("page", READMES, ids=name)
def test_readme_is_short_and_begins_with_an_answer(page):
    lines = page.read_text().splitlines()
    assert len(lines) <= MOST_LINES
    first = lines.index("```console")
    assert lines[first + 1] == "$ archcli fit llama-3.1-70b 2xrtx-3090"
    assert lines.index("```", first) < FIRST_SCREEN < lines.index("```sh")
    assert lines.index("```", first) < next(n for n, line in enumerate(lines) if line.startswith("!["))


def test_the_claims_of_readme_are_what_the_commands_list():
    """Their figures in the order of the sentence, each counted another way than the sentence counts it."""
    spoken = [
        [
            int(number)
            for number in re.findall(
                r"\b\d+\b", page.read_text().split("<!-- made: counts")[1].split("<!-- end")[0]
            )
        ]
        for page in READMES
    ]
    engines, trainers = (
        [path for path in (ROOT / folder).glob("*.yaml") if path.stem != "none"]
        for folder in ("engines", "trainers")
    )
    counted = [len([*(ROOT / "presets").glob("*.yaml")]), len(engines), len(trainers)]
    assert spoken[0] == spoken[1]
    assert [spoken[0][0], *spoken[0][2:4]] == counted
    assert f"{spoken[0][1]} devices" in archcli.devices().headline


def test_the_chinese_readme_has_the_same_examples_and_links():
    def outline(page):
        text = page.read_text().replace("README.zh.md", "README.md")
        code = [re.sub(r" *# .*", "", block) for block in blocks(page, "python")]
        return {
            "blocks": [blocks(page, language) for language in ("console", "sh", "yaml")],
            "code": code,
            "links": sorted({*LINK.findall(text)}),
            "headings": [
                len(heading)
                for heading in re.findall(r"^(#+) ", re.sub(r"(?ms)^```.*?^```$", "", text), re.MULTILINE)
            ],
            "options": {*re.findall(r"`(--?[\w-]+)", text)},
        }

    assert outline(CHINESE) == outline(README)


@every_row("page", PAGES, ids=name)
def test_no_page_promises_an_address(page):
    assert not re.search(r"OWNER|github\.com/(?!ggml-org)", page.read_text())


def test_every_extra_is_on_the_page_of_installation():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    listed = re.findall(r"^\| `(\w+)` \|", (DOCS / "installation.md").read_text(), flags=re.MULTILINE)
    assert sorted(listed) == sorted(extras)


def test_what_the_site_is_built_with_is_an_extra():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert [requirement for requirement in extras["docs"] if requirement.startswith("zensical")]
    assert not any(requirement.startswith("zensical") for requirement in extras["dev"])
