"""Phi-3-small, whose class is in its repositories: block-sparse layers in turn with dense ones."""

from __future__ import annotations

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, ConfigValue, Family, Mapped, Parts, Weights

DEFAULTS = {
    "vocab_size": 100352,
    "max_position_embeddings": 8192,
    "rope_embedding_base": 1e6,
    "rope_position_scale": 1.0,
    "rope_scaling": None,
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_act": "gegelu",
    "gegelu_limit": 20.0,
    "gegelu_pad_to_256": True,
    "ff_intermediate_size": 14336,
    "blocksparse_homo_head_pattern": False,
    "blocksparse_block_size": 64,
    "blocksparse_num_local_blocks": 16,
    "blocksparse_vert_stride": 8,
    "dense_attention_every_n_layers": 2,
    "layer_norm_epsilon": 1e-5,
    "mup_use_scaling": True,
    "mup_width_multiplier": 8.0,
    "mup_embedding_multiplier": 10.0,
    "mup_attn_multiplier": 1.0,
    "tie_word_embeddings": True,
}
UNREAD = (
    "attention_bias",
    "attention_dropout_prob",
    "blocksparse_triton_kernel_block_size",
    "embedding_dropout_prob",
    "ffn_dropout_prob",
    "pad_sequence_to_multiple_of_64",
    "reorder_and_upcast_attn",
)
"""Keys of dropout, of kernels, and of what the class reads nowhere."""


def _phi3small(config: Config) -> Mapped:
    """LayerNorm, biases in all layers, GEGLU of bounded branches, and muP's factors.

    The class hides the logits of tokens that its tokenizer lacks, which no key of the file states.
    """
    config.ignore(*UNREAD)
    norm = hf.layernorm(config.number("layer_norm_epsilon"))
    layers = [
        {"kind": "pre_norm", "attention": _attention(config, sparse=sparse), "ffn": _network(config)}
        for sparse in (True, False)
    ]
    none = config.stated_null("dense_attention_every_n_layers")
    every = 0 if none else config.count("dense_attention_every_n_layers").value
    dense = [bool(every) and (i + 1) % every == 0 for i in range(config.layers())]
    scale = hf.optional_number(config, "mup_embedding_multiplier")
    width = hf.optional_number(config, "mup_width_multiplier")
    return hf.decoder(
        config,
        norm,
        [layers[1] if is_dense else layers[0] for is_dense in dense],
        embedding={"scale": scale} if scale is not None and scale.value > 0 else {},
        head={"scale": width.derive(1 / width.value)} if width else None,
    )


def _attention(config: Config, *, sparse: bool) -> Mapped:
    """Attention over all earlier tokens, or over near blocks and every n-th before."""
    width = hf.even_split(config)
    fields: Mapped = {}
    if config.flag("mup_use_scaling"):
        multiplier = hf.positive(config, "mup_attn_multiplier")
        fields["scale"] = multiplier.derive(multiplier.value / width.value)
    if sparse:
        fields["sparsity"] = {
            "kind": "block_sparse",
            "block": config.size("blocksparse_block_size"),
            "near": config.size("blocksparse_num_local_blocks"),
            "stride": config.size("blocksparse_vert_stride"),
            **({} if config.flag("blocksparse_homo_head_pattern") else {"shifted": True}),
        }
    return hf.attention(config, width, bias=True, position=_position(config, width), **fields)


def _position(config: Config, width: ConfigValue[int]) -> ConfigValue[Mapped]:
    """RoPE; of LongRoPE with a factor on cosines and sines up to the original context, and one beyond."""
    config.only("rope_position_scale", 1)
    known = hf.rope_parameters(config)
    if not known:
        return hf.position(config, width, known)
    original = known.get("original_max_position_embeddings")
    if original is None:
        what = "rope_scaling needs original_max_position_embeddings"
        raise config.error(what, "the class needs it", config.place("rope_scaling"))
    kind = known.get("type")
    if kind is None or kind.value not in ("longrope", "su"):
        what = "rope_scaling needs the type longrope or su"
        raise config.error(what, "the class knows no other", config.place("rope_scaling"))
    config.only("original_max_position_embeddings", original.value, default=original.value)
    long, short = _mscale(config, known, "long_mscale"), _mscale(config, known, "short_mscale")
    stretched = hf.position(config, width, {**known, **({"attention_factor": long} if long else {})})
    # up to the original context nothing is multiplied where the file states no factor
    near = short or original.derive(1.0)
    if long is not None and long.value == near.value:
        return stretched
    scaling = stretched.value["scaling"]
    both = scaling.derive({**scaling.value, "short_attention_factor": near})
    return stretched.derive({**stretched.value, "scaling": both})


def _mscale(config: Config, known: hf.Parameters, key: str) -> ConfigValue[float] | None:
    """A stated factor on cosines and sines; None for one that is missing, or not above 0."""
    factor = known.get(key)
    if factor is None:
        return None
    if not hf.is_number(factor.value):
        what = f"{key} must be a number, not {hf.short_repr(factor.value)}"
        raise config.error(what, at=factor.place)
    return factor if factor.value > 0 else None


def _network(config: Config) -> Mapped:
    """quick_gelu(gate x) * (up x + 1), both branches bounded, with biases."""
    config.only("hidden_act", "gegelu")
    limit = hf.optional_number(config, "gegelu_limit")
    return {
        "kind": "glu",
        "d_ff": _inner_width(config),
        "activation": {"kind": "swish", "beta": 1.702},
        "bias": True,
        "up_offset": 1,
        **({"limit": limit} if limit is not None else {}),
    }


def _inner_width(config: Config) -> ConfigValue[int]:
    """ff_intermediate_size, else two thirds of ff_dim_multiplier times the width, rounded up to 256."""
    factor = config.optional_size("ff_dim_multiplier")
    has_width = not config.stated_null("ff_intermediate_size")
    if has_width and factor is not None:
        what = "ff_dim_multiplier and ff_intermediate_size cannot both be stated"
        raise config.error(what, "write null for one of them", factor.place)
    if has_width:
        return config.size("ff_intermediate_size")
    if factor is None:
        what = "ff_intermediate_size null needs ff_dim_multiplier"
        raise config.error(what, "state one of them", config.place("ff_intermediate_size"))
    width = factor.value * (config.size("hidden_size").value // 3) * 2
    return factor.derive(-(-width // 256) * 256 if config.flag("gegelu_pad_to_256") else width)


def _phi3small_weights(config: Config) -> Weights:
    """Weight names: keys and values lie behind each group of queries; gate and up take turns."""
    gates = tuple(f"layers.*.ffn.{name}_proj.*" for name in ("gate", "up"))
    kept = {
        name: rule for name, rule in hf.LLAMA.items() if ".self_attn." not in name and ".mlp." not in name
    }
    return {
        **kept,
        "[model.]layers.*.self_attn.query_key_value.*": Parts(
            hf.FUSED, groups=config.size("num_key_value_heads").value
        ),
        "[model.]layers.*.self_attn.dense.*": "layers.*.attention.o_proj.*",
        "[model.]layers.*.mlp.up_proj.*": Parts(gates, groups=_inner_width(config).value),
        "[model.]layers.*.mlp.down_proj.*": "layers.*.ffn.down_proj.*",
        "[model.]final_layernorm.*": "final_norm.*",
    }


FAMILIES = {
    "phi3small": Family(
        "Phi-3-small: Phi3SmallConfig and Phi3SmallForCausalLM of its repositories.",
        _phi3small,
        _phi3small_weights,
        aliases={"rope_theta": "rope_embedding_base"},
        defaults=DEFAULTS,
    )
}
