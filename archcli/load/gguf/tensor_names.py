"""Tensor names of GGUF files, and the archcli weights that they hold."""

from __future__ import annotations

import re

from archcli.load.gguf.arch import Arch, Names

HALF, KIND = r"(?:(?P<half>enc|dec)\.)?", r"\.(?P<kind>weight|bias)"
LAYER = re.compile(
    HALF
    + r"blk\.(?P<layer>\d{1,6})\.(?P<stem>\w+?(?:\.[a-z]\w*?)??)(?:\.(?P<expert>\d{1,6}))?(?:"
    + KIND
    + ")?"
)
WHOLE = re.compile(HALF + r"(?P<stem>\w+)" + KIND)
WHOLE_NAMES = (".weight", ".dt_bias", ".A_log", ".scan.D", ".scale")
"""How names of ours end that do not take the ending of the stored tensor's."""

HALVES = {"enc": "encoder.", "dec": "decoder.", None: ""}

MODEL_TENSORS: dict[str, Names] = {
    "token_embd": "embedding.tokens",
    "position_embd": "embedding.positions",
    "token_types": "embedding.token_types",
    "token_embd_norm": "embedding.norm",
    "output_norm": "final_norm",
    "output": "lm_head",
}
TENSORS: dict[str, Names] = {
    "attn_norm": "attention_norm",
    "attn_qkv": ("attention.q_proj", "attention.k_proj", "attention.v_proj"),
    **{f"attn_{part}": f"attention.{part}_proj" for part in "qkv"},
    **{f"attn_{part}_norm": f"attention.{part}_norm" for part in "qk"},
    "attn_output": "attention.o_proj",
    "attn_sinks": "attention.sinks",
    "attn_q_a": "attention.q_a_proj",
    "attn_q_a_norm": "attention.q_a_norm",
    "attn_q_b": "attention.q_b_proj",
    "attn_kv_a_mqa": "attention.kv_a_proj",
    "attn_kv_a_norm": "attention.kv_a_norm",
    "attn_kv_b": "attention.kv_b_proj",
    "attn_k_b": "attention.kv_b_proj",
    "attn_v_b": "attention.kv_b_proj",
    "ffn_norm": "ffn_norm",
    "ffn_gate_inp": "ffn.router",
    "ffn_gate_inp_shexp": "ffn.shared_gate",
    "ffn_gate_up_exps": ("ffn.experts.gate_proj", "ffn.experts.up_proj"),
    **{
        f"ffn_{part}{theirs}": f"ffn.{ours}{part}_proj"
        for part in ("gate", "up", "down")
        for theirs, ours in (("", ""), ("_exps", "experts."), ("_shexp", "shared."))
    },
}
"""A tensor of a layer: the weights of ours that it holds, one after the other.

Several tensors may make up one weight.
"""

BUFFERS: dict[str, str] = {
    "rope_freqs": "factors of the rotary frequencies",
    "rope_factors_long": "factors of the rotary frequencies",
    "rope_factors_short": "factors of the rotary frequencies",
    "attn_rot_embd": "rotary frequencies",
    "layer_output_scale": "factors on what layers return, buffers",
    "exp_probs_b": "correction biases of the router, a buffer",
}
"""Tensors that are no parameters."""

T5: dict[str, Names] = {
    "attn_o": "attention.o_proj",
    "cross_attn_norm": "cross_attention_norm",
    **{f"cross_attn_{part}": f"cross_attention.{part}_proj" for part in "qkvo"},
}
"""Tensors of a layer whose file has two halves."""


def buffer(name: str) -> str:
    """What a tensor that is not a parameter holds; empty for a parameter."""
    match = LAYER.fullmatch(name) or WHOLE.fullmatch(name)
    stem = match["stem"] if match else ""
    return f"{stem} ({BUFFERS[stem]})" if stem in BUFFERS else ""


def weights_of(name: str, arch: Arch) -> tuple[str, ...]:
    """The names of the archcli weights in a tensor; none for an unknown tensor."""
    match = LAYER.fullmatch(name) or WHOLE.fullmatch(name)
    if match is None:
        return ()
    groups = match.groupdict()
    half, stem = HALVES[groups["half"]], groups["stem"]
    if stem == "attn_rel_b":
        return (f"{half}score_bias.weight",)
    if "layer" not in groups:
        known = None if half and stem != "output_norm" else arch.tensors.get(stem, MODEL_TENSORS.get(stem))
        wholes = (known,) if isinstance(known, str) else known or ()
        return tuple(f"{half}{ours}.{groups['kind']}" for ours in wholes)
    if groups["expert"] is not None:
        stem = f"{stem}_exps"
    names = arch.tensors.get(stem, TENSORS.get(stem, T5.get(stem) if half else None))
    if names is None:
        return ()
    stems = (names,) if isinstance(names, str) else names
    kind = groups["kind"] or "weight"  # Falcon-H1's ffn_norm has none
    ends = [ours if ours.endswith(WHOLE_NAMES) else f"{ours}.{kind}" for ours in stems]
    return tuple(f"{half}layers.{groups['layer']}.{end}" for end in ends)
