"""Qwen3.8-Flash-Next: gated delta nets, attention to chosen pools, streams, hashed n-grams."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice

from archcli.load import huggingface as hf
from archcli.load.huggingface import Auxiliary, Config, ConfigValue, Family, Mapped, Parts, Weights
from archcli.load.huggingface.whole.delta_hybrid import (
    ELSEWHERE,
    LAYER,
    MIXTURE,
    QWEN3_5_PROJECTIONS,
    QWEN_DELTA,
    by_kind,
    delta_net,
)

INDEXED = "indexed_attention"
PERIOD = 4
"""Without lists every fourth layer attends."""

UNREAD = """
    mamba_ssm_dtype mtp_use_dedicated_embeddings intermediate_size decoder_sparse_step mlp_only_layers
    attn_output_gate split_ngram_parts number_of_conv_states
"""
"""Keys that say nothing of the architecture: the class does not read them, or reads them for files alone."""

INDEX = {"n_heads": "indexer_n_heads", "head_dim": "indexer_head_dim", "pool": "indexer_compress_ratio"}
MOST_TABLES = 4096
"""Tables of all layers together; Qwen3.8-Flash-Next has 16. Each has a prime number of rows to search for."""
LARGEST = 2**63 - 1
"""The largest number that the class hashes with."""


def _qwen4_exp(config: Config) -> Mapped:
    """Layers on streams, with experts; no norm behind the last."""
    config.ignore(*UNREAD.split())
    if config.count("mtp_num_hidden_layers", default=0):
        config.note("layers of multi-token prediction (mtp_num_hidden_layers) are not counted")
    kinds, streams = _kinds(config), config.size("hc_count")
    if streams == 1:
        raise config.error("hc_count 1 is not supported", "state 2 or more", streams.place)
    block = {"kind": "low_rank_hyper", "n_streams": streams, "rank": config.size("hc_lowrank")}
    mixers = {kind: MIXERS[kind](config) for kind in dict.fromkeys(kinds)}
    # one object for equal layers: each is written out once
    plain = {kind: {**block, **mixer} for kind, mixer in mixers.items()}
    ngrams = dict(_ngrams(config, kinds))
    layers = [
        {**plain[kind], "ngrams": ngrams[i]} if i in ngrams else plain[kind] for i, kind in enumerate(kinds)
    ]
    routed = hf.with_networks(
        layers, [True] * len(layers), dict, lambda: hf.gated_experts(config, hf.normalized_by(config))
    )
    return hf.decoder(config, hf.rmsnorm(config, offset=1), routed, final_norm=False)


def _kinds(config: Config) -> list[str]:
    """The mixer of each layer: `layer_types`, else every fourth attends; full attention is indexed, too."""
    has_types = config.get("layer_types", default=None) is not None
    period = config.size("full_attention_interval", default=PERIOD).value
    default = [
        hf.LINEAR if has_types or (index + 1) % period else INDEXED for index in range(config.layers())
    ]
    kinds = hf.kinds_of_layers(config, default, (hf.LINEAR, INDEXED, hf.FULL))
    return [INDEXED if kind == hf.FULL else kind for kind in kinds]


def _delta_net(config: Config) -> Mapped:
    """A gated delta net; the function of its output's gate is hidden_act unless it is stated."""
    mixer = delta_net(config, config.number("rms_norm_eps"))
    gate_type = config.value("output_gate_type", default=None)
    gate = config.value("hidden_act") if gate_type.value is None else gate_type
    if gate.value not in ("sigmoid", "silu"):
        what = f"output_gate_type {hf.short_repr(gate.value)} is not supported"
        raise config.error(what, "known: sigmoid, silu; left out, hidden_act", gate.place)
    return {"mixer": {**mixer, "norm": {**mixer["norm"], "activation": gate}}}


def _attention(config: Config) -> Mapped:
    """Gated attention to the tokens of chosen pools."""
    width, bias = hf.head_dim(config), config.flag("attention_bias")
    attend = hf.attention(
        config,
        width,
        bias=bias,
        position=hf.rope(config, width, partial=1.0),
        qk_norm=hf.PER_HEAD,
        output_gate={"projection_bias": bias} if bias else {},
    )
    return {"attention": {**attend, "index": _index(config)}}


