"""archcli: how big an architecture is, what it computes, caches and needs, and where its time goes.

    load("my.yaml")            the architecture: fields checked, no torch
    build("my.yaml")           an ordinary torch.nn.Module, freshly initialised (needs torch)
    count_params, count_flops, count_kv_cache, count_memory    reports, as commands print them
    params, flops, kvcache, memory   the same functions by the names of the commands
    predict, survey, compare   time on a device; many architectures by columns; a few side by side
    explain                    where a number comes from, component by component, as a formula
    scale                      a family at another size, or for a budget of training
    formula, sweep             closed forms with sympy; which of a million shapes meet conditions, with numpy
    register                   a kind of your own, for YAML files to name

A model is a path, a preset's name, `org/name` on the hub, a mapping as YAML or config.json hold it, or a
`Model`. Arguments have the names, limits and defaults of the options; anything else raises `ArchError`.
"""

from __future__ import annotations

# first, as Ctrl-C may come during any import
from archcli.commands.line import interrupts as _interrupts  # noqa: F401

# isort: split
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from archcli.lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from archcli.api.explain import explain, formula
    from archcli.api.memory import count_memory, memory
    from archcli.api.predict import predict
    from archcli.api.scale import scale
    from archcli.api.sweep import sweep
    from archcli.errors import ArchError
    from archcli.load import load
    from archcli.measure.report import Report
    from archcli.measure.symbolic.formula import Formula
    from archcli.measure.symbolic.sweep import Sweep
    from archcli.modules import Model
    from archcli.modules.spec.arguments import AttentionKernel, By, CountedPairs, Mla, ModelLike, Scan
    from archcli.modules.spec.request import Logits, Phase, Request

P = ParamSpec("P")
R = TypeVar("R")

__version__ = "0.1.0"  # read by pyproject.toml, too


