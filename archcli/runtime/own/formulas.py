"""FLOPs of a torch operation: by torch's own formulas, and by ours where torch has none.

torch's FlopCounterMode counts an operation without a formula as nothing. It has none for grouped products,
for `mv`, `dot`, bilinear forms, recurrent kernels, and for attention in one kernel on a CPU. Here
an operation that may multiply two tensors and has no formula is `None`, for the caller to refuse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry, sdpa_flop_count

from archcli.graph import OpClass
from archcli.recording.classes import flops_per_element
from archcli.runtime.verify.contractions import FORMULAS, JOINS

aten = torch.ops.aten


Allowed = Callable[[Any], tuple[int, int] | None]
"""(pairs that a mask allows, of how many), None where its values are not known."""


class OpCost(NamedTuple):
    """The cost of a torch operation: class, FLOPs asked for, FLOPs executed, and which mask is known.

    `mask` is empty for all that is no attention kernel.
    """

    op_class: OpClass
    flops: int
    executed: int
    mask: str = ""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _grouped(a: Any, b: Any, *_: Any, **__: Any) -> int:
    """Products of groups of rows: every row meets one matrix; dropless, so that no row is left out."""
    if a.dim() == b.dim() == 3:  # noqa: PLR2004 - axes of stacks of matrices
        return 2 * math.prod(a.shape) * b.shape[-1]
    # [n, k] by [E, k, m]; [m, n] by [n, k] and [E, m, k] by [k, n], whose groups share out n
    return 2 * a.shape[-2] * a.shape[-1] * b.shape[-1]


def _lstm_layer(x: Any, w_ih: Any, w_hh: Any, *_: Any, **__: Any) -> int:
    """A layer of an LSTM in one kernel: every step's input and state meet their matrices."""
    steps = math.prod(x.shape[:-1])
    return 2 * steps * (math.prod(w_ih.shape) + math.prod(w_hh.shape))


def _lstm_layer_backward(x: Any, w_ih: Any, w_hh: Any, *_: Any, **__: Any) -> int:
    return 2 * _lstm_layer(x, w_ih, w_hh)


def _recurrent(x: Any, weights: Sequence[Any], *_: Any, **__: Any) -> int:
    """All layers and directions of a recurrent network in one kernel: every step meets every matrix."""
    return 2 * math.prod(x.shape[:-1]) * sum(math.prod(w.shape) for w in weights if w.dim() > 1)


def _trilinear(*args: Any, **_: Any) -> int:
    """Sums over products of three: the first two are multiplied and then summed with the third."""
    shapes, sumdim = [], args[6]
    for x, expand in zip(args[:3], args[3:6], strict=True):
        shape = list(x.shape)
        for axis in sorted(expand):
            shape.insert(axis, 1)
        shapes.append(shape)
    axes: list[int] = [max(sizes) for sizes in zip(*shapes, strict=True)]
    # a bilinear form runs it with its first axis of the output in a loop: 2 multiplications, 1 addition
    return 3 * math.prod(axes) if sumdim else 2 * math.prod(axes)


def _linear(x: Any, weight: Any, *_: Any, **__: Any) -> int:
    return 2 * math.prod(x.shape) * weight.shape[0]


def _matmul(a: Any, *_: Any, out_val: Any, **__: Any) -> int:
    return 2 * math.prod(out_val.shape) * a.shape[-1]


def _of_first(a: Any, *_: Any, **__: Any) -> int:
    return 2 * math.prod(a.shape)


def _added_mv(_x: Any, a: Any, *_: Any, **__: Any) -> int:
    return 2 * math.prod(a.shape)


def _added_bmm(_x: Any, a: Any, b: Any, *_: Any, **__: Any) -> int:
    return 2 * math.prod(a.shape) * b.shape[-1]


def _distances(a: Any, *_: Any, out_val: Any, **__: Any) -> int:
    """Distances of all pairs: a difference, a power and a sum per element of each pair; by a product, 2."""
    return 2 * math.prod(out_val.shape) * a.shape[-1]


def _packed_product(x: Any, *_: Any, out_val: Any, **__: Any) -> int:
    return 2 * math.prod(x.shape) * out_val.shape[-1]


