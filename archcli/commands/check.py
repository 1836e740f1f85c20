"""`archcli check`: a linter for architectures."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from archcli.commands.options import Output, Set
from archcli.errors import ArchError, Problem
from archcli.load.diagnostics import paragraph
from archcli.load.index import presets_index
from archcli.load.patch import as_patch, edited
from archcli.load.source import Loaded, load
from archcli.measure.report import Report
from archcli.modules import Model
from archcli.render import rendered, write
from archcli.rules.base import Case, Finding, Parallel, Severity
from archcli.rules.evidence import standing
from archcli.rules.lint import Found, Selection, check_prefixes, failing, lint
from archcli.rules.report import Placed, report_of, statistics, summary

PRAGMA = re.compile(r"#\s*archcli:\s*ignore(?:\[([^\]]*)\])?")

Models = Annotated[list[str], typer.Argument(metavar="MODEL…", help="YAML or JSON files, presets' names, or - for standard input.")]
Codes = list[str] | None
Select = Annotated[
    Codes, typer.Option("--select", metavar="CODES", help="Only rules whose code begins so: FFN, FFN001, ALL; comma-separated.")
]
Extend = Annotated[
    Codes, typer.Option("--extend-select", metavar="CODES", help="These as well, where --select or the model leaves them out.")
]
Ignore = Annotated[Codes, typer.Option("--ignore", metavar="CODES", help="Not these.")]
Floor = Annotated[
    Literal["error", "warning"],
    typer.Option("--severity", help="The least that makes the exit code 1; information never does."),
]
FormOfFindings = Annotated[
    Literal["full", "concise", "json", "github", "sarif", "csv", "md"],
    typer.Option("--format", help="full draws the lines, concise is a line each; github and sarif are for CI systems."),
]
Degree = typer.Option(metavar="N", min=1)


def run(  # noqa: PLR0913, PLR0917 - one parameter per option
    models: Models,
    select: Select = None,
    extend_select: Extend = None,
    ignore: Ignore = None,
    severity: Floor = "warning",
    statistics_only: Annotated[bool, typer.Option("--statistics", help="How often each rule was broken.")] = False,
    suggest: Annotated[bool, typer.Option("--suggest", help="Print a patch that mends what can be mended.")] = False,
    exit_zero: Annotated[bool, typer.Option("--exit-zero", help="Exit with 0 whatever is found.")] = False,
    tp: Annotated[int, typer.Option("--tp", metavar="N", min=1, help="Devices that share each matrix (tensor parallelism).")] = 1,
    pp: Annotated[int, typer.Option("--pp", metavar="N", min=1, help="Stages the layers are cut into (pipeline parallelism).")] = 1,
    ep: Annotated[int, typer.Option("--ep", metavar="N", min=1, help="Devices that share the experts (expert parallelism).")] = 1,
    overrides: Set = None,
    form: FormOfFindings = "full",
    as_json: Annotated[bool, typer.Option("--json", help="Short for --format json.")] = False,
    output: Output = None,
) -> None:
    """Check the shape of architectures against rules, each with a source and with what published models do.

    Exits with 1 on an error or a warning, 0 where there is none, 2 where a file is no architecture. A rule is silenced by --ignore, by
    `ignore: [FFN001]` in the YAML, or by `# archcli: ignore[FFN001]` on the line it stops at.
    """
    selection = _selection(select, extend_select, ignore)
    placed, loaded, problems = _all(models, list(overrides or ()), selection, Parallel(tp, pp, ep))
    inputs: dict[str, Any] = {"tp": tp, "pp": pp, "ep": ep, "severity": severity, "set": list(overrides or ())}
    report = report_of(placed, [{"name": each.name, "source": each.source} for each in loaded], inputs)
    if loaded:
        _show(report, placed, loaded, "statistics" if statistics_only else "patch" if suggest else "json" if as_json else form, output)
    if problems:
        raise ArchError(problems)
    if failing([each.found for each in placed], Severity(severity)) and not exit_zero:
        raise typer.Exit(1)


def _all(
    names: list[str], overrides: list[str], selection: Selection, parallel: Parallel
) -> tuple[list[Placed], list[Loaded], list[Problem]]:
    """The findings of every model, the models, and what is wrong with files that hold none."""
    placed: list[Placed] = []
    loaded: list[Loaded] = []
    problems: list[Problem] = []
    for name in names:
        try:
            one = load(name, overrides, strict=False)
            placed += _checked(one, selection, parallel)
            loaded.append(one)
        except ArchError as error:
            problems += error.problems
    return placed, loaded, problems


def _selection(select: Codes, extend: Codes, ignore: Codes) -> Selection:
    lists = {"--select": select, "--extend-select": extend, "--ignore": ignore}
    split = {option: [code.strip().upper() for text in given or () for code in text.split(",")] for option, given in lists.items()}
    check_prefixes(split)
    return Selection(*split.values())


def _checked(loaded: Loaded, selection: Selection, parallel: Parallel) -> list[Placed]:
    """The findings of one model that no comment on their line silences, as they stand in the file; each once."""
    if not isinstance(loaded.model, Model):
        raise ArchError(f"{loaded.name}: a {type(loaded.model).__name__} cannot be checked")
    case = Case(loaded.model, loaded.misfits, parallel)
    index = presets_index()
    once: dict[Any, Placed] = {}
    for found in lint(case, selection, loaded.model.ignore):
        mark = loaded.mark(found.finding.path)
        if not _silenced(mark.text, found.rule.code):
            column = found.rule.evidence
            seen = standing(index, column, found.finding.value, loaded.name) if column else None
            once.setdefault((found.rule.code, mark.line, mark.column, found.finding.message), Placed(loaded.name, found, mark, seen))
    return sorted(once.values(), key=lambda each: (each.mark.line, each.mark.column, each.found.rule.code))


def _silenced(line: str, code: str) -> bool:
    pragma = PRAGMA.search(line)
    if pragma is None:
        return False
    codes = [one.strip().upper() for one in (pragma[1] or "").split(",")]
    return pragma[1] is None or any(one and code.startswith(one) for one in codes)


def _show(report: Report, placed: list[Placed], loaded: list[Loaded], form: str, output: Path | None) -> None:
    """Print the report in the form asked for."""
    if form in {"json", "csv", "md", "github", "sarif"}:
        write(rendered(report, form), output)
    elif form == "statistics":
        from dataclasses import replace

        write(rendered(replace(report, tables=(statistics(placed),)), "plain"), output)
    elif form == "patch":
        write(_patches(placed, loaded), output)
    else:
        lines = [_full(each) if form == "full" else _concise(each) for each in placed]
        write("\n".join([*lines, summary(report.totals)]) + "\n", output)


def _label(found: Found) -> str:
    return f"{found.rule.severity}[{found.rule.code}]"


def _concise(each: Placed) -> str:
    return f"{each.mark}: {_label(each.found)} {each.found.finding.message}"


def _full(each: Placed) -> str:
    rule, finding = each.found
    notes = [("source", rule.source), ("seen", each.standing.words() if each.standing else "")]
    return paragraph(Problem(finding.message, _help(finding), each.mark), _label(each.found), *notes)


def _help(finding: Finding) -> str:
    changes = ", ".join(f"{fix.path}={fix.value}" for fix in finding.fixes)
    return "; ".join(filter(None, [finding.help, f"--set {changes}" if changes and "=" not in finding.help else ""]))


def _patches(placed: list[Placed], loaded: list[Loaded]) -> str:
    """A patch per file; what cannot be written into one is said in a comment."""
    out = []
    for one in loaded:
        changes = [tuple(fix) for each in placed if each.model == one.name for fix in each.found.finding.fixes]
        source = one.tree.place.source
        new = edited(one.tree, source.lines, source.name, changes)
        out.append(as_patch("\n".join(source.lines), new.text, source.name))
        out += [f"# {source.name}: --set {path}={value}\n" for path, value in new.left]
    return "".join(out)