def _checked(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function so that its arguments are checked first; ArchError for a wrong name or value."""

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        from archcli.modules.spec.arguments import bound

        checked = bound(function, args, options)
        return function(*checked.args, **checked.kwargs)

    return call


@_checked
def build(
    model: ModelLike, *, device: str = "cpu", dtype: str = "fp32", attention: AttentionKernel = "sdpa"
) -> Any:
    """A torch.nn.Module with fresh random weights (needs torch).

    `device` is torch's name of one; "meta" allocates nothing. `dtype` is that of the weights. `attention` is
    "sdpa" (torch's fused kernel where it can express the layer) or "eager". `model(tokens)` gives logits
    [B, T, V] of ids [B, T]; `prefill` and `decode` run through a cache that the caller owns.

    Example: `sum(w.numel() for w in build("gpt2", device="meta").parameters())` is 124,439,808.
    """
    from archcli.api.subject import given
    from archcli.runtime import build_model, require_device, weights_dtype

    require_device(device)
    return build_model(given(model).model, device=device, dtype=weights_dtype(dtype), attention=attention)


@_checked
def count_params(model: ModelLike, dtype: str = "bf16", depth: int = 3) -> Report:
    """Parameters and bytes of an architecture: the report of `archcli params`.

    `totals` holds params, active_params (per token), bytes in `dtype` and parameters by group;
    `rows` are the same by path, cut after `depth` steps.

    Example: `count_params("llama-3.1-8b").totals["params"]` is 8,030,261,248.
    """
    from archcli.api.subject import given
    from archcli.measure.params import count_params as count

    subject = given(model)
    return subject.named(count(subject.model, dtype, depth))


@_checked
def count_flops(  # noqa: PLR0913
    model: ModelLike,
    request: Request | None = None,
    *,
    phase: Phase = "forward",
    batch_size: int = 1,
    seq_len: int = 2048,
    past: int | None = None,
    source_len: int | None = None,
    logits: Logits | None = None,
    mla: Mla = "auto",
    scan: Scan = "auto",
    mask: CountedPairs = "exact",
    tp: int = 1,
    sp: bool = False,
    ep: int = 1,
) -> Report:
    """FLOPs of one pass, by component and by class of operation: the report of `archcli flops`.

    `phase` is "forward" (one full pass), "train" (that and its backward), "prefill" (fills a cache) or
    "decode" (one token against `past` cached ones, or `seq_len` where `past` is left out). `batch_size`
    sequences have `seq_len` new tokens each; an encoder-decoder reads `source_len` more. `logits` are those
    of "all" positions or the "last". `mla` is the form of latent attention, as engines compute it, "naive" or
    "absorbed"; `scan` that of recurrent layers, "chunked" or "recurrent"; `mask` "dense" counts all S x S
    pairs. A `Request` says the same as an object. `tp` ranks share each matrix, with `sp` the tokens of norms
    too, `ep` the experts: figures are of one. `totals` holds matmul_flops and other_flops, `rows` both.

    Example: `count_flops("gpt2", phase="decode", past=1000).totals["matmul_flops"]` is 283,964,928.
    """
    from archcli.api.subject import given
    from archcli.measure.flops import count_flops as count
    from archcli.modules.spec.request import Request

    subject = given(model).shared(tp, sp=sp, ep=ep)
    stated = Request(phase, batch_size, seq_len, past, source_len, logits, {"mla": mla, "scan": scan})
    return subject.named(count(subject.model, request or stated, mask=mask))


@_checked
def count_kv_cache(  # noqa: PLR0913
    model: ModelLike,
    context: int | None = None,
    batch_size: int = 1,
    dtype: str = "bf16",
    source_len: int | None = None,
    *,
    memory: int | str | None = None,
    state_dtype: str | None = None,
    tp: int = 1,
) -> Report:
    """The cache of an architecture, and with other kinds of attention: the report of `archcli kvcache`.

    Of `batch_size` sequences of `context` tokens each (left out: max_seq_len, else 2048). `totals` holds
    elements, bytes in `dtype`, and both per token; kv_elements grow with the tokens, state_elements do not;
    `rows` the same by kind of layer. Recurrent states are kept in `state_dtype` (left out: `dtype`). With
    `memory`, bytes or "80GiB", also how many tokens and sequences fit. With `tp` all is of one rank of these.

    Example: `count_kv_cache("llama-3.1-8b", 131_072).totals["bytes"]` is 17,179,869,184.
    """
    from archcli.api.subject import given
    from archcli.measure.kvcache.kvcache import count_kv_cache as count
    from archcli.modules.spec.arguments import memory_bytes

    subject, available = given(model), None if memory is None else memory_bytes(memory)
    report = count(subject.model, context, batch_size, dtype, available, source_len, state_dtype, tp=tp)
    return subject.named(report)


@_checked
def survey(
    *models: ModelLike,
    columns: Sequence[str] = (),
    where: Sequence[str] = (),
    sort: str | None = None,
    by: By | None = None,
    all_presets: bool = False,
) -> Report:
    """Many architectures by the same columns, and how figures spread: the report of `archcli survey`.

    Where no model is given, of one preset of each series and generation, or of `all_presets`. `columns` are
    shown alone; `where` are conditions such as "params>10B", all of which must hold; `sort` is a column,
    "params:desc" for the largest first; `by` "year" or "series" gives the spread in each. `rows` are records.

    Example: `survey("gpt2", columns=["params", "head_ratio"]).rows[0]["head_ratio"]` is 1.0.
    """
    from archcli.api.subject import given
    from archcli.load.presets import surveyed_presets
    from archcli.measure.survey.survey import survey_models

    subjects = map(given, models or surveyed_presets(every=all_presets))
    return survey_models([(subject.name, subject.model) for subject in subjects], columns, where, sort, by)


@_checked
def compare(  # noqa: PLR0913
    *models: ModelLike,
    batch_size: int = 1,
    seq_len: int = 2048,
    past: int | None = None,
    context: int | None = None,
    source_len: int | None = None,
    dtype: str = "bf16",
    mla: Mla = "auto",
    scan: Scan = "auto",
) -> Report:
    """Two or more architectures side by side: the report of `archcli compare`.

    What they state differently, parameters, FLOPs of a forward of `seq_len` tokens and of a token after
    `past`, cache of `context` (both left out: `seq_len`), as multiples of the first. `rows` hold value_1, ….

    Example: `compare("gpt2", "gpt2", seq_len=1024).totals["differences"]` is 0.
    """
    from archcli.api.subject import compared, given
    from archcli.modules.spec.request import Request

    request = Request("forward", batch_size, seq_len, past, source_len, forms={"mla": mla, "scan": scan})
    return compared([given(model) for model in models], request, context, dtype)


@_checked
def register(kind: str, place: str) -> None:
    """Let YAML files name your class by its kind: `register("mamba", "my_package.mamba:Mamba")`.

    An installed distribution does so by an entry point of `archcli.kinds`. ArchError if the kind is taken.
    """
    from archcli.modules.spec.kinds import register as enter

    enter(kind, place)


params, flops, kvcache = count_params, count_flops, count_kv_cache

HOMES = {
    ".api.memory": ["count_memory", "memory"],
    ".api.explain": ["explain", "formula"],
    ".api.predict": ["predict"],
    ".api.scale": ["scale"],
    ".api.sweep": ["sweep"],
    ".errors": ["ArchError"],
    ".measure.report": ["Report"],
    ".measure.symbolic.formula": ["Formula"],
    ".measure.symbolic.sweep": ["Sweep"],
    ".modules": ["Model"],
    ".modules.spec.request": ["Request"],
}
"""The classes that a user holds, and functions of many arguments, by the file that defines them."""
_class, _ = lazy(__name__, HOMES)


def __getattr__(name: str) -> Any:
    """`load` and the classes, when they are first asked for."""
    if name == "load":
        return import_module("archcli.load")
    if name.startswith("_") or name in __all__:
        return _class(name)
    from archcli.errors import suggest

    raise AttributeError(f"module 'archcli' has no attribute {name!r}; {suggest(name, __all__, 'it has')}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


__all__ = [
    "ArchError",
    "Formula",
    "Model",
    "Report",
    "Request",
    "Sweep",
    "build",
    "compare",
    "count_flops",
    "count_kv_cache",
    "count_memory",
    "count_params",
    "explain",
    "flops",
    "formula",
    "kvcache",
    "load",
    "memory",
    "params",
    "predict",
    "register",
    "scale",
    "survey",
    "sweep",
]
