"""What every rule is: a class with a code, a reason, a source, examples of its own, and a `check` that yields findings.

A rule reads a `Case`: one architecture, what was counted of it, and on what it is to run. It opens no file and prints nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

from archcli.arith import to_bytes
from archcli.errors import Problem
from archcli.measure.params import param_totals
from archcli.measure.passes import Pass, forward_pass, prefill_pass
from archcli.modules import GLU, MLP, Block, FeedForward, Model, ProjectedHeads
from archcli.modules.base import find
from archcli.modules.layers import LayerIndex


class Severity(StrEnum):
    """error: no model could mean it. warning: a reviewer would ask. info: worth knowing, never a failure."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Fix(NamedTuple):
    """A value that ends a finding: the full path of a field, and what to write there."""

    path: str
    value: Any


@dataclass(frozen=True, slots=True)
class Finding:
    """One place that a rule stops at.

    `path` is the full path of the field. `value` is what was measured, `expected` the range in words, `message` a sentence that names
    both, `help` how to mend it, `fixes` the same for a machine.
    """

    path: str
    message: str
    value: Any = None
    expected: str = ""
    help: str = ""
    fixes: tuple[Fix, ...] = ()


class Layer(NamedTuple):
    """A distinct layer: its full path in the YAML, the block, and how often it occurs."""

    path: str
    block: Block
    times: int


class Parallelism(NamedTuple):
    """Degrees of tensor, pipeline and expert parallelism: how many devices share the model."""

    tp: int = 1
    pp: int = 1
    ep: int = 1


ONE_DEVICE = Parallelism()


@dataclass(frozen=True)
class Case:
    """One architecture to be checked.

    `misfits` are values that contradict each other, by full path: while there are any, nothing can be counted. `altered` says that it
    is no longer what its file states.
    """

    model: Model
    misfits: tuple[Problem, ...] = ()
    parallel: Parallelism = ONE_DEVICE
    altered: bool = False

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """Every distinct layer of every stack, in order."""
        return tuple(Layer(layer.yaml_path, layer.block, layer.times) for layer in LayerIndex(self.model))

    @cached_property
    def forward(self) -> Pass:
        """One token's forward: its rows say what is stored and what is active."""
        return forward_pass(self.model, 1, 1)

    @cached_property
    def totals(self) -> Mapping[str, Any]:
        """Parameters, as `archcli params` totals them."""
        return param_totals(self.model, self.forward.rows)

    @property
    def z_loss(self) -> bool:
        """Whether training holds the logits by a z-loss."""
        return bool(getattr(getattr(self.model, "loss", None), "z_loss", None))


class Rule(ABC):
    """One rule. Subclasses state the class variables and `check`; being defined in a file of this folder registers them.

    `source` is where a reader can look it up, with how sure the figure is. `spares` says when the rule does not apply, `evidence` which
    column of the presets' index its value belongs to. `valid` and `invalid` are YAML texts that it passes and that it stops at once each.
    """

    code: ClassVar[str]
    severity: ClassVar[Severity]
    title: ClassVar[str]
    reason: ClassVar[str]
    source: ClassVar[str]
    spares: ClassVar[str] = ""
    evidence: ClassVar[str] = ""
    counts: ClassVar[bool] = False
    """Whether it needs counted rows, so that it waits until the sizes agree."""
    parallel: ClassVar[Parallelism] = ONE_DEVICE
    """What its examples run on."""
    known: ClassVar[Mapping[str, str]] = {}
    """Presets that it stops at, and why both are right."""
    valid: ClassVar[tuple[str, ...]]
    invalid: ClassVar[tuple[str, ...]]

    @abstractmethod
    def check(self, case: Case) -> Iterator[Finding]:
        """Everything in the case that this rule stops at."""

    def claims(self, misfit: Problem) -> bool:
        """Whether this rule tells of a contradiction in its own words, so that CON001 does not."""
        return False


def example(**changed: str) -> str:
    """A small sound decoder as YAML with some of its lines changed; `top` are further lines above them."""
    lines = {
        "vocab_size": "32000",
        "d_model": "512",
        "max_seq_len": "2048",
        "norm": "{kind: rmsnorm, eps: 1e-5}",
        "embedding": "{tied: true}",
        "n_layers": "4",
        "block": "pre_norm",
        "attention": "{kind: gqa, n_heads: 8, n_kv_heads: 2, head_dim: 64, position: {kind: rope, theta: 10000}}",
        "ffn": "{kind: glu, activation: silu, d_ff: 1408}",
        "top": "",
    } | changed
    top = "\n".join(
        f"{key}: {lines[key]}"
        for key in ("vocab_size", "d_model", "max_seq_len", "norm", "embedding")
        if lines[key]
    )
    layer = f"      kind: {lines['block']}\n      attention: {lines['attention']}\n      ffn: {lines['ffn']}"
    return f"{lines['top']}\n{top}\ngroups:\n  - n_layers: {lines['n_layers']}\n    layer:\n{layer}\n".lstrip(
        "\n"
    )


def cached_bytes(model: Model, context: int) -> int:
    """What the cache of a model holds after so many tokens, in bf16."""
    held: int = to_bytes(prefill_pass(model, 1, context).cached(), "bf16")
    return held


def widths(case: Case) -> Iterator[tuple[str, int]]:
    """(path, d_ff) of every network, experts among them."""
    for path, ffn in find(case.model, FeedForward):
        if isinstance(ffn, MLP | GLU):
            yield f"{path}.d_ff", ffn.d_ff


def head_width(attention: ProjectedHeads, d_model: int) -> int | None:
    """How wide its heads are; None where they do not divide d_model, of which another rule tells."""
    return (
        None if attention.head_dim is None and d_model % attention.n_heads else int(attention.width(d_model))
    )


def nearest_multiple(value: int, unit: int) -> int:
    """The multiple of `unit` closest to the value, at least one unit."""
    return max(unit, (value + unit // 2) // unit * unit)


def padded(value: int, unit: int) -> int:
    """The next multiple of the unit."""
    return -(-value // unit) * unit
