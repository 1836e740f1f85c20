"""DeepSeek-V4: keys compressed over tokens, several residual streams, experts of each token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from archcli.load import huggingface as hf
from archcli.load.huggingface import Auxiliary, Config, ConfigValue, Family, Mapped, Parts, Weights

SLIDING, SPARSE, HEAVY = (
    "sliding_attention",
    "compressed_sparse_attention",
    "heavily_compressed_attention",
)
TYPES = (SLIDING, SPARSE, HEAVY)
"""What `layer_types` may say."""
RATIOS = {0: SLIDING, 4: SPARSE, 128: HEAVY}
"""The same in `compress_ratios` of published files."""
RATES = {SPARSE: ("compress_rate_csa", 4), HEAVY: ("compress_rate_hca", 128)}
"""The tokens of a block: older keys, and defaults."""
HASH, ROUTED = "hash_moe", "moe"
# num_hash_layers and partial_rotary_factor of DeepseekV4Config, where a file states none
HASH_LAYERS = 3
ROTARY_SHARE = 64 / 512
UNREAD = """
    num_key_value_heads mlp_bias norm_topk_prob topk_method expert_dtype n_shared_experts num_attention_bias
    router_jitter_noise attention_bias
"""
"""Keys that the class does not read, or reads and does nothing else."""


def _deepseek_v4(config: Config) -> Mapped:
    """Layers with a window and blocks, and clipped experts, on several streams."""
    config.ignore(*UNREAD.split())
    hf.without_prediction(config)
    layer, networks, types = _layer(config), _networks(config), _types(config)
    attentions = {kind: _attention(config, kind) for kind in dict.fromkeys(types)}
    # one object for equal layers: each is written out once
    layers_by_kind: dict[tuple[str, str], Mapped] = {}
    layers = [
        layers_by_kind.setdefault(
            (kind, network), {**layer, "attention": attentions[kind], "ffn": networks[network]}
        )
        for kind, network in zip(types, _network_types(config), strict=True)
    ]
    return hf.decoder(config, hf.rmsnorm(config), layers)


def _types(config: Config) -> list[str]:
    """The kind of attention of each layer: `layer_types`, else `compress_ratios`, else the class's order."""
    count = config.layers()
    kinds = config.per_layer("layer_types", count)
    if kinds is not None:
        config.ignore("compress_ratios")
        return _known(config, "layer_types", kinds, TYPES)
    ratios = config.value("compress_ratios", default=None)
    if ratios.value is None:
        return [HEAVY if i < 2 or i % 2 == 0 else SPARSE for i in range(count)]  # noqa: PLR2004
    listed = ratios.value if isinstance(ratios.value, list) else []
    # a file states those of its prediction layers too
    if len(listed) < count or any(isinstance(ratio, bool) or ratio not in [*RATIOS] for ratio in listed):
        what = f"do not state 0, 4 or 128 for each of {count} layers"
        raise config.error(f"compress_ratios {hf.short_repr(ratios.value)} {what}", at=ratios.place)
    return [RATIOS[ratio] for ratio in listed[:count]]


def _network_types(config: Config) -> list[str]:
    """Whether each layer's experts go by token (hash_moe) or by score (moe)."""
    count = config.layers()
    kinds = config.per_layer("mlp_layer_types", count)
    if kinds is not None:
        config.ignore("num_hash_layers")
        return _known(config, "mlp_layer_types", kinds, (HASH, ROUTED))
    by_token = config.count("num_hash_layers", default=HASH_LAYERS).value
    return [HASH if i < by_token else ROUTED for i in range(count)]


def _known(config: Config, key: str, kinds: Sequence[str], known: Sequence[str]) -> list[str]:
    unknown = [kind for kind in kinds if kind not in known]
    if unknown:
        what = f"{key} {hf.short_repr(unknown[0])} is not supported"
        raise config.error(what, f"known: {', '.join(known)}", config.place(key))
    return [*kinds]


def _layer(config: Config) -> Mapped:
    """A layer without attention and network."""
    return {**hf.hyper_layer(config), "sinkhorn": config.size("hc_sinkhorn_iters")}


