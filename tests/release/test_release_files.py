"""What a release needs beside the package: the workflow, the lock, the notice, the forms."""

import re
from pathlib import Path

import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement

import archcli
import docs_site
import environments
import rehearse
from table import every_row

ROOT = Path(__file__).parents[2]
DEV = [Requirement(text) for text in rehearse.PROJECT["optional-dependencies"]["dev"]]
LOCK = ROOT / ".ci" / "constraints.txt"


def workflow():
    """The workflow of a release, whose key `on` YAML 1.1 reads as true."""
    return yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())


def steps(job):
    return workflow()["jobs"][job]["steps"]


def test_a_version_tag_is_published_by_oidc_without_a_secret():
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    assert not re.search(r"secrets\.|password|token:(?! write)", text)
    assert workflow()[True] == {"push": {"tags": ["v*"]}}
    publish = workflow()["jobs"]["publish"]
    assert (publish["needs"], publish["permissions"]) == ("build", {"id-token": "write"})
    upload = publish["steps"][-1]
    assert upload["uses"].startswith("pypa/gh-action-pypi-publish@")
    assert upload["with"] == {"attestations": True}


def test_the_job_that_may_upload_runs_no_code_of_the_repository():
    assert not [step for step in steps("publish") if "run" in step or "checkout" in step["uses"]]
    assert workflow()["permissions"] == {"contents": "read"}
    assert "permissions" not in workflow()["jobs"]["build"]


def test_what_is_published_was_rehearsed_with_its_tag_on_every_python():
    [rehearsal] = [step for step in steps("build") if "run" in step]
    assert rehearsal["run"] == 'python release/rehearse.py --output dist --strict --tag "$TAG"'
    assert rehearsal["env"] == {"TAG": "${{ github.ref_name }}"}
    [setup] = [step for step in steps("build") if "setup-python" in step.get("uses", "")]
    installed = re.findall(r"\d\.\d+", setup["with"]["python-version"])
    assert tuple(sorted(installed, key=lambda series: int(series[2:]))) == environments.SERIES
    kept = [step["with"] for step in steps("build") if "upload-artifact" in step.get("uses", "")]
    assert [part["name"] for part in kept if "dist/*.whl" in part["path"]] == ["distributions"]
    assert steps("publish")[0]["with"]["name"] == "distributions"


def test_the_lock_pins_every_package_of_developers_and_names_no_index():
    lines = [line for line in LOCK.read_text().splitlines() if not line.startswith("#")]
    pinned = {}
    for requirement in map(Requirement, lines):
        assert re.fullmatch(r"==[^*,]+", str(requirement.specifier))
        pinned.setdefault(requirement.name.lower().replace("_", "-"), []).append(requirement)
    assert not re.search(r"://|--index|--find-links|@", "".join(lines))
    for wanted in DEV:
        versions = [str(line.specifier)[2:] for line in pinned[wanted.name.lower().replace("_", "-")]]
        assert all(wanted.specifier.contains(version) for version in versions), wanted
    for series in environments.SERIES:
        here = default_environment() | {
            "python_version": series,
            "python_full_version": f"{series}.0",
            "sys_platform": "linux",
        }
        chosen = [
            [one for one in group if not one.marker or one.marker.evaluate(here)] for group in pinned.values()
        ]
        assert max(map(len, chosen)) == 1


def test_the_workflow_of_tests_installs_by_the_lock():
    [job] = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())["jobs"].values()
    locked = [step["run"] for step in job["steps"] if "PIP_CONSTRAINT" in step.get("env", {})]
    assert locked == [".ci/readme 1", ".ci/readme 2"]
    assert all(
        step["env"]["PIP_CONSTRAINT"].endswith(f"/.ci/{LOCK.name}") for step in job["steps"] if "env" in step
    )


def test_the_notice_names_every_table_of_others():
    notice = (ROOT / "NOTICE").read_text()
    measured = ROOT / "benchmarks" / "measured"
    tables = [path for path in measured.rglob("*") if path.suffix in {".csv", ".json"}]
    unnamed = [path.name for path in tables if path.name not in notice and path.parent.name != "engines"]
    assert (len(tables) > 30, unnamed) == (True, [])
    named = re.findall(r"\b[\w-]+\.csv\b", notice)
    assert [name for name in named if not [*measured.rglob(name)]] == []
    folders = {"engines/kernels", "engines/speeds", "engines", "devices", "trainers", "presets"}
    assert [folder for folder in folders if f"{folder}/*.yaml" not in notice] == []
    assert (measured / "LICENSE-Apache-2.0.txt").is_file()
    assert "NOTICE" in rehearse.PROJECT["license-files"]


def test_a_citation_has_the_version_and_its_day():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (cited["version"], cited["license"]) == (archcli.__version__, rehearse.PROJECT["license"])
    assert f"## {cited['version']} ({cited['date-released']})" in (ROOT / "CHANGELOG.md").read_text()
    assert cited["abstract"] == rehearse.PROJECT["description"]


@every_row(
    ("form", "needed"),
    [
        ("wrong-number", {"command", "expected", "witness", "evidence", "version"}),
        ("missing-device", {"name", "datasheet"}),
        ("missing-model", {"name", "config", "answer", "class"}),
    ],
)
def test_an_issue_form_asks_for_what_an_answer_needs(form, needed):
    body = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / f"{form}.yml").read_text())["body"]
    assert {part["id"] for part in body if part.get("validations", {}).get("required")} == needed
    assert len({part["id"] for part in body if "id" in part}) == sum("id" in part for part in body)


def test_the_rehearsal_holds_every_form_against_its_schema():
    matched = [path for pattern in rehearse.FORMS.values() for path in ROOT.glob(pattern)]
    forms = [*(ROOT / ".github").rglob("*.yml"), ROOT / "action.yml", ROOT / "CITATION.cff"]
    assert sorted(matched) == sorted(forms)


def test_llms_txt_lists_every_page_with_its_first_sentence():
    docs = ROOT / "docs"
    listed = docs_site.sections((ROOT / "mkdocs.yml").read_text())
    lines = [line for line in docs_site.llms(docs, listed, "").splitlines() if line.startswith("- [")]
    pages = {re.search(r"\]\((\S+?)\)", line)[1] for line in lines}
    assert pages == {page.relative_to(docs).as_posix() for page in docs.rglob("*.md")}
    assert [line for line in lines if not re.search(r"\): \S.{15}", line)] == []


def test_a_page_with_front_matter_is_told_by_its_description():
    page = "---\nname: x\ndescription: Counts models. Use it.\n---\n\n# X\n\nOther.\n"
    assert docs_site.summary(page) == "Counts models."
