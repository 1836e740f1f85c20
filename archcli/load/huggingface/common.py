"""Parts of the mapping that many families share: attention, feed-forward, norms, whole decoders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from archcli.load.huggingface.activations import activation
from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.groups import groups
from archcli.load.huggingface.rope import rope
from archcli.load.huggingface.value import ConfigValue, Mapped, without_none

Flag = bool | ConfigValue[bool]

PLAIN = (
    "use_cache",
    "pretraining_tp",
    "attention_dropout",
    "initializer_range",
    "output_router_logits",
    "router_aux_loss_coef",
)


def even_split(config: Config) -> ConfigValue[int]:
    """head_dim = hidden_size / heads."""
    heads, hidden = config.size("num_attention_heads"), config.size("hidden_size")
    return ConfigValue(hidden.value // heads.value, config.place("hidden_size", "num_attention_heads"))


def head_dim(config: Config) -> ConfigValue[int]:
    """The stated head_dim, else the class's default, else hidden_size / heads."""
    width = config.size("head_dim", default=even_split(config))
    if width.value < 1:
        heads, hidden = config.size("num_attention_heads"), config.size("hidden_size")
        what = f"{heads} heads are more than hidden_size {hidden}"
        raise config.error(what, "state head_dim", heads.place)
    return width


def head_counts(heads: ConfigValue[int], kv_heads: ConfigValue[int]) -> Mapped:
    """The kind of attention by its numbers of heads: MHA, MQA or GQA."""
    kind = {heads.value: {"kind": "mha"}, 1: {"kind": "mqa"}}
    return {**kind.get(kv_heads.value, {"kind": "gqa", "n_kv_heads": kv_heads}), "n_heads": heads}


def attention(
    config: Config,
    width: ConfigValue[int],
    *,
    bias: Flag | list[str] = False,
    position: Any = None,
    **more: Any,
) -> Mapped:
    """Grouped-query attention by the keys of Llama.

    Where num_key_value_heads is left out, the class's default holds; null means as many as query heads.
    """
    heads = config.size("num_attention_heads")
    kv_heads = heads
    if not config.stated_null("num_key_value_heads"):
        kv_heads = config.size("num_key_value_heads", default=heads)
    stated_width = width if width.value * heads.value != config.size("hidden_size") else None
    position = rope(config, width) if position is None else position
    shape = {"head_dim": stated_width, "bias": bias or None, "position": position}
    return without_none({**head_counts(heads, kv_heads), **shape, **more})


def gated(
    config: Config, *, width: str = "intermediate_size", act: str = "hidden_act", bias: Flag = False
) -> Mapped:
    """A gated network such as SwiGLU, by the keys of its width and activation function."""
    function = activation(config, act, default="silu")
    mapping = {"kind": "glu", "d_ff": config.size(width), "activation": function}
    return mapping | ({"bias": bias} if bias else {})


PER_HEAD = {"per": "head"}
"""Queries and keys normalized head by head, with a gain that the heads share."""

SLIDING, FULL = "sliding_attention", "full_attention"


def window(config: Config) -> ConfigValue[int] | None:
    """The sliding window; null and 0 both mean none."""
    if config.stated_null("sliding_window") or config.get("sliding_window", default=None) == 0:
        return None
    return config.optional_size("sliding_window")


def windows(
    config: Config,
    layer: Callable[[ConfigValue[int] | None], Mapped],
    slides: Callable[[int], bool],
    *,
    used: Flag = True,
) -> list[Mapped]:
    """All layers, some of them with a sliding window where `used` is true.

    `layer_types` names those that have one; without it `slides` tells by the layer's index.
    """
    count, width = config.layers(), window(config)
    width = width if used else None
    types = layer_types(config, [SLIDING if width and slides(index) else FULL for index in range(count)])
    if width is None and SLIDING in types:
        what = f"layer_types names {SLIDING}, but there is no window"
        raise config.error(what, "state sliding_window", config.place("layer_types"))
    made = {kind: layer(width if kind == SLIDING else None) for kind in dict.fromkeys(types)}
    return [made[kind] for kind in types]


def layer_types(config: Config, default: list[str]) -> list[str]:
    """The kind of attention of each layer: sliding or full."""
    stated = config.per_layer("layer_types", len(default)) or default
    types = [FULL if kind == "attention" else kind for kind in stated]
    unknown = [kind for kind in types if kind not in (SLIDING, FULL)]
    if unknown:
        what = f"layer_types {short_repr(unknown[0])} is not supported"
        raise config.error(what, f"known: {SLIDING}, {FULL}", config.place("layer_types"))
    return types


