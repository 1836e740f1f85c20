"""Marian, the OPUS-MT translators: MarianConfig and MarianMTModel.

It is the Transformer of Vaswani et al. 2017, arXiv:1706.03762.
"""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.whole.bart_like import Wiring, bart_like, bart_weights, is_decoder_alone

MODEL_TYPES = ("marian",)

BART = {
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "static_position_embeddings": True,
}
"""Keys of the class that this one was made from; it knows no other values."""
SINUSOID = {"kind": "sinusoidal", "pairing": "half"}


def mapping(config: Config) -> Mapped:
    """Post-norm without final norms, everything biased, computed sinusoids.

    The bias of the logits is stored but not trained. Source and target may have a table each.
    """
    config = config.of_class()
    config.only_architectures("MarianMTModel", "MarianModel", "MarianForCausalLM")
    for key, known in BART.items():
        config.only(key, known, default=known)
    config.ignore("decoder_vocab_size")
    shared = config.flag("share_encoder_decoder_embeddings")
    mapped = bart_like(config, Wiring("post_norm", SINUSOID, norm=False, shared=bool(shared)))
    source = config.size("vocab_size")
    target = config.size("decoder_vocab_size", default=source)
    if is_decoder_alone(config):
        if not mapped["embedding"]["tied"] and source != target:
            what = f"a table of {target} words and a head of {source} are not supported"
            raise config.error(what, "make vocab_size and decoder_vocab_size alike", target.place)
        return {**mapped, "vocab_size": target}
    if not shared:
        mapped["vocab_size"], mapped["encoder"]["vocab_size"] = target, source
    return mapped


def weights(config: Config) -> Weights:
    """Weight names of both halves, or of the decoder; sinusoids are stored."""
    config = config.of_class()
    names = bart_weights(config, positions=False)
    if config.flag("share_encoder_decoder_embeddings") or is_decoder_alone(config):
        return names
    return {**names, "[model.]encoder.embed_tokens.weight": "source.weight"}