Formula = Callable[..., int]
OURS: dict[str, Formula] = {
    "_grouped_mm": _grouped,
    "_scaled_grouped_mm": _grouped,
    "_scaled_grouped_mm_v2": _grouped,
    "mkldnn_rnn_layer": _lstm_layer,
    "mkldnn_rnn_layer_backward": _lstm_layer_backward,
    "_cudnn_rnn": _recurrent,
    "miopen_rnn": _recurrent,
    "_trilinear": _trilinear,
    "linear": _linear,
    "mkldnn_linear": _linear,
    "_mixed_dtypes_linear": _linear,
    "matmul": _matmul,
    "_int_mm": _matmul,
    "_scaled_mm_v2": _matmul,
    "mv": _of_first,
    "dot": _of_first,
    "vdot": _of_first,
    "addmv": _added_mv,
    "addbmm": _added_bmm,
    "_addmm_activation": _added_bmm,
    "_cdist_forward": _distances,
    "_euclidean_dist": _distances,
    "_weight_int8pack_mm": _packed_product,
    "_weight_int4pack_mm": _packed_product,
    "_weight_int4pack_mm_for_cpu": _packed_product,
    "_dyn_quant_matmul_4bit": _packed_product,
}
"""FLOPs by the name of an operation of ATen that torch has no formula for."""

NO_PRODUCTS = JOINS | _names(
    "linalg_vector_norm linalg_diagonal "
    # moves, fills and lookups
    "embedding embedding_dense_backward _embedding_bag _embedding_bag_forward_only "
    "_embedding_bag_backward  _embedding_bag_dense_backward _embedding_bag_per_sample_weights_backward "
    "embedding_renorm gather  index index_select index_fill _index_put_impl _unsafe_index "
    "_unsafe_index_put _unsafe_masked_index  _unsafe_masked_index_put_accumulate masked_fill "
    "masked_scatter masked_select masked_scatter_backward  scatter_reduce index_reduce put take "
    "select_scatter slice_scatter diagonal_scatter as_strided_scatter  as_strided_copy slice_inverse "
    "fill set copy_from _copy_from complex polar resize_as where lift_fresh  _pack_padded_sequence "
    "_pad_packed_sequence block_diag cartesian_prod hstack vstack roll repeat_interleave "
    "split_with_sizes_copy unbind_copy constant_pad_nd _foreach_copy nested_tensor searchsorted "
    "bucketize  _nested_from_padded _nested_tensor_from_mask _nested_view_from_buffer_copy isin "
    "histogram "
    # sampling on grids, pooling, padding, and their gradients
    "grid_sampler_2d grid_sampler_2d_backward grid_sampler_3d grid_sampler_3d_backward "
    "_grid_sampler_2d_cpu_fallback cudnn_grid_sampler cudnn_grid_sampler_backward "
    "_adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward adaptive_max_pool2d_backward "
    "adaptive_max_pool3d_backward avg_pool2d_backward avg_pool3d_backward "
    "max_pool2d_with_indices_backward  max_pool3d_with_indices_backward max_pool2d_backward "
    "fractional_max_pool2d fractional_max_pool3d  fractional_max_pool2d_backward "
    "fractional_max_pool3d_backward max_unpool2d max_unpool3d  reflection_pad1d_backward "
    "reflection_pad2d_backward reflection_pad3d_backward  replication_pad1d_backward "
    "replication_pad2d_backward replication_pad3d_backward "
    # norms
    "native_group_norm native_group_norm_backward _native_batch_norm_legit_functional cudnn_batch_norm "
    "cudnn_batch_norm_backward miopen_batch_norm miopen_batch_norm_backward batch_norm_backward "
    "_batch_norm_with_update _batch_norm_with_update_functional batch_norm_elemt "
    "batch_norm_gather_stats  batch_norm_gather_stats_with_counts batch_norm_backward_elemt "
    "batch_norm_backward_reduce  _weight_norm_interface _weight_norm_interface_backward _masked_softmax "
    "_masked_softmax_backward  _nested_tensor_softmax_with_shape renorm "
    # element by element
    "gelu_backward glu_backward glu_jvp hardshrink_backward hardsigmoid_backward hardswish_backward "
    "hardtanh_backward leaky_relu_backward log_sigmoid_backward softshrink_backward threshold_backward "
    "rrelu_with_noise rrelu_with_noise_functional rrelu_with_noise_backward _prelu_kernel "
    "_prelu_kernel_backward _masked_scale rsub floor_divide linalg_cross addr bernoulli binomial normal "
    "dist  allclose equal _standard_gamma_grad _dirichlet_grad randint_like _add_relu rand_like "
    "_thnn_fused_lstm_cell _thnn_fused_lstm_cell_backward_impl _thnn_fused_gru_cell "
    "_thnn_fused_gru_cell_backward quantize_per_tensor quantize_per_channel linspace logspace "
    "_fake_quantize_learnable_per_tensor_affine _fake_quantize_learnable_per_channel_affine "
    "fake_quantize_per_channel_affine_cachemask "
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams  _fused_moving_avg_obs_fq_helper "
    "_foreach_add _foreach_mul _foreach_addcmul _foreach_addcdiv  _foreach_lerp _foreach_sub "
    "_foreach_div _fused_adam _fused_adamw _fused_sgd  _amp_foreach_non_finite_check_and_unscale "
    "_amp_update_scale _cummax_helper _cummin_helper cummaxmin_backward "
    # losses
    "binary_cross_entropy binary_cross_entropy_backward binary_cross_entropy_with_logits mse_loss "
    "mse_loss_backward huber_loss huber_loss_backward smooth_l1_loss smooth_l1_loss_backward "
    "soft_margin_loss soft_margin_loss_backward multi_margin_loss multi_margin_loss_backward "
    "multilabel_margin_loss_forward multilabel_margin_loss_backward nll_loss_forward nll_loss_backward "
    "nll_loss2d_forward nll_loss2d_backward _ctc_loss _ctc_loss_backward _fused_sdp_choice "
    # metadata, and torchvision's boxes
    "is_same_size is_set_to _has_same_storage_numel _make_dual _new_zeros_with_same_feature_meta  nms "
    "roi_align roi_pool ps_roi_align ps_roi_pool _roi_align_backward "
)
"""Operations on several floating tensors that contract nothing, beyond those that torch calls pointwise."""

