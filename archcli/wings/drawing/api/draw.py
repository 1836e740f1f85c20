"""`draw`, the Python function of `archcli draw`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from archcli.api.asking.question import Option
from archcli.api.asking.subject import Subject, given
from archcli.errors import ArchError, Problem, quote
from archcli.modules.models.model import ModelLike
from archcli.modules.spec.calls import checked
from archcli.modules.spec.values import Conversion, refused

if TYPE_CHECKING:
    from archcli.measure.survey.compare.differences import Difference
    from archcli.wings.drawing.drawn import Anatomy

MOST_MODELS = 4
SCREEN = 100
"""Columns of a drawing as text where no terminal says how wide it is."""


def _path(value: Any) -> Path:
    if not isinstance(value, str | PathLike):
        raise refused(value, "a path")
    return Path(value)


Quantity = Annotated[
    Literal["params", "flops", "bytes", "kv", "time"],
    Option("What the bars at the foot and the tints show; time needs --profile."),
]
Timed = Annotated[
    str | PathLike[str] | None,
    Conversion("a path", _path),
    Option(
        "A file written by `archcli profile MODEL --json -o PROFILE.json`.",
        metavar="PROFILE.json",
        reads="text",
    ),
]


@dataclass(frozen=True)
class DrawOptions:
    """Options of `archcli draw`."""

    show: Quantity = "params"
    profile: Timed = None


class ArchitectureDrawing:
    """A drawing of one to four architectures: as SVG in a notebook, as text where it is printed."""

    def __init__(
        self,
        subjects: Sequence[Subject],
        anatomies: Sequence[Anatomy],
        differences: Sequence[Difference] = (),
    ) -> None:
        """Keep the models and the content; the layout is computed by `svg` and `text`."""
        self.subjects = tuple(subjects)
        self.anatomies, self.differences = tuple(anatomies), tuple(differences)

    def svg(self) -> str:
        """The drawing as an SVG file."""
        if len(self.anatomies) == 1 and self.anatomies[0].towers:
            from archcli.wings.drawing.picture.architecture.page import towers

            return towers.svg(self.anatomies[0])
        if len(self.anatomies) == 1:
            from archcli.wings.drawing.picture.architecture.page import sheet

            return sheet.svg(self.anatomies[0])
        from archcli.wings.drawing.picture.architecture.page import columns

        return columns.svg(self.anatomies, self.differences)

    def text(self, width: int = SCREEN, encoding: str | None = None, *, coloured: bool = False) -> str:
        """The drawing as text of at most `width` columns, in characters that an encoding has."""
        from archcli.wings.drawing.picture.architecture.plain import lines, outline

        signs = lines.signs_for(encoding)
        models = (*self.anatomies, *self.anatomies[0].towers) if len(self.anatomies) == 1 else self.anatomies
        drawn = outline.outline(models, self.differences, width, signs)
        return lines.coloured(drawn) if coloured else lines.plain(drawn)

    def html(self) -> str:
        """The drawing in a page that finds and folds its parts; of one model also a token's steps."""
        from archcli.wings.drawing.load import page_file
        from archcli.wings.drawing.measure.token_walk import stages_of
        from archcli.wings.drawing.picture.explore.page import explore_page

        models = [*map(_in_shell, self.subjects)]
        stages = [*stages_of(self.subjects[0].model, self.anatomies[0])] if len(models) == 1 else []
        file = partial(page_file, folder="picture/explore")
        return explore_page(self.name, self.svg(), models, stages, file)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write an .svg, .html or .png; ArchError for another suffix. Returns the file."""
        from archcli.render.picture import files

        files.draw(Path(path), self.svg, self.html)
        return Path(path)

    def rows(self) -> list[dict[str, Any]]:
        """The bars at the foot: of each component the stored amount, and the part read for a token."""
        return [
            {
                "model": anatomy.name,
                "component": share.name,
                "quantity": anatomy.shown,
                "stored": share.stored.value,
                "read": share.read.value,
            }
            for anatomy in self.anatomies
            for share in anatomy.shares
        ]

    @property
    def name(self) -> str:
        """The models' names."""
        return ", ".join(anatomy.name for anatomy in self.anatomies)

    def _repr_svg_(self) -> str:
        return self.svg()

    def _repr_html_(self) -> str:
        """The drawing at the width of a notebook's output, in its scheme."""
        from archcli.render.notebook import picture_html

        return picture_html(self.svg(), f"Drawing of {self.name}")

    def __str__(self) -> str:
        """The drawing as text."""
        return self.text()

    def __repr__(self) -> str:
        return f"ArchitectureDrawing({self.name})"


