"""Pieces of mapping that many families state alike: a llama-like attention, a gated feed-forward layer, a whole decoder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from archcli.errors import ArchError, Problem
from archcli.load.huggingface.config import Config, Mapped, activation, groups, shown, without_none
from archcli.load.huggingface.rope import rope

PLAIN = (
    "use_cache",
    "pretraining_tp",
    "attention_dropout",
    "initializer_range",
    "output_router_logits",
    "router_aux_loss_coef",
)


def head_dim(config: Config, default: int | None = None) -> int:
    """The stated head_dim, else the class's default, else hidden_size / heads."""
    heads = config.size("num_attention_heads")
    fallback = config.size("hidden_size") // heads if default is None else default
    width: int = config.size("head_dim", default=fallback)
    if width < 1:
        raise ArchError(
            Problem(
                f"{config.file}: {heads} heads are more than hidden_size {config.size('hidden_size')}",
                "state head_dim",
            )
        )
    return width


def head_counts(heads: int, kv_heads: int) -> Mapped:
    """The kind of attention that so many heads make: MHA, MQA or GQA."""
    kind = {heads: {"kind": "mha"}, 1: {"kind": "mqa"}}.get(kv_heads, {"kind": "gqa", "n_kv_heads": kv_heads})
    return {**kind, "n_heads": heads}


def attention(
    config: Config, width: int, *, bias: Any = False, position: Mapped | None = None, **more: Any
) -> Mapped:
    """Grouped-query attention by the usual keys; kv heads are the class's default where left out, as many as heads where null."""
    heads = config.size("num_attention_heads")
    kv_heads = (
        heads
        if config.stated_null("num_key_value_heads")
        else config.size("num_key_value_heads", default=heads)
    )
    own = width if width * heads != config.size("hidden_size") else None
    position = rope(config, width) if position is None else position
    return without_none(
        {**head_counts(heads, kv_heads), "head_dim": own, "bias": bias or None, "position": position, **more}
    )


def gated(
    config: Config, *, width: str = "intermediate_size", act: str = "hidden_act", bias: bool = False
) -> Mapped:
    """SwiGLU and its kin, by the keys that name the width and the function."""
    mapping = {
        "kind": "glu",
        "d_ff": config.size(width),
        "activation": activation(config, act, default="silu"),
    }
    return mapping | ({"bias": True} if bias else {})


PER_HEAD = {"per": "head"}
"""Queries and keys normalized head by head, with a gain that the heads share."""

SLIDING, FULL = "sliding_attention", "full_attention"


def window(config: Config) -> int | None:
    """The sliding window; null is none, and so is 0, which transformers writes where windows are switched off."""
    if config.stated_null("sliding_window") or config.get("sliding_window", default=None) == 0:
        return None
    width: int | None = config.size("sliding_window", default=None)
    return width


def windows(
    config: Config, layer: Callable[[int | None], Mapped], slides: Callable[[int], bool], *, used: bool = True
) -> list[Mapped]:
    """All layers, of which some have a window: those that `layer_types` names, else those by whose index `slides`; none unless `used`."""
    count, width = config.layers(), window(config)
    width = width if used else None
    types = layer_types(config, [SLIDING if width and slides(index) else FULL for index in range(count)])
    if width is None and SLIDING in types:
        raise ArchError(
            Problem(
                f"{config.file}: layer_types names {SLIDING}, but there is no window", "state sliding_window"
            )
        )
    made = {kind: layer(width if kind == SLIDING else None) for kind in dict.fromkeys(types)}
    return [made[kind] for kind in types]


def layer_types(config: Config, default: list[str]) -> list[str]:
    """The kind of attention of each layer: sliding or full."""
    types = [
        FULL if kind == "attention" else kind
        for kind in config.per_layer("layer_types", len(default)) or default
    ]
    unknown = [kind for kind in types if kind not in (SLIDING, FULL)]
    if unknown:
        raise ArchError(
            Problem(
                f"{config.file}: layer_types {shown(unknown[0])} is not supported",
                f"known: {SLIDING}, {FULL}",
            )
        )
    return types


