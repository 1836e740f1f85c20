"""Places in the header of a GGUF file: names of metadata keys, as a binary file has no lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from archcli.errors import Problem
from archcli.load.huggingface.places import KeyPlaces
from archcli.load.yaml.nodes import Place, Source


class HeaderPlaces(KeyPlaces):
    """The metadata key from which each key of the config.json was read."""

    def report(self, problem: Problem) -> Problem:
        """The problem with the metadata key's name appended, in place of a caret."""
        mark = problem.mark
        if mark is None or mark.file != self.source.name:
            return problem
        what = f"{problem.what} ({mark.text})" if mark.text else problem.what
        return Problem(what, problem.hint, path=self.source.name)


def header_places(file: str, metadata: Iterable[str], keys: Mapping[str, str]) -> HeaderPlaces:
    """The places for `keys`, which maps keys of the config.json to metadata keys."""
    lines = tuple(metadata)
    source = Source(file, lines)
    numbers = {name: number for number, name in enumerate(lines)}
    return HeaderPlaces(
        source, {key: Place(source, numbers[name], 0, len(name)) for key, name in keys.items()}
    )