ALONE = ("linalg_", "_linalg_", "_fft_", "fft_", "_pdist", "cholesky", "matrix_", "lu_", "qr", "svd", "geqrf")
"""Beginnings of names of operations that multiply within one tensor: decompositions, transforms."""


def _attention_sizes(q: Any, k: Any, v: Any) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    return tuple(q.shape), tuple(k.shape), tuple(v.shape)


ATTENTION: Mapping[str, tuple[int, int, int, int]] = {
    # first of q, k, v; the place of is_causal; products that are asked for and that are executed
    "_scaled_dot_product_flash_attention_for_cpu": (0, 4, 2, 2),
    "_scaled_dot_product_flash_attention": (0, 4, 2, 2),
    "_scaled_dot_product_efficient_attention": (0, 6, 2, 2),
    "_scaled_dot_product_cudnn_attention": (0, 6, 2, 2),
    "_scaled_dot_product_fused_attention_overrideable": (0, 5, 2, 2),
    "_scaled_dot_product_flash_attention_for_cpu_backward": (1, 7, 4, 5),
    "_scaled_dot_product_flash_attention_backward": (1, 11, 4, 5),
    "_scaled_dot_product_efficient_attention_backward": (1, 10, 4, 5),
    "_scaled_dot_product_cudnn_attention_backward": (1, 13, 4, 5),
}
"""Attention in one kernel. Its backward computes the scores again: a fifth product that nobody asks for."""
MASKS = {"attn_mask": 5, "attn_bias": 3}


def attention_cost(name: str, args: Any, kwargs: Any, allowed: Allowed) -> OpCost:
    """The cost of attention in one kernel: exact pairs where its mask is known, else all."""
    first, causal_at, asked, ran = ATTENTION[name]
    q, k, v = args[first : first + 3]
    causal = kwargs.get("is_causal", args[causal_at] if len(args) > causal_at else False)
    mask = _mask_among(name, args, kwargs)
    square = q.shape[-2] * k.shape[-2]
    whole = sdpa_flop_count(*_attention_sizes(q, k, v))
    pairs, known = _pairs(q, k, mask, causal=causal, allowed=allowed)
    # scores and what is mixed by them; backward each has two gradients, and scores are made anew
    scores = 2 * math.prod(q.shape[:-2]) * square * q.shape[-1]
    executed = whole * asked // 2 + (scores if ran > asked else 0)
    heads = math.prod(q.shape[:-2])
    exact = whole * asked // 2 if pairs is None else whole * asked // 2 * pairs // (heads * square or 1)
    return OpCost(OpClass.CONTRACTION, exact, executed, known)


def _mask_among(name: str, args: Any, kwargs: Any) -> Any:
    if "attn_mask" in kwargs or "attn_bias" in kwargs:
        return kwargs.get("attn_mask", kwargs.get("attn_bias"))
    place = {"efficient_attention": 3, "cudnn_attention": 3, "overrideable": 3}
    if name.endswith("_backward"):
        place = {"efficient_attention_backward": 4, "cudnn_attention_backward": 8}
    at = next((i for part, i in place.items() if name.endswith(part)), None)
    return args[at] if at is not None and len(args) > at else None


