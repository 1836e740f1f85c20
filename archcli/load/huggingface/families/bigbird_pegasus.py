"""BigBird-Pegasus: BigBirdPegasusConfig, BigBirdPegasusForConditionalGeneration or its ForCausalLM."""

from dataclasses import replace

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import all_pairs_for_blocks
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.whole.bart_like import Wiring, bart_like, bart_weights, is_decoder_alone

MODEL_TYPES = ("bigbird_pegasus",)
ENCODER = {
    **{f"self.{name}": f"{name[0]}_proj" for name in ("query", "key", "value")},
    "output": "o_proj",
}
"""The projections of the encoder's attention, which has BERT's names."""


def mapping(config: Config) -> Mapped:
    """As PEGASUS with learned positions; the encoder's attention is counted over all pairs."""
    config = _as_its_class(config)
    if not is_decoder_alone(config):
        all_pairs_for_blocks(config)
    wiring = Wiring("pre_norm", {"kind": "learned"}, final_norm=True, norm=False)
    return bart_like(config, wiring, bias=config.flag("use_bias"))


def _as_its_class(config: Config) -> Config:
    """The file as its class reads it: a decoder alone has a head of its own whatever the file says."""
    config = config.of_class()
    if is_decoder_alone(config) and config.flag("tie_word_embeddings"):
        return replace(config, data={**config.data, "tie_word_embeddings": False})
    return config


def weights(config: Config) -> Weights:
    """Weight names of both halves, or of the decoder."""
    config = _as_its_class(config)
    below = "" if is_decoder_alone(config) else "decoder."
    return {
        **bart_weights(config),
        "[model.]decoder.layernorm_embedding.*": f"{below}final_norm.*",
        "[model.]encoder.layernorm_embedding.*": "encoder.final_norm.*",
        **{
            f"[model.]encoder.layers.*.self_attn.{theirs}.*": f"encoder.layers.*.attention.{ours}.*"
            for theirs, ours in ENCODER.items()
        },
    }
