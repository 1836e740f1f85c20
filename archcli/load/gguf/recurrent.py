"""GGUF architectures with recurrent layers: the Hugging Face family of each."""

from __future__ import annotations

from archcli.load.gguf.arch import BIASED, EPSILON, LATE, LATENT, SHARED_EXPERTS, Arch, Names
from archcli.load.gguf.newer import GRANITE

DELTA: dict[str, Names] = {
    "attn_qkv": ("mixer.q_proj", "mixer.k_proj", "mixer.v_proj"),
    "attn_gate": "mixer.g_proj",
    "ssm_conv1d": ("mixer.q_conv", "mixer.k_conv", "mixer.v_conv"),
    "ssm_a": "mixer.decay.A_log",
    "ssm_dt": "mixer.decay.dt_bias",
    "ssm_ba": ("mixer.b_proj", "mixer.a_proj"),
    "ssm_alpha": "mixer.a_proj",
    "ssm_beta": "mixer.b_proj",
    "ssm_norm": "mixer.norm",
    "ssm_out": "mixer.o_proj",
}
"""Tensors of a gated delta net."""

QWEN_KEYS = {
    "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
    "full_attention_interval": "full_attention_interval",
    # llama.cpp has no keys for the heads of a delta rule, and states them in those of Mamba
    "ssm.conv_kernel": "linear_conv_kernel_dim",
    "ssm.state_size": "linear_key_head_dim",
    "ssm.group_count": "linear_num_key_heads",
    "ssm.time_step_rank": "linear_num_value_heads",
}
QWEN_TENSORS: dict[str, Names] = {
    **DELTA,
    **LATE,
    "attn_q": ("attention.q_proj", "attention.gate_proj"),
}
SECTIONS = ("rope.dimension_sections", "expert_group_count", "expert_group_used_count")


def _qwen(model_type: str, cls: str, *ignored: str) -> Arch:
    """An architecture like Qwen3-Next's: one tensor for queries and their gates."""
    return Arch(
        model_type,
        cls,
        keys=QWEN_KEYS,
        flags=BIASED,
        tensors=QWEN_TENSORS,
        partial=True,
        ignored=(*SECTIONS, *ignored),
    )


KDA: dict[str, Names] = {
    **DELTA,
    **{f"ssm_conv1d_{part}": f"mixer.{part}_conv" for part in "qkv"},
    **{f"ssm_{gate}_{half}": f"mixer.{gate}_{half}_proj" for gate in "fg" for half in "ab"},
}
"""Tensors of Kimi Delta Attention; its projections are called as those of attention."""

SELECTIVE: dict[str, Names] = {
    "ssm_in": ("mixer.in_proj", "mixer.gate_proj"),
    "ssm_conv1d": "mixer.conv",
    "ssm_x": "mixer.x_proj",
    "ssm_dt": "mixer.dt_proj",
    "ssm_a": "mixer.scan.A_log",
    "ssm_d": "mixer.scan.D",
    "ssm_out": "mixer.out_proj",
    **{f"ssm_{part}_norm": f"mixer.{part}_norm" for part in ("dt", "b", "c")},
}
"""Tensors of Mamba-1."""

MAMBA = Arch(
    "mamba",
    "MambaForCausalLM",
    keys={
        "attention.layer_norm_rms_epsilon": "layer_norm_epsilon",
        "ssm.conv_kernel": "conv_kernel",
        "ssm.inner_size": "intermediate_size",
        "ssm.state_size": "state_size",
        "ssm.time_step_rank": "time_step_rank",
    },
    flags={"use_bias": "blk.0.ssm_in.bias", "use_conv_bias": "blk.0.ssm_conv1d.bias"},
    tensors=SELECTIVE,
    rope=False,
    ignored=("attention.head_count", "context_length", "feed_forward_length"),
    unread=("num_key_value_heads",),
)
"""Its files have keys of attention and networks as 0, and a context made up by the converter."""

FALCON_MAMBA = MAMBA._replace(model_type="falcon_mamba", cls="FalconMambaForCausalLM")
"""A `mamba` whose step sizes, B and C are normalized."""

