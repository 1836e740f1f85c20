"""OLMoE and FlexOlmo: OlmoeConfig and OlmoeForCausalLM, FlexOlmoConfig and FlexOlmoForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import optional_number
from archcli.load.huggingface.parts.experts import experts, normalized_by
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import EXPERTS, LLAMA, NORM_AFTER, QK_NORM
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("olmoe", "flex_olmo")


def mapping(config: Config) -> Mapped:
    """As Llama with a norm over all queries or keys, and experts; FlexOlmo has its norms after sublayers."""
    kind = config.model_type
    config = config.of_class(num_local_experts="num_experts")
    attend = {"bias": config.flag("attention_bias"), "qk_norm": {"per": "full"}}
    if kind == "olmoe" and (clip := optional_number(config, "clip_qkv")):
        attend |= {"clip": clip, "clips_normed": True}
    ffn = experts(config, width="intermediate_size", router=normalized_by(config))
    block = {"kind": "norm_after"} if kind == "flex_olmo" else {}
    return llama_like(config, heads=attend, block=block, ffn=ffn)


def weights(config: Config) -> Weights:
    """The names of Llama or OLMo 2, with experts."""
    return {**(LLAMA if config.model_type == "olmoe" else NORM_AFTER), **QK_NORM, **EXPERTS}