def sparse_layers(
    config: Config, layers: list[Mapped], dense: Mapped, experts: Callable[[Config], Mapped]
) -> list[Mapped]:
    """The layers with their feed-forward part: every decoder_sparse_step-th has experts unless mlp_only_layers names it."""
    step, plain = config.size("decoder_sparse_step"), config.get("mlp_only_layers", default=[])
    if not isinstance(plain, list) or not all(isinstance(index, int) for index in plain):
        raise ArchError(
            Problem(f"{config.file}: mlp_only_layers must be a list of whole numbers, not {shown(plain)}")
        )
    some = config.count("num_experts", "num_local_experts") > 0
    routed = [some and (index + 1) % step == 0 for index in range(len(layers))]
    for index in plain:
        if 0 <= index < len(layers):
            routed[index] = False
    ffns = {True: experts(config) if True in routed else dense, False: dense}
    made: dict[tuple[int, bool], Mapped] = {}
    return [
        made.setdefault((id(layer), moe), {**layer, "ffn": ffns[moe]})
        for layer, moe in zip(layers, routed, strict=True)
    ]


def optional_number(config: Config, name: str) -> float | None:
    """A number that null takes away."""
    return None if config.stated_null(name) or config.get(name, default=None) is None else config.number(name)


def query_scale(config: Config, width: int) -> float | None:
    """query_pre_attn_scalar^-0.5, or None where that is what the width of a head gives anyway."""
    scalar = config.number("query_pre_attn_scalar")
    if scalar <= 0:
        raise ArchError(Problem(f"{config.file}: query_pre_attn_scalar must be above 0, not {scalar}"))
    return None if scalar == width else float(scalar**-0.5)


def mlp(config: Config, d_ff: int, act: str, *, bias: bool = True) -> Mapped:
    """Two matrices and an activation function, by the key that names the function."""
    return {"kind": "mlp", "d_ff": d_ff, "activation": activation(config, act)} | (
        {"bias": True} if bias else {}
    )


def layernorm(eps: float, *, weight: bool = True, bias: bool = True) -> Mapped:
    """LayerNorm; without `weight` it is not trained, without `bias` it is a gain alone."""
    return (
        {"kind": "layernorm", "eps": eps}
        | ({} if weight else {"weight": False})
        | ({} if bias else {"bias": False})
    )


def rmsnorm(config: Config, *, eps: float = 1e-6, offset: int = 0) -> Mapped:
    """RMSNorm by the usual key."""
    return {"kind": "rmsnorm", "eps": config.number("rms_norm_eps", default=eps)} | (
        {"offset": offset} if offset else {}
    )


def multi_token_prediction(config: Config, layer: Callable[[], Mapped], *, alike: bool) -> Mapped | None:
    """Layers that predict further tokens, as DeepSeek-V3's: in the checkpoint, not in the class. `alike`: each is as the last layer."""
    depth = config.count("num_nextn_predict_layers", "num_mtp_layers", default=0)
    if not depth:
        return None
    return {"depth": depth} if alike else {"depth": depth, "layer": layer()}


def shared_expert(config: Config, expert: Mapped) -> Mapped | None:
    """The experts that see every token, which DeepSeek makes one network as wide as all of them; null is none."""
    number = 0 if config.stated_null("n_shared_experts") else config.count("n_shared_experts")
    return {**expert, "d_ff": number * expert["d_ff"]} if number else None


def latent_attention(config: Config, pairing: str) -> Mapped:
    """Multi-head latent attention by DeepSeek's keys. The norms of the latents are made without an eps: 1e-6 whatever the file says."""
    ranks = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
    rank = None if config.stated_null("q_lora_rank") else config.size("q_lora_rank")
    config.ignore("num_key_value_heads", "head_dim")
    return without_none(
        {
            "kind": "mla",
            "n_heads": config.size("num_attention_heads"),
            "q_lora_rank": rank,
            **{key: config.size(key) for key in ranks},
            "bias": config.flag("attention_bias") or None,
            "latent_norm": {"kind": "rmsnorm", "eps": 1e-6},
            "position": rope(config, config.size("qk_rope_head_dim"), pairing=pairing),
        }
    )


def decoder(config: Config, norm: Mapped, layers: list[Mapped], *, tied: bool = False, **more: Any) -> Mapped:
    """The whole mapping. `tied` is the class's default of tie_word_embeddings; `more` are further top-level keys."""
    config.ignore(*PLAIN)
    embedding = {"tied": config.flag("tie_word_embeddings", default=tied), **more.pop("embedding", {})}
    return without_none(
        {
            "vocab_size": config.size("vocab_size"),
            "d_model": config.size("hidden_size"),
            "max_seq_len": config.size("max_position_embeddings", default=None),
            "norm": norm,
            "embedding": embedding,
            **more,
            "groups": groups(layers),
        }
    )
