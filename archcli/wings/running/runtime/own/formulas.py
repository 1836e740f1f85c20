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
from archcli.ops.dense import transform_flops
from archcli.wings.running.runtime.own.missing_formulas import OURS, stored_product
from archcli.wings.running.runtime.verify.contractions import FORMULAS, JOINS
from archcli.wings.serving.recorded.classes import flops_per_element

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
    "is_same_size is_set_to _has_same_storage_numel _make_dual _new_zeros_with_same_feature_meta "
    "torchvision::nms torchvision::roi_align torchvision::roi_pool torchvision::ps_roi_align "
    "torchvision::ps_roi_pool torchvision::_roi_align_backward torchvision::_roi_pool_backward "
    "torchvision::_ps_roi_align_backward torchvision::_ps_roi_pool_backward "
    # quantized, element by element, and what packs weights
    "quantized::add quantized::add_relu quantized::add_scalar quantized::add_scalar_relu quantized::mul "
    "quantized::mul_relu quantized::mul_scalar quantized::mul_scalar_relu quantized::cat quantized::cat_relu "
    "quantized::batch_norm quantized::batch_norm2d quantized::batch_norm3d quantized::batch_norm_relu "
    "quantized::layer_norm quantized::group_norm quantized::instance_norm quantized::hardswish "
    "quantized::leaky_relu quantized::prelu quantized::relu6 quantized::sigmoid quantized::softmax "
    "quantized::elu quantized::celu quantized::clamp quantized::threshold quantized::dropout "
    "quantized::max_pool1d quantized::max_pool2d quantized::embedding_byte quantized::embedding_4bit "
    "quantized::embedding_bag_byte_rowwise_offsets quantized::embedding_bag_4bit_rowwise_offsets "
    "quantized::linear_prepack quantized::conv1d_prepack quantized::conv2d_prepack "
)
"""Operations on several floating tensors without a product, beyond torch's pointwise ones."""

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
    first, causal_at, needed, ran = ATTENTION[name]
    q, k, v = args[first : first + 3]
    causal = kwargs.get("is_causal", args[causal_at] if len(args) > causal_at else False)
    mask = _mask_among(name, args, kwargs)
    square = q.shape[-2] * k.shape[-2]
    whole = sdpa_flop_count(*_attention_sizes(q, k, v))
    pairs, known = _pairs(q, k, mask, causal=causal, allowed=allowed)
    # scores and what is mixed by them; backward each has two gradients, and scores are made anew
    scores = 2 * math.prod(q.shape[:-2]) * square * q.shape[-1]
    executed = whole * needed // 2 + (scores if ran > needed else 0)
    heads = math.prod(q.shape[:-2])
    exact = whole * needed // 2 if pairs is None else whole * needed // 2 * pairs // (heads * square or 1)
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
    packet, name = packet_of(func), name_of(func)
    if name in ATTENTION:
        return attention_cost(name, args, kwargs, allowed)
    if name in OURS:
        return _contraction(OURS[name](*args, **{**kwargs, "out_val": out}))
    if packet in flop_registry:
        return _by_torchs_formula(packet, args, kwargs, out)
    if name in TRANSFORMS:
        whole = _transform(out if name == "_fft_c2r" else args[0], args[1])
        return (
            whole if name == "_fft_c2c" else whole._replace(flops=whole.flops // 2, executed=whole.flops // 2)
        )
    if _may_contract(func, name, args, kwargs):
        return None
    return _elementwise_cost(func, name, args, kwargs, out)


def packet_of(func: Any) -> Any:
    """What torch's formulas know an operation by: all its overloads; a higher-order one is its own."""
    return vars(func).get("_overloadpacket", func)


def name_of(func: Any) -> str:
    """The name of an operation as formulas know it: of ATen's alone, of others with the namespace."""
    namespace, name = func.namespace, packet_of(func).__name__.rstrip("_")
    return name if namespace in {"aten", "higher_order"} else f"{namespace}::{name}"


def _by_torchs_formula(packet: Any, args: Any, kwargs: Any, out: Any) -> OpCost:
    matrices = [x for x in args if torch.is_tensor(x)][-2:]
    if any(x.layout in SPARSE for x in matrices):
        return _contraction(stored_product(*matrices))
    flops = int(FORMULAS.get(packet, flop_registry[packet])(*args, **kwargs, out_val=out))
    # a function of scores may leave pairs out: which is not looked into
    return OpCost(OpClass.CONTRACTION, flops, flops, "unknown" if "flex_attention" in packet.__name__ else "")


def _contraction(flops: int) -> OpCost:
    return OpCost(OpClass.CONTRACTION, flops, flops)


def _may_contract(func: Any, name: str, args: Any, kwargs: Any) -> bool:
    if torch.Tag.pointwise in func.tags or name in NO_PRODUCTS or func.is_view or name.startswith(OF_LISTS):
        return False
    tensors = [x for x in tree_leaves((args, kwargs)) if torch.is_tensor(x)]
    if func.namespace not in UNDERSTOOD:
        return bool(tensors)  # what it does with them, its name does not tell
    numbers = [x for x in tensors if _has_numbers(x)]
    return len(numbers) > 1 or (bool(numbers) and name.startswith(ALONE))


OF_LISTS = ("_foreach_", "_fused_adam", "_fused_sgd", "_fused_adagrad", "_amp_")
"""Beginnings of names of operations on many tensors, each by itself: optimizers, norms of gradients."""
UNDERSTOOD = {"aten", "prims", "prim", "profiler"}
"""Namespaces whose operations multiply tensors only where they take two, or are known to."""
SPARSE = {torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc}


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
"""Operations that move, compare or draw numbers, beyond those of archcli's own models."""
_NORMS = ("norm", "softmax", "logsumexp")


def _transform(x: Any, axes: Sequence[int]) -> OpCost:
    """A fast Fourier transform of complex numbers; of half as many where one side is real."""
    flops = int(transform_flops(x.numel(), [x.shape[axis] for axis in axes]))
    return OpCost(OpClass.ELEMENTWISE, flops, flops)


def _elementwise_cost(func: Any, name: str, args: Any, kwargs: Any, out: Any) -> OpCost:
    """The cost of an operation that is no product, for each element of its largest tensor."""
    tensors = [x for x in tree_leaves((args, kwargs, out)) if torch.is_tensor(x)]
    floating = [x for x in tensors if _has_numbers(x)]
    if func.is_view or not floating:
        return OpCost(OpClass.MOVEMENT, 0, 0)
    per_element = 0 if name in MOVES else flops_per_element(name)
    if (
        name == "linalg_solve_triangular"
    ):  # row after row: n (n - 1) / 2 multiply-adds and n divisions a column
        flops = args[0].shape[-1] * out.numel()
    elif name.startswith(OF_LISTS):
        flops = per_element * sum(x.numel() for x in _first_list(args, floating))
    else:
        flops = per_element * max(x.numel() for x in floating)
    if any(part in name for part in _NORMS):
        return OpCost(OpClass.NORMALIZATION, flops, flops)
    return OpCost(OpClass.ELEMENTWISE if flops else OpClass.MOVEMENT, flops, flops)


def _first_list(args: Any, otherwise: Sequence[Any]) -> Sequence[Any]:
    """The first list among arguments: the tensors that an operation on many runs over."""
    return next((x for x in args if type(x) in {list, tuple}), otherwise)