LFM_KEYS = {"attention.layer_norm_rms_epsilon": "norm_eps", "shortconv.l_cache": "conv_L_cache"}
LFM: dict[str, Names] = {
    # Lfm2Model calls its last norm embedding_norm
    "token_embd_norm": "final_norm",
    **{f"shortconv.{name}": f"mixer.{name}" for name in ("conv", "in_proj", "out_proj")},
}
"""Tensors of a short convolution; the final norm is called by another's name."""

MAMBA2: dict[str, Names] = {
    "ssm_in": "in_proj",
    "ssm_conv1d": "conv",
    "ssm_a": "dt.A_log",
    "ssm_dt": "dt.dt_bias",
    "ssm_d": "D.weight",
    "ssm_norm": "norm",
    "ssm_out": "out_proj",
}
"""Tensors of a Mamba-2 mixer, below it."""

SCANNED: dict[str, Names] = {stem: f"mixer.{ours}" for stem, ours in MAMBA2.items()}
"""Tensors of a Mamba-2 mixer that is a layer by itself."""

MAMBA2_KEYS = {
    "ssm.conv_kernel": "mamba_d_conv",
    "ssm.state_size": "mamba_d_state",
    "ssm.group_count": "mamba_n_groups",
    "ssm.time_step_rank": "mamba_n_heads",
}
MAMBA2_BIASED = {
    "attention_bias": "blk.*.attn_output.bias",
    "mamba_proj_bias": "blk.*.ssm_in.bias",
    "mamba_conv_bias": "blk.*.ssm_conv1d.bias",
}

GRANITE_HYBRID = Arch(
    "granitemoehybrid",
    "GraniteMoeHybridForCausalLM",
    keys={
        **MAMBA2_KEYS,
        **GRANITE,
        "expert_shared_feed_forward_length": "shared_intermediate_size",
    },
    flags=MAMBA2_BIASED,
    tensors=SCANNED,
    rope=False,
    ignored=("attention.head_count_kv",),
)
"""A `granitehybrid` with factors, or without RoPE; a Granite 4 that has Mamba-2 layers is both."""

BAMBA = Arch(
    "bamba",
    "BambaForCausalLM",
    keys=MAMBA2_KEYS,
    flags={**MAMBA2_BIASED, "mlp_bias": "blk.*.ffn_up.bias"},
    tensors=SCANNED,
    partial=True,
    ignored=("attention.head_count_kv",),
)
"""A `granitehybrid` with RoPE and no factors."""

NEMOTRON_H = Arch(
    "nemotron_h",
    "NemotronHForCausalLM",
    keys={
        **EPSILON,
        "ssm.conv_kernel": "conv_kernel",
        "ssm.state_size": "ssm_state_size",
        "ssm.group_count": "n_groups",
        "ssm.time_step_rank": "mamba_num_heads",
    },
    flags={
        "use_bias": "blk.*.ssm_in.bias",
        "use_conv_bias": "blk.*.ssm_conv1d.bias",
        "mlp_bias": "blk.*.ffn_up*.bias",
    },
    tensors=SCANNED,
    rope=False,
    ignored=("attention.head_count_kv", "feed_forward_length", "rope.freq_base"),
)
"""Each layer is one part: attention with kv heads, a network with a width, else Mamba-2."""

