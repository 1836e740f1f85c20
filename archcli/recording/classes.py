"""Which class a torch operation's time belongs to, within the operation of the architecture that executed it. No torch here.

An op of the architecture with one class of cost lends that class to all it executes: the eleven kernels of a composite
norm are the norm. Where matrices are multiplied, the product, the softmax, the bias and the copies are told apart by
their names. A fused attention kernel is both contraction and normalization and is never split: it is a class of its own.
"""

from __future__ import annotations

from archcli.graph import OpClass, Part
from archcli.recording.walk import Key, Phase

FUSED = "fused_attention"
FRAMEWORK = "framework"
RANDOM = "random"
"""Drawing random numbers, wherever it happens: no arithmetic of the architecture, and on a CPU a large part of training with dropout."""

_FUSED = ("_scaled_dot_product", "_flash_attention", "_efficient_attention", "_cudnn_attention")
_PRODUCTS = {
    "mm",
    "bmm",
    "addmm",
    "_addmm_activation",
    "baddbmm",
    "addbmm",
    "mv",
    "addmv",
    "dot",
    "_grouped_mm",
}
_PRODUCTS |= {"convolution", "convolution_backward"}
_RANDOM = {
    "bernoulli",
    "uniform",
    "normal",
    "exponential",
    "multinomial",
    "rand",
    "randn",
    "rand_like",
    "randn_like",
    "randint",
    "randperm",
}
_RANDOM |= {
    "native_dropout",
    "_fused_dropout",
    "random",
    "normal_functional",
}  # of a GPU's dropout, drawing and multiplying are one kernel
_SUMS = {"sum", "cumsum"}
_SOFTMAX = {"softmax", "_softmax", "_safe_softmax", "_softmax_backward_data", "logsumexp"}
_COPIES = {
    "clone",
    "copy",
    "_to_copy",
    "cat",
    "stack",
    "index_select",
    "index",
    "index_copy",
    "gather",
    "repeat",
    "fill",
}
_MAKERS = {
    "empty",
    "empty_like",
    "new_empty",
    "zeros",
    "zeros_like",
    "new_zeros",
    "bincount",
    "_local_scalar_dense",
}
NO_ARITHMETIC = (
    _COPIES
    | _MAKERS
    | _RANDOM
    | {"relu", "threshold_backward", "clamp", "clamp_min", "maximum", "masked_fill", "where"}
)
NO_ARITHMETIC |= {
    "lt",
    "le",
    "gt",
    "ge",
    "eq",
    "ne",
    "bitwise_not",
    "bitwise_and",
    "bitwise_or",
    "arange",
    "detach",
    "zero",
}
NO_ARITHMETIC |= {"embedding", "embedding_dense_backward"}
"""What computes nothing: it copies, compares, chooses or draws. A maximum is no FLOP, as in the table of the architecture's operations."""


def is_fused(name: str) -> bool:
    """Whether an operation of torch is a whole attention."""
    return name.startswith(_FUSED)


def is_product(name: str) -> bool:
    """Whether an operation of torch multiplies matrices."""
    return name in _PRODUCTS


def class_of(key: Key, parts: tuple[Part, ...]) -> str:
    """The class that takes the time of `key`, executed by an op of the architecture with these parts."""
    if is_fused(key.name):
        return FUSED
    if key.name in _RANDOM:
        return RANDOM
    if key.phase == "sums":
        return OpClass.ELEMENTWISE
    classes = [part.op_class for part in _of_phase(key.phase, parts)]
    if OpClass.CONTRACTION in classes:
        return _beside_a_product(key, classes)
    return classes[0] if classes else OpClass.MOVEMENT


def _of_phase(phase: Phase, parts: tuple[Part, ...]) -> tuple[Part, ...]:
    return parts if phase == "forward" else tuple(back for part in parts for back in part.backward)


def _beside_a_product(key: Key, classes: list[OpClass]) -> OpClass:
    """Within a Linear, a Contract or an eager Attend: by the kernel's name.

    Scaling and masking of scores belong to the softmax, as its FLOPs count them, unless the row also has element-wise
    parts (a softcap, ALiBi), of whose kernels they cannot be told apart.
    """
    if key.name in _PRODUCTS:
        return OpClass.CONTRACTION
    if key.name in _SOFTMAX:
        return OpClass.NORMALIZATION
    if key.name in _COPIES | _MAKERS:
        return OpClass.MOVEMENT
    if key.name in _SUMS and OpClass.NORMALIZATION in classes:
        return OpClass.NORMALIZATION
    if OpClass.ELEMENTWISE in classes:
        return OpClass.ELEMENTWISE
    return OpClass.NORMALIZATION if OpClass.NORMALIZATION in classes else OpClass.CONTRACTION
