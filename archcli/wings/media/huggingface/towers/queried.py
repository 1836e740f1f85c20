"""Towers whose vectors queries read: trained ones (Idefics2, Aria, BLIP-2, Kosmos-2), means (Molmo 2)."""

from __future__ import annotations

from math import isqrt
from typing import Any

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, ConfigValue, Mapped, gated
from archcli.wings.media.huggingface.towers.source import TowerSource, linear
from archcli.wings.media.huggingface.whole.vit_like import patches, vit_like

COLOURS = {"num_channels": 3}
"""The channels that BLIP's classes take for granted."""
QFORMER_PLAIN = (
    "vocab_size",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "max_position_embeddings",
    "initializer_range",
    "pad_token_id",
    "encoder_hidden_size",
    "position_embedding_type",
    "use_qformer_text_input",
    "classifier_dropout",
)


def idefics_vision(config: Config) -> Mapped:
    """SigLIP's encoder as Idefics has it: images of any size, places by their share of a side."""
    norm = hf.layernorm(config.number("layer_norm_eps"))
    encoder = vit_like(config, patches(config, class_token=False), norm=norm)
    config.report_unread_keys()
    return encoder


def idefics2(source: TowerSource) -> Mapped:
    """Idefics2: a gated network, then latents that read all patches and themselves."""
    encoder = idefics_vision(source.part("vision_config"))
    config = source.part("perceiver_config")
    width = config.size("hidden_size")
    if width.value != hf.bare(source.width):
        what = f"hidden_size {width} of perceiver_config is not that of the language model"
        raise source.whole.error(what, at=width.place)
    inner = source.text.get("intermediate_size", 14336)
    act = source.text.get("hidden_act", "silu")
    norm = hf.rmsnorm(config)
    layer = {
        "kind": "perceiver",
        "norm": norm,
        "cross_attention": {
            "kind": "cross",
            "n_heads": config.size("resampler_n_heads"),
            "n_kv_heads": config.size("num_key_value_heads"),
            "head_dim": config.size("resampler_head_dim"),
        },
        "ffn": {"kind": "glu", "d_ff": 4 * width.value, "activation": hf.activation(config, "hidden_act")},
    }
    queries = {
        "kind": "queries",
        "number": config.size("resampler_n_latents"),
        "groups": [{"n_layers": config.size("resampler_depth"), "layer": layer}],
        "final_norm": norm,
    }
    config.report_unread_keys()
    gated = {"kind": "gated", "d_ff": inner, "width": width, "activation": named(source, act)}
    return {"model": encoder, "sizing": _between(source), "projector": [gated, queries]}


def named(source: TowerSource, act: Any) -> Any:
    """archcli's kind of an activation function that the text part states."""
    if not isinstance(act, str) or act not in hf.ACTIVATIONS:
        raise source.whole.error(f"activation {hf.short_repr(act)} is not supported")
    return hf.ACTIVATIONS[act]


def _between(source: TowerSource) -> Mapped:
    size = source.processor.get("size")
    size = size if isinstance(size, dict) else {}
    if not source.in_file:
        source.note("its longer side is at most 980, its shorter at least 378 pixels")
    return {
        "kind": "between",
        "shortest": size.get("shortest_edge", 378),
        "longest": size.get("longest_edge", 980),
        "quarters": source.processor.get("do_image_splitting", default=False),
    }


def aria(source: TowerSource) -> Mapped:
    """Aria: as many queries as patches call for read them once, then a perceptron."""
    whole = source.whole
    whole.only("vision_feature_layer", -1, default=-1)
    encoder = idefics_vision(source.part("vision_config"))
    table = whole.value("projector_patch_to_query_dict", default={"1225": 128, "4900": 256})
    queries = _queries(whole, table)
    most = max(number for _, number in queries)
    whole.only("max_value_projector_patch_to_query_dict", most, default=most)
    norm, attention = hf.layernorm(1e-5), hf.bare(encoder["groups"][0]["layer"]["attention"])
    steps = [
        {"kind": "reading", "n_heads": attention["n_heads"], "norm": norm, "queries": queries},
        {"kind": "norm", "norm": norm},
        linear(source.width, bias=False),
        {"kind": "activation", "activation": "gelu_tanh"},
        linear(source.width, bias=False),
    ]
    if source.processor.get("split_image", default=False):
        raise whole.error("images are split by a rule that is not known (split_image)")
    side, patch = source.processor.get("max_image_size"), encoder["front_end"]["patch_size"]
    if not source.in_file:
        side = _side_read(hf.bare(patch)[0], {read for read, _ in queries})
        source.note(f"its longer side becomes {side:,} pixels, in a square")
    sizing = {"kind": "fixed", "size": [side, side]}
    return {"model": {**encoder, "final_norm": True}, "sizing": sizing, "projector": steps}


