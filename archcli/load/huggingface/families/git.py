"""GIT's language model: GitConfig and GitForCausalLM, without the tower that sees the image."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.networks import layernorm, mlp
from archcli.load.huggingface.weights.auxiliary import TOWER
from archcli.load.huggingface.weights.map import Auxiliary, Weights
from archcli.load.huggingface.weights.names import encoder_names
from archcli.load.huggingface.whole.gpt_like import post_norm_decoder

MODEL_TYPES = ("git",)


def mapping(config: Config) -> Mapped:
    """BERT's layers, causal, with a biased head."""
    config = config.of_class()
    config.ignore("vision_config", "num_image_with_embedding", "position_embedding_type")
    config.note(
        "only the language model is counted, not the image encoder (vision_config) nor its projection"
    )
    norm = layernorm(config.number("layer_norm_eps"))
    ffn = mlp(config, config.size("intermediate_size"), "hidden_act")
    return post_norm_decoder(config, norm, ffn, normed=True, head={"bias": True})


WEIGHTS: Weights = {
    **encoder_names("git"),
    "[git.]image_encoder.**": Auxiliary(TOWER),
    "[git.]visual_projection.**": Auxiliary(TOWER),
    "[git.]img_temporal_embedding.**": Auxiliary(TOWER),
    "output.*": "lm_head.*",
}
