"""Ling 3, KDA and gated latent attention: BailingHybridConfig and BailingHybridForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import FULL, latent_attention
from archcli.load.huggingface.parts.decoder import decoder, without_prediction
from archcli.load.huggingface.parts.experts import after_first, by_types, deepseek_experts, some_routed
from archcli.load.huggingface.parts.networks import activation, rmsnorm
from archcli.load.huggingface.parts.recurrent import LINEAR, kinds_of_layers
from archcli.load.huggingface.weights.hybrid import kda_names
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import CORRECTED, EXPERTS, MLA, SHARED
from archcli.load.huggingface.whole.delta_hybrid import ELSEWHERE, LAYER, by_kind

MODEL_TYPES = ("bailing_hybrid",)
OWN = {"head_dim": 128}
ALIASES = {
    "max_position_embeddings": "model_max_length",
    "norm_topk_prob": "moe_renormalize",
    "n_group": "num_expert_group",
    "num_experts": "num_local_experts",
    "num_experts_per_tok": "num_experts_per_token",
    "n_shared_experts": "num_shared_experts",
    "num_mtp_layers": "num_nextn_predict_layers",
}


def mapping(config: Config) -> Mapped:
    """Groups of KDA layers that end in one of latent attention; dense layers, then experts."""
    config = config.of_class(OWN, **ALIASES)
    config.only("kda_safe_gate", True)
    config.ignore("mtp_loss_scaling_factor", "q_lora_rank")
    without_prediction(config)
    layers: dict[str, Mapped] = {
        LINEAR: {"kind": "pre_norm", "mixer": _delta_attention(config)},
        FULL: {"kind": "pre_norm", "attention": _latent(config)},
    }
    routed = by_types(config, lambda: after_first(config))
    networks = some_routed(config, routed, lambda: deepseek_experts(config))
    mixed = networks([layers[kind] for kind in _kinds(config)])
    return decoder(config, rmsnorm(config), mixed, embedding={"tied": False})  # the class ties nothing


def _kinds(config: Config) -> list[str]:
    """The mixer of each layer: `layer_types`, else the last of each group attends."""
    size = config.size("layer_group_size").value
    default = [LINEAR if (index + 1) % size else FULL for index in range(config.layers())]
    return kinds_of_layers(config, default, (LINEAR, FULL))


def _latent(config: Config) -> Mapped:
    """Queries are of full rank, and each head is gated."""
    width = config.size("qk_nope_head_dim").value + config.size("qk_rope_head_dim").value
    config.only("qk_head_dim", width, default=width)
    latent = latent_attention(config, "interleaved")
    return {**latent, "output_gate": {"per": "head"}}


def _delta_attention(config: Config) -> Mapped:
    """KDA; the class writes the three sizes as linear_…, and head_dim as that of rotary dims."""
    bound = config.number("kda_lower_bound")
    if bound.value >= 0:
        raise config.error(f"kda_lower_bound must be below 0, not {bound}", at=bound.place)
    return {
        "kind": "kda",
        "n_heads": config.size("linear_num_heads", default=config.size("num_attention_heads")),
        "head_dim": config.size("linear_head_dim", default=config.size("head_dim")),
        "conv_kernel": config.size("linear_conv_kernel_dim", default=config.size("short_conv_kernel_size")),
        "activation": activation(config, "hidden_act"),
        "full_gates": True,
        "decay_bound": bound,
        "norm": {
            "kind": "rmsnorm",
            "gate": "after",
            "eps": config.number("rms_norm_eps"),
            "activation": "sigmoid",
        },
    }


WITHIN = f"{LAYER}.self_attn"
LINEAR_LAYERS: Weights = {
    f"{LAYER}.input_layernorm.weight": "layers.*.mixer_norm.weight",
    **kda_names(WITHIN, *"qkvbog", decay=("f_proj",)),
}
FULL_LAYERS: Weights = {
    f"{LAYER}.input_layernorm.weight": "layers.*.attention_norm.weight",
    **MLA,
    f"{WITHIN}.q_proj.weight": "layers.*.attention.q_proj.weight",
    f"{WITHIN}.g_proj.weight": "layers.*.attention.gate_proj.weight",
    f"{WITHIN}.o_proj.*": "layers.*.attention.o_proj.*",
}


PUBLISHED: Weights = {
    "[model.]word_embeddings.weight": "embedding.tokens.weight",
    f"{LAYER}.mlp.gate.expert_bias": "layers.*.ffn.route.correction_bias",
}
"""Outside of mixers; within, files say attention for self_attn, and dense for o_proj."""


def _in_files(names: Weights) -> Weights:
    """The names of transformers, and those of published files."""
    theirs = {name.replace(".self_attn.", ".attention."): rule for name, rule in names.items()}
    dense = {name.replace(".o_proj.", ".dense."): rule for name, rule in theirs.items()}
    return {**names, **theirs, **dense, **PUBLISHED}


def weights(config: Config) -> Weights:
    """Names of mixers by the kind of layer."""
    config = config.of_class(OWN, **ALIASES)
    mixers = by_kind(_kinds(config), LINEAR_LAYERS, FULL_LAYERS)
    return {**ELSEWHERE, **EXPERTS, **SHARED, **CORRECTED, **_in_files(mixers)}