def _side_read(patch: int, counts: set[int]) -> int:
    """The processor's 980 pixels; where these are no known number of patches, the least that are."""
    known = {isqrt(count) * patch for count in counts if isqrt(count) ** 2 == count}
    return 980 if not known or (980 // patch) ** 2 in counts else min(known)


def _queries(whole: Config, table: ConfigValue[Any]) -> list[list[int]]:
    """Numbers of patches and of queries, from an object whose keys are the first."""
    if not isinstance(table.value, dict) or not table.value:
        what = f"projector_patch_to_query_dict must be a mapping, not {hf.short_repr(table.value)}"
        raise whole.error(what, at=table.place)
    pairs = []
    for patches_read, number in table.value.items():
        known = int(patches_read) if str(patches_read).isascii() and str(patches_read).isdigit() else 0
        whole.as_size("projector_patch_to_query_dict", table.derive(known))
        pairs.append([known, whole.as_size("projector_patch_to_query_dict", table.derive(number)).value])
    return pairs


def blip_vision(config: Config) -> Mapped:
    """The encoder of BLIP-2 and InstructBLIP: keys have a bias where queries and values have one."""
    norm = hf.layernorm(config.number("layer_norm_eps"))
    bias = True if config.flag("qkv_bias").value else ["o"]
    encoder = vit_like(config, patches(config), attention={"bias": bias}, norm=norm)
    config.report_unread_keys()
    return encoder


def qformer(source: TowerSource, config: Config) -> Mapped:
    """The step of a Q-Former: layers of BERT whose queries read an image in every n-th of them."""
    config.ignore(*QFORMER_PLAIN)
    norm = hf.layernorm(config.number("layer_norm_eps"))
    heads = {"n_heads": config.size("num_attention_heads"), "bias": True}
    layer = {
        "kind": "post_norm",
        "norm": norm,
        "attention": {"kind": "mha", **heads, "causal": False},
        "ffn": hf.mlp(config, config.size("intermediate_size"), "hidden_act"),
    }
    crossing = {**layer, "cross_attention": {"kind": "cross", **heads}}
    every = config.size("cross_attention_frequency").value
    layers = [layer if index % every else crossing for index in range(config.layers())]
    return {
        "kind": "queries",
        "number": source.whole.size("num_query_tokens", default=32),
        "width": config.size("hidden_size"),
        "norm": norm,
        "groups": hf.groups(layers),
    }


def blip2(source: TowerSource) -> Mapped:
    """BLIP-2: a Q-Former's queries read the patches, then a linear layer."""
    encoder = blip_vision(source.part("vision_config", COLOURS))
    config = source.part("qformer_config")
    config.only("use_qformer_text_input", False, default=False)
    source.whole.ignore("image_text_hidden_size", "use_decoder_only_language_model")
    steps = [qformer(source, config), linear(source.width)]
    config.report_unread_keys()
    sizing = {"kind": "fixed", "size": source.size(encoder["front_end"]["image_size"])}
    return {"model": encoder, "sizing": sizing, "projector": steps}


def instructblip(source: TowerSource) -> Mapped:
    """InstructBLIP: a Q-Former whose queries read the instruction beside the image.

    Its layers have a second network, of the instruction's tokens.
    """
    tower = blip2(source)
    config = source.part("qformer_config")
    width, inner = config.size("hidden_size").value, config.size("intermediate_size").value
    for group in tower["projector"][0]["groups"]:
        for layer in group.get("pattern", [group.get("layer")]):
            layer["unread"] = {
                "text_up": [inner, width],
                "text_up_bias": inner,
                "text_down": [width, inner],
                "text_down_bias": width,
                "text_norm": [2, width],
            }
    tower["projector"][0]["unread"] = {
        "words": [config.size("vocab_size", default=30522).value, width],
        "places": [config.size("max_position_embeddings", default=512).value, width],
    }
    why = "the Q-Former reads the instruction too, whose length no option states"
    return {**tower, "sizing": {"kind": "unknown", "why": why}}


def kosmos2(source: TowerSource) -> Mapped:
    """Kosmos-2: CLIP's encoder, normalized, a linear layer, and queries that read its vectors once."""
    config = source.part("vision_config")
    norm = hf.layernorm(config.number("layer_norm_eps"))
    encoder = vit_like(config, patches(config, bias=False, norm=norm, resize=None), norm=norm)
    config.report_unread_keys()
    heads = source.text.get("attention_heads", 32)
    attention = {"kind": "cross", "n_heads": heads, "bias": True}
    number = source.whole.size("latent_query_num", default=64)
    steps = [linear(source.width), {"kind": "latents", "number": number, "attention": attention}]
    sizing = {"kind": "fixed", "size": source.size(encoder["front_end"]["image_size"])}
    return {"model": encoder, "sizing": sizing, "projector": steps}


def kosmos2_5(source: TowerSource) -> Mapped:
    """Kosmos-2.5: Pix2Struct's encoder, whose images are patches padded to one number."""
    config = source.part("vision_config")
    config.ignore("dropout_rate")
    width, norm = config.size("hidden_size"), {"kind": "rmsnorm", "eps": config.number("layer_norm_eps")}
    front_end = {
        "kind": "patches",
        "image_size": [1, 1],
        "patch_size": [1, 1],
        "in_channels": config.size("patch_embed_hidden_size"),
        "flat": True,
        "class_token": False,
        "position": "none",
    }
    heads = {"bias": False, "head_dim": config.size("head_dim")}
    encoder = vit_like(config, front_end, attention=heads, norm=norm, ffn=gated(config, act="dense_act_fn"))
    table = [config.size("max_num_patches").value, width.value]
    encoder["unread"] = {"rows": table, "columns": table}
    config.report_unread_keys()
    attention = {"kind": "cross", "n_heads": source.text.get("attention_heads", 16), "bias": True}
    number = source.whole.size("latent_query_num", default=2048)
    steps = [linear(source.width), {"kind": "latents", "number": number, "attention": attention}]
    why = "its patches are padded to one number, and whether padding counts is not known"
    return {"model": encoder, "sizing": {"kind": "unknown", "why": why}, "projector": steps}


def blip(source: TowerSource) -> Mapped:
    """BLIP: an encoder that cross attention of the language model reads."""
    config = source.part("vision_config", COLOURS)
    encoder = vit_like(config, patches(config), norm=hf.layernorm(config.number("layer_norm_eps")))
    config.report_unread_keys()
    source.whole.ignore("image_text_hidden_size", "logit_scale_init_value", "label_smoothing")
    why = "cross attention of the language model reads it, and no token stands in the prompt"
    return {"model": encoder, "sizing": {"kind": "unknown", "why": why}}


def molmo2(source: TowerSource) -> Mapped:
    """Molmo 2: vectors of several layers, pooled by attention in blocks, through a gated network."""
    config = source.part("vision_config")
    adapter = source.part("adapter_config")
    config.ignore("num_key_value_heads", "num_position_embeddings")
    norm = hf.layernorm(config.number("layer_norm_eps"))
    front_end = patches(config, class_token=False, flat=True, resize=None)
    attention = {"bias": config.flag("attention_bias"), "head_dim": config.size("head_dim")}
    encoder = vit_like(config, front_end, attention=attention, norm=norm, final_norm=False)
    _plain_molmo2(config, encoder)
    layers = adapter.value("vision_feature_layer")
    if not isinstance(layers.value, list) or not layers.value:
        raise source.whole.error("vision_feature_layer must be a list of layers", at=layers.place)
    pool = {
        "kind": "attention_pool",
        "n_heads": adapter.size("num_attention_heads"),
        "n_kv_heads": adapter.size("num_key_value_heads"),
        "head_dim": adapter.size("head_dim"),
        "width": adapter.size("hidden_size"),
        "bias": adapter.flag("attention_bias"),
    }
    network = {
        "kind": "gated",
        "d_ff": adapter.size("intermediate_size"),
        "width": adapter.size("text_hidden_size"),
        "activation": hf.activation(adapter, "hidden_act"),
        "bias": adapter.flag("mlp_bias"),
    }
    steps: list[Mapped] = [{"kind": "layers", "number": len(layers.value)}, pool, network]
    adapter.report_unread_keys()
    return {"model": encoder, "sizing": {"kind": "unknown"}, "projector": steps}


def _plain_molmo2(config: Config, encoder: Mapped) -> None:
    """Refuse grouped key and value heads, and a position table of another length than the patches."""
    heads = config.value("num_key_value_heads", default=config.size("num_attention_heads").value)
    if heads.value != config.size("num_attention_heads").value:
        raise config.error("num_key_value_heads other than num_attention_heads is not known", at=heads.place)
    sides, patch = hf.bare(encoder["front_end"]["image_size"]), hf.bare(encoder["front_end"]["patch_size"])
    places = (sides[0] // patch[0]) * (sides[1] // patch[1])
    entries = config.value("num_position_embeddings", default=places)
    if entries.value != places:
        what = f"num_position_embeddings {hf.short_repr(entries.value)} is not the number of patches {places}"
        raise config.error(what, at=entries.place)
    config.report_unread_keys()
