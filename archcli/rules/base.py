"""Rule: a class with a code, a reason, a source, examples, and a `check` that yields findings.

A rule reads a `Case`: an architecture, what was counted of it, and how many devices share it. It opens no
file and prints nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar, NamedTuple

from archcli.arith import first_value, to_bytes
from archcli.errors import Problem
from archcli.measure.params import param_totals
from archcli.measure.passes import Pass, cache_pass, shape_pass
from archcli.modules import Attention, FeedForward, Model
from archcli.modules.attention.mixer import Mixer, MixerFacts, RecurrenceFacts, mixers
from archcli.modules.models.layers import DistinctLayer, LayerIndex
from archcli.modules.models.stack import stacks
from archcli.modules.spec.base import find
from archcli.modules.spec.kinds import kind_of
from archcli.modules.spec.request import Request


class Severity(StrEnum):
    """How serious a finding is.

    error: no model could mean it. warning: a reviewer would ask. info: worth knowing, never a failure.
    """

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Fix(NamedTuple):
    """A value that ends a finding, and the full path of the field it belongs to."""

    path: str
    value: Any


@dataclass(frozen=True, slots=True)
class Finding:
    """A field that breaks a rule.

    path: of the field. value: measured. expected: the range in words. message: a sentence about both.
    help: how to mend it. fixes: the same for a machine.
    cause: the mistake, where several rules see it: of findings in one place with one cause the most severe
        counts.
    is_of_text: whether it is about a language model, like the presets in the comparison.
    """

    path: str
    message: str
    value: Any = None
    expected: str = ""
    help: str = ""
    fixes: tuple[Fix, ...] = ()
    cause: str = ""
    is_of_text: bool = True


class Parallelism(NamedTuple):
    """Degrees of tensor, pipeline and expert parallelism: how many devices share the model."""

    tp: int = 1
    pp: int = 1
    ep: int = 1


ONE_DEVICE = Parallelism()
DIVISOR = "divisor"
"""Cause of findings on a size that is no multiple of the required number."""


@dataclass(frozen=True)
class Case:
    """An architecture to be checked.

    `conflicts` are values that contradict each other: while there are any, nothing can be counted. `altered`
    says that `--set` changed what the file states.
    """

    model: Model
    conflicts: tuple[Problem, ...] = ()
    parallel: Parallelism = ONE_DEVICE
    altered: bool = False

    @cached_property
    def layers(self) -> tuple[DistinctLayer, ...]:
        """Every distinct layer of every stack, in order."""
        return tuple(LayerIndex(self.model))

    @cached_property
    def mixers(self) -> tuple[tuple[str, MixerFacts], ...]:
        """(full path, facts) of the mixer of every layer that has one; cross attention is left out."""
        mixers = dict(chain.from_iterable(layer.mixers() for layer in self.layers))
        return tuple((path, mixer.facts(self.model.d_model)) for path, mixer in mixers.items())

    @cached_property
    def recurrences(self) -> tuple[tuple[str, Mixer, RecurrenceFacts], ...]:
        """(full path, mixer, its recurrence) of every recurrent mixer, branches of others included."""
        facts = [
            (path, mixer, mixer.facts(self.model.d_model).recurrence) for path, mixer in mixers(self.model)
        ]
        return tuple((path, mixer, recurrence) for path, mixer, recurrence in facts if recurrence is not None)

    def layers_of(self, kind: str) -> list[str]:
        """Full paths of the layers whose block is of the kind."""
        return [layer.yaml_path for layer in self.layers if kind_of(layer.block) == kind]

    @property
    def depths(self) -> list[tuple[str, int]]:
        """(path of the first n_layers, number of layers) of every stack."""
        return [
            (f"{stem}groups.0.n_layers", sum(group.n_layers for group in stack.groups))
            for stem, stack in stacks(self.model)
        ]

    @property
    def reads_text(self) -> bool:
        """Whether it is a language model, towers beside it or not: no encoder of images or sounds."""
        return bool(self.model.towers) or not self.model.media

    @property
    def widens(self) -> bool:
        """Whether layers have other widths than d_model (DaViT)."""
        return bool(self.layers_of("downsample"))

    @property
    def is_decoder_only(self) -> bool:
        """Whether it generates tokens and reads no source."""
        return self.model.caches and self.model.source_length(1) is None

    @cached_property
    def forward(self) -> Pass:
        """The counted forward of one token, for stored and active parameters."""
        return shape_pass(self.model)

    @cached_property
    def totals(self) -> Mapping[str, Any]:
        """Totals of parameters, as `archcli params` prints them."""
        return param_totals(self.model, self.forward.rows)

    @property
    def z_loss(self) -> bool:
        """Whether the training loss has a z-loss term."""
        return bool(self.model.z_loss_weight)


class DesignRule(ABC):
    """A design rule. Subclasses state the class variables and `check`.

    A subclass in a file of this folder is registered. `source` is where a reader can look it up, with how
    sure the figure is; `spares` says when the rule does not apply; `evidence` names the column of the
    presets' index that its value belongs to. `valid` are YAML texts without a finding, `invalid` texts with
    one each.
    """

    code: ClassVar[str]
    severity: ClassVar[Severity]
    title: ClassVar[str]
    reason: ClassVar[str]
    source: ClassVar[str]
    spares: ClassVar[str] = ""
    evidence: ClassVar[str] = ""
    year: ClassVar[int] = 0
    """Year of the models that a rule of consensus judges by; 0 for a rule that holds in any year."""
    counts: ClassVar[bool] = False
    """Whether it reads counted rows, which are there once no sizes conflict."""
    of_text: ClassVar[bool] = False
    """Whether its reason holds for language models alone, and not for encoders of images and sounds."""
    of_width: ClassVar[bool] = False
    """Whether it compares with d_model, and so says nothing of layers that have other widths."""
    parallel: ClassVar[Parallelism] = ONE_DEVICE
    """The devices of its examples."""
    known: ClassVar[Mapping[str, str]] = {}
    """Presets that break it, each with the reason why both are right."""
    valid: ClassVar[tuple[str, ...]]
    invalid: ClassVar[tuple[str, ...]]

    @abstractmethod
    def check(self, case: Case) -> Iterator[Finding]:
        """The findings of this rule."""

    def applies(self, case: Case) -> bool:
        """Whether an architecture is of the kind that it is about."""
        return (case.reads_text or not self.of_text) and not (self.of_width and case.widens)

    def reports_conflict(self, conflict: Problem) -> bool:
        """Whether this rule reports a conflict that the modules found, so that CON001 does not."""
        return False


def example(**changed: str) -> str:
    """The YAML of a small sound decoder with some lines changed; `top` are further lines above them."""
    lines = {
        "vocab_size": "32000",
        "d_model": "512",
        "max_seq_len": "2048",
        "norm": "{kind: rmsnorm, eps: 1e-5}",
        "embedding": "{tied: true}",
        "n_layers": "4",
        "block": "pre_norm",
        "attention": (
            "{kind: gqa, n_heads: 8, n_kv_heads: 2, head_dim: 64, position: {kind: rope, theta: 10000}}"
        ),
        "ffn": "{kind: glu, activation: silu, d_ff: 1408}",
        "top": "",
    } | changed
    keys = ("vocab_size", "d_model", "max_seq_len", "norm", "embedding")
    top = "\n".join(f"{key}: {lines[key]}" for key in keys if lines[key])
    layer = f"      kind: {lines['block']}\n      attention: {lines['attention']}\n      ffn: {lines['ffn']}"
    text = f"{lines['top']}\n{top}\ngroups:\n  - n_layers: {lines['n_layers']}\n    layer:\n{layer}\n"
    return text.lstrip("\n")


def mixed_example(*layers: str, n_layers: int = 4, **changed: str) -> str:
    """The YAML of a small decoder with these mixers in turn, each before a network."""
    top, _, _ = example(**changed).partition("groups:")
    ffn = "ffn: {kind: glu, activation: silu, d_ff: 1408}"
    pattern = "".join(f"      - {{kind: pre_norm, mixer: {layer}, {ffn}}}\n" for layer in layers)
    return f"{top}groups:\n  - n_layers: {n_layers}\n    pattern:\n{pattern}"


def cached_bytes(model: Model, context: int) -> int:
    """Bytes of the KV cache after this many tokens, in bf16."""
    cached: int = to_bytes(cache_pass(model, Request("prefill", 1, context)).cached(), "bf16")
    return cached


def widths(case: Case) -> Iterator[tuple[str, int]]:
    """(path, d_ff) of every feed-forward network, experts included."""
    for path, ffn in find(case.model, FeedForward):
        if ffn.width is not None:
            yield f"{path}.d_ff", ffn.width


def head_key(attention: Attention) -> str:
    """The key that states the width of an attention's query heads."""
    keys = [key for key in ("qk_nope_head_dim", "head_dim") if attention.value_of(key) is not None]
    return keys[0] if keys else "n_heads"


