"""Case: an op on small shapes with what it must answer; and the names its numbers are written with."""

from dataclasses import dataclass, field

E, N, M, C, R = "elementwise", "normalization", "movement", "contraction", "routing"
X = (2, 3, 4)
n = 2 * 3 * 4


@dataclass(frozen=True)
class Case:
    """An op, its input shapes, and its answers.

    FLOPs by class of the forward, of a forward that computes masked scores too where that differs, and of the
    backward, likewise; elements read and written by the forward, both together of the backward; how many
    operands of a product are trained; FLOPs of gradients of products that a run does not reach.
    """

    op: object
    inputs: tuple
    shape: tuple
    flops: dict = field(default_factory=dict)
    backward: dict = field(default_factory=dict)
    moved: tuple = (0, 0)
    moved_back: int = 0
    weights: dict = field(default_factory=dict)
    buffers: dict = field(default_factory=dict)
    cached: int = 0
    dense: dict | None = None
    dense_back: dict | None = None
    operands: int = 2
    unreached: int = 0


def ledger(op, inputs, shape, forward, backward, **rest):
    """A case from lines of (class, FLOPs, elements read, elements written).

    Or of (class, FLOPs, FLOPs of all pairs, elements read, elements written).
    """
    ahead, back = (
        [line if len(line) == 5 else (*line[:2], *line[1:]) for line in lines]
        for lines in (forward, backward)
    )
    return Case(
        op,
        inputs,
        shape,
        by_class(ahead, 1),
        by_class(back, 1),
        (sum(line[3] for line in ahead), sum(line[4] for line in ahead)),
        sum(line[3] + line[4] for line in back),
        dense=by_class(ahead, 2),
        dense_back=by_class(back, 2),
        **rest,
    )


def by_class(lines, column):
    found = {}
    for line in lines:
        found[line[0]] = found.get(line[0], 0) + line[column]
    return found
