"""BART, and translators and summarizers of its kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from archcli.load import huggingface as hf
from archcli.load.huggingface import Auxiliary, Config, Family, Mapped, Weights
from archcli.load.huggingface.whole.bart_like import (
    LEARNED,
    Wiring,
    bart_like,
    bart_weights,
    fairseq_sinusoid,
    is_decoder_alone,
)

ABOUT_BART = (
    "BART and its kin PLBART and MVP: BartConfig and BartForConditionalGeneration, or BartForCausalLM."
)
ABOUT_BLENDERBOT = "Blenderbot and its small kin: BlenderbotConfig and BlenderbotForConditionalGeneration."
TABLE = {"kind": "learned"}
SINUSOID = {"kind": "sinusoidal", "pairing": "half"}
BART = Wiring("post_norm", LEARNED)
"""Post-norm without final norms, learned positions, a norm after the embeddings, all biased."""


def _like_bart(
    about: str,
    wiring: Wiring,
    weights: Callable[[Config], Weights] = bart_weights,
    **embedding: Any,
) -> Family:
    """A family of BART's kind; `embedding` are further keys of its embedding."""
    return Family(about, lambda config: bart_like(config, wiring, **embedding), weights)


def _mvp(config: Config) -> Mapped:
    """As BART, without prompts."""
    config.only("use_prompt", False)  # prompts are keys and values of every layer, made by a network
    config.ignore("prompt_length", "prompt_mid_dim")
    return bart_like(config, BART)


def _sinusoid_weights(config: Config) -> Weights:
    """Weight names of both halves, or of the decoder; sinusoids are stored."""
    return bart_weights(config, positions=False)


ENCODER = {
    **{f"self.{name}": f"{name[0]}_proj" for name in ("query", "key", "value")},
    "output": "o_proj",
}
"""The projections of the encoder's attention, which has BERT's names."""


def _bigbird(config: Config) -> Mapped:
    """As PEGASUS with learned positions; the encoder's attention is counted over all pairs."""
    config = _with_own_head(config)
    if not is_decoder_alone(config):
        hf.all_pairs_for_blocks(config)
    wiring = Wiring("pre_norm", TABLE, final_norm=True, norm=False)
    return bart_like(config, wiring, bias=config.flag("use_bias"))


def _with_own_head(config: Config) -> Config:
    """The file, untied for a decoder alone: its class never ties the head."""
    if is_decoder_alone(config) and config.flag("tie_word_embeddings"):
        return replace(config, data={**config.data, "tie_word_embeddings": False})
    return config


def _bigbird_weights(config: Config) -> Weights:
    """Weight names of both halves, or of the decoder."""
    config = _with_own_head(config)
    below = "" if is_decoder_alone(config) else "decoder."
    norms = {
        "[model.]decoder.layernorm_embedding.*": f"{below}final_norm.*",
        "[model.]encoder.layernorm_embedding.*": "encoder.final_norm.*",
    }
    of_attention = {
        f"[model.]encoder.layers.*.self_attn.{theirs}.*": f"encoder.layers.*.attention.{ours}.*"
        for theirs, ours in ENCODER.items()
    }
    return hf.renamed(bart_weights(config), {**norms, **of_attention})


def _m2m_100(config: Config) -> Mapped:
    """As PEGASUS with the sinusoids of fairseq, and no bias of the logits."""
    position = fairseq_sinusoid(config, config.count("pad_token_id").value + 1)
    return bart_like(config, Wiring("pre_norm", position, final_norm=True, norm=False, stored_bias=False))


def _m2m_100_weights(config: Config) -> Weights:
    """Weight names of both halves; sinusoids are not stored, or by old versions."""
    names = bart_weights(config, positions=False)
    return {**names, "[model.]*.embed_positions.weights": Auxiliary("sinusoid: computed, not trained")}


MARIAN_FIXED = {
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "static_position_embeddings": True,
}
"""Keys of the class that this one was made from; it knows no other values."""


def _marian(config: Config) -> Mapped:
    """Post-norm without final norms, everything biased, computed sinusoids.

    The bias of the logits is stored but not trained. Source and target may have a table each.

    It is the Transformer of Vaswani et al. 2017, arXiv:1706.03762.
    """
    config.only_architectures("MarianMTModel", "MarianModel", "MarianForCausalLM")
    for key, known in MARIAN_FIXED.items():
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


def _marian_weights(config: Config) -> Weights:
    """Weight names of both halves, or of the decoder; sinusoids are stored."""
    names = bart_weights(config, positions=False)
    if config.flag("share_encoder_decoder_embeddings") or is_decoder_alone(config):
        return names
    return {**names, "[model.]encoder.embed_tokens.weight": "source.weight"}


def _fsmt(config: Config) -> Mapped:
    """As BART without norms of embeddings, with a table for each language.

    Positions are sinusoids that the class holds as parameters: they are counted.
    """
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


def _fsmt_weights(config: Config) -> Weights:
    """Weight names of both halves."""
    return hf.renamed(bart_weights(config), {"[model.]decoder.output_projection.weight": "lm_head.weight"})


FAMILIES = {
    "bart": _like_bart(ABOUT_BART, BART),
    "plbart": _like_bart(ABOUT_BART, BART),
    "mvp": Family(ABOUT_BART, _mvp, bart_weights),
    # as BART with pre-norm, and so with a norm at the end of each half
    "mbart": _like_bart(
        "mBART, BART for many languages: MBartConfig and MBartForConditionalGeneration, or MBartForCausalLM.",
        Wiring("pre_norm", LEARNED, final_norm=True),
    ),
    # as mBART with computed sinusoids, and without a norm after the embeddings
    "pegasus": _like_bart(
        "PEGASUS, a summarizer: PegasusConfig and PegasusForConditionalGeneration, or PegasusForCausalLM.",
        Wiring("pre_norm", SINUSOID, final_norm=True, norm=False),
        _sinusoid_weights,
    ),
    "bigbird_pegasus": Family(
        "BigBird-Pegasus: BigBirdPegasusConfig, BigBirdPegasusForConditionalGeneration or its ForCausalLM.",
        _bigbird,
        _bigbird_weights,
    ),
    "blenderbot": _like_bart(ABOUT_BLENDERBOT, Wiring("pre_norm", TABLE, final_norm=True, norm=False)),
    # its decoder's norm stands before positions
    "blenderbot-small": _like_bart(ABOUT_BLENDERBOT, Wiring("post_norm", TABLE), norms_tokens=True),
    "m2m_100": Family(
        "M2M-100 and NLLB, translators of many languages: M2M100Config and M2M100ForConditionalGeneration.",
        _m2m_100,
        _m2m_100_weights,
    ),
    "marian": Family(
        "Marian, the OPUS-MT translators: MarianConfig and MarianMTModel.", _marian, _marian_weights
    ),
    "fsmt": Family(
        "FSMT, fairseq's translators of WMT 2019: FSMTConfig and FSMTForConditionalGeneration.",
        _fsmt,
        _fsmt_weights,
        aliases={"vocab_size": "tgt_vocab_size"},
        defaults={"vocab_size": 50265},
    ),
}
