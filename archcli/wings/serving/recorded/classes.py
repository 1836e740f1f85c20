"""Time classes of a profile; the class and the FLOPs per element of torch's operations.

- An operation of the architecture with one class of cost: all kernels that it runs have that class, such as
  the eleven of a composite norm.
- One with a matrix product and others: softmax, bias and copies are recognised by name.
- A fused attention kernel is contraction and normalization at once: a class of its own, never split.
- A kernel that goes from token to token, neither a product nor element-wise, as a running sum: recurrence.
"""

from __future__ import annotations

from enum import StrEnum

from archcli.graph import OpClass, Part
from archcli.ops.base import (
    LAYERNORM_BACKWARD,
    LAYERNORM_FORWARD,
    LAYERNORM_WEIGHT,
    LOG_SOFTMAX,
    LOG_SOFTMAX_BACKWARD,
    LOG_SUM_EXP,
    RMSNORM_BACKWARD,
    RMSNORM_FORWARD,
    RMSNORM_WEIGHT,
    SOFTMAX_BACKWARD,
    SOFTMAX_FORWARD,
)
from archcli.wings.serving.recorded.operations import OpKey, Phase


class TimeClass(StrEnum):
    """The classes of cost, kernels that mix several of them, and time outside of any operation."""

    CONTRACTION = OpClass.CONTRACTION.value
    NORMALIZATION = OpClass.NORMALIZATION.value
    ELEMENTWISE = OpClass.ELEMENTWISE.value
    MOVEMENT = OpClass.MOVEMENT.value
    ROUTING = OpClass.ROUTING.value
    FUSED_ATTENTION = "fused_attention"
    FUSED_KERNELS = "fused_kernels"
    RECURRENCE = "recurrence"
    RANDOM = "random"
    COMMUNICATION = "communication"
    FRAMEWORK = "framework"
    UNATTRIBUTED = "unattributed"

    @property
    def label(self) -> str:
        """The name of the class in a table or a drawing."""
        return _LABELS.get(self, self.replace("_", " "))


_LABELS = {
    **{TimeClass(op_class.value): op_class.label for op_class in OpClass},
    TimeClass.RANDOM: "random numbers",
}


def label_of(classes: str) -> str:
    """The label of a class by its name, or of several whose names are joined by ` + `."""
    known = {str(op_class): op_class.label for op_class in TimeClass}
    return " + ".join(known.get(name, name) for name in classes.split(" + "))


FUSED = TimeClass.FUSED_ATTENTION
FUSED_KERNELS = TimeClass.FUSED_KERNELS
"""Kernels of a compiled model that operations of several classes were fused into."""
RECURRENCE = TimeClass.RECURRENCE
"""Kernels that go from token to token."""
COMMUNICATION = TimeClass.COMMUNICATION
"""Collectives of the ranks of a plan, and waiting for them."""
FRAMEWORK = TimeClass.FRAMEWORK
RANDOM = TimeClass.RANDOM
"""Drawing random numbers: no arithmetic of the architecture, but on a CPU much of training with dropout."""
UNATTRIBUTED = TimeClass.UNATTRIBUTED


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FUSED = (
    "_scaled_dot_product",
    "_flash_attention",
    "_efficient_attention",
    "_cudnn_attention",
    "flex_attention",
)
_PRODUCTS = _names(
    "mm bmm addmm _addmm_activation baddbmm addbmm mv addmv dot _grouped_mm convolution convolution_backward"
)
_RANDOM = _names(
    "bernoulli uniform normal exponential multinomial rand randn rand_like randn_like randint randperm"
    " native_dropout _fused_dropout random normal_functional"
)  # drawing and multiplying are one kernel in a GPU's dropout
COLLECTIVES = {
    **dict.fromkeys(("all_reduce", "allreduce"), "all_reduce"),
    **dict.fromkeys(
        ("all_gather_into_tensor", "allgather_into_tensor_coalesced", "_allgather_base"), "all_gather"
    ),
    **dict.fromkeys(
        ("reduce_scatter_tensor", "reduce_scatter_tensor_coalesced", "_reduce_scatter_base"), "reduce_scatter"
    ),
}
"""Kind of collective by the name of torch's operation: `_allgather_base` is an all_gather."""
WAIT = "wait_tensor"
"""Torch's operation by which a rank waits for a collective."""
_SUMS = _names("sum cumsum")
_SCANS = _names("cumsum cumprod cummax logcumsumexp linalg_solve_triangular associative_scan addcmul")
_SOFTMAX = _names("softmax _softmax _safe_softmax _softmax_backward_data logsumexp")
_COPIES = _names("clone copy _to_copy cat stack index_select index index_copy gather repeat fill")
_MAKERS = _names("empty empty_like new_empty zeros zeros_like new_zeros bincount _local_scalar_dense")
_NO_ARITHMETIC = (
    _COPIES
    | _MAKERS
    | _RANDOM
    | _names("relu threshold_backward clamp clamp_min maximum max amax topk sort masked_fill where scatter")
    | _names("lt le gt ge eq ne bitwise_not bitwise_and bitwise_or detach triu tril flip constant_pad_nd")
    | _names("arange eye ones ones_like full full_like new_full scalar_tensor zero")
    | _names("embedding embedding_dense_backward slice_backward select_backward")
    | {*COLLECTIVES, WAIT}  # sums over ranks are made by what moves them
)
"""Operations that copy, compare, choose, draw or fill. A maximum is no FLOP either, as in `ops/base.py`."""
_IN_ONE_KERNEL = {
    "addcmul": 2,  # a product, and its sum with what is there
    "_softmax": SOFTMAX_FORWARD - 1,  # its input is scaled before
    "_softmax_backward_data": SOFTMAX_BACKWARD - 1,
    "_log_softmax": LOG_SOFTMAX,
    "_log_softmax_backward_data": LOG_SOFTMAX_BACKWARD,
    "logsumexp": LOG_SUM_EXP,
    "native_layer_norm": LAYERNORM_FORWARD,
    "native_layer_norm_backward": LAYERNORM_BACKWARD + LAYERNORM_WEIGHT,
    "_fused_rms_norm": RMSNORM_FORWARD,
    "_fused_rms_norm_backward": RMSNORM_BACKWARD + RMSNORM_WEIGHT,
}
"""FLOPs per element of operations with several steps, by the table of `ops/base.py`."""


