"""Phi-4-multimodal: Phi4MultimodalConfig and Phi4MultimodalForCausalLM, its language model."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import head_dim, window
from archcli.load.huggingface.parts.rope import rope
from archcli.load.huggingface.weights.auxiliary import TOWER
from archcli.load.huggingface.weights.map import Auxiliary, Parts
from archcli.load.huggingface.weights.names import FUSED, GATE_UP, LLAMA
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("phi4_multimodal",)
LONG = {"su": "longrope", "yarn": "longrope"}
"""Names that old files give to the one scaling the class knows."""
WEIGHTS = {
    **LLAMA,
    "[model.]layers.*.self_attn.qkv_proj.*": Parts(FUSED),
    "[model.]layers.*.mlp.gate_up_proj.weight": GATE_UP,
    "[model.]embed_tokens_extend.**": Auxiliary(TOWER),
}


def mapping(config: Config) -> Mapped:
    """As Phi-3, beside towers for images and sound."""
    config = config.of_class()
    config.ignore("vision_config", "audio_config")
    config.note("the towers for images and sound (vision_config, audio_config) are not counted")
    place = rope(config, head_dim(config), partial=1.0, renamed=LONG)
    return llama_like(config, heads={"position": place, "window": window(config)})
