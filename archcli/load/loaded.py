"""A loaded model, and the tree it was built from with the place of every setting."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from archcli.errors import ArchError, Mark, Problem
from archcli.load.spec.build import build, expand
from archcli.load.yaml.nodes import Node, locate
from archcli.modules import Model


class MediaNote(str):
    """A note on what becomes of an image, a video or a sound: of no use where none is asked about."""

    __slots__ = ()


class NameNote(str):
    """A note on the model that a name was taken for."""

    __slots__ = ()


def text_notes(notes: Sequence[str]) -> tuple[str, ...]:
    """The notes without those on images, videos and sounds."""
    return tuple(note for note in notes if not isinstance(note, MediaNote))


TRAINED_BESIDE = ("nf4", "nf4-double")
"""Formats of bitsandbytes, whose weights adapters are trained beside (QLoRA, arXiv:2305.14314)."""


class Loaded(NamedTuple):
    """A loaded model.

    model, name: the architecture, and what reports call it.
    source: its file or preset. tree: its YAML as nodes with places.
    notes: what an import left out or took for granted. config: the imported config.json's data; else None.
    conflicts: values that contradict each other, where that is allowed.
    dtype: the format in the model's name, q4_k_m of llama3.1:8b-instruct-q4_K_M; empty without one.
    """

    model: Model
    name: str
    source: str
    tree: Node
    notes: tuple[str, ...] = ()
    config: Any = None
    conflicts: tuple[Problem, ...] = ()
    dtype: str = ""

    def mark(self, path: str) -> Mark:
        """The place of the setting at a full path; for an unwritten default that of its parent."""
        return locate(self.tree, path).mark()

    def by_name(self, note: str, dtype: str) -> Loaded:
        """The same with a note on its name, and in the format that the name states, empty for none.

        A file's own quantization goes before its name.
        """
        notes = (*filter(None, [NameNote(note)]), *self.notes)
        if not dtype or self.conflicts or (self.config is not None and self.model.quantization is not None):
            return self._replace(notes=notes)
        from archcli.modules.stored.formats import is_format  # of names that state a format
        from archcli.modules.stored.quantization import Quantization

        form = Quantization(format=dtype) if is_format(dtype) else None
        model = self.model.replace(published_in=form)
        said = f"the name says {dtype}: its weights are taken so, unless --dtype says otherwise"
        # what trains begins in the dtype that it computes in: see `as_asked`
        said += (
            f"; training starts from bf16, and as QLoRA with --dtype {dtype} and lora"
            if dtype in TRAINED_BESIDE
            else ""
        )
        return self._replace(model=model, notes=(*notes, said), dtype=dtype)


def load_tree(
    root: Node, problems: list[Problem], source: str, overrides: Sequence[str], *, strict: bool
) -> Loaded:
    """Build the model of a tree and overrides; ArchError with `problems` and all that building adds."""
    conflicts: list[Problem] = []
    notes: list[str] = []
    try:
        tree = _overridden(root, overrides, problems) if overrides else expand(root)
        model = build(tree, problems, None if strict else conflicts, notes)
    except ArchError as error:
        raise _explained(error, root, overrides) if overrides else error from None
    file = root.place.source.name
    if not isinstance(model, Model):
        raise ArchError(Problem(f"a {type(model).__name__} cannot be counted or checked", path=file))
    return Loaded(model, model.name or Path(file).stem, source, tree, tuple(notes), None, tuple(conflicts))


def _explained(error: ArchError, root: Node, overrides: Sequence[str]) -> ArchError:
    # imported where --set is used: most calls have no override
    from archcli.load.spec.overrides import with_full_paths

    return with_full_paths(error, root, overrides)


def _overridden(root: Node, overrides: Sequence[str], problems: list[Problem]) -> Node:
    from archcli.load.spec.overrides import apply

    return apply(root, overrides, problems)
