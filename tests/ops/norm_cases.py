"""LayerNorm and RMSNorm on small shapes."""

from archcli.ops import Normalize
from ops.case import Case, N, X, n


def norm(op, forward, back, gain, width, **weights):
    """A norm over X: FLOPs per element forward, of the input's gradient, of the weights'.

    Elements of all weights.
    """
    gradients = {N: (back + gain) * n} if weights else {N: back * n}
    moved_back = (2 * n + width + n) + ((2 * n + width) if weights else 0)
    return Case(op, (X,), X, {N: forward * n}, gradients, (n + width, n), moved_back, weights)


CASES = {
    "layernorm": norm(Normalize("y", 1e-5, centred=True, bias=True), 7, 9, 4, 8, weight=(4,), bias=(4,)),
    "layernorm-gain": norm(Normalize("y", 1e-5, centred=True), 6, 9, 4, 4, weight=(4,)),
    "layernorm-bare": norm(Normalize("y", 1e-5, centred=True, weight=False), 5, 9, 4, 0),
    "rmsnorm": norm(Normalize("y", 1e-5), 4, 6, 3, 4, weight=(4,)),
    "rmsnorm-bare": norm(Normalize("y", 1e-5, weight=False), 3, 6, 3, 0),
    "rmsnorm-per-head": norm(Normalize("y", 1e-5, offset=1.0, axes=2), 4, 6, 3, 12, weight=(3, 4)),
    "rmsnorm-offset": norm(Normalize("y", 1e-5, offset=1.0), 4, 6, 3, 4, weight=(4,)),
    "rmsnorm-bias": norm(Normalize("y", 1e-5, bias=True), 5, 6, 3, 8, weight=(4,), bias=(4,)),
    "layernorm-offset": norm(
        Normalize("y", 1e-5, centred=True, bias=True, offset=1.0), 7, 9, 4, 8, weight=(4,), bias=(4,)
    ),
    "layernorm-shift": norm(
        Normalize("y", 1e-5, centred=True, weight=False, bias=True), 6, 9, 4, 4, bias=(4,)
    ),
    "layernorm-per-head": norm(Normalize("y", 1e-5, centred=True, axes=2), 6, 9, 4, 12, weight=(3, 4)),
}
