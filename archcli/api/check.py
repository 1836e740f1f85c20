"""check: `archcli check` in Python, and the checks of files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from archcli.api.asking.options import Ep, Pp, Tp
from archcli.api.asking.question import Option
from archcli.errors import ArchError, NoModelError, Problem, sanitize
from archcli.load.loaded import Loaded, text_notes
from archcli.load.presets import evidence_index
from archcli.load.source import identity, is_folder, load, load_given
from archcli.load.spec.written import to_mapping
from archcli.measure.report import Report
from archcli.modules import Model
from archcli.modules.models.model import ModelLike
from archcli.modules.spec.calls import checked
from archcli.render.write import tell
from archcli.rules.base import Case, Parallelism
from archcli.rules.diagnostics import Diagnostic, diagnose
from archcli.rules.evidence import COLUMNS
from archcli.rules.lint import Selection, check_prefixes
from archcli.rules.report import report_of

CODES = "CODES"
Select = Annotated[
    Sequence[str],
    Option(
        "Run only rules whose code begins so, comma-separated: FFN, ATT001, ALL.",
        metavar=CODES,
        completes="codes",
    ),
]
Extend = Annotated[
    Sequence[str],
    Option(
        "Run these as well, though --select or the model leaves them out.", metavar=CODES, completes="codes"
    ),
]
Ignore = Annotated[Sequence[str], Option("Do not run these.", metavar=CODES, completes="codes")]
Floor = Annotated[
    Literal["error", "warning"],
    Option("The least severity that exits with 1; information never does."),
]


@dataclass(frozen=True)
class CheckOptions:
    """Options of `archcli check`."""

    _: KW_ONLY
    select: Select = ()
    extend_select: Extend = ()
    ignore: Ignore = ()
    severity: Floor = "warning"
    tp: Tp = 1
    pp: Pp = 1
    ep: Ep = 1

    def selection(self) -> Selection:
        """The rules that run. Raises ArchError for codes of none."""
        lists = {"--select": self.select, "--extend-select": self.extend_select, "--ignore": self.ignore}
        split = {option: _codes(codes) for option, codes in lists.items()}
        check_prefixes(split)
        return Selection(*split.values())

    def inputs(self) -> dict[str, Any]:
        """What a report has among its inputs."""
        return {"tp": self.tp, "pp": self.pp, "ep": self.ep, "severity": self.severity}


def _codes(texts: Sequence[str]) -> list[str]:
    return [code.strip().upper() for text in texts for code in text.split(",")]


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
        in_folder = is_folder(name)
        strict = not in_folder if self.strict is None else self.strict
        # of files that are named, a config.json alone may belong to another program
        may_be_foreign = in_folder or Path(name).name == "config.json"
        return may_be_foreign and not strict and isinstance(error, NoModelError)

    def of_model(self, loaded: Loaded) -> CheckedModel:
        """A loaded model with its diagnostics."""
        case = Case(loaded.model, loaded.conflicts, self.parallel, altered=bool(self.overrides))
        index = evidence_index(COLUMNS)
        is_preset = loaded.source == f"preset {loaded.name}" and not self.overrides
        return CheckedModel(
            loaded,
            diagnose(case, loaded.name, self.selection, loaded.mark, index, is_preset=is_preset),
        )


def check_files(names: Sequence[str], check: FileCheck) -> tuple[list[CheckedModel], list[Problem]]:
    """Check every distinct model; returns them and the problems of files that could not be loaded."""
    checked: list[CheckedModel] = []
    problems: list[Problem] = []
    unique: dict[str, str] = {}
    for name in names:
        # a file that is named twice, or found in two ways, is judged once
        unique.setdefault(identity(name), name)
    for name in unique.values():
        try:
            # values that contradict each other are findings of rules here, and no refusal
            checked.append(check.of_model(load(name, check.overrides, strict=False)))
        except ArchError as error:
            if check.skips(name, error):
                tell(f"note: {sanitize(name)} is skipped: {sanitize(error.problems[0].what)}")
                continue
            problems += error.problems
    return checked, problems


def diagnostics_of(checked: Sequence[CheckedModel]) -> list[Diagnostic]:
    """The diagnostics of all models, in their order."""
    return [diagnostic for model in checked for diagnostic in model.diagnostics]


def check_report(checked: Sequence[CheckedModel], inputs: Mapping[str, Any]) -> Report:
    """The report on models that were checked."""
    models = [{"name": loaded.name, "source": loaded.source} for loaded, _ in checked]
    notes = [f"{loaded.name}: {note}" for loaded, _ in checked for note in text_notes(loaded.notes)]
    return report_of(diagnostics_of(checked), models, inputs, notes)


@checked
def check(
    *models: ModelLike,
    select: Select = (),
    extend_select: Extend = (),
    ignore: Ignore = (),
    tp: Tp = 1,
    pp: Pp = 1,
    ep: Ep = 1,
) -> Report:
    """Architectures against design rules, as a linter does: the report of `archcli check`.

    `select`, `extend_select` and `ignore` are beginnings of rules' codes: ["FFN", "ATT001"]. `tp`, `pp` and
    `ep` devices are to share the model. `rows` have code, severity, message, value, expected, where, help,
    fixes, source and evidence; `totals` errors, warnings and infos.

    Example: `check("llama-3.1-8b").totals["errors"]` is 0.
    """
    if not models:
        raise ArchError("no model to check", 'such as check("gpt2")')
    options = CheckOptions(select=select, extend_select=extend_select, ignore=ignore, tp=tp, pp=pp, ep=ep)
    files = FileCheck((), options.selection(), Parallelism(tp, pp, ep), strict=True)
    # places of settings are those of a mapping, which a loaded model no longer has
    mappings = (to_mapping(model) if isinstance(model, Model) else model for model in models)
    checked_models = [files.of_model(load_given(model, strict=False)) for model in mappings]
    return check_report(checked_models, options.inputs())
