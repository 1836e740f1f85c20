"""OLMoE and FlexOlmo: OlmoeConfig and OlmoeForCausalLM, FlexOlmoConfig and FlexOlmoForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import optional_number
from archcli.load.huggingface.parts.experts import experts, normalized_by
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import EXPERTS, LLAMA, NORM_AFTER, QK_NORM
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("olmoe", "flex_olmo")
COMMON = {
    "hidden_act": "silu",
    "max_position_embeddings": 4096,
    "attention_bias": False,
    "norm_topk_prob": False,
    "tie_word_embeddings": False,
}
DEFAULTS = {
    "olmoe": {
        **COMMON,
        "vocab_size": 50304,
        "hidden_size": 2048,
        "intermediate_size": 2048,
        "num_hidden_layers": 16,
        "num_attention_heads": 16,
        "rms_norm_eps": 1e-5,
        "num_experts_per_tok": 8,
        "num_experts": 64,
    },
    "flex_olmo": {
        **COMMON,
        "vocab_size": 100352,
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "rms_norm_eps": 1e-6,
        "rope_theta": 500000.0,
        "num_experts_per_tok": 5,
        "num_experts": 7,
    },
}


def mapping(config: Config) -> Mapped:
    """As Llama with a norm over all queries or keys, and experts; FlexOlmo has its norms after sublayers."""
    kind = config.model_type
    config = config.of_class(DEFAULTS[kind], num_local_experts="num_experts")
    attend = {"bias": config.flag("attention_bias"), "qk_norm": {"per": "full"}}
    if kind == "olmoe" and (clip := optional_number(config, "clip_qkv")):
        attend |= {"clip": clip, "clips_normed": True}
    ffn = experts(config, width="intermediate_size", router=normalized_by(config))
    block = {"kind": "norm_after"} if kind == "flex_olmo" else {}
    return llama_like(config, heads=attend, block=block, ffn=ffn)


def weights(config: Config) -> Weights:
    """The names of Llama or OLMo 2, with experts."""
    return {**(LLAMA if config.model_type == "olmoe" else NORM_AFTER), **QK_NORM, **EXPERTS}
