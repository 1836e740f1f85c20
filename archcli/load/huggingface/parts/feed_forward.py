"""Feed-forward networks: gated, ungated, shared experts, and which layers have experts."""

from __future__ import annotations

from collections.abc import Callable

from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.parts.activations import activation
from archcli.load.huggingface.parts.attention import Flag
from archcli.load.huggingface.value import ConfigValue, Mapped


def gated(
    config: Config, *, width: str = "intermediate_size", act: str = "hidden_act", bias: Flag = False
) -> Mapped:
    """A gated network such as SwiGLU, by the keys of its width and activation function."""
    function = activation(config, act, default="silu")
    mapping = {"kind": "glu", "d_ff": config.size(width), "activation": function}
    return mapping | ({"bias": bias} if bias else {})


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


def mlp(config: Config, d_ff: ConfigValue[int], act: str, *, bias: Flag = True) -> Mapped:
    """An ungated network, by the key of its activation function."""
    mapping = {"kind": "mlp", "d_ff": d_ff, "activation": activation(config, act)}
    return mapping | ({"bias": bias} if bias else {})


def shared_expert(config: Config, expert: Mapped) -> Mapped | None:
    """The experts that see every token: in DeepSeek one network as wide as all of them; null is none."""
    if config.stated_null("n_shared_experts"):
        return None
    number, width = config.count("n_shared_experts"), expert["d_ff"]
    return {**expert, "d_ff": width.derive(number.value * width.value)} if number else None
