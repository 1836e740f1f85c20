"""Encoder-decoders of BART's kind: two halves, each with keys that begin with its name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue, Mapped, without_none
from archcli.load.huggingface.parts.attention import Flag
from archcli.load.huggingface.parts.decoder import PLAIN
from archcli.load.huggingface.parts.networks import layernorm, mlp
from archcli.load.huggingface.weights.map import Auxiliary, Parts, Rule, Weights
from archcli.load.huggingface.weights.names import fairseq_layers

UNREAD = (
    *PLAIN,
    "_num_labels",
    "is_decoder",
    "classif_dropout",
    "encoder_layerdrop",
    "decoder_layerdrop",
    "force_bos_token_to_be_generated",
    *("normalize_before", "normalize_embedding", "add_final_layer_norm", "static_position_embeddings"),
    *("add_bias_logits", "extra_pos_embeddings", "extra_layer_norm", "layernorm_variant"),
    "do_blenderbot_90_layernorm",
)
"""Keys that no class reads, such as a conversion tool's."""

TORCH_NORM = MappingProxyType(layernorm(1e-5))
"""nn.LayerNorm with its own eps: these files have no key for it."""

SHARED = "shared"
"""The name of a table that only an untied model stores, and that no pass reads."""

LEARNED = MappingProxyType({"kind": "learned", "offset": 2})
"""A table of positions whose first two rows were padding's in fairseq."""

BASE = 10000.0
"""The base of the frequencies of "Attention Is All You Need"."""


def fairseq_sinusoid(config: Config, offset: int, **more: Any) -> Mapped:
    """The sinusoid of position + offset, its h = hidden_size / 2 frequencies 10000^(-i/(h-1)).

    In the usual form base^(-i/h) the base is 10000^(h/(h-1)).
    """
    width = config.size("hidden_size", "d_model")
    half = width.value // 2
    if width.value % 2 or half == 1:
        raise config.error(
            f"a sinusoid cannot be {width} wide here", "an even width of at least 4", width.place
        )
    position = {"kind": "sinusoidal", "pairing": "half", "base": BASE ** (half / (half - 1)), **more}
    return position | ({"offset": offset} if offset else {})


def is_decoder_alone(config: Config) -> bool:
    """Whether the file's class is a decoder without an encoder, such as BartForCausalLM."""
    return config.architecture.endswith("ForCausalLM")


def d_model(config: Config) -> ConfigValue[int]:
    """The width; transformers reads the common key before the family's own."""
    return config.size("hidden_size", "d_model")


def half(
    config: Config,
    name: str,
    kind: str,
    *,
    bias: Flag | list[str] = True,
    final_norm: bool = True,
    main: str = "encoder",
) -> Mapped:
    """The encoder or the decoder, with blocks of this `kind`.

    num_attention_heads and num_hidden_layers are keys of the `main` half. A decoder without an encoder holds
    weights of cross attention all the same.
    """
    has_common_keys, causal = name == main, name == "decoder"
    heads_keys = ("num_attention_heads",) if has_common_keys else ()
    heads = {"n_heads": config.size(*heads_keys, f"{name}_attention_heads"), "bias": bias}
    layer = {"kind": kind, "attention": {"kind": "mha", **heads, "causal": causal}}
    if causal:
        layer["cross_attention"] = {**heads, **({"idle": True} if is_decoder_alone(config) else {})}
    layer["ffn"] = mlp(config, config.size(f"{name}_ffn_dim"), "activation_function")
    depth = config.size(*(("num_hidden_layers",) if has_common_keys else ()), f"{name}_layers")
    ends = {} if final_norm else {"final_norm": False}
    return {**ends, "groups": [{"n_layers": depth, "layer": layer}]}


class Wiring(NamedTuple):
    """Choices of a class of transformers that its config has no key for.

    kind: the blocks of both halves, pre_norm or post_norm.
    position: the positions of each half.
    final_norm: each half ends in a norm.
    norm: a norm follows the embeddings.
    stored_bias: the logits have a bias that is stored and not trained.
    shared: an untied model has a table `shared` beside those of the halves.
    main: the half whose keys are num_attention_heads and num_hidden_layers.
    """

    kind: str
    position: Mapping[str, Any]
    final_norm: bool = False
    norm: bool = True
    stored_bias: bool = True
    shared: bool = True
    main: str = "encoder"


