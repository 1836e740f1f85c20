"""Rehearses a release: builds wheel and sdist, tries both in fresh environments, prints what is left to do.

    python release/rehearse.py [--output dist] [--python 3.11] [--strict] [--tag v0.1.0]

Exits with 1 where something fails; with --strict also where something is left to do before the upload; with
--tag where it is not the version's. The index of packages must be in reach. docs/releasing.md has the steps.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

from clean_machine import bare, offline, try_out
from environments import SERIES, call, environment, pythons
from examples import examples, run_examples

ROOT = Path(__file__).parents[1]
TOOLS = ("build", "twine", "check-wheel-contents", "check-jsonschema")
URLS = ("Source", "Documentation", "Changelog", "Issues")
FORMS = {
    "github-workflows": ".github/workflows/*.yml",
    "github-actions": "action.yml",
    "github-issue-forms": ".github/ISSUE_TEMPLATE/[!c]*.yml",
    "github-issue-config": ".github/ISSUE_TEMPLATE/config.yml",
    "citation-file-format": "CITATION.cff",
}
"""Files of others' formats, by the name of the schema."""

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def main() -> int:
    """Build, check, try, and say what is left."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="the folder of what is built")
    parser.add_argument("--strict", action="store_true", help="exit with 1 unless it could be uploaded now")
    parser.add_argument("--python", choices=SERIES, help="try this series alone")
    parser.add_argument("--tag", help="the tag that this release has")
    given = parser.parse_args()
    if given.tag not in {None, f"v{version()}"}:
        sys.exit(f"FAILED: the tag is {given.tag}, and archcli/__init__.py states {version()}")
    started = monotonic()
    with TemporaryDirectory() as scratch:
        tools = environment(Path(sys.executable), Path(scratch, "tools"), *TOOLS)
        wheel, sdist = build(tools, given.output)
        tried = try_everywhere(wheel, sdist, Path(scratch), given.python)
        try_schema(tools, Path(scratch, f"wheel-{tried[0]}"), Path(scratch))
        try_forms(tools)
    fill(given.output, sdist)
    print(f"\nAll of it passed in {monotonic() - started:.0f} s.\n")
    open_ends = left(tried)
    print("\n".join(press(open_ends, given.output)))
    return 1 if given.strict and open_ends else 0


def build(tools: Path, output: Path) -> tuple[Path, Path]:
    """(wheel, sdist), built from the sdist as an index would, their metadata and contents checked."""
    step("wheel and sdist")
    for old in output.glob("archcli_llm-*"):
        old.unlink()
    call(tools / "python", "-m", "build", "--outdir", output, ROOT)
    [wheel], [sdist] = output.glob("archcli_llm-*.whl"), output.glob("archcli_llm-*.tar.gz")
    print(call(tools / "twine", "check", "--strict", wheel, sdist), end="")
    print(call(tools / "check-wheel-contents", wheel), end="")
    return wheel, sdist


def try_everywhere(wheel: Path, sdist: Path, scratch: Path, alone: str | None = None) -> list[str]:
    """The series of Python that wheel and sdist were tried on: all that are there, or one alone."""
    there = pythons()
    known = {series: python for series, python in there.items() if alone in {None, series}}
    missing = ", ".join(series for series in SERIES if series not in there) or "none"
    skipped = f"; left out by --python: {', '.join({*there} - {*known}) or 'none'}" if alone else ""
    step(f"Python {', '.join(known)}; not on this machine: {missing}{skipped}")
    if (alone or SERIES[0]) not in known:
        sys.exit(f"Python {alone or SERIES[0]} must be there")
    for series, python in known.items():
        programs = environment(python, scratch / f"wheel-{series}", wheel)
        try_wheel(programs / "archcli", scratch / f"home-{series}", series)
        from_sdist = environment(python, scratch / f"sdist-{series}", sdist)
        print(f"  {series} from the sdist: {call(from_sdist / 'archcli', '--version').strip()}")
    return list(known)


def try_wheel(program: Path, home: Path, series: str) -> None:
    """README's examples in an empty folder, then a machine that never saw archcli."""
    place = home / "place"
    place.mkdir(parents=True)
    faults = run_examples(program, place, bare(home, program) | {"NO_COLOR": "1"})
    count = len(examples((ROOT / "README.md").read_text()))
    print(
        f"  {series} from the wheel: {call(program, '--version').strip()}, {count} examples of README",
        flush=True,
    )
    print(f"  {series} on a clean machine, cut off by {' '.join(offline()) or 'refusing proxies'}:")
    faults += try_out(program)
    if faults:
        sys.exit("\n".join(["FAILED", *faults]))