def _pairs(q: Any, k: Any, mask: Any, *, causal: bool, allowed: Allowed) -> tuple[int | None, str]:
    """(pairs of a query and a key in all heads, which mask they are of); None where it is not known."""
    heads, queries, keys = math.prod(q.shape[:-2]), q.shape[-2], k.shape[-2]
    if mask is not None:
        share = allowed(mask)
        if share is None:
            return None, "unknown"
        pairs, among = share
        return pairs * (heads * queries * keys // among), "given"
    if causal:
        full = min(queries, keys)
        # the first query reads one key, the next two, up to all
        return heads * (full * (full + 1) // 2 + (queries - full) * keys), "causal"
    return heads * queries * keys, "none"


def cost_of(func: Any, args: Any, kwargs: Any, out: Any, allowed: Allowed) -> OpCost | None:
    """The cost of an operation; None for one that may contract tensors and has no formula."""
    packet = func.overloadpacket
    name = packet.__name__.rstrip("_")
    if name in ATTENTION:
        return attention_cost(name, args, kwargs, allowed)
    if name in OURS:
        of_ours = {"out_val": out} if OURS[name] in NEEDS_OUTPUT else {}
        return _contraction(OURS[name](*args, **kwargs, **of_ours))
    if packet in flop_registry:
        formula = FORMULAS.get(packet, flop_registry[packet])
        return _contraction(int(formula(*args, **kwargs, out_val=out)))
    if name in TRANSFORMS:
        whole = _transform(out if name == "_fft_c2r" else args[0], args[1])
        return (
            whole if name == "_fft_c2c" else whole._replace(flops=whole.flops // 2, executed=whole.flops // 2)
        )
    if _may_contract(func, name, args, kwargs):
        return None
    return _other(func, name, args, kwargs, out)


def higher_order_cost(func: Any, args: Any, kwargs: Any, out: Any) -> OpCost | None:
    """The cost of an operation that takes functions, flex_attention above all; None for any other.

    What its mask allows is a function of the user's: all pairs are counted.
    """
    if func not in flop_registry:
        return None
    flops = int(flop_registry[func](*args, **kwargs, out_val=out))
    return OpCost(OpClass.CONTRACTION, flops, flops, "unknown")


NEEDS_OUTPUT: set[Formula] = {_matmul, _distances, _packed_product}


def _contraction(flops: int) -> OpCost:
    return OpCost(OpClass.CONTRACTION, flops, flops)


def _may_contract(func: Any, name: str, args: Any, kwargs: Any) -> bool:
    if torch.Tag.pointwise in func.tags or name in NO_PRODUCTS or func.is_view:
        return False
    numbers = [x for x in tree_leaves((args, kwargs)) if torch.is_tensor(x) and _has_numbers(x)]
    return len(numbers) > 1 or (bool(numbers) and name.startswith(ALONE))


def _has_numbers(x: torch.Tensor) -> bool:
    return x.is_floating_point() or x.is_complex()


TRANSFORMS = frozenset({"_fft_c2c", "_fft_r2c", "_fft_c2r"})
MOVES = _names(
    "_unsafe_view _reshape_alias lift lift_fresh roll flip pixel_shuffle pixel_unshuffle "
    "channel_shuffle im2col  unfold reflection_pad1d reflection_pad2d reflection_pad3d "
    "replication_pad1d replication_pad2d  replication_pad3d max_pool2d_with_indices "
    "max_pool3d_with_indices _adaptive_max_pool2d argmax argmin min  adaptive_max_pool2d "
    "adaptive_max_pool3d nonzero isnan isinf isfinite logical_not logical_and logical_or  masked_select "
    "masked_scatter index_put _index_put_impl _unsafe_index _unsafe_masked_index take_along_dim "
    "repeat_interleave squeeze unsqueeze slice_scatter select_scatter _pack_padded_sequence _to_dense "
    "bernoulli uniform normal clamp_max minimum sign sgn round floor ceil alias contiguous resize "
)
"""Operations that move, compare or draw, beyond those that a profile of archcli's own models meets."""
_NORMS = ("norm", "softmax", "logsumexp")


def _transform(x: Any, axes: Sequence[int]) -> OpCost:
    """A fast Fourier transform: 5 n log2 n of n complex numbers, half as many where one side is real."""
    length = math.prod(x.shape[axis] for axis in axes)
    flops = round(5 * x.numel() * math.log2(max(length, 1)))
    return OpCost(OpClass.ELEMENTWISE, flops, flops)


def _other(func: Any, name: str, args: Any, kwargs: Any, out: Any) -> OpCost:
    """The cost of an operation that is no product, for each element of its largest tensor."""
    tensors = [x for x in tree_leaves((args, kwargs, out)) if torch.is_tensor(x)]
    floating = [x for x in tensors if _has_numbers(x)]
    if func.is_view or not floating:
        return OpCost(OpClass.MOVEMENT, 0, 0)
    each = 0 if name in MOVES else flops_per_element(name)
    flops = each * max(x.numel() for x in floating)
    if any(part in name for part in _NORMS):
        return OpCost(OpClass.NORMALIZATION, flops, flops)
    return OpCost(OpClass.ELEMENTWISE if flops else OpClass.MOVEMENT, flops, flops)