def _index(config: Config) -> Mapped:
    """The index of pools; indexer_budget counts their tokens."""
    for key in ("indexer_budget", "indexer_kv_heads", *INDEX.values()):
        if config.get(key, default=None) is None:
            what = f"{key} is missing: layers of attention have an index"
            raise config.error(what, "the class cannot be built without it", config.place(key))
    config.only("indexer_kv_heads", 1)
    sizes = {ours: config.size(key) for ours, key in INDEX.items()}
    tokens, pool = config.size("indexer_budget"), sizes["pool"]
    if tokens.value % pool.value:
        what = f"indexer_budget {tokens} is no multiple of indexer_compress_ratio {pool}"
        raise config.error(what, at=tokens.place)
    return {"kind": "mean_pools", "top_k": tokens.derive(tokens.value // pool.value), **sizes}


MIXERS = {hf.LINEAR: _delta_net, INDEXED: _attention}


def _ngrams(config: Config, kinds: list[str]) -> Iterator[tuple[int, Mapped]]:
    """(layer, the n-grams added to its streams) of each layer that has some; layers are counted from 0."""
    layers = _layers_with_ngrams(config, kinds)
    if not layers:
        config.ignore(*NGRAM_KEYS)
        return
    longest, of_length = config.size("ngram_size"), config.size("heads_per_ngram")
    has_width = config.value("ple_embed_dim", default=None).value is not None
    width = config.size("ple_embed_dim" if has_width else "hidden_size")
    tables = (longest.value - 1) * of_length.value
    if not 0 < tables * len(layers) <= MOST_TABLES:
        what = f"ngram_size {longest} and heads_per_ngram {of_length} make {tables} tables in a layer"
        raise config.error(what, f"supported are 1 to {MOST_TABLES} of all layers together", longest.place)
    if width.value % tables:
        what = f"ple_embed_dim {width} is not divided by {tables} tables, heads_per_ngram of each length"
        raise config.error(what, at=width.place)
    base = config.size("ngram_vocab_size_base")
    primes = list(islice(_primes(base.value), tables * len(layers)))
    for nth, layer in enumerate(layers):
        yield (
            layer,
            {
                "width": width,
                "tables": [base.derive(size) for size in primes[nth * tables : (nth + 1) * tables]],
                "multipliers": [
                    longest.derive(number) for number in _multipliers(config, longest.value, nth)
                ],
                "boundary": _boundary(config),
                "pad_to": config.size("make_ngram_vocab_size_divisible_by"),
                "conv_kernel": config.size("ple_conv_kernel_size"),
            },
        )


NGRAM_KEYS = (
    *("ple_embed_dim", "ple_conv_kernel_size", "ngram_size", "heads_per_ngram", "ngram_vocab_size_base"),
    *("seed", "make_ngram_vocab_size_divisible_by"),
)


def _layers_with_ngrams(config: Config, kinds: list[str]) -> list[int]:
    """The layers with n-grams, counted from 0; the file counts them from 1."""
    entry = config.value("ple_layer_ids", default=None)
    numbers = [] if entry.value is None else entry.value
    known = range(1, len(kinds) + 1)
    if not isinstance(numbers, list) or any(type(n) is not int or n not in known for n in numbers):
        what = f"ple_layer_ids must be a list of numbers from 1 to {len(kinds)}"
        raise config.error(what, at=entry.place)
    for number in numbers:
        if kinds[number - 1] != hf.LINEAR:
            what = f"ple_layer_ids {number} is a layer of attention, which has no n-grams in the class"
            raise config.error(what, at=entry.place)
    return sorted({number - 1 for number in numbers})


def _boundary(config: Config) -> ConfigValue[int]:
    """The id that no n-gram reaches over: the end of a text, the first of several."""
    entry = config.value("eos_token_id", default=None)
    first = entry.value[0] if isinstance(entry.value, list) and entry.value else entry.value
    if type(first) is not int or first < 0:
        what = "eos_token_id must be a token's number: n-grams end there"
        raise config.error(what, at=entry.place)
    return entry.derive(first)


WITNESSES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
"""Bases by which the test of Miller and Rabin is exact below 3.3e24 (Sorenson & Webster 2015)."""


def _primes(least: int) -> Iterator[int]:
    """The primes from a number on."""
    return (number for number in count(least) if _is_prime(number))


def _is_prime(number: int) -> bool:
    if number < WITNESSES[-1] + 1:
        return number in WITNESSES
    halvings = (number - 1 & 1 - number).bit_length() - 1
    odd = number - 1 >> halvings
    return all(_passes(number, base, odd, halvings) for base in WITNESSES)


def _passes(number: int, base: int, odd: int, halvings: int) -> bool:
    """Whether this base is no witness that the number has divisors."""
    power = pow(base, odd, number)
    if power in (1, number - 1):
        return True
    for _ in range(halvings - 1):
        power = power * power % number
        if power == number - 1:
            return True
    return False


BITS = 2**64
# SplitMix64: Steele, Lea & Flood 2014, doi:10.1145/2660193.2660195
GOLDEN = 0x9E3779B97F4A7C15
MIXES = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
LAST_SHIFT = 31
APART = 10007
"""How far the seeds of two layers lie apart."""


def _multipliers(config: Config, longest: int, nth: int) -> list[int]:
    """The odd multipliers of the n-gram hash in the nth layer; times an id they stay below 2^63."""
    half = max(1, LARGEST // config.size("vocab_size").value // 2)
    seed = config.value("seed", default=None)
    if type(seed.value) is not int:
        raise config.error("seed must be a whole number: n-grams are hashed by it", at=seed.place)
    start = seed.value + APART * nth
    return [2 * (_mixed(start + GOLDEN * (index + 1)) % half) + 1 for index in range(longest)]


def _mixed(state: int) -> int:
    """The number that SplitMix64 makes of a state before it goes on by one step."""
    number = (state + GOLDEN) % BITS
    for shift, factor in MIXES:
        number = (number ^ number >> shift) * factor % BITS
    return number ^ number >> LAST_SHIFT


WITHIN = f"{LAYER}.self_attn"
HASH = "numbers by which n-grams are hashed: computed, not trained"
TABLE = f"{LAYER}.ple.ple_embedding.ngram_embedding"
NGRAMS: Weights = {
    f"{TABLE}.weight": "layers.*.ngrams.table.weight",
    **{
        f"{LAYER}.ple.ple_embedding.{name}": Auxiliary(HASH)
        for name in ("layer_multipliers", "ngram_heads_vocab_sizes", "ngram_heads_offsets")
    },
    **{f"{LAYER}.ple.{name}_proj.weight": f"layers.*.ngrams.{name}_proj.weight" for name in ("key", "value")},
    **{
        f"{LAYER}.ple.norm_{name}.weight": Parts((f"layers.*.ngrams.{name}_norm.weight",), merged=True)
        for name in ("key", "query", "conv")
    },
    f"{LAYER}.ple.conv1d.weight": "layers.*.ngrams.conv.weight",
}


def _streams(theirs: str, ours: str) -> Weights:
    """Weight names of the gates that gather the streams and return an output to them."""
    maps = {"input_mix_weight_down": "down", "input_mix_weight_up": "up", "block_inject_weight": "inject"}
    return {
        f"{theirs}.hc_norm.weight": Parts((f"{ours}_norm.weight",), merged=True),
        **{f"{theirs}.{name}.weight": f"{ours}_{place}.weight" for name, place in maps.items()},
    }


def _of_mixer(step: str) -> Weights:
    """The streams before a mixer, which its key names."""
    return _streams(f"{LAYER}.attn_hyper_connection", f"layers.*.{step}_hyper")


OF_INDEX: Weights = {
    f"{WITHIN}.indexer.index_qk_proj.weight": Parts(
        tuple(f"layers.*.attention.indexer.{name}_proj.weight" for name in ("query", "key"))
    ),
    **{
        f"{WITHIN}.indexer.{theirs}_layernorm.weight": f"layers.*.attention.indexer.{ours}_norm.weight"
        for theirs, ours in (("q", "query"), ("k", "key"))
    },
}
LINEAR_LAYERS: Weights = {
    **_of_mixer("mixer"),
    **NGRAMS,
    **{name: rule for name, rule in QWEN_DELTA.items() if ".input_" not in name},
    **QWEN3_5_PROJECTIONS,
}
INDEXED_LAYERS: Weights = {
    **_of_mixer("attention"),
    **{f"{WITHIN}.{name}_proj.*": f"layers.*.attention.{name}_proj.*" for name in "kvo"},
    **hf.QK_NORM,
    **OF_INDEX,
}
EVERYWHERE: Weights = {
    **{name: rule for name, rule in ELSEWHERE.items() if "norm" not in name},
    **_streams(f"{LAYER}.mlp_hyper_connection", "layers.*.ffn_hyper"),
    **_streams("[model.]hyper_connection_mixer", "hyper_last"),
    **MIXTURE,
}
"""Names outside of mixers."""


def _weights(config: Config) -> Weights:
    """Names of mixers by the kind of layer; the gates of attention lie behind the queries of each head."""
    gates = tuple(f"layers.*.attention.{name}_proj.*" for name in ("q", "gate"))
    queries: Weights = {f"{WITHIN}.q_proj.*": Parts(gates, groups=config.size("num_attention_heads").value)}
    slices = Parts(("layers.*.ngrams.table.weight",), slices=config.size("split_ngram_parts").value)
    linear: Weights = {**LINEAR_LAYERS, f"{TABLE}.shard_#.weight": slices}
    kinds = [hf.FULL if kind == INDEXED else kind for kind in _kinds(config)]
    return {**EVERYWHERE, **by_kind(kinds, linear, {**INDEXED_LAYERS, **queries})}


FAMILIES = {
    "qwen4_exp_text": Family(
        "The language model of Qwen3.8-Flash-Next: Qwen4ExpTextConfig and Qwen4ExpForCausalLM.",
        _qwen4_exp,
        _weights,
    ),
}
