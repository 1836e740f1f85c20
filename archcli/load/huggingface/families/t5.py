"""T5, mT5 and Switch Transformers."""

from __future__ import annotations

from archcli.load.huggingface.config import MOST_LAYERS, Config
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.family import Family
from archcli.load.huggingface.parts.networks import activation
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.whole.t5_like import ALIASES, t5_like, t5_weights

# The class ties the head whatever the config says, so a checkpoint without one is a tied model's.


def _t5(config: Config) -> Mapped:
    """Relative buckets are shared by all layers of a half; a tied head reads x / sqrt(d_model).

    `tie_word_embeddings: false` (v1.1, Flan) gives an untied head that reads x itself.
    """
    # transformers 5 writes tie_word_embeddings true over every false, which it keeps as scale_decoder_outputs
    tied = config.flag("tie_word_embeddings")
    scaled = config.flag("scale_decoder_outputs", default=tied)
    return t5_like(config, tied.derive(bool(tied) and bool(scaled)), scaled)


def _t5_weights(config: Config) -> Weights:
    """Weight names of both halves, or of an encoder alone."""
    return t5_weights(config)


# The class ties the head whatever the config says, so a checkpoint without one is a tied model's.


def _mt5(config: Config) -> Mapped:
    """As T5 v1.1; UMT5 has buckets in each layer, and its tied head reads x / sqrt(d_model), as T5's does."""
    tied, unified = config.flag("tie_word_embeddings"), config.model_type == "umt5"
    if not unified:
        return t5_like(config, tied, False)
    scaled = config.flag("scale_decoder_outputs", default=tied)  # how transformers 5.24 keeps a stated false
    return t5_like(config, tied.derive(bool(tied) and bool(scaled)), scaled, per_layer=True)


def _mt5_weights(config: Config) -> Weights:
    """Weight names of both halves, or of an encoder alone."""
    return t5_weights(config, per_layer=config.model_type == "umt5")


SWITCH_HARMLESS = (
    "add_cross_attention",
    "expert_capacity",
    "router_dtype",
    "router_ignore_padding_tokens",
    "add_router_probs",
)


def _switch(config: Config) -> Mapped:
    """As T5 with experts in some layers; weights of the chosen are not normalized, none is dropped.

    T5 with one of E experts for each token. Fedus et al. 2021, arXiv:2101.03961.
    """
    config.ignore(*SWITCH_HARMLESS, "feed_forward_proj")
    depth = config.size("num_hidden_layers")
    depths = {"encoder": depth, "decoder": depth}
    if not config.stated_null("num_decoder_layers"):
        depths["decoder"] = config.size("num_decoder_layers")
    networks = {half: _switch_networks(config, half, count) for half, count in depths.items()}
    tied = config.flag("tie_word_embeddings")
    return t5_like(config, tied, tied, networks=networks, ties=False)


def _switch_networks(config: Config, half: str, depth: ConfigValue[int]) -> list[Mapped]:
    """The network of each layer: every n-th has experts, from the second on."""
    if depth.value > MOST_LAYERS:
        raise config.error(
            f"{depth} layers are beyond reason", f"at most {MOST_LAYERS:,} are read", depth.place
        )
    plain = {"kind": "mlp", "d_ff": config.size("d_ff"), "activation": activation(config, "dense_act_fn")}
    router = {"normalized": False, **({"bias": True} if config.flag("router_bias") else {})}
    experts = {"n_experts": config.size("num_experts"), "top_k": 1, "expert": plain, "router": router}
    routed = {"kind": "moe", **experts}
    number = config.count(f"num_sparse_{half}_layers").value
    spread = depth.value // number if number else depth.value
    step = config.count(f"{half}_sparse_step", default=spread).value
    return [routed if step == 1 or (step and i % step == 1) else plain for i in range(depth.value)]


def _switch_weights(config: Config) -> Weights:
    """T5's names, with `mlp` for what T5 calls DenseReluDense; experts have a tensor each."""
    names = t5_weights(config, ff="mlp")
    if not config.flag("tie_word_embeddings"):
        names |= {"shared.weight": "shared.weight", "encoder.embed_tokens.weight": "source.weight"}
    for half, i in (("encoder", 1), ("decoder", 2)):
        theirs, ours = f"{half}.block.*.layer.{i}.mlp", f"{half}.layers.*.ffn"
        names |= {
            f"{theirs}.router.classifier.*": f"{ours}.router.*",
            f"{theirs}.experts.expert_#.wi.weight": f"{ours}.experts.up_proj.weight",
            f"{theirs}.experts.expert_#.wo.weight": f"{ours}.experts.down_proj.weight",
        }
    return names


FAMILIES = {
    "t5": Family(
        "T5 and T5 v1.1 (Flan): T5Config and T5ForConditionalGeneration.",
        _t5,
        _t5_weights,
        aliases=ALIASES,
        ties_unstored_head=True,
    ),
    **dict.fromkeys(
        ("mt5", "umt5"),
        Family(
            "mT5 and UMT5, T5 for many languages: MT5Config and MT5ForConditionalGeneration.",
            _mt5,
            _mt5_weights,
            aliases=ALIASES,
            ties_unstored_head=True,
        ),
    ),
    "switch_transformers": Family(
        "Switch Transformers: SwitchTransformersConfig and SwitchTransformersForConditionalGeneration.",
        _switch,
        _switch_weights,
        aliases=ALIASES,
        defaults={"feed_forward_proj": "relu"},
    ),
}