def bart_like(config: Config, wiring: Wiring, *, bias: Flag = True, **embedding: Any) -> Mapped:
    """Both halves, or the decoder alone, by the file's class.

    `bias`: the projections of attention have biases. `embedding` are further fields of the embedding.
    """
    config.ignore(*UNREAD)
    vocab, tied = config.size("vocab_size"), config.flag("tie_word_embeddings")
    after = {"norm": dict(TORCH_NORM), **embedding} if wiring.norm else embedding
    scale = "sqrt_d_model" if config.flag("scale_embedding") else None
    position = dict(wiring.position)
    whole: Mapped = {
        "vocab_size": vocab,
        "d_model": d_model(config),
        "max_seq_len": config.size("max_position_embeddings"),
        "norm": dict(TORCH_NORM),
        "embedding": without_none({"tied": tied, "scale": scale, "position": position, **after}),
    }
    options: Mapped = {"bias": bias, "final_norm": wiring.final_norm, "main": wiring.main}
    decoder = half(config, "decoder", wiring.kind, **options)
    if is_decoder_alone(config):
        note_idle(config)
        return {**whole, **decoder}
    # the class makes nn.Embedding `shared` and, untied, a table for each half besides
    if not tied and wiring.shared:
        note_unread_table(config, vocab)
        whole["unread"] = {SHARED: [vocab, d_model(config)]}
    encoder = {
        "vocab_size": None if tied else vocab,
        "position": position,
        "input_norm": dict(TORCH_NORM) if wiring.norm else None,
        **half(config, "encoder", wiring.kind, **options),
    }
    head = {"stored_bias": True} if wiring.stored_bias else None
    halves = {"encoder": without_none(encoder), "decoder": decoder, "head": head}
    return {"kind": "encoder_decoder", **whole, **without_none(halves)}


def note_idle(config: Config) -> None:
    """Note that the counted weights include some that a decoder alone does not read."""
    held = f"{config.architecture} holds weights of cross attention: they are counted"
    config.note(held + ", and read by no pass without an encoder")


def note_unread_table(config: Config, vocab: ConfigValue[int]) -> None:
    """Note the unread table `shared` of an untied model."""
    size = vocab.value * d_model(config).value
    config.note(f"model.shared, a table of {size:,} parameters, is counted, and read by no pass")


def bart_weights(
    config: Config, *, positions: bool = True, frozen: str = "sinusoid: computed, not trained"
) -> Weights:
    """Weight names of both halves, or of the decoder alone; a tied table is stored up to three times."""
    without_encoder, tied = is_decoder_alone(config), config.flag("tie_word_embeddings")
    table = Parts(("embedding.tokens.weight",), again=True)
    below = "" if without_encoder else "decoder."
    names: dict[str, Rule] = {
        "[model.]decoder.embed_tokens.weight": table,
        "[model.]decoder.layernorm_embedding.*": "embedding.norm.*",
        "[model.]decoder.layer_norm.*": f"{below}final_norm.*",
        "lm_head.weight": "lm_head.weight",
        **fairseq_layers("[model.]decoder.layers.*", f"{below}layers.*"),
    }
    tables = {"decoder": "embedding.positions.weight"}
    if not without_encoder:
        names |= {
            "[model.]shared.weight": table if tied else f"{SHARED}.weight",
            "[model.]encoder.embed_tokens.weight": table if tied else "source.weight",
            "[model.]encoder.layernorm_embedding.*": "encoder.input_norm.*",
            "[model.]encoder.layer_norm.*": "encoder.final_norm.*",
            "final_logits_bias": Parts(("lm_head.bias",), flat=1),
            **fairseq_layers("[model.]encoder.layers.*", "encoder.layers.*"),
        }
        tables["encoder"] = "encoder.position_embedding.weight"
    for name, ours in tables.items():
        names[f"[model.]{name}.embed_positions.weight"] = ours if positions else Auxiliary(frozen)
    return names