def try_schema(tools: Path, wheel: Path, scratch: Path) -> None:
    """Every preset fits the JSON Schema, as another program reads it."""
    step("the JSON Schema on every preset")
    schema = scratch / "schema.json"
    schema.write_text(call(wheel / "bin" / "archcli", "schema"))
    presets = sorted((ROOT / "presets").glob("*.yaml"))
    print(call(tools / "check-jsonschema", "--schemafile", schema, *presets), end="")


def try_forms(tools: Path) -> None:
    """What other programs read here, by the schemas that check-jsonschema ships of them."""
    step("workflows, action, issue forms and citation by their schemas")
    for schema, pattern in FORMS.items():
        print(f"  {schema}: ", end="", flush=True)
        files = sorted(ROOT.glob(pattern))
        print(call(tools / "check-jsonschema", "--builtin-schema", f"vendor.{schema}", *files), end="")


def fill(output: Path, sdist: Path) -> None:
    """Write the SchemaStore entry and the conda recipe with the addresses and the sum that are known."""
    urls = PROJECT.get("urls", {})
    known = {name.upper(): url.rstrip("/") for name, url in urls.items()}
    known["SHA256"] = hashlib.sha256(sdist.read_bytes()).hexdigest()
    for template in (ROOT / "release" / "schemastore.json", ROOT / "release" / "conda" / "recipe.yaml"):
        text = re.sub(r"\b[A-Z][A-Z0-9]+\b", lambda word: known.get(word[0], word[0]), template.read_text())
        (output / template.name).write_text(text)


def left(tried: list[str]) -> list[str]:
    """What stands between this checkout and an upload."""
    missing = [name for name in URLS if name not in PROJECT.get("urls", {})]
    named = {line.rsplit(" ", 1)[1] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)}
    changelog = (ROOT / "CHANGELOG.md").read_text()
    dated = re.search(rf"^## {re.escape(version())} \(\d{{4}}-\d\d-\d\d\)$", changelog, re.MULTILINE)
    changed = call("git", "status", "--porcelain", cwd=ROOT)
    reasons = {
        f"[project.urls] of pyproject.toml lacks {', '.join(missing)}": missing,
        f"CHANGELOG.md has no dated section, ## {version()} (YYYY-MM-DD)": not dated,
        "CHANGELOG.md has lines under Unreleased": re.search(
            r"^## Unreleased\n+(?!## |\n)", changelog, re.MULTILINE
        ),
        f"classifiers name Python {', '.join(sorted(named - {*tried}))}, not tried here": named - {*tried},
        "the working tree has changes that are not committed": changed,
    }
    return [reason for reason, holds in reasons.items() if holds]


def press(open_ends: list[str], output: Path) -> list[str]:
    """What a maintainer does now, line by line."""
    if open_ends:
        return ["NOT READY:", *(f"  - {reason}" for reason in open_ends), "docs/releasing.md says how."]
    return [
        "READY. Now press:",
        f"  git tag v{version()} && git push origin v{version()}",
        "  approve the job `publish` of the workflow `release`, which uploads with attestations",
        f"  {output}/schemastore.json: a pull request to SchemaStore",
        f"  {output}/recipe.yaml: a pull request to conda-forge, with the address of the uploaded sdist",
    ]


def version() -> str:
    """The version that archcli/__init__.py states."""
    source = (ROOT / "archcli" / "__init__.py").read_text()
    return str(re.findall(r'^__version__ = "(.+?)"', source, re.MULTILINE)[0])


def step(what: str) -> None:
    """Print a heading."""
    print(f"\n== {what}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
