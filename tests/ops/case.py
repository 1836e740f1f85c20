"""Case: an op on small shapes with what it must answer; and the names its numbers are written with."""

from dataclasses import dataclass, field

E, N, M, C, R = "elementwise", "normalization", "movement", "contraction", "routing"
X = (2, 3, 4)
n = 2 * 3 * 4


@dataclass(frozen=True)
class Case:
    """An op, its input shapes, and its answers.

    FLOPs by class of the forward, of a forward that computes masked scores too where that differs, and of the backward;
    elements read and written by the forward, both together of the backward; how many operands of a product are trained.
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
    operands: int = 2
