"""MiniMax-M2: MiniMaxM2Config and MiniMaxM2ForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import head_dim
from archcli.load.huggingface.parts.experts import experts
from archcli.load.huggingface.parts.rope import rope
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import EXPERTS, LLAMA, MIXTRAL_EXPERTS, QK_NORM
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("minimax_m2",)
FIXED = ("use_qk_norm", "qk_norm_type", "scoring_func", "use_routing_bias", "attn_type_list", "use_mtp")
"""Keys of published files that the class does not read: it is as they say."""
PREDICTION = ("num_mtp_modules", "mtp_transformer_layers", "shared_intermediate_size")


def mapping(config: Config) -> Mapped:
    """As Llama with a norm over all queries or keys, RoPE on a part of each head, and experts.

    Experts are chosen by sigmoid scores and a correction bias. `rotary_dim` stands for a partial RoPE.
    """
    config = config.of_class(num_experts="num_local_experts")
    config.ignore(*FIXED, *PREDICTION, "router_jitter_noise")
    width, turned = head_dim(config), config.optional_size("rotary_dim")
    share = 1.0 if turned is None else turned.value / width.value
    heads = {"qk_norm": {"per": "full"}, "position": rope(config, width, partial=share)}
    router = {"scores": "sigmoid", "correction": True}
    return llama_like(config, heads=heads, ffn=experts(config, width="intermediate_size", router=router))


WEIGHTS: Weights = {
    **LLAMA,
    **QK_NORM,
    **EXPERTS,
    **MIXTRAL_EXPERTS,
    **{
        f"[model.]layers.*.{ffn}.e_score_correction_bias": "layers.*.ffn.route.correction_bias"
        for ffn in ("mlp", "block_sparse_moe")
    },
}
