"""Options of a parallel plan, the same for all questions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

from archcli.api.asking.options import Dp, Ep, Pp, Size, Sp, Tp
from archcli.api.asking.question import Option, count_option, part
from archcli.errors import ArchError, quote, suggest
from archcli.modules.spec import arguments
from archcli.modules.spec.calls import accept
from archcli.modules.spec.values import AboveZero, Conversion, accepted, refused
from archcli.wings.serving.memory.plan import Plan

Zero = Annotated[
    arguments.ZeroStage,
    count_option(
        "In training, shard over --dp and --cp: 1 optimizer states, 2 gradients too, 3 weights too."
    ),
]
MicroBatches = Annotated[
    AboveZero,
    count_option("Batches that pass the stages of --pp in turn.", rare=True),
]
Schedule = Annotated[
    arguments.Schedule,
    Option(
        "Stages of one group of layers each, or with --virtual-stages of several, interleaved.", rare=True
    ),
]
VirtualStages = Annotated[
    AboveZero, count_option("Groups of layers in each stage of an interleaved schedule.", rare=True)
]
Cp = Annotated[
    AboveZero,
    count_option("In training, devices that share the tokens of a sequence (context parallelism)."),
]
DpAttention = Annotated[
    AboveZero,
    count_option(
        "Attention data parallelism: groups of the devices of --tp, each with whole attention and a cache.",
        rare=True,
    ),
]


def _degrees(value: Any) -> Mapping[str, Any]:
    """Degrees of parallelism by name: {"dp": 8, "zero": 3}.

    ArchError for a name that is none, and for a value it cannot have.
    """
    if not isinstance(value, Mapping):
        raise refused(value, "a mapping from names")
    known = accepted(Plan)
    unknown = [name for name in value if name not in known]
    if unknown:
        raise ArchError(f"unknown degree {quote(str(unknown[0]))}", suggest(str(unknown[0]), known))
    return {name: accept(name, degree, known) for name, degree in value.items()}


Degrees = Annotated[Mapping[str, Any] | None, Conversion("a mapping from names", _degrees)]
"""In Python: degrees of parallelism as a dict, in place of single arguments."""

Adapters = Annotated[
    AboveZero | None, count_option("LoRA adapters served at once, of rank 16 or --set lora.rank.")
]
Free = Annotated[Size, Option("What is free of each device: 22GiB.", metavar="SIZE", reads="text")]


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """The degrees of a plan as single options, or in Python together as `plan`."""

    dp: Dp = 1
    zero: Zero = 0
    tp: Tp = 1
    sp: Sp = False
    pp: Pp = 1
    micro_batches: MicroBatches = 1
    schedule: Schedule = "1f1b"
    virtual_stages: VirtualStages = 1
    ep: Ep = 1
    cp: Cp = 1
    dp_attention: DpAttention = 1
    plan: Degrees = None

    def devices_plan(self) -> Plan:
        """The plan. Raises ArchError for a degree that is stated twice."""
        plan = part(self, Plan)
        # a degree with its default value counts as left out: a dataclass cannot tell the difference
        twice = [name for name in self.plan or {} if getattr(plan, name) != getattr(WHOLE, name)]
        if twice:
            raise ArchError(f"{twice[0]} stands beside plan, which has it too", "leave one of them out")
        return replace(plan, **(self.plan or {}))


WHOLE = Plan()