def sparse_layers(
    config: Config, layers: list[Mapped], dense: Mapped, experts: Callable[[Config], Mapped]
) -> list[Mapped]:
    """The layers with their feed-forward part: experts in every decoder_sparse_step-th.

    Layers that mlp_only_layers names stay dense.
    """
    step, plain = config.size("decoder_sparse_step").value, config.get("mlp_only_layers", default=[])
    if not isinstance(plain, list) or not all(isinstance(index, int) for index in plain):
        what = f"mlp_only_layers must be a list of whole numbers, not {short_repr(plain)}"
        raise config.error(what, at=config.place("mlp_only_layers"))
    has_experts = config.count("num_experts", "num_local_experts").value > 0
    routed = [has_experts and (index + 1) % step == 0 for index in range(len(layers))]
    for index in plain:
        if 0 <= index < len(layers):
            routed[index] = False
    ffns = {True: experts(config) if True in routed else dense, False: dense}
    made: dict[tuple[int, bool], Mapped] = {}
    return [
        made.setdefault((id(layer), moe), {**layer, "ffn": ffns[moe]})
        for layer, moe in zip(layers, routed, strict=True)
    ]


def optional_number(config: Config, name: str) -> ConfigValue[float] | None:
    """A number, or None where the file says null."""
    absent = config.stated_null(name) or config.get(name, default=None) is None
    return None if absent else config.number(name)


def query_scale(config: Config, width: ConfigValue[int]) -> ConfigValue[float] | None:
    """query_pre_attn_scalar^-0.5, or None where it equals the default 1 / sqrt(head_dim)."""
    scalar = positive(config, "query_pre_attn_scalar")
    return None if scalar == width else scalar.derive(float(scalar.value**-0.5))


def positive(config: Config, name: str) -> ConfigValue[float]:
    """A number above 0."""
    number = config.number(name)
    if number.value <= 0:
        raise config.error(f"{name} must be above 0, not {number}", at=number.place)
    return number


def mlp(config: Config, d_ff: ConfigValue[int], act: str, *, bias: Flag = True) -> Mapped:
    """An ungated network, by the key of its activation function."""
    mapping = {"kind": "mlp", "d_ff": d_ff, "activation": activation(config, act)}
    return mapping | ({"bias": bias} if bias else {})


def layernorm(eps: float | ConfigValue[float], *, weight: Flag = True, bias: Flag = True) -> Mapped:
    """LayerNorm, with or without trained weight and bias."""
    trained = {"weight": weight, "bias": bias}
    return {"kind": "layernorm", "eps": eps} | {key: flag for key, flag in trained.items() if not flag}


def rmsnorm(config: Config, *, eps: float = 1e-6, offset: int = 0) -> Mapped:
    """RMSNorm with the eps of `rms_norm_eps`."""
    mapping = {"kind": "rmsnorm", "eps": config.number("rms_norm_eps", default=eps)}
    return mapping | ({"offset": offset} if offset else {})


def multi_token_prediction(config: Config, layer: Callable[[], Mapped], *, alike: bool) -> Mapped | None:
    """Multi-token prediction as in DeepSeek-V3; `alike` where each layer equals the model's last.

    The checkpoint holds them, the class does not.
    """
    depth = config.count("num_nextn_predict_layers", "num_mtp_layers", default=0)
    if not depth:
        return None
    return {"depth": depth} if alike else {"depth": depth, "layer": layer()}


def shared_expert(config: Config, expert: Mapped) -> Mapped | None:
    """The experts that see every token: in DeepSeek one network as wide as all of them; null is none."""
    if config.stated_null("n_shared_experts"):
        return None
    number, width = config.count("n_shared_experts"), expert["d_ff"]
    return {**expert, "d_ff": width.derive(number.value * width.value)} if number else None


def latent_attention(config: Config, pairing: str) -> Mapped:
    """Multi-head latent attention by DeepSeek's keys.

    The classes make the norms of the latents without an eps: it is 1e-6 whatever the file says.
    """
    ranks = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
    rank = None if config.stated_null("q_lora_rank") else config.size("q_lora_rank")
    config.ignore("num_key_value_heads", "head_dim", "qk_head_dim")
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
    """The mapping of a decoder.

    `tied` is the class's default of tie_word_embeddings; `more` are further top-level keys.
    """
    config.ignore(*PLAIN)
    embedding = {"tied": config.flag("tie_word_embeddings", default=tied), **more.pop("embedding", {})}
    depth = config.size("num_hidden_layers")
    return without_none(
        {
            "vocab_size": config.size("vocab_size"),
            "d_model": config.size("hidden_size"),
            "max_seq_len": config.optional_size("max_position_embeddings"),
            "norm": norm,
            "embedding": embedding,
            **more,
            "groups": [{**group, "n_layers": depth.derive(group["n_layers"])} for group in groups(layers)],
        }
    )