def head_width(attention: Attention, d_model: int) -> int | None:
    """The width of a query head; None where heads do not divide d_model, which CON001 reports."""
    undivided = head_key(attention) == "n_heads" and d_model % attention.n_heads
    width: int | None = None if undivided else attention.facts(d_model).head_dim
    return width


def describe_head(attention: Attention, d_model: int, width: int) -> str:
    """The width of a query head in a message: `head_dim 80`, with its origin where no field states it."""
    key = head_key(attention)
    derived = f"head_dim {width:,} (d_model {d_model:,} / n_heads {attention.n_heads})"
    return derived if key == "n_heads" else f"{key} {width:,}"


def nearest_multiple(value: int, unit: int) -> int:
    """The multiple of `unit` closest to the value, at least one unit."""
    # halves go upwards, in ints as everywhere
    return max(unit, (value + unit // 2) // unit * unit)


def padded(value: int, unit: int) -> int:
    """The next multiple of the unit."""
    return -(-value // unit) * unit


def nearest_divisor(n: int, wanted: int, tp: int, reach: int = 4096) -> int:
    """The divisor of n nearest to `wanted`, preferably a multiple of `tp`; of two the larger.

    Searches `reach` numbers to both sides; n itself where there is none.
    """
    n, wanted = first_value(n), first_value(wanted)
    # upwards first, as of two divisors equally near the larger wins
    near = [k for step in range(reach) for k in (wanted + step, wanted - step)]
    divisors = [k for k in near if 0 < k <= n and n % k == 0]
    even = [k for k in divisors if k % tp == 0 or tp % k == 0]
    return (even or divisors or [n])[0]
