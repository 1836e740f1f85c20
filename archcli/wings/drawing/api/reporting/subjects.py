"""Models of a report: how each was named, and how it is loaded again with other sizes."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from archcli.api.asking.subject import Subject
from archcli.load.loaded import Loaded
from archcli.load.presets import preset_file
from archcli.load.source import load, load_given
from archcli.load.spec.written import to_mapping
from archcli.modules import Model


class ReportedModel(NamedTuple):
    """A loaded model of a report, and what it was asked for by."""

    subject: Subject
    source: Any

    @property
    def shell_word(self) -> str:
        """The model as a shell takes it."""
        return shlex.quote(str(self.source) if self._has_name else self.subject.name)

    def again(self, texts: Sequence[str]) -> Model:
        """The model with texts of --set beside those it has. Raises ArchError where they are refused."""
        if self._has_name:
            return load(str(self.source), [*self.subject.overrides, *texts]).model
        # of a name on the hub, standard input or a Model: what was loaded, as a mapping
        return load_given(to_mapping(self.subject.model), texts).model

    def unchecked(self) -> Loaded:
        """The model with the places of its settings, and conflicts as findings: as check loads it."""
        if self._has_name:
            return load(str(self.source), self.subject.overrides, strict=False)
        return load_given(to_mapping(self.subject.model), strict=False)

    @property
    def _has_name(self) -> bool:
        """Whether it was named by a preset or a file, which can be read again."""
        named = self._is_text and str(self.source) != "-"
        return named and (Path(self.source).is_file() or preset_file(str(self.source)).is_file())

    @property
    def _is_text(self) -> bool:
        return issubclass(type(self.source), str | Path)