def _in_shell(subject: Subject) -> str:
    """The model and its --set options as a shell takes them."""
    word = subject.source if Path(subject.source).is_file() else subject.name
    return shlex.join([word, *(piece for text in subject.overrides for piece in ("--set", text))])


def check_count(models: int, command: str = "draw") -> None:
    """Raise ArchError for no model, and for more than fit beside each other."""
    if not models:
        raise ArchError(f"{command} needs a model, and none is named", "archcli list has presets")
    if models > MOST_MODELS:
        what = f"{command} takes up to {MOST_MODELS} models, and {models} are named"
        raise ArchError(what, "archcli survey compares many")


def drawing_of(subjects: Sequence[Subject], options: DrawOptions) -> ArchitectureDrawing:
    """The drawing of loaded models. Raises ArchError for none, for five, for a profile of another model."""
    check_count(len(subjects))
    from archcli.wings.drawing.anatomy.anatomy import anatomy

    timed = _profile_of(subjects, options)
    anatomies = [
        replace(anatomy(subject.model, options.show, timed), name=name)
        for subject, name in zip(subjects, _distinct([subject.name for subject in subjects]), strict=True)
    ]
    return ArchitectureDrawing(subjects, anatomies, _differences(subjects) if len(subjects) > 1 else ())


def _distinct(names: Sequence[str]) -> list[str]:
    """Names, numbered where they are equal."""
    return [f"{name} #{i}" if names.count(name) > 1 else name for i, name in enumerate(names, 1)]


def _profile_of(subjects: Sequence[Subject], options: DrawOptions) -> Any:
    """The document of --profile. Raises ArchError where it is missing, not read, or of another model."""
    if options.profile is None:
        if options.show == "time":
            hint = "archcli profile MODEL --json -o profile.json writes one"
            raise ArchError("--show time needs --profile", hint)
        return None
    if options.show != "time":
        raise ArchError(
            f"--profile has times, and --show {options.show} has no use of them", "add --show time"
        )
    from archcli.wings.serving.api.known_device.saved_profile import read_profile
    from archcli.wings.serving.recorded.schema import is_comparison

    document = read_profile(Path(options.profile))
    if is_comparison(document):
        what = "a profile with --vs compares, and a drawing has the times of one model"
        raise ArchError(Problem(what, "profile the model alone", path=str(options.profile)))
    profiled = _label(document["model"]["name"], document["inputs"].get("set"))
    drawn = (_label(subject.name, subject.overrides) for subject in subjects)
    undrawn = next((name for name in drawn if name != profiled), None)
    if undrawn is not None:
        what = f"a profile of {quote(profiled)}, not of {quote(undrawn)}"
        raise ArchError(Problem(what, "profile the model that is drawn", path=str(options.profile)))
    return document


def _label(name: str, overrides: Sequence[str] | None) -> str:
    """A model's name with its --set options: a profile must be of the same."""
    return " ".join([name, *(f"--set {text}" for text in sorted(overrides or ()))])


def _differences(subjects: Sequence[Subject]) -> list[Difference]:
    """The settings in which the models differ, as `compare` lists them; of one group as --set takes them."""
    from archcli.load.spec.written import to_mapping
    from archcli.measure.survey.compare.differences import ModelSettings, differences, grouped

    settings = [ModelSettings(subject.model, to_mapping(subject.model)) for subject in subjects]
    several = any(len(model.mapping.get("groups", ())) > 1 for model in settings)
    return [
        it._replace(
            path=it.path if several else it.path.removeprefix("groups.0.").removeprefix("layer."),
            values=tuple(map(grouped, it.values)),
        )
        for it in differences(settings)
    ]


@checked
def draw(*models: ModelLike, show: Quantity = "params", profile: Timed = None) -> ArchitectureDrawing:
    """One to four architectures to scale: the drawing of `archcli draw`.

    It shows in a notebook, prints as text, and `.save("llama.svg")` writes an .svg, .html or .png. `show`
    chooses what the bars at the foot and the tints are of; `time` needs `profile`, a file of
    `archcli profile --json`.

    Example: `draw("llama-3.1-8b").name` is llama-3.1-8b.
    """
    return drawing_of([given(model) for model in models], DrawOptions(show, profile))
