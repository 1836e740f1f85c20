"""The page of a drawing: what it is composed of."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from archcli.wings.drawing.api.reporting.subjects import ReportedModel
from archcli.wings.drawing.load import page_file
from archcli.wings.drawing.measure.walk.stages import stages_of
from archcli.wings.drawing.picture.explore.page import explore_page

if TYPE_CHECKING:
    from archcli.api.asking.subject import Subject
    from archcli.wings.drawing.drawn import Anatomy

FOLDER = "picture/explore"
PRESET = "preset "
"""What stands before the name of a preset in a model's source."""


def page_of(title: str, svg: str, subjects: Sequence[Subject], anatomies: Sequence[Anatomy]) -> str:
    """The page; of one model with the steps of a token."""
    stages = [*stages_of(subjects[0].model, anatomies[0])] if len(subjects) == 1 else []
    names = [*map(_in_shell, subjects)]
    return explore_page(title, svg, names, stages, lambda name: page_file(name, FOLDER))


def _in_shell(subject: Subject) -> str:
    """The model and its --set options as a shell takes them."""
    word = ReportedModel(subject, subject.source.removeprefix(PRESET)).shell_word
    return " ".join([word, *(f"--set {shlex.quote(text)}" for text in subject.overrides)])
