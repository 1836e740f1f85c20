"""BART with other attention or networks: LED, NLLB-MoE."""

from __future__ import annotations

from typing import Any

from archcli.load import huggingface as hf
from archcli.load.huggingface import Auxiliary, Config, ConfigValue, Family, Mapped, Rule, Weights
from archcli.load.huggingface.whole.bart_like import Wiring, bart_like, bart_weights, fairseq_sinusoid

LED = Wiring("post_norm", {"kind": "learned"})


def _led(config: Config) -> Mapped:
    """As BART, with a window in the encoder; a pass is counted without global tokens."""
    config.only_architectures("LEDForConditionalGeneration", "LEDModel")
    whole = bart_like(config, LED)
    encoder = whole["encoder"]
    [group] = encoder["groups"]
    attention = {**group["layer"]["attention"], "global_projections": True}
    layers = hf.seen_near({**group["layer"], "attention": attention}, hf.two_sided_windows(config))
    longest = config.size("max_encoder_position_embeddings")
    position = {"kind": "learned", "max_seq_len": longest}
    return {**whole, "encoder": {**encoder, "position": position, "groups": hf.groups(layers)}}


def _led_weights(config: Config) -> Weights:
    """BART's names, but for the encoder's attention, which has Longformer's."""
    place = "[led.]encoder.layers.*.self_attn"
    names = {name.replace("[model.]", "[led.]"): rule for name, rule in bart_weights(config).items()}
    of_attention = {
        f"{place}.longformer_self_attn.{name}{many}.*": f"encoder.layers.*.attention.{name[0]}{ours}_proj.*"
        for name in ("query", "key", "value")
        for many, ours in (("", ""), ("_global", "_global"))
    }
    return hf.renamed(names, {**of_attention, f"{place}.output.*": "encoder.layers.*.attention.o_proj.*"})


UNTRAINED = (
    *("expert_capacity", "router_dtype", "router_ignore_padding_tokens", "moe_eval_capacity_token_fraction"),
    *("router_z_loss_coef", "batch_prioritized_routing", "normalize_router_prob_before_dropping"),
)
"""Keys of how tokens are dropped in training, and of losses; a pass for inference drops none."""


def _nllb_moe(config: Config) -> Mapped:
    """As M2M-100, with experts in some layers; each token visits two of them (arXiv:2207.04672).

    What they add up to is multiplied by 1 - moe_token_dropout: in training that share of tokens is masked.
    """
    config.only_architectures("NllbMoeForConditionalGeneration", "NllbMoeModel")
    config.ignore(*UNTRAINED)
    config.only("second_expert_policy", "all")
    position = fairseq_sinusoid(config, config.count("pad_token_id").value + 1)
    wiring = Wiring("pre_norm", position, final_norm=True, norm=False, stored_bias=False)
    whole = bart_like(config, wiring)
    for name in ("encoder", "decoder"):
        [group] = whole[name]["groups"]
        layers = _with_experts(config, name, group["layer"], group["n_layers"])
        whole[name] = {**whole[name], "groups": hf.groups(layers)}
    config.note("a token visits its two best experts; the class of transformers runs the first two for all")
    return whole


def _with_experts(config: Config, half: str, layer: Mapped, depth: ConfigValue[int]) -> list[Mapped]:
    """The layers of a half: with a step of 4, layers 3, 7, 11, … have experts; with 0 none."""
    if depth.value > hf.MOST_LAYERS:
        raise config.error(
            f"{depth} layers are beyond reason", f"at most {hf.MOST_LAYERS:,} are read", depth.place
        )
    step = config.count(f"{half}_sparse_step").value
    router: dict[str, Any] = {"scale": _share_left(config)}
    router |= {"bias": True} if config.flag("router_bias") else {}
    experts = {"n_experts": config.size("num_experts"), "top_k": 2, "expert": layer["ffn"], "router": router}
    routed = {**layer, "ffn": {"kind": "moe", **experts}}
    return [routed if step and (i + 1) % step == 0 else layer for i in range(depth.value)]


def _share_left(config: Config) -> ConfigValue[float]:
    """The share of tokens whose experts are not masked in training."""
    dropped = config.number("moe_token_dropout")
    if not 0 <= dropped.value < 1:
        raise config.error(f"moe_token_dropout {dropped} is no share", "from 0 to below 1", dropped.place)
    return dropped.derive(1 - dropped.value)


def _nllb_moe_weights(config: Config) -> Weights:
    """Weight names of both halves: M2M-100's but for the networks, of which experts have a tensor each."""
    names: dict[str, Rule] = dict(bart_weights(config, positions=False))
    names["[model.]*.embed_positions.weights"] = Auxiliary("sinusoid: computed, not trained")
    for half in ("encoder", "decoder"):
        theirs, ours = f"[model.]{half}.layers.*", f"{half}.layers.*"
        names[f"{theirs}.ff_layer_norm.*"] = f"{ours}.ffn_norm.*"
        names[f"{theirs}.ffn.router.classifier.*"] = f"{ours}.ffn.router.*"
        for theirs_of, projection in (("fc1", "up_proj"), ("fc2", "down_proj")):
            names[f"{theirs}.ffn.{theirs_of}.*"] = f"{ours}.ffn.{projection}.*"
            names[f"{theirs}.ffn.experts.expert_#.{theirs_of}.*"] = f"{ours}.ffn.experts.{projection}.*"
    crossed = "[model.]decoder.layers.*.cross_attention"
    names[f"{crossed}_layer_norm.*"] = "decoder.layers.*.cross_attention_norm.*"
    for stored in ("q", "k", "v", "out"):
        names[f"{crossed}.{stored}_proj.*"] = f"decoder.layers.*.cross_attention.{stored[0]}_proj.*"
    return names


FAMILIES = {
    "led": Family(
        "LED, BART for long documents: LEDConfig and LEDForConditionalGeneration.",
        _led,
        _led_weights,
        aliases={
            "max_position_embeddings": "max_decoder_position_embeddings",
            "num_hidden_layers": "encoder_layers",
        },
        defaults={"scale_embedding": False},
    ),
    "nllb-moe": Family(
        "NLLB-MoE, a translator with experts: NllbMoeConfig and NllbMoeForConditionalGeneration.",
        _nllb_moe,
        _nllb_moe_weights,
    ),
}
