"""What ranks that share tokens send around their ring: keys, values and the gradients of both.

Ring attention, arXiv:2310.01889 section 3. Each of c ranks has T / c tokens; their keys and values pass by
all others, forward and once more backward, where their gradients travel along and then home.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from archcli.arith import Number, prod
from archcli.graph import Row
from archcli.measure.memory.plan import Plan
from archcli.measure.predict.communication.collective import Collective, Moment
from archcli.measure.predict.communication.groups import context_group
from archcli.measure.predict.rank.kernel import SCORES


def of_context(
    rows: Iterable[tuple[Row, Number]], plan: Plan, width: Number, repeated: frozenset[str]
) -> Iterator[Collective]:
    """The sends of attention's rows, of one rank's tokens: c - 1 forward, and 2 c - 1 backward.

    What a window or a mask leaves unread is passed on too. Sending may go on while attention is computed.
    """
    if plan.cp == 1:
        return
    group, around = context_group(plan), plan.cp - 1
    for row, times in rows:
        if row.op.component != SCORES:
            continue
        _, keys, values, *_ = row.inputs
        elements = times * (prod(keys) + prod(values))
        ahead = around * (2 if row.path in repeated else 1)
        turns: dict[Moment, int] = {"forward": ahead, "backward": 2 * around + 1}
        for stage, steps in turns.items():
            sent = steps * elements * width
            yield Collective("send", "context", group, sent, steps * times, stage, "attention")
