"""`archcli check`: a linter for architectures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer

from archcli.commands.options import Output, Set
from archcli.errors import ArchError, Mark, Problem
from archcli.load.presets import presets_index
from archcli.load.source import Loaded, identity, load
from archcli.load.yaml.patch import patch_of
from archcli.modules import Model
from archcli.render import rendered, write
from archcli.render.problems import paragraph
from archcli.render.screen import columns, painted
from archcli.rules.base import Case, Finding, Parallel, Severity
from archcli.rules.evidence import standing
from archcli.rules.lint import Found, Selection, check_prefixes, failing, lint
from archcli.rules.report import Placed, report_of, statistics, summary
from archcli.wording import clean, written

MOST_OPTIONS = 4
PRAGMA = re.compile(r"#\s*archcli:\s*ignore(?:\[([^\]]*)\])?")

Models = Annotated[
    list[str],
    typer.Argument(metavar="MODEL", help="YAML or JSON files, presets' names, or - for standard input."),
]
Codes = list[str] | None
Select = Annotated[
    Codes,
    typer.Option(
        "--select",
        metavar="CODES",
        help="Only rules whose code begins so: FFN, FFN001, ALL; comma-separated.",
    ),
]
Extend = Annotated[
    Codes,
    typer.Option(
        "--extend-select", metavar="CODES", help="These as well, where --select or the model leaves them out."
    ),
]
Ignore = Annotated[Codes, typer.Option("--ignore", metavar="CODES", help="Not these.")]
Floor = Annotated[
    Literal["error", "warning"],
    typer.Option("--severity", help="The least that makes the exit code 1; information never does."),
]
FormOfFindings = Annotated[
    Literal["full", "concise", "json", "github", "sarif", "csv", "md"],
    typer.Option(
        "--format", help="full draws the lines, concise is a line each; github and sarif are for CI systems."
    ),
]


class Checked(NamedTuple):
    """A model, and what was found in it."""

    loaded: Loaded
    placed: list[Placed]


def run(  # noqa: PLR0913, PLR0917
    models: Models,
    select: Select = None,
    extend_select: Extend = None,
    ignore: Ignore = None,
    severity: Floor = "warning",
    statistics_only: Annotated[
        bool, typer.Option("--statistics", help="How often each rule was broken.")
    ] = False,
    suggest: Annotated[
        bool, typer.Option("--suggest", help="Print a patch that mends what can be mended.")
    ] = False,
    exit_zero: Annotated[bool, typer.Option("--exit-zero", help="Exit with 0 whatever is found.")] = False,
    tp: Annotated[
        int,
        typer.Option("--tp", metavar="N", min=1, help="Devices that share each matrix (tensor parallelism)."),
    ] = 1,
    pp: Annotated[
        int,
        typer.Option(
            "--pp", metavar="N", min=1, help="Stages the layers are cut into (pipeline parallelism)."
        ),
    ] = 1,
    ep: Annotated[
        int,
        typer.Option("--ep", metavar="N", min=1, help="Devices that share the experts (expert parallelism)."),
    ] = 1,
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
    checked, problems = _all(models, list(overrides or ()), selection, Parallel(tp, pp, ep))
    inputs: dict[str, Any] = {"tp": tp, "pp": pp, "ep": ep, "severity": severity} | (
        {"set": list(overrides)} if overrides else {}
    )
    if checked:
        shown = "json" if as_json else form
        _show(
            checked,
            inputs,
            "patch" if suggest else "statistics" if statistics_only and shown == "full" else shown,
            output,
        )
    if problems:
        raise ArchError(problems)
    if failing([each.found for one in checked for each in one.placed], Severity(severity)) and not exit_zero:
        raise typer.Exit(1)


def _all(
    names: list[str], overrides: list[str], selection: Selection, parallel: Parallel
) -> tuple[list[Checked], list[Problem]]:
    """What is found in every model, each once, and what is wrong with files that hold none."""
    checked: list[Checked] = []
    problems: list[Problem] = []
    unique: dict[str, str] = {}
    for name in names:
        unique.setdefault(identity(name), name)
    for name in unique.values():
        try:
            loaded = load(name, overrides, strict=False)
            checked.append(Checked(loaded, _placed(loaded, selection, parallel, altered=bool(overrides))))
        except ArchError as error:
            problems += error.problems
    return checked, problems


def _selection(select: Codes, extend: Codes, ignore: Codes) -> Selection:
    lists = {"--select": select, "--extend-select": extend, "--ignore": ignore}
    split = {
        option: [code.strip().upper() for text in given or () for code in text.split(",")]
        for option, given in lists.items()
    }
    check_prefixes(split)
    return Selection(*split.values())


def _placed(loaded: Loaded, selection: Selection, parallel: Parallel, *, altered: bool) -> list[Placed]:
    """The findings of one model that no comment on their line silences, as they stand in the file; what many layers share once."""
    if not isinstance(loaded.model, Model):
        raise ArchError(f"{loaded.name}: a {type(loaded.model).__name__} cannot be checked")
    once: dict[Any, Placed] = {}
    for found in lint(Case(loaded.model, loaded.misfits, parallel, altered), selection, loaded.model.ignore):
        rule, finding = found
        mark = _mark(loaded, finding.path)
        if not _silenced(mark.text, rule.code):
            key = (rule.code, mark, finding.message)
            if key in once:
                finding = replace(
                    once[key].found.finding, fixes=once[key].found.finding.fixes + finding.fixes
                )
            seen = (
                standing(presets_index(), rule.evidence, finding.value, loaded.name)
                if rule.evidence
                else None
            )
            once[key] = Placed(loaded.name, Found(rule, finding), mark, seen)
    return sorted(
        once.values(),
        key=lambda each: (each.mark.file, each.mark.line, each.mark.column, each.found.rule.code),
    )


def _mark(loaded: Loaded, path: str) -> Mark:
    """The place in the user's own file; its beginning for what an imported one does not say."""
    mark = loaded.mark(path)
    imported = loaded.origin is not None and mark.file == loaded.origin.as_yaml
    return Mark(loaded.origin.name, 1, 1) if imported and loaded.origin else mark


