"""`archcli check`: a linter for architectures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer

from archcli.commands.line import completion
from archcli.commands.line.options import Output, Set
from archcli.commands.line.plan_options import Ep, Pp, Tp
from archcli.errors import ArchError, NoModelError, Problem, sanitize
from archcli.load.loaded import Loaded
from archcli.load.presets import evidence_index
from archcli.load.source import identity, load
from archcli.load.yaml.patch import patch_of
from archcli.render import BY_SUFFIX, chosen_format, rendered, write
from archcli.render.findings import full, unpatched
from archcli.render.screen import columns, painted
from archcli.render.write import tell
from archcli.rules.base import Case, Parallelism, Severity
from archcli.rules.diagnostics import Diagnostic, diagnose, is_failing
from archcli.rules.evidence import COLUMNS
from archcli.rules.lint import Selection, check_prefixes
from archcli.rules.report import report_of, statistics

LINES = {"full", "concise"}
"""Forms for people to read, in colour on a terminal."""
TABLES = {"full", "json", "csv", "md", "svg"}
"""Forms that --statistics has, too."""
PATCHES = {".patch": ("suggest",), ".diff": ("suggest",)}
SUFFIXES = {**BY_SUFFIX, ".json": ("json", "sarif"), ".sarif": ("sarif",)}

Models = Annotated[
    list[str],
    typer.Argument(
        autocompletion=completion.models,
        metavar="MODEL",
        help="YAML, config.json or GGUF files, names of presets, or - for standard input.",
    ),
]
Codes = list[str] | None
Select = Annotated[
    Codes,
    typer.Option(
        "--select",
        metavar="CODES",
        autocompletion=completion.codes,
        help="Run only rules whose code begins so, comma-separated: FFN, ATT001, ALL.",
    ),
]
Extend = Annotated[
    Codes,
    typer.Option(
        "--extend-select",
        metavar="CODES",
        autocompletion=completion.codes,
        help="Run these as well, though --select or the model leaves them out.",
    ),
]
Ignore = Annotated[
    Codes,
    typer.Option("--ignore", metavar="CODES", help="Do not run these.", autocompletion=completion.codes),
]
Floor = Annotated[
    Literal["error", "warning"],
    typer.Option("--severity", help="The least severity that exits with 1; information never does."),
]
FormOfFindings = Annotated[
    Literal["full", "concise", "json", "github", "sarif", "csv", "md", "svg"] | None,
    typer.Option(
        "--format",
        show_default="full",
        help="full draws the line of the file; concise prints a line per finding; github and sarif: for CI.",
    ),
]


class CheckedModel(NamedTuple):
    """A model and its diagnostics."""

    loaded: Loaded
    diagnostics: list[Diagnostic]


class FileCheck(NamedTuple):
    """How files are checked: overrides, rules, devices, and whether foreign files are errors.

    `strict` None skips them in folders alone.
    """

    overrides: Sequence[str]
    selection: Selection
    parallel: Parallelism
    strict: bool | None

    def skips(self, name: str, error: ArchError) -> bool:
        """Whether to skip a config.json that failed to load: of another program, or of an unknown family.

        A file that is named is refused, as by every command; a folder may hold anything.
        """
        is_folder = Path(name).is_dir()
        strict = not is_folder if self.strict is None else self.strict
        may_be_foreign = is_folder or Path(name).name == "config.json"
        return may_be_foreign and not strict and isinstance(error, NoModelError)


def run(  # noqa: PLR0913, PLR0917
    models: Models,
    select: Select = None,
    extend_select: Extend = None,
    ignore: Ignore = None,
    severity: Floor = "warning",
    statistics_only: Annotated[
        bool, typer.Option("--statistics", help="Print how often each rule was broken.")
    ] = False,
    suggest: Annotated[
        bool, typer.Option("--suggest", help="Print the fixes as a patch of the file.")
    ] = False,
    exit_zero: Annotated[bool, typer.Option("--exit-zero", help="Exit with 0 in spite of findings.")] = False,
    tp: Tp = 1,
    pp: Pp = 1,
    ep: Ep = 1,
    strict_files: Annotated[
        bool | None,
        typer.Option(
            "--strict-files/--skip-files",
            show_default=False,
            help="Refuse or skip every config.json of no known model. Left out, one is refused where it is "
            "named, and skipped in a folder.",
        ),
    ] = None,
    overrides: Set = None,
    form: FormOfFindings = None,
    as_json: Annotated[bool, typer.Option("--json", help="Short for --format json.")] = False,
    output: Output = None,
) -> None:
    """Check an architecture against design rules, as a linter does.

    Every rule has a source, and says where published models stand; archcli rule CODE explains one.

    Exits with 1 on an error or a warning, with 0 where there is none, with 2 where a file is no
    architecture. In a folder, a config.json of another program or of an unknown family is skipped with a
    note. A rule is silenced by --ignore, by `ignore: [FFN001]` in the YAML, or by the comment `# archcli:
    ignore[FFN001]` on the line that it points at.
    """
    shown = _form(form, output, as_json=as_json, suggest=suggest, counts=statistics_only)
    selection = _selection(select, extend_select, ignore)
    check = FileCheck(overrides or [], selection, Parallelism(tp, pp, ep), strict_files)
    checked, problems = _check_all(models, check)
    inputs: dict[str, Any] = {"tp": tp, "pp": pp, "ep": ep, "severity": severity}
    inputs |= {"set": overrides} if overrides else {}
    if checked or not problems:
        _show(checked, inputs, shown, output, counts=statistics_only)
    if problems:
        raise ArchError(problems)
    if is_failing(_diagnostics(checked), Severity(severity)) and not exit_zero:
        raise typer.Exit(1)


def _form(form: str | None, output: Path | None, *, as_json: bool, suggest: bool, counts: bool) -> str:
    """The format to print in. Raises ArchError for options that contradict each other."""
    asked = ["--json"] if as_json else [] if form is None else [f"--format {form}"]
    asked = [*["--statistics"] * counts, *asked]
    chosen = chosen_format(form, output, as_json=as_json, suffixes=PATCHES if suggest else SUFFIXES) or "full"
    if (suggest and asked) or (counts and chosen not in TABLES):
        both = [*["--suggest"] * suggest, *asked, f"-o {output}"][:2]
        raise ArchError(f"{' and '.join(both)} contradict each other", "leave one of them out")
    return "suggest" if suggest else chosen


def _selection(select: Codes, extend: Codes, ignore: Codes) -> Selection:
    lists = {"--select": select, "--extend-select": extend, "--ignore": ignore}
    split = {option: _codes(given or ()) for option, given in lists.items()}
    check_prefixes(split)
    return Selection(*split.values())


def _codes(given: Sequence[str]) -> list[str]:
    return [code.strip().upper() for text in given for code in text.split(",")]


def _check_all(names: Sequence[str], check: FileCheck) -> tuple[list[CheckedModel], list[Problem]]:
    """Check every distinct model; returns them and the problems of files that could not be loaded."""
    checked: list[CheckedModel] = []
    problems: list[Problem] = []
    unique: dict[str, str] = {}
    for name in names:
        unique.setdefault(identity(name), name)
    for name in unique.values():
        try:
            checked.append(_checked(name, check))
        except ArchError as error:
            if check.skips(name, error):
                tell(f"note: {sanitize(name)} is skipped: {sanitize(error.problems[0].what)}")
                continue
            problems += error.problems
    return checked, problems


def _checked(name: str, check: FileCheck) -> CheckedModel:
    loaded = load(name, check.overrides, strict=False)
    case = Case(loaded.model, loaded.conflicts, check.parallel, altered=bool(check.overrides))
    diagnostics = diagnose(case, loaded.name, check.selection, loaded.mark, evidence_index(COLUMNS))
    return CheckedModel(loaded, diagnostics)


def _diagnostics(checked: Sequence[CheckedModel]) -> list[Diagnostic]:
    return [diagnostic for model in checked for diagnostic in model.diagnostics]


def _show(
    checked: Sequence[CheckedModel],
    inputs: dict[str, Any],
    form: str,
    output: Path | None,
    *,
    counts: bool = False,
) -> None:
    """Print the findings in the form asked for, or write them to a file."""
    diagnostics = _diagnostics(checked)
    models = [{"name": loaded.name, "source": loaded.source} for loaded, _ in checked]
    notes = [f"{loaded.name}: {note}" for loaded, _ in checked for note in loaded.notes]
    report = report_of(diagnostics, models, inputs, notes)
    if form == "suggest":
        text = "".join(map(_patch, checked))
    elif counts:
        text = rendered(statistics(report), "plain" if form == "full" else form)
    elif form == "full":
        text = full(report, diagnostics, None if output else columns())
    else:
        text = rendered(report, form)
    write(painted(text) if form in LINES and output is None else text, output)


def _patch(checked: CheckedModel) -> str:
    """A patch of one file; changes that cannot be written into it follow as comments."""
    fixes = [tuple(fix) for diagnostic in checked.diagnostics for fix in diagnostic.finding.fixes]
    patch = patch_of(checked.loaded.tree, fixes)
    return patch.text + unpatched(checked.loaded.source, patch.left)
