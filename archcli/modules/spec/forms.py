"""The form that each module of a model computes in, in the pass of a request.

The request's form takes precedence, then the YAML's, then that of the phase.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from archcli.errors import ArchError, Problem
from archcli.modules.spec.base import Spec, find, substitute
from archcli.modules.spec.request import AUTO, Forms, Request

M = TypeVar("M", bound=Spec)


def formed(model: M, request: Request) -> tuple[M, dict[str, str]]:
    """A copy whose modules compute in the forms of this request, and these forms by key.

    The model itself where they do already. Several forms of one key are joined by ` + `; a key is absent
    where no module has use for it.
    """
    changes: dict[str, str] = {}
    forms_by_key: dict[str, list[str]] = {}
    for path, module, forms, form in _chosen(model, request):
        forms_by_key.setdefault(forms.key, []).append(form)
        if module.form != form:
            changes[f"{path}.form"] = form
    names = {key: " + ".join(dict.fromkeys(of_key)) for key, of_key in forms_by_key.items()}
    return (substitute(model, changes) if changes else model), names


def with_forms(model: M, request: Request) -> M:
    """A copy whose modules compute in the forms of this request; the model itself where they do already."""
    return formed(model, request)[0]


def forms_of(model: Spec, request: Request) -> dict[str, str]:
    """By key, the forms that the model's modules compute in."""
    return formed(model, request)[1]


def in_other_forms(model: Spec, request: Request) -> Iterator[tuple[str, str, Request]]:
    """(key, form, request) of each form that the request does not choose."""
    chosen = forms_of(model, request)
    kinds = {forms.key: forms for _, _, forms, _ in _chosen(model, request)}
    for key, forms in kinds.items():
        for form in dict.fromkeys(forms.by_phase.values()):
            if form != chosen[key]:
                yield key, form, replace(request, forms={**request.forms, key: form})


def unused_forms(model: Spec, forms: Mapping[str, str]) -> list[str]:
    """Keys of forms that are chosen by name, and that no module of the model has."""
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
