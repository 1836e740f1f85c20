"""Weight names of Inkling, as transformers 5 holds them and as its makers publish them."""

from __future__ import annotations

from archcli.load.huggingface.weights.names import LLAMA, PREDICTION, QK_NORM
from archcli.load.huggingface.weights.rules import Auxiliary, Parts, Weights

LAYER, PUBLISHED = "[model.]layers.*", "model.llm.layers.*"
ATTENTION, NETWORK = "layers.*.attention", "layers.*.ffn.network"
EXPERTS, SHARED = f"{NETWORK}.experts", f"{NETWORK}.shared"
MATRICES = ("gate", "up", "down")

IN_MEMORY: Weights = {
    **{name: rule for name, rule in LLAMA.items() if ".mlp." not in name},
    **QK_NORM,
    "[model.]embed_tokens.embed_norm.weight": "embedding.norm.weight",
    f"{LAYER}.self_attn.r_proj.weight": f"{ATTENTION}.r_proj.weight",
    f"{LAYER}.self_attn.rel_logits_proj.proj": f"{ATTENTION}.profiles.weight",
    f"{LAYER}.self_attn.k_sconv.conv1d.weight": f"{ATTENTION}.k_conv.weight",
    f"{LAYER}.self_attn.v_sconv.conv1d.weight": f"{ATTENTION}.v_conv.weight",
    f"{LAYER}.attn_sconv.conv1d.weight": f"{ATTENTION}.o_conv.weight",
    f"{LAYER}.mlp_sconv.conv1d.weight": "layers.*.ffn.conv.weight",
    f"{LAYER}.mlp.global_scale": "layers.*.ffn.trained_scale.scale",
    **{f"{LAYER}.mlp.{name}_proj.weight": f"{NETWORK}.{name}_proj.weight" for name in MATRICES},
    f"{LAYER}.mlp.gate.weight": f"{NETWORK}.router.weight",
    f"{LAYER}.mlp.gate.global_scale": f"{NETWORK}.route.scale",
    f"{LAYER}.mlp.gate.e_score_correction_bias": f"{NETWORK}.route.correction_bias",
    f"{LAYER}.mlp.experts.gate_up_proj": Parts(
        (f"{EXPERTS}.gate_proj.weight", f"{EXPERTS}.up_proj.weight"), axis=1
    ),
    f"{LAYER}.mlp.experts.down_proj": f"{EXPERTS}.down_proj.weight",
    **{f"{LAYER}.mlp.shared_experts.{name}_proj": f"{SHARED}.{name}_proj.weight" for name in MATRICES},
}


def published(dense: int, of_experts: int) -> Weights:
    """The names of published files: rows of gate and up by turns, in networks of these widths."""
    return {
        "model.llm.embed.weight": "embedding.tokens.weight",
        "model.llm.embed_norm.weight": "embedding.norm.weight",
        "model.llm.norm.weight": "final_norm.weight",
        "model.llm.unembed.weight": "lm_head.weight",
        "model.mtp.**": Auxiliary(PREDICTION),
        f"{PUBLISHED}.attn_norm.weight": "layers.*.attention_norm.weight",
        f"{PUBLISHED}.mlp_norm.weight": "layers.*.ffn_norm.weight",
        **{f"{PUBLISHED}.attn.{name}_norm.weight": f"{ATTENTION}.{name}_norm.weight" for name in "qk"},
        **{
            f"{PUBLISHED}.attn.{theirs}.weight": f"{ATTENTION}.{theirs[1]}_proj.weight"
            for theirs in ("wq_du", "wk_dv", "wv_dv", "wr_du", "wo_ud")
        },
        f"{PUBLISHED}.attn.rel_logits_proj.proj": f"{ATTENTION}.profiles.weight",
        **{f"{PUBLISHED}.attn.{name}_sconv.weight": f"{ATTENTION}.{name}_conv.weight" for name in "kv"},
        f"{PUBLISHED}.attn_sconv.weight": f"{ATTENTION}.o_conv.weight",
        f"{PUBLISHED}.mlp_sconv.weight": "layers.*.ffn.conv.weight",
        f"{PUBLISHED}.mlp.global_scale": "layers.*.ffn.trained_scale.scale",
        f"{PUBLISHED}.mlp.w13_dn.weight": _by_turns(NETWORK, 0, dense),
        f"{PUBLISHED}.mlp.w2_md.weight": f"{NETWORK}.down_proj.weight",
        f"{PUBLISHED}.mlp.gate.weight": f"{NETWORK}.router.weight",
        f"{PUBLISHED}.mlp.gate.global_scale": f"{NETWORK}.route.scale",
        f"{PUBLISHED}.mlp.gate.bias": f"{NETWORK}.route.correction_bias",
        f"{PUBLISHED}.mlp.experts.w13_weight": _by_turns(EXPERTS, 1, of_experts),
        f"{PUBLISHED}.mlp.experts.w2_weight": f"{EXPERTS}.down_proj.weight",
        f"{PUBLISHED}.mlp.shared_experts.shared_w13_weight": _by_turns(SHARED, 1, of_experts),
        f"{PUBLISHED}.mlp.shared_experts.shared_w2_weight": f"{SHARED}.down_proj.weight",
    }


def _by_turns(ours: str, axis: int, width: int) -> Parts:
    """Gate and up [width, D] in one matrix, row by row."""
    return Parts((f"{ours}.gate_proj.weight", f"{ours}.up_proj.weight"), axis=axis, groups=width)
