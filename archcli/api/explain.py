"""explain and formula: closed forms in Python, and what commands ask of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from archcli.api.arguments import checked
from archcli.api.subject import Subject, given
from archcli.errors import ArchError, Problem, either
from archcli.measure.report import Report
from archcli.modules.spec.arguments import CountedPairs, Mla, ModelLike, Quantity, Scan
from archcli.modules.spec.request import ABOVE_0_OR_NONE, Logits, Phase, Request
from archcli.modules.spec.values import value_type

if TYPE_CHECKING:
    from archcli.measure.symbolic.explain.question import Question
    from archcli.measure.symbolic.formula import Formula

CONTEXT = 2048
"""Tokens in a cache where neither a request nor the model says how many."""
PASS = ("phase", "batch_size", "seq_len", "past", "source_len", "logits", "mla", "scan", "mask")
ASKED: Mapping[str, Sequence[str]] = {
    "params": ("path",),
    "flops": PASS,
    "kvcache": ("context", "batch_size"),
}
"""The arguments that each quantity depends on."""
OWN = {
    "phase": value_type(Phase | None),
    "batch_size": ABOVE_0_OR_NONE,
    "seq_len": ABOVE_0_OR_NONE,
    "mla": value_type(Mla | None),
    "scan": value_type(Scan | None),
    "mask": value_type(CountedPairs | None),
}
"""Values that names accept here: what is left out is the quantity's usual one."""


@checked({})
def formula(
    model: ModelLike, *, batch_size: int = 1, seq_len: int = 2048, mask: CountedPairs = "exact"
) -> Formula:
    """Closed forms of parameters, FLOPs of a forward and cached elements (needs sympy).

    sympy expressions in the YAML's names, each checked to equal the counted integer; `values` of the symbols.

    Example: `formula("gpt2").kv_elements` is 2*batch_size*d_model*n_layers*seq_len.
    """
    from archcli.measure.symbolic.formula import formula as closed_form

    return closed_form(given(model).model, batch_size=batch_size, seq_len=seq_len, unmasked=mask == "dense")


@checked(OWN)
def explain(  # noqa: PLR0913
    model: ModelLike,
    quantity: Quantity = "params",
    *,
    phase: Phase | None = None,
    batch_size: int | None = None,
    seq_len: int | None = None,
    past: int | None = None,
    source_len: int | None = None,
    context: int | None = None,
    logits: Logits | None = None,
    mla: Mla | None = None,
    scan: Scan | None = None,
    mask: CountedPairs | None = None,
    symbols: Sequence[str] = (),
    at: Sequence[str] = (),
    approx: bool = False,
    steps: bool = False,
    path: str | None = None,
    latex: bool = False,
) -> Report:
    """Where a number comes from: the report of `archcli explain` (needs sympy).

    The closed form of "params", "flops" or "kvcache", component by component, derived from the architecture's
    own forward and checked against the count. The pass is asked for as in `count_flops` and `count_kv_cache`.
    `symbols` are the only sizes that stay symbols; `at` those whose effect on the total is told; `approx`
    adds what textbooks say, `steps` the way from single operations to the number, `latex` the formulas as
    LaTeX. `path` is a row of `count_params` to explain alone. `totals` has formula, value and symbols;
    `rows` have component, formula, numbers, value and share.

    Example: `explain("gpt2").rows[2]["formula"]` is 4*d_model*n_layers.
    """
    options = {
        "phase": phase,
        "batch_size": batch_size,
        "seq_len": seq_len,
        "past": past,
        "source_len": source_len,
        "context": context,
        "logits": logits,
        "mla": mla,
        "scan": scan,
        "mask": mask,
        "path": path,
    }
    told = {"symbols": symbols, "at": at, "approx": approx, "steps": steps, "latex": latex}
    subject = given(model)
    return subject.named(explained(subject, quantity, options, **told))


def explained(subject: Subject, quantity: Quantity, options: Mapping[str, Any], **told: Any) -> Report:
    """The report on a loaded model; ArchError for options that the quantity does not depend on."""
    from archcli.load.spec.schema import meaning
    from archcli.measure.symbolic.explain.report import explain as explain_model

    idle = [name for name, value in options.items() if value is not None and name not in ASKED[quantity]]
    if idle:
        hint = f"it depends on {', '.join(ASKED[quantity])}; leave {either(idle)} out"
        raise ArchError(Problem(f"{either(idle)} changes nothing of {quantity}", hint))
    return explain_model(subject.model, _question(subject, quantity, options, told), meaning)


def _question(
    subject: Subject, quantity: Quantity, options: Mapping[str, Any], told: Mapping[str, Any]
) -> Question:
    from archcli.measure.symbolic.explain.question import Question

    stated = {name: value for name, value in options.items() if value is not None}
    if quantity == "kvcache":
        tokens = stated.get("context") or subject.model.max_seq_len or CONTEXT
        request = Request("prefill", stated.get("batch_size", 1), tokens)
    else:
        forms = {name: stated.get(name, "auto") for name in ("mla", "scan")}
        sizes = ("phase", "batch_size", "seq_len", "past", "source_len", "logits")
        request = Request(**{name: stated[name] for name in sizes if name in stated}, forms=forms)
    return Question(quantity, request, stated.get("mask", "exact"), path=stated.get("path"), **told)
