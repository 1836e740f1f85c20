"""Which class of transformers expresses a model: the families that are asked, nearest first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from archcli.errors import ArchError, closest, quote
from archcli.load.foreign.class_names import preset_types
from archcli.load.huggingface.registry import family_of, listing
from archcli.modules import Model
from archcli.wings.shapes.export.search import ConfigSearch, WrittenConfig
from archcli.wings.shapes.export.settings import Settings

MOST_SEARCHED = 6
"""So many families are searched, of those that begin nearest, those of most presets first."""
MOST_LACKING = 4
"""So many settings that a class lacks are named."""


class Wanted(NamedTuple):
    """A model and its name; `known` is the model_type of its class, empty where it has none yet."""

    model: Model
    name: str
    known: str = ""


def written(wanted: Wanted, model_type: str | None = None) -> WrittenConfig:
    """The config.json of a model, of this model_type or of the first that is exact.

    Raises ArchError where no class has all that the model states; it names the nearest.
    """
    if model_type is not None and not has_class(model_type):
        near = closest(model_type, [kind for kind in listing() if has_class(kind)])
        hint = f"nearest: {', '.join(near)}" if near else "`archcli families` lists all"
        raise ArchError(f"no class of transformers is known for model_type {quote(model_type)}", hint)
    best: WrittenConfig | None = None
    for search in _searches(wanted, model_type):
        tried = search.run()
        if tried is not None and (best is None or _off(tried) < _off(best)):
            best = tried
        if best is not None and best.is_exact:
            return best
    raise _inexact(wanted.name, best)


def _off(tried: WrittenConfig) -> float:
    return sum(tried.lacking.values())


def _searches(wanted: Wanted, model_type: str | None) -> Iterator[ConfigSearch]:
    """The searches to be made: of the class that is named or known, then of those that begin nearest."""
    model, settings, known = wanted.model, Settings(wanted.model), model_type or wanted.known
    if has_class(known):
        yield from _of(known, model, settings)
    if model_type is not None:
        return
    common = Counter(preset_types().values())
    others = [kind for kind in listing() if kind != known and has_class(kind)]
    searches = [search for kind in others for search in _of(kind, model, settings)]
    nearest = sorted(searches, key=lambda search: search.first_off())[:MOST_SEARCHED]
    yield from sorted(nearest, key=lambda search: -common[search.model_type])


def _of(model_type: str, model: Model, settings: Settings) -> Iterator[ConfigSearch]:
    family = family_of(model_type)
    if family is not None:
        yield ConfigSearch(model_type, family, model, settings)


def has_class(model_type: str) -> bool:
    """Whether tests hold a class of transformers for a model_type."""
    return bool(listing().get(model_type, {}).get("classes"))


def _inexact(name: str, best: WrittenConfig | None) -> ArchError:
    """The ArchError about a model that no class expresses: the nearest, and what it cannot say."""
    what = f"no config.json was found whose import is {name}"
    if best is None:
        return ArchError(what, "--to yaml writes it in archcli's own words")
    lacking = [path for path, _ in sorted(best.lacking.items(), key=lambda item: -item[1])]
    named = ", ".join(lacking[:MOST_LACKING])
    more = f" and {len(lacking) - MOST_LACKING} more" if len(lacking) > MOST_LACKING else ""
    kind = best.data["architectures"][0]
    return ArchError(what, f"the nearest, of {kind}, differs in {named}{more}; --to yaml writes all of it")
