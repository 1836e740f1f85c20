"""What a case of an op is, and the two kinds of them that are many."""

from dataclasses import dataclass, field

E, N, M, C, R = "elementwise", "normalization", "movement", "contraction", "routing"
X = (2, 3, 4)
n = 2 * 3 * 4


@dataclass(frozen=True)
class Case:
    """An op, its input shapes, and its answers.

    FLOPs by class of the forward, of a forward that computes masked scores too where that differs, and of the backward;
    elements read and written by the forward, both together of the backward.
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


def norm(op, forward, back, gain, width, **weights):
    """A norm over X: FLOPs per element forward, of the input's gradient, of the weights'; elements of all weights."""
    gradients = {N: (back + gain) * n} if weights else {N: back * n}
    moved_back = (2 * n + width + n) + ((2 * n + width) if weights else 0)
    return Case(op, (X,), X, {N: forward * n}, gradients, (n + width, n), moved_back, weights)


def pointwise(op, forward, back=None, positions=None):
    """An op on each element of X, or, where it knows positions, of one head of it."""
    inputs, shape = ((X,), X) if positions is None else (((2, 3, 1, 4), positions), (2, 3, 1, 4))
    return Case(op, inputs, shape, {E: forward * n}, {E: (forward if back is None else back) * n}, (n, n), 2 * n)
