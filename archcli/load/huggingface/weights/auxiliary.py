"""Auxiliary tensors: tensors besides the weights, in checkpoints of any family, with reasons."""

from __future__ import annotations

import re

Shape = tuple[int, ...]

MASK = "attention mask: computed, not trained"
ROTARY = "rotary table: computed, not trained"
POSITIONS = "position ids: 0, 1, 2, …"
SCALE, PACKED = "scale of a quantized weight", "part of a packed, quantized weight"
TOWER = "tower beside the language model, or what joins it to it"
CLASSIFIER = "head of another class than a language model's"
WHOLE = "state of arithmetic in whole numbers (I-BERT)"
OPTIMIZER = "state of an optimizer, left over from training"

REASONS: tuple[tuple[str, str], ...] = (
    (r"(^|\.)rotary_(pos_)?emb\.(\w*inv_freq|cos_cached|sin_cached)$", ROTARY),
    (r"(^|\.)embeddings\.position_ids$", POSITIONS),
    # fp8, NVFP4 and compressed-tensors
    (r"\.(weight_scale(_inv|_2)?|(input|activation|output|[kv])_scale|(weight|input)_global_scale)$", SCALE),
    # qzeros, scales and g_idx of GPTQ and AWQ; biases of MLX; SCB of bitsandbytes in 8 bits
    (r"\.(qzeros|scales|biases|g_idx|SCB|weight_(format|shape|g_idx))$", PACKED),
    (r"\.(weight|input)_zero_point$", PACKED),
    # bitsandbytes in 4 bits
    (r"\.(weight|[a-z_]+_proj)\.(absmax|quant_map|nested_absmax|nested_quant_map|quant_state\..+)$", PACKED),
    # MXFP4 of gpt-oss
    (r"\.experts\.\w+_scales$", PACKED),
    (r"(^|\.)(vision_tower|vision_model|visual|audio_tower|image_newline)(\.|$)", TOWER),
    (r"(^|\.)((multi_modal|mm)_projector|(vision|audio)_tokenizer)(\.|$)", TOWER),
    # v_head is the value head of TRL
    (r"^(score|classifier|qa_outputs|v_head)\.", CLASSIFIER),
    (r"\.(x_min|x_max|(act|fc|weight)_scaling_factor|(weight|bias)_integer|LayerNorm\.shift)$", WHOLE),
    (r"(^|\.)optimizer(_state)?\.|\.(exp_avg|exp_avg_sq|max_exp_avg_sq|momentum_buffer)$", OPTIMIZER),
)
"""Pattern of a name: the reason."""

PACKED_AS: tuple[tuple[str, str], ...] = (
    (r"(.+)\.(qweight|weight_packed)", r"\1.weight"),
    (r"(.+\.experts\.\w+)_blocks", r"\1"),
)
"""Pattern of a tensor that holds a weight in fewer bits: the name of that weight.

GPTQ and AWQ, compressed-tensors, MXFP4.
"""

BESIDE_PACKED = (".absmax", ".quant_state.bitsandbytes__nf4", ".quant_state.bitsandbytes__fp4")
"""What bitsandbytes puts beside a weight that keeps its name and is packed."""

BESIDE_MODULE = (".biases", ".weight_scale_2")
"""What MLX and ModelOpt's NVFP4 put beside it, by the name of its module."""


def auxiliary_reason(name: str, shape: Shape | None) -> str:
    """The reason why a checkpoint holds an auxiliary tensor; empty for an unknown name."""
    for pattern, reason in REASONS:
        if re.search(pattern, name):
            return reason
    return MASK if _is_mask(name, shape) else ""


def packed(name: str) -> str | None:
    """The name of the weight that a packed tensor holds in fewer bits; None for other tensors."""
    for pattern, base in PACKED_AS:
        if re.fullmatch(pattern, name):
            return re.sub(pattern, base, name)
    return None


def _is_mask(name: str, shape: Shape | None) -> bool:
    """`attn.bias` is a mask [1, 1, n, n] in old files of GPT-2; as a vector it would be a bias."""
    if re.search(r"\.masked_bias$", name):
        return shape in ((), (1,), None)
    square = shape is None or shape == (1, 1, *shape[-1:], *shape[-1:])
    return bool(re.search(r"\.(attn|attention|self_attn|attn\.attention)\.bias$", name)) and square