def _attention(config: Config, kind: str) -> Mapped:
    """The attention of the layers of a kind."""
    width, norm = config.size("head_dim"), hf.rmsnorm(config)
    sizes = ("q_lora_rank", "o_groups", "o_lora_rank")
    overlaps = True if kind == SPARSE else None
    compressor = {"rate": _rate(config, kind), "overlaps": overlaps} if kind in RATES else None
    index = {"top_k": "index_topk", "n_heads": "index_n_heads", "head_dim": "index_head_dim"}
    return hf.without_none(
        {
            "kind": "compressed",
            "n_heads": config.size("num_attention_heads"),
            "head_dim": width,
            **{key: config.size(key) for key in sizes},
            "window": config.size("sliding_window"),
            "sinks": True,
            "query_norm": {**norm, "weight": False},
            "position": _position(config, width, kind),
            "compressor": None if compressor is None else hf.without_none(compressor),
            "index": {ours: config.size(key) for ours, key in index.items()} if kind == SPARSE else None,
        }
    )


def _rate(config: Config, kind: str) -> ConfigValue[int]:
    """The tokens of a block: an older key, else what `compress_rates` says of the kind, else the default."""
    older, usual = RATES[kind]
    rates = config.value("compress_rates", default=None)
    named = rates.value.get(kind, usual) if isinstance(rates.value, dict) else usual
    size = config.optional_size(older)
    return size if size is not None else config.as_size("compress_rates", rates.derive(named))


def _position(config: Config, width: ConfigValue[int], kind: str) -> ConfigValue[Mapped]:
    """RoPE of the last dims of a head: plain near the query, scaled with a base of its own behind it."""
    config.ignore("partial_rotary_factor", "qk_rope_head_dim", "rope_theta", "compress_rope_theta")
    place = hf.position(
        config, width, _rope(config, kind, _share(config, width)), partial=1.0, pairing="interleaved"
    )
    last = {"rotates": "last"} if place.value["kind"] == "rope" else {}
    return place.derive({**place.value, **last})


def _share(config: Config, width: ConfigValue[int]) -> ConfigValue[float]:
    """The share of a head that is turned."""
    share = config.value("partial_rotary_factor", default=None)
    if share.value is not None:
        return share
    dims = config.optional_size("qk_rope_head_dim")
    usual: float = ROTARY_SHARE if dims is None else dims.value / width.value
    return width.derive(usual) if dims is None else dims.derive(usual)


def _rope(config: Config, kind: str, share: ConfigValue[float]) -> hf.Parameters:
    """The rope parameters of the layers of a kind: `main` of those with a window alone, else `compress`."""
    label, theta = ("main", "rope_theta") if kind == SLIDING else ("compress", "compress_rope_theta")
    nested = [hf.parameters(config, "rope_parameters", name) for name in ("main", "compress")]
    if all(nested):
        return nested[0 if label == "main" else 1]
    base: Mapped = {"rope_theta": config.value(theta), "partial_rotary_factor": share}
    if kind == SLIDING:
        return base
    known = {
        key: value for key, value in hf.rope_parameters(config).items() if key not in ("main", "compress")
    }
    yarn = known.get("rope_type", known.get("type"))
    if yarn is not None and yarn.value == "yarn":
        # the class leaves cosines and sines as they are, where YaRN has a factor of 0.1 ln s + 1
        known = {"attention_factor": yarn.derive(1.0), **known}
    return {**known, **base}


def _networks(config: Config) -> Mapping[str, Mapped]:
    """The experts of the layers of each kind."""
    # the class knows one width by two names, and the general one is read last
    named = config.get("intermediate_size", default=None) is not None
    width = "intermediate_size" if named else "moe_intermediate_size"
    expert = {**hf.gated(config, width=width), "limit": hf.positive(config, "swiglu_limit")}
    scores = config.value("scoring_func")
    if scores.value not in ("sqrtsoftplus", "softmax", "sigmoid"):  # a list has no hash
        what = f"scoring_func {hf.short_repr(scores.value)} is not supported"
        raise config.error(what, "known: sqrtsoftplus, sigmoid, softmax", scores.place)
    router = {"scores": scores, "scale": hf.positive(config, "routed_scaling_factor")}
    tables: dict[str, Mapped] = {
        HASH: {"token_table": config.size("vocab_size")},
        ROUTED: {"correction": True},
    }
    return {
        kind: hf.experts(config, expert=expert, shared=expert, router={**router, **more})
        for kind, more in tables.items()
    }