def flops_per_element(name: str) -> int:
    """FLOPs per element of the largest tensor, of a torch operation that is no matrix product."""
    return 0 if name in _NO_ARITHMETIC else _IN_ONE_KERNEL.get(name, 1)


def is_fused(name: str) -> bool:
    """Whether a torch operation computes a whole attention in one call."""
    return name.startswith(_FUSED)


def is_product(name: str) -> bool:
    """Whether a torch operation is a matrix product."""
    return name in _PRODUCTS


def communicates(name: str) -> bool:
    """Whether a torch operation is a collective, or waits for one."""
    return name in COLLECTIVES or name == WAIT


def class_of(key: OpKey, parts: tuple[Part, ...]) -> str:
    """The time class of a torch operation that an op of the architecture with these parts runs."""
    named = _class_by_name(key)
    if named is not None:
        return named
    of_phase = _of_phase(key.phase, parts)
    # only within a scan: elsewhere cumsum counts, for example, the tokens of experts
    if key.name in _SCANS and any(part.scans for part in of_phase):
        return RECURRENCE
    classes = [part.op_class for part in of_phase]
    if OpClass.CONTRACTION in classes:
        return _class_beside_product(key, classes)
    return classes[0] if classes else OpClass.MOVEMENT


def _class_by_name(key: OpKey) -> str | None:
    """The class of a torch operation whatever runs it; None for most."""
    if communicates(key.name):
        return COMMUNICATION
    if is_fused(key.name):
        return FUSED
    if key.name in _RANDOM:
        return RANDOM
    return OpClass.ELEMENTWISE if key.phase == "sums" else None


_LINEAR = _names("linear linear_backward _linear_pointwise _mkl_linear mkldnn_linear _int_mm _scaled_mm")
_REDUCTIONS = _names(
    "sum mean var std var_mean prod amax amin norm linalg_vector_norm _foreach_norm nll_loss_forward"
    " nll_loss_backward nll_loss2d_forward nll_loss2d_backward"
)
_MOVES = _names(
    "embedding embedding_dense_backward scatter scatter_add index_put index_add masked_scatter nonzero topk"
    " sort slice_backward select_backward constant_pad_nd tril triu roll flip zero arange full full_like"
    " ones ones_like masked_select unique_dim _unique2 _amp_update_scale resize set"
)


def class_by_name(name: str) -> str:
    """The time class of a torch operation by its name alone, if its op is unknown."""
    named = _class_by_name(OpKey("", "forward", name))
    if named is not None:
        return named
    if name in _PRODUCTS | _LINEAR or "convolution" in name:
        return OpClass.CONTRACTION
    if name in _SCANS - {"addcmul"} or "rnn" in name or "lstm" in name or "gru" in name:
        return RECURRENCE
    if name in _SOFTMAX | _REDUCTIONS or "_norm" in name or "softmax" in name:
        return OpClass.NORMALIZATION
    return OpClass.MOVEMENT if name in _COPIES | _MAKERS | _MOVES else OpClass.ELEMENTWISE


def _of_phase(phase: Phase, parts: tuple[Part, ...]) -> tuple[Part, ...]:
    return parts if phase == "forward" else tuple(back for part in parts for back in part.backward)


def _class_beside_product(key: OpKey, classes: list[OpClass]) -> OpClass:
    """The class of a torch operation within a Linear, an Einsum or an eager Attend, by its name.

    Scaling and masking of scores belong to the softmax, as its FLOPs count them, unless the row also has
    element-wise parts (a softcap, ALiBi), whose kernels have the same names.
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
