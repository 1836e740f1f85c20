"""archcli: how big an architecture is, what it computes and caches, and where its time goes.

    load("my.yaml")            the architecture: fields checked, no torch
    build("my.yaml")           an ordinary torch.nn.Module, freshly initialised (needs archcli[torch])
    count_params, count_flops, count_kv_cache    reports, as the commands print them
    survey, compare            many architectures by their facets; a few side by side
    formula, sweep             closed forms with sympy; a million shapes with numpy
    register                   a kind of your own, for YAML files to name

Every function takes a path, a preset's name, or a loaded architecture. Importing archcli imports nothing
else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archcli.measure.flops import Mask
    from archcli.measure.report import Report
    from archcli.measure.symbolic.formula import Formula
    from archcli.measure.symbolic.sweep import Sweep
    from archcli.modules import Model, Module
    from archcli.modules.request import Request

    def load(model: str, overrides: Sequence[str] = ()) -> Module:
        """The architecture of a path or a preset's name, with `KEY=VALUE` overrides."""


def build(model: str | Model, *, device: str = "cpu", attention: str = "sdpa", **options: Any) -> Any:
    """A torch.nn.Module with random weights.

    Device "meta" allocates nothing; attention is "sdpa" or "eager".
    """
    from archcli.runtime.model.build import build_model

    return build_model(_model(model), device=device, attention=attention, **options)


def count_params(model: str | Model, dtype: str = "bf16", depth: int = 3) -> Report:
    """The report of `archcli params`: `.totals`, `.rows`."""
    from archcli.measure.params import count_params as count

    return count(_model(model), dtype, depth)


def count_flops(
    model: str | Model, request: Request | None = None, *, mask: Mask = "exact", **options: Any
) -> Report:
    """The report of `archcli flops` on a request, or on its options.

    Options: phase, batch_size, seq_len, past, source_len, logits, mla.
    """
    from archcli.measure.flops import count_flops as count

    return count(_model(model), request or _request(**options), mask=mask)


def count_kv_cache(
    model: str | Model,
    context: int | None = None,
    batch_size: int = 1,
    dtype: str = "bf16",
    source_len: int | None = None,
) -> Report:
    """The report of `archcli kvcache`."""
    from archcli.measure.kvcache.kvcache import count_kv_cache as count

    return count(_model(model), context, batch_size, dtype, source_len=source_len)


def survey(*models: str | Model, **options: Any) -> Report:
    """The report of `archcli survey` on models, or on all presets. Options: columns, where, sort, by."""
    from archcli.load.presets import presets
    from archcli.measure.survey.survey import survey_models

    loaded = map(_model, models or presets())
    return survey_models(((model.name, model) for model in loaded), **options)


def compare(*models: str | Model, context: int | None = None, dtype: str = "bf16", **options: Any) -> Report:
    """The report of `archcli compare` on two or more models.

    Options: batch_size, seq_len, past, context, source_len, dtype, mla.
    """
    from archcli.load.yaml.writer import to_mapping
    from archcli.measure.compare.differences import ModelSettings
    from archcli.measure.compare.report import Compared, compare_models

    loaded = [_model(model) for model in models]
    compared = [
        Compared(model.name, model.source, ModelSettings(model, to_mapping(model))) for model in loaded
    ]
    return compare_models(compared, _request(**options), context=context, dtype=dtype)


def formula(model: str | Model, **options: Any) -> Formula:
    """Closed forms of parameters, FLOPs and cache, in the names of the YAML (needs sympy)."""
    from archcli.measure.symbolic.formula import formula as closed_form

    return closed_form(_model(model), **options)


def sweep(model: str | Model, values: dict[str, Any], **options: Any) -> Sweep:
    """Parameters and FLOPs with the named sizes replaced by arrays of candidates (needs numpy)."""
    from archcli.measure.symbolic.sweep import sweep as count

    return count(_model(model), values, **options)


def _request(mla: str = "auto", **options: Any) -> Request:
    from archcli.modules.request import Request

    return Request(**options, forms={"mla": mla})


def _model(model: str | Model) -> Model:
    """The model given, or loaded by its name or path."""
    from archcli.errors import ArchError
    from archcli.load.source import load
    from archcli.modules import Model

    loaded = load(model).model if isinstance(model, str) else model
    if not isinstance(loaded, Model):  # whatever a caller hands over
        raise ArchError(
            f"a {type(loaded).__name__} is no architecture that can be counted",
            "give a path, a preset's name, or a Model",
        )
    return loaded


def register(kind: str, place: str) -> None:
    """Let YAML files name your class by its kind: `register("mamba", "my_package.mamba:Mamba")`.

    Its family says where the kind may stand. An installed distribution does the same by an entry point of
    the group `archcli.kinds`.
    """
    from archcli.modules.kinds import register as enter

    enter(kind, place)


def __getattr__(name: str) -> Any:
    """`load`, `ArchError` and `__version__`, when they are first asked for."""
    from importlib import import_module

    if name == "load":
        return import_module("archcli.load")
    if name == "ArchError":
        return import_module("archcli.errors").ArchError
    if name == "Request":
        return import_module("archcli.modules.request").Request
    if name == "__version__":
        from importlib.metadata import version

        return version("archcli")
    raise AttributeError(f"module 'archcli' has no attribute {name!r}")


__all__ = [
    "ArchError",
    "Request",
    "build",
    "compare",
    "count_flops",
    "count_kv_cache",
    "count_params",
    "formula",
    "load",
    "register",
    "survey",
    "sweep",
]
