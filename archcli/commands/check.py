"""`archcli check`: a linter for architectures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from archcli.api.asking.question import Option
from archcli.api.check import (
    CheckedModel,
    CheckOptions,
    FileCheck,
    check_files,
    check_report,
    diagnostics_of,
)
from archcli.commands.line.options import Json, Output, Set, asking
from archcli.errors import ArchError
from archcli.load.yaml.patch import patch_of
from archcli.render import BY_SUFFIX, chosen_format, rendered, write
from archcli.render.findings import full, unpatched
from archcli.render.screen import columns, painted
from archcli.rules.base import Parallelism, Severity
from archcli.rules.diagnostics import is_failing
from archcli.rules.report import statistics

LINES = {"full", "concise"}
"""Forms for people to read, in colour on a terminal."""
TABLES = {"full", "json", "csv", "md", "svg"}
"""Forms that --statistics has, too."""
PATCHES = {".patch": ("suggest",), ".diff": ("suggest",)}
SUFFIXES = {**BY_SUFFIX, ".json": ("json", "sarif"), ".sarif": ("sarif",)}

Models = Annotated[
    list[str],
    Option(
        "YAML, config.json or GGUF files, names of presets, or - for standard input.",
        metavar="MODEL",
        completes="models",
        argument=True,
    ),
]
FormOfFindings = Annotated[
    Literal["full", "concise", "json", "github", "sarif", "csv", "md", "svg"] | None,
    Option(
        "full draws the line of the file; concise prints a line per finding; github and sarif: for CI.",
        name="format",
        default="full",
    ),
]


@asking(CheckOptions)
def run(  # noqa: PLR0913
    options: CheckOptions,
    *,
    models: Models,
    statistics_only: Annotated[
        bool, Option("Print how often each rule was broken.", name="statistics")
    ] = False,
    suggest: Annotated[bool, Option("Print the fixes as a patch of the file.")] = False,
    exit_zero: Annotated[bool, Option("Exit with 0 in spite of findings.")] = False,
    strict_files: Annotated[
        bool | None,
        Option(
            "Refuse or skip every config.json of no known model. Left out, one is refused where it is "
            "named, and skipped in a folder.",
            name="strict-files/--skip-files",
        ),
    ] = None,
    overrides: Set = None,
    form: FormOfFindings = None,
    as_json: Json = False,
    output: Output = None,
) -> int:
    """Check an architecture against design rules, as a linter does.

    Every rule has a source, and says where published models stand; archcli rule CODE explains one.

    Exits with 1 on an error or a warning, with 0 where there is none, with 2 where a file is no
    architecture. What is known of a preset, as it was published, is told and exits with 0. In a folder, a
    config.json of another program or of an unknown family is skipped with a note. A rule is silenced by
    --ignore, by `ignore: [FFN001]` in the YAML, or by the comment `# archcli: ignore[FFN001]` on the line
    that it points at.
    """
    shown = _form(form, output, as_json=as_json, suggest=suggest, counts=statistics_only)
    parallel = Parallelism(options.tp, options.pp, options.ep)
    check = FileCheck(overrides or [], options.selection(), parallel, strict_files)
    checked, problems = check_files(models, check)
    inputs = options.inputs() | ({"set": overrides} if overrides else {})
    if checked or not problems:
        _show(checked, inputs, shown, output, counts=statistics_only)
    if problems:
        raise ArchError(problems)
    failing = is_failing(diagnostics_of(checked), Severity(options.severity))
    return 1 if failing and not exit_zero else 0


def _form(form: str | None, output: Path | None, *, as_json: bool, suggest: bool, counts: bool) -> str:
    """The format to print in. Raises ArchError for options that contradict each other."""
    formats = ["--json"] if as_json else [] if form is None else [f"--format {form}"]
    formats = [*["--statistics"] * counts, *formats]
    chosen = chosen_format(form, output, as_json=as_json, suffixes=PATCHES if suggest else SUFFIXES) or "full"
    if (suggest and formats) or (counts and chosen not in TABLES):
        both = [*["--suggest"] * suggest, *formats, f"-o {output}"][:2]
        raise ArchError(f"{' and '.join(both)} contradict each other", "leave one of them out")
    return "suggest" if suggest else chosen


def _show(
    checked: Sequence[CheckedModel],
    inputs: dict[str, Any],
    form: str,
    output: Path | None,
    *,
    counts: bool = False,
) -> None:
    """Print the findings in the form asked for, or write them to a file."""
    report = check_report(checked, inputs)
    if form == "suggest":
        text = "".join(map(_patch, checked))
    elif counts:
        text = rendered(statistics(report), "plain" if form == "full" else form)
    elif form == "full":
        text = full(report, diagnostics_of(checked), None if output else columns())
    elif form == "svg":
        from archcli.render.terminal import picture_of_lines  # of a picture alone

        text = picture_of_lines(report, lambda width: full(report, diagnostics_of(checked), width))
    else:
        text = rendered(report, form)
    write(painted(text) if form in LINES and output is None else text, output)


def _patch(checked: CheckedModel) -> str:
    """A patch of one file; changes that cannot be written into it follow as comments."""
    fixes = [tuple(fix) for diagnostic in checked.diagnostics for fix in diagnostic.finding.fixes]
    patch = patch_of(checked.loaded.tree, fixes)
    return patch.text + unpatched(checked.loaded.source, patch.left)