LAYER = "[model.]layers.*."
ATTENTION = {
    **{f"{name}_proj.weight": f"{name}_proj.weight" for name in ("q_a", "q_b", "kv", "o_b")},
    **{f"{name}_norm.weight": f"{name}_norm.weight" for name in ("q_a", "kv")},
    "sinks": "sinks.weight",
}
COMPRESSOR = {
    "kv_proj.weight": "key_proj.weight",
    "gate_proj.weight": "gate_proj.weight",
    "position_bias": "compress.places",
    "kv_norm.weight": "norm.weight",
}
STREAMS = {"attn_hc.": "attention_hyper", "ffn_hc.": "ffn_hyper"}
NUMBERS = {"fn": ".weight", "base": "_gates.base", "scale": "_gates.scale"}

IN_MEMORY: Weights = {
    **hf.LLAMA,
    **hf.EXPERTS,
    **hf.SHARED,
    **hf.CORRECTED,
    **{f"{LAYER}self_attn.{theirs}": f"layers.*.attention.{ours}" for theirs, ours in ATTENTION.items()},
    f"{LAYER}self_attn.o_a_proj.weight": Parts(("layers.*.attention.o_a_proj.weight",), merged=True),
    **{
        f"{LAYER}self_attn.compressor.{within}{theirs}": f"layers.*.attention.{place}compressor.{ours}"
        for within, place in (("", ""), ("indexer.", "indexer."))
        for theirs, ours in COMPRESSOR.items()
    },
    f"{LAYER}self_attn.compressor.indexer.q_b_proj.weight": "layers.*.attention.indexer.query_proj.weight",
    f"{LAYER}self_attn.compressor.indexer.scorer.weights_proj.weight": (
        "layers.*.attention.indexer.weight_proj.weight"
    ),
    **{
        f"{LAYER}{theirs}{number}": f"layers.*.{ours}{rest}"
        for theirs, ours in STREAMS.items()
        for number, rest in NUMBERS.items()
    },
    **{f"[model.]hc_head.hc_{number}": f"hyper_head{rest}" for number, rest in NUMBERS.items()},
    f"{LAYER}mlp.gate.tid2eid": "layers.*.ffn.route.experts_of",
    "[model.]mtp.**": Auxiliary(hf.PREDICTION),
}

IN_FILES = (
    (".compressor.indexer.scorer.weights_proj", ".indexer.weights_proj"),
    (".compressor.indexer.q_b_proj", ".indexer.wq_b"),
    (".compressor.indexer.", ".indexer.compressor."),
    (".compressor.kv_norm", ".compressor.norm"),
    (".compressor.gate_proj", ".compressor.wgate"),
    (".position_bias", ".ape"),
    (".self_attn.sinks", ".self_attn.attn_sink"),
    ("q_a_norm", "q_norm"),
    ("q_a_proj", "wq_a"),
    ("q_b_proj", "wq_b"),
    ("kv_proj", "wkv"),
    ("o_a_proj", "wo_a"),
    ("o_b_proj", "wo_b"),
    (".self_attn.", ".attn."),
    (".mlp.", ".ffn."),
    (".gate_proj", ".w1"),
    (".down_proj", ".w2"),
    (".up_proj", ".w3"),
    ("gate.e_score_correction_bias", "gate.bias"),
    ("input_layernorm", "attn_norm"),
    ("post_attention_layernorm", "ffn_norm"),
    ("attn_hc.", "hc_attn_"),
    ("ffn_hc.", "hc_ffn_"),
    ("hc_head.hc_", "hc_head_"),
    ("embed_tokens", "embed"),
    ("lm_head", "head"),
)
"""Pieces of names in the memory of transformers, and the same in published files; longer pieces first."""


def _in_files(name: str) -> str:
    """The name in published files of a tensor that transformers calls so in memory."""
    for theirs, stored in IN_FILES:
        name = name.replace(theirs, stored)
    return name


WEIGHTS: Weights = {
    **IN_MEMORY,
    **{_in_files(name): rule for name, rule in IN_MEMORY.items()},
    # as save_pretrained writes the norm of keys
    f"{LAYER}attn.norm.weight": "layers.*.attention.kv_norm.weight",
}

FAMILIES = {
    "deepseek_v4": Family(
        "DeepSeek-V4 Flash and Pro: DeepseekV4Config and DeepseekV4ForCausalLM.",
        _deepseek_v4,
        WEIGHTS,
        aliases=hf.EXPERT_WORDS,
    ),
}