RECURRENT: dict[str, Arch] = {
    "mamba": MAMBA,
    "mamba2": Arch(
        "mamba2",
        "Mamba2ForCausalLM",
        keys={
            "attention.layer_norm_rms_epsilon": "layer_norm_epsilon",
            "ssm.conv_kernel": "conv_kernel",
            "ssm.state_size": "state_size",
            "ssm.group_count": "n_groups",
            "ssm.time_step_rank": "num_heads",
        },
        flags={"use_bias": "blk.0.ssm_in.bias", "use_conv_bias": "blk.0.ssm_conv1d.bias"},
        tensors=SCANNED,
        rope=False,
        ignored=MAMBA.ignored,
        unread=MAMBA.unread,
    ),
    "granitehybrid": GRANITE_HYBRID,
    "nemotron_h": NEMOTRON_H,
    "nemotron_h_moe": NEMOTRON_H._replace(
        keys={
            **NEMOTRON_H.keys,
            **SHARED_EXPERTS,
            "expert_shared_feed_forward_length": "moe_shared_expert_intermediate_size",
            "moe_latent_size": "moe_latent_size",
        },
        tensors={
            **SCANNED,
            **{f"ffn_latent_{way}": f"ffn.latent_{way}" for way in ("down", "up")},
        },
    ),
    "jamba": Arch(
        "jamba",
        "JambaForCausalLM",
        keys={
            "ssm.conv_kernel": "mamba_d_conv",
            "ssm.state_size": "mamba_d_state",
            "ssm.time_step_rank": "mamba_dt_rank",
        },
        flags={
            "mamba_proj_bias": "blk.*.ssm_in.bias",
            "mamba_conv_bias": "blk.*.ssm_conv1d.bias",
        },
        tensors=SELECTIVE,
        rope=False,
        ignored=("attention.head_count_kv",),
    ),
    "lfm2": Arch(
        "lfm2",
        "Lfm2ForCausalLM",
        keys=LFM_KEYS,
        # feed_forward_length is the width after this adjustment, which the class would make once more
        fixed={"block_auto_adjust_ff_dim": False},
        flags={"conv_bias": "blk.0.shortconv.conv.bias"},
        tensors=LFM,
        ignored=("attention.head_count_kv",),
    ),
    "lfm2moe": Arch(
        "lfm2_moe",
        "Lfm2MoeForCausalLM",
        keys={**LFM_KEYS, "leading_dense_block_count": "num_dense_layers"},
        flags={"conv_bias": "blk.0.shortconv.conv.bias"},
        tensors=LFM,
        ignored=("attention.head_count_kv", "expert_gating_func"),
    ),
    "falcon-h1": Arch(
        "falcon_h1",
        "FalconH1ForCausalLM",
        keys={**MAMBA2_KEYS, "ssm.inner_size": "mamba_d_ssm"},
        # the class's default is true, and no metadata key states it
        fixed={"mamba_norm_before_gate": False},
        flags={
            "attention_bias": "blk.0.attn_output.bias",
            "mlp_bias": "blk.0.ffn_up.bias",
            "mamba_proj_bias": "blk.0.ssm_in.bias",
            "projectors_bias": "blk.0.ssm_out.bias",
            "mamba_conv_bias": "blk.0.ssm_conv1d.bias",
            "mamba_rms_norm": "blk.0.ssm_norm.weight",
        },
        tensors={
            **{stem: f"mixer.recurrent.{ours}" for stem, ours in MAMBA2.items()},
            **{f"attn_{part}": f"mixer.attention.{part}_proj" for part in "qkv"},
            "attn_output": "mixer.attention.o_proj",
        },
    ),
    "qwen3next": _qwen("qwen3_next", "Qwen3NextForCausalLM"),
    "qwen35": _qwen("qwen3_5_text", "Qwen3_5ForCausalLM"),
    "qwen35moe": _qwen("qwen3_5_moe_text", "Qwen3_5MoeForCausalLM", "feed_forward_length"),
    "kimi-linear": Arch(
        "kimi_linear",
        "KimiLinearForCausalLM",
        keys={
            **LATENT,
            "expert_shared_count": "num_shared_experts",
            "expert_weights_scale": "routed_scaling_factor",
            "expert_weights_norm": "moe_renormalize",
            "expert_group_count": "num_expert_group",
            "expert_group_used_count": "topk_group",
            "leading_dense_block_count": "first_k_dense_replace",
            "kda.head_dim": "linear_head_dim",
            "ssm.conv_kernel": "linear_conv_kernel_dim",
        },
        # one layer in four attends, of which 3 is the first
        flags={"attention_bias": "blk.3.attn_output.bias"},
        tensors=KDA,
        rope=False,
        ignored=("attention.head_count_kv", "attention.key_length", "expert_gating_func"),
        unread=("rope_theta",),
    ),
}
"""`general.architecture`: what it stands for."""
