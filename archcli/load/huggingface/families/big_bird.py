"""BigBird: BigBirdConfig, BigBirdModel, BigBirdForMaskedLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import all_pairs_for_blocks
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import BERT_HEAD, encoder_names, tied_names
from archcli.load.huggingface.whole.bert_like import bert_like, with_second_bias

MODEL_TYPES = ("big_bird",)
HEADS = {
    "Model": ("pooler",),
    "ForMaskedLM": ("pooler", "words"),
    "ForCausalLM": ("pooler", "words"),
    "ForPreTraining": ("pooler", "words", "two labels"),
    "ForMultipleChoice": ("pooler", "one label"),
}


def mapping(config: Config) -> Mapped:
    """As BERT; every class but a tagger's has a pooler, and runs it.

    Attention is counted over all pairs, as the class runs it on all but long inputs.
    """
    config = config.of_class()
    all_pairs_for_blocks(config)
    bias = True if config.flag("use_bias") else ["o"]
    scale = {"scale": "sqrt_d_model"} if config.flag("rescale_embeddings") else {}
    whole = bert_like(config, "BigBird", HEADS, attention={"bias": bias}, embedding=scale)
    return with_second_bias(config, whole)


def weights(config: Config) -> Weights:
    """Weight names: BERT's, but for the pooler."""
    tied = bool(config.of_class().flag("tie_word_embeddings"))
    return {
        **encoder_names("bert"),
        "[bert.]pooler.*": "pooler.*",
        **BERT_HEAD,
        **tied_names("cls.predictions.decoder.weight", "cls.predictions.bias", tied),
    }
