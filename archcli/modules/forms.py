"""The form that each module of a model computes in, in the pass of a request.

The request's form takes precedence, then the YAML's, then that of the phase.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from archcli.errors import ArchError, Problem
from archcli.modules.base import Spec, find, substitute
from archcli.modules.request import AUTO, Forms, Request

M = TypeVar("M", bound=Spec)


def with_forms(model: M, request: Request) -> M:
    """A copy whose modules compute in the forms of this request; the model itself where they do already."""
    changes = {
        f"{path}.form": form for path, module, _, form in _chosen(model, request) if module.form != form
    }
    return substitute(model, changes) if changes else model


def forms_of(model: Spec, request: Request) -> dict[str, str]:
    """By key, the form of the model's modules, or several joined by ` + `; without keys it has no use for."""
    chosen: dict[str, list[str]] = {}
    for _, _, forms, form in _chosen(model, request):
        chosen.setdefault(forms.key, []).append(form)
    return {key: " + ".join(dict.fromkeys(of_key)) for key, of_key in chosen.items()}


def in_other_forms(model: Spec, request: Request) -> Iterator[tuple[str, str, Request]]:
    """(key, form, request) of each form that the request does not choose."""
    chosen = forms_of(model, request)
    kinds = {forms.key: forms for _, _, forms, _ in _chosen(model, request)}
    for key, forms in kinds.items():
        for form in dict.fromkeys(forms.by_phase.values()):
            if form != chosen[key]:
                yield key, form, replace(request, forms={**request.forms, key: form})


def unused_forms(model: Spec, forms: Mapping[str, str]) -> list[str]:
    """Keys of forms that are asked for by name, but that no module of the model has."""
    used = forms_of(model, Request())
    return [key for key, form in forms.items() if form != AUTO and key not in used]


def _chosen(model: Spec, request: Request) -> Iterator[tuple[str, Any, Forms, str]]:
    """(path, module, its forms, the chosen one) of every module with several forms."""
    for path, module in find(model, Spec):
        if module.forms is not None:
            yield path, module, module.forms, _form(module, module.forms, request)


def _form(module: Any, forms: Forms, request: Request) -> str:
    known = dict.fromkeys(forms.by_phase.values())
    form: str = request.forms.get(forms.key, AUTO)
    if form not in {AUTO, *known}:
        raise ArchError(
            Problem(f"no form is called {form[:40]!r}", f"one of {AUTO}, {', '.join(known)}", path=forms.key)
        )
    form = module.form if form == AUTO else form
    return forms.by_phase[request.phase] if form == AUTO else form