def _silenced(line: str, code: str) -> bool:
    pragma = PRAGMA.search(line)
    if pragma is None:
        return False
    codes = [one.strip().upper() for one in (pragma[1] or "").split(",")]
    return pragma[1] is None or any(one and code.startswith(one) for one in codes)


def _show(checked: Sequence[Checked], inputs: dict[str, Any], form: str, output: Path | None) -> None:
    """Print what was found in the form asked for."""
    placed = [each for one in checked for each in one.placed]
    models = [{"name": one.loaded.name, "source": one.loaded.source} for one in checked]
    notes = [f"{one.loaded.name}: {note}" for one in checked for note in one.loaded.notes]
    report = report_of(placed, models, inputs, notes)
    if form == "patch":
        write("".join(map(_patch, checked)), output)
    elif form == "statistics":
        write(rendered(replace(report, tables=(statistics(placed),), notes=()), "plain"), output)
    elif form in {"full", "concise"}:
        width = None if output else columns()
        lines = [_full(each, width) + "\n" if form == "full" else _concise(each) for each in placed]
        lines += [f"note: {clean(note)}" for note in notes if form == "full"]
        text = "\n".join([*lines, summary(report.totals)]) + "\n"
        write(text if output else painted(text), output)
    else:
        write(rendered(report, form), output)


def _label(found: Found) -> str:
    return f"{found.rule.severity}[{found.rule.code}]"


def _concise(each: Placed) -> str:
    return clean(f"{each.mark}: {_label(each.found)} {each.found.finding.message}")


def _full(each: Placed, width: int | None) -> str:
    rule, finding = each.found
    expected = f"expected {finding.expected}" if finding.expected else ""
    notes = [("seen", each.standing.words() if each.standing else ""), ("source", rule.source)]
    problem = Problem("; ".join(filter(None, [finding.message, expected])), _help(finding), each.mark)
    return paragraph(problem, _label(each.found), *notes, width=width)


def _help(finding: Finding) -> str:
    """How to mend it: in words, and as options."""
    options = [f"--set {fix.path}={written(fix.value)}" for fix in finding.fixes]
    more = [f"and {len(options) - MOST_OPTIONS} more"] if len(options) > MOST_OPTIONS else []
    return "; ".join(filter(None, [finding.help, " ".join([*options[:MOST_OPTIONS], *more])]))


def _patch(checked: Checked) -> str:
    """A patch of one file; what cannot be written into it is said in a comment."""
    patch = patch_of(
        checked.loaded.tree, [tuple(fix) for each in checked.placed for fix in each.found.finding.fixes]
    )
    return patch.text + "".join(
        f"# {clean(checked.loaded.source)}: --set {path}={written(value)}\n" for path, value in patch.left
    )
