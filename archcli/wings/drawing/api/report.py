"""report: `archcli report` in Python: a page of one file that calculates."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from archcli.api.asking.options import Engine
from archcli.api.asking.subject import given, taken_notes
from archcli.modules.models.model import ModelLike
from archcli.modules.spec.calls import checked
from archcli.wings.drawing.api.draw import DrawOptions, Timed, check_count, drawing_of
from archcli.wings.drawing.api.reporting.options import Devices, Note, ReportOptions, Title

if TYPE_CHECKING:
    from archcli.wings.drawing.api.reporting.speeds import Step
    from archcli.wings.drawing.api.reporting.subjects import ReportedModel


class ReportPage:
    """A page on one to four models: `html` is its text, `save` writes it."""

    def __init__(
        self, models: Sequence[ReportedModel], options: ReportOptions, step: Step = lambda _: None
    ) -> None:
        """Keep what is asked; nothing is computed before the page is. `step` hears what is computed then."""
        self.models, self.options, self._step = tuple(models), options, step

    @cached_property
    def html(self) -> str:
        """The page."""
        from archcli.wings.drawing.api.reporting.content import page_of

        return page_of(self.models, self.options, self._step)

    def _repr_html_(self) -> str:
        """The page within a notebook: a frame, so that its styles and scripts stay its own."""
        frame = "width:100%;height:720px;border:1px solid #d0d7de"
        return f'<iframe title="{escape(self.name)}" style="{frame}" srcdoc="{escape(self.html)}"></iframe>'

    @property
    def left_out(self) -> list[str]:
        """What the page leaves out of models with very many different layers."""
        from archcli.wings.drawing.api.reporting.content import too_different

        return [left_out for left_out in map(too_different, self.models) if left_out]

    @property
    def taken(self) -> list[str]:
        """What the words of the question were taken for."""
        of_names = [note for model in self.models for note in model.subject.name_notes]
        return [*of_names, *taken_notes(self.options)]

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the page to an .html file, and return it. ArchError for another suffix."""
        from archcli.wings.drawing.report.files import save_page

        return save_page(lambda: self.html, Path(path))

    @property
    def name(self) -> str:
        """The models' names."""
        return ", ".join(model.subject.name for model in self.models)

    def __repr__(self) -> str:
        return f"ReportPage({self.name})"


def report_of(
    models: Sequence[ReportedModel], options: ReportOptions, step: Step = lambda _: None
) -> ReportPage:
    """The page on loaded models. Raises ArchError for none, for five, and for a profile of another model."""
    check_count(len(models), "report")
    if options.profile is not None:
        # reads the profile and compares names: before anything is computed
        drawing_of([model.subject for model in models], DrawOptions("time", options.profile))
    return ReportPage(models, options, step)


@checked
def report(
    *models: ModelLike,
    profile: Timed = None,
    device: Devices = (),
    engine: Engine = None,
    title: Title = None,
    note: Note = None,
) -> ReportPage:
    """A page on one to four models that calculates: the page of `archcli report`.

    `.save("llama.html")` writes it, and a notebook shows it in a frame. `device` are those that speeds are
    predicted for, `engine` what runs the model there, `profile` a file of `archcli profile --json` whose
    times it shows, `title` and `note` its heading and the lines below.

    Example: `report("llama-3.1-8b").name` is llama-3.1-8b.
    """
    from archcli.wings.drawing.api.reporting.subjects import ReportedModel

    loaded = [ReportedModel(given(model), model) for model in models]
    return report_of(loaded, ReportOptions(profile, device, engine, title, note))
