"""FSMT, fairseq's translators of WMT 2019: FSMTConfig and FSMTForConditionalGeneration."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.whole.bart_like import Wiring, bart_like, bart_weights

MODEL_TYPES = ("fsmt",)
OWN = {"src_vocab_size": 42024, "tgt_vocab_size": 42024, "scale_embedding": True, "pad_token_id": 1}
OWN = {"vocab_size": 50265}
ALIASES = {"vocab_size": "tgt_vocab_size"}


def mapping(config: Config) -> Mapped:
    """As BART without norms of embeddings, with a table for each language.

    Positions are sinusoids that the class holds as parameters: they are counted.
    """
    config = config.of_class(OWN, **ALIASES)
    config.only_architectures("FSMTForConditionalGeneration", "FSMTModel")
    config.ignore("langs", "decoder", "vocab_size")
    table = {"kind": "learned", "offset": config.count("pad_token_id").value + 1}
    mapped = bart_like(config, Wiring("post_norm", table, norm=False, stored_bias=False, shared=False))
    source, target, tied = config.size("src_vocab_size"), mapped["vocab_size"], mapped["embedding"]["tied"]
    if tied and source != target:
        what = f"tie_word_embeddings ties tables of {source} and of {target} words"
        raise config.error(what, "make both sizes alike, or write false", tied.place)
    if not tied:
        mapped["encoder"]["vocab_size"] = source
    return mapped


def weights(config: Config) -> Weights:
    """Weight names of both halves."""
    names = bart_weights(config.of_class(OWN, **ALIASES))
    return {**names, "[model.]decoder.output_projection.weight": "lm_head.weight"}
