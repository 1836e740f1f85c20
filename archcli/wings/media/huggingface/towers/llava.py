"""Vision towers with a few linear layers as projector: LLaVA, Pixtral, Mistral 3, Gemma 3, PaliGemma."""

from __future__ import annotations

from dataclasses import replace
from math import isqrt
from typing import Any

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Mapped
from archcli.wings.media.huggingface.towers.source import TowerSource, linear, merged, tiled
from archcli.wings.media.huggingface.whole.vit_like import patches, vit_like

PINS = [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]]
"""Default sizes of LLaVA-1.6's tiled images."""


def pixtral(source: TowerSource, key: str, merges: int = 1) -> tuple[Mapped, Mapped]:
    """(encoder, sizing) of Pixtral: RMSNorm, gated networks, rotary positions by row and column.

    Sides of an image are rounded up to whole tokens, each of `merges` x `merges` patches.
    """
    config = source.part(key, hf.class_defaults("pixtral"))
    config.ignore("head_dim", "rope_parameters")
    norm = {"kind": "rmsnorm", "eps": 1e-5}
    front_end = patches(config, bias=False, class_token=False, position="none", coordinates="grid", norm=norm)
    position = {"kind": "grid_rope", "theta": config.number("rope_theta"), "between": True}
    encoder = vit_like(
        config,
        front_end,
        attention={"bias": False, "position": position},
        norm=norm,
        ffn=hf.gated(config),
        final_norm=False,
    )
    config.report_unread_keys()
    longest = source.longest("size", hf.bare(front_end["image_size"])[0])
    sizing = {
        "kind": "longest",
        "longest": longest,
        "patch": _token_side(source, hf.bare(front_end["patch_size"])[0], merges),
        "breaks": True,
    }
    return encoder, sizing


def _token_side(source: TowerSource, patch: int, merges: int) -> int:
    """Pixels that PixtralProcessor makes both sides a multiple of: patch_size x spatial_merge_size.

    It replaces the image processor's patch_size, unless that processor is saved alone.
    """
    if hf.saved_alone(source.whole):
        side: int = _image_patch(source, patch)
        return side
    processor = hf.whole_processor(source.whole)
    usual = {"patch_size": 16, "spatial_merge_size": 1}
    if not usual.keys() & processor.data.keys():
        return patch * merges
    processor = processor.with_defaults(**usual)
    return processor.size("patch_size").value * processor.size("spatial_merge_size").value


def _image_patch(source: TowerSource, default: int) -> Any:
    """Side of a patch in pixels: of the image processor, else `default`."""
    patch = source.processor.get("patch_size", default=default) if source.in_file else default
    return patch.get("height", default) if isinstance(patch, dict) else patch


def _perceptron(source: TowerSource, *, bias: Any = True) -> list[Mapped]:
    """Two linear layers with an activation between them, `multi_modal_projector`."""
    act = hf.activation(source.whole, "projector_hidden_act", default="gelu")
    width = source.width
    return [linear(width, bias=bias), {"kind": "activation", "activation": act}, linear(width, bias=bias)]


def _feature_layer(whole: Config, encoder: Mapped, layer: int = -2) -> Mapped:
    """The `after` of a tower: the layer whose output is projected; {} where it is the encoder's output."""
    # -2 is CLIP's last layer but one, whose states LLaVA found better (arXiv:2304.08485)
    taken = whole.value("vision_feature_layer", default=layer).value
    if isinstance(taken, list):
        # several layers: the tower is counted, and cannot be run
        return {"token": None}
    depth = sum(hf.bare(group["n_layers"]) for group in encoder["groups"])
    # index into hidden_states, whose entry 0 is the input of the first layer
    after = taken if taken >= 0 else depth + 1 + taken
    if not 0 <= after <= depth:
        raise whole.error(f"vision_feature_layer {taken} is none of {depth} layers")
    return {} if after == depth and encoder.get("final_norm") is False else {"after": after}


def _selection(
    whole: Config, default: str = "default", layer: Any = -2, *, several: bool = True
) -> list[Mapped]:
    """Projector steps: drop the class token, concatenate the outputs of several layers."""
    taken = whole.value("vision_feature_layer", default=layer)
    numbers = taken.value if isinstance(taken.value, list) and several else [taken.value]
    if not numbers or not all(type(number) is int for number in numbers):
        what = "vision_feature_layer: vectors of several layers side by side are not known"
        raise whole.error(what, at=taken.place)
    strategy = whole.value("vision_feature_select_strategy", default=default)
    whole.only("vision_feature_select_strategy", "default", "full", default=default)
    drop: list[Mapped] = [{"kind": "drop"}] if strategy.value == "default" else []
    return [*drop, {"kind": "layers", "number": len(numbers)}] if len(numbers) > 1 else drop


def llava(source: TowerSource) -> Mapped:
    """LLaVA: CLIP's patch vectors, or Pixtral's, through two linear layers."""
    whole = source.whole
    drop = _selection(whole)
    bias = whole.flag("multimodal_projector_bias", default=True)
    vision = whole.get("vision_config", default={})
    if isinstance(vision, dict) and vision.get("model_type") == "pixtral":
        encoder, sizing = pixtral(source, "vision_config")
    else:
        encoder = source.encoder("vision_config", "clip_vision_model")
        sizing = {"kind": "fixed", "size": source.size(encoder["front_end"]["image_size"])}
    steps = [*drop, *_perceptron(source, bias=bias)]
    return {"model": encoder, "sizing": sizing, "projector": steps, **_feature_layer(whole, encoder)}


def _anyres(
    source: TowerSource,
    drop: list[Mapped],
    most: int = 0,
    layer: int = -2,
    usual: str = "clip_vision_model",
) -> Mapped:
    """A tower with tiles (anyres): LLaVA-1.6's two linear layers, and a newline vector after each row.

    most: the most tiles' worth of tokens; 0 without a limit.
    """
    encoder = source.encoder("vision_config", usual)
    settings = source.processor if source.in_file else source.whole
    pins = settings.get("image_grid_pinpoints", default=PINS)
    source.whole.ignore("image_grid_pinpoints", "use_image_newline_parameter")
    tile = hf.bare(source.size(encoder["front_end"]["image_size"]))[0]
    bias = source.whole.flag("multimodal_projector_bias", default=True)
    return {
        "model": encoder,
        "sizing": {"kind": "pinned", "tile": tile, "sizes": pins, "most": most},
        "projector": [*drop, *_perceptron(source, bias=bias)],
        "newline": True,
        **_feature_layer(source.whole, encoder, layer),
    }


def llava_next(source: TowerSource) -> Mapped:
    """LLaVA-1.6: tiles at the size that keeps most pixels of the image, and an overview."""
    return _anyres(source, _selection(source.whole))


def llava_next_video(source: TowerSource) -> Mapped:
    """LLaVA-NeXT-Video: an image as LLaVA-1.6 reads it; frames of a video are pooled."""
    whole = source.whole
    whole.only("spatial_pool_mode", "average", "max", default="average")
    whole.ignore("spatial_pool_stride", "image_seq_length", "video_seq_length")
    bias = whole.flag("multimodal_projector_bias", default=True)
    if not bias.value:
        raise whole.error("multimodal_projector_bias false is not known here", at=bias.place)
    return llava_next(source)


def vipllava(source: TowerSource) -> Mapped:
    """ViP-LLaVA: the outputs of five layers concatenated, normalized, through two linear layers."""
    whole = source.whole
    # its class always drops the class token, whatever vision_feature_select_strategy says
    config = replace(
        whole, data={key: whole.data[key] for key in whole.data if not key.endswith("_strategy")}
    )
    layers = _selection(config, layer=whole.get("vision_feature_layers", default=[-2, -5, -8, -11, 6]))
    encoder = source.encoder("vision_config", "clip_vision_model")
    norm = hf.layernorm(whole.number("projector_layernorm_eps", default=1e-5))
    sizing = {"kind": "fixed", "size": source.size(encoder["front_end"]["image_size"])}
    steps = [*layers, {"kind": "norm", "norm": norm}, *_perceptron(source)]
    return {"model": encoder, "sizing": sizing, "projector": steps}


def video_llava(source: TowerSource) -> list[Mapped]:
    """Video-LLaVA: a tower for images, and one for videos."""
    whole = source.whole
    whole.ignore("image_seq_length", "video_seq_length")
    drop, bias = _selection(whole), whole.flag("multimodal_projector_bias", default=True)
    encoder = source.encoder("vision_config", "clip_vision_model")
    sizing = {"kind": "fixed", "size": source.size(encoder["front_end"]["image_size"])}
    images = {"model": encoder, "sizing": sizing, "projector": [*drop, *_perceptron(source, bias=bias)]}
    return [images, {"model": encoder, "sizing": {"kind": "unknown"}}]


def aya_vision(source: TowerSource) -> Mapped:
    """Aya Vision: SigLIP's patches merged, normalized, through a gated feed-forward network."""
    whole = source.whole
    drop = _selection(whole, "full", -1, several=False)
    eps = whole.number("adapter_layer_norm_eps", default=1e-6)
    inner = whole.size("alignment_intermediate_size", default=source.width)
    return _gated(source, [*drop, merged(whole.size("downsample_factor", default=2))], inner, eps)


def cohere2_vision(source: TowerSource) -> Mapped:
    """Command A Vision: SigLIP's patches merged, through a gated network; tiles of the nearest size."""
    whole = source.whole
    merge = merged(whole.size("downsample_factor", default=2))
    inner = whole.size("alignment_intermediate_size", default=36864)
    tower = _gated(source, [merge], inner)
    if tower["sizing"]["kind"] == "canvas":
        tower["sizing"] |= {"nearest": "size", "least": 1}
    return tower


def _gated(source: TowerSource, steps: list[Mapped], inner: Any, eps: Any = None) -> Mapped:
    """SigLIP on tiles, then a gated network whose gate and up projection are one matrix."""
    encoder = source.encoder("vision_config", "siglip_vision_model")
    tile = source.size(encoder["front_end"]["image_size"])
    if hf.bare(inner) % 2:
        raise source.whole.error("alignment_intermediate_size is odd: its halves are gate and branch")
    normed = [] if eps is None else [{"kind": "norm", "norm": hf.layernorm(eps)}]
    network = {"kind": "gated", "d_ff": hf.bare(inner) // 2, "width": source.width, "bias": True}
    return {"model": encoder, "sizing": tiled(source, tile), "projector": [*steps, *normed, network]}


def lighton_ocr(source: TowerSource) -> Mapped:
    """LightOnOCR: Mistral 3's projector, without biases and breaks."""
    encoder, sizing = pixtral(source, "vision_config")
    eps = source.text.get("rms_norm_eps", 1e-6)
    steps = [
        {"kind": "norm", "norm": {"kind": "rmsnorm", "eps": eps}},
        merged(source.whole.size("spatial_merge_size", default=2)),
        linear(encoder["d_model"], bias=False),
        linear(source.width, bias=False),
        {"kind": "activation", "activation": "gelu"},
        linear(source.width, bias=False),
    ]
    # its processor leaves patches to the image processor
    patch = _image_patch(source, hf.bare(encoder["front_end"]["patch_size"])[0])
    return {"model": encoder, "sizing": {**sizing, "patch": patch, "breaks": False}, "projector": steps}


def llava_onevision(source: TowerSource) -> Mapped:
    """LLaVA-OneVision: as LLaVA-1.6, with SigLIP, and by default the tokens of at most nine tiles."""
    ratio = source.whole.value("vision_aspect_ratio", default="anyres_max_9")
    most = str(ratio.value).removeprefix("anyres_max_")
    if not most.isdecimal():
        raise source.whole.error(f"vision_aspect_ratio {ratio.value!r} is not known", at=ratio.place)
    tower = _anyres(source, _selection(source.whole, "full", -1), int(most), -1, "siglip_vision_model")
    image_size = tower["model"]["front_end"]["image_size"]
    size = source.frame_size(image_size)
    if hf.bare(size) != hf.bare(image_size):  # the class pools the tower's own rows and columns
        return tower
    # rows and columns of a frame are halved, and one newline stands behind all frames
    return {**tower, "video": {"kind": "frames", "size": size, "pooled": 2, "ends": 1}}


def mistral3(source: TowerSource) -> Mapped:
    """Mistral 3: Pixtral's vectors normalized, merged four to one, through two linear layers."""
    whole = source.whole
    n = whole.size("spatial_merge_size", default=2)
    encoder, sizing = pixtral(source, "vision_config", merges=n.value)
    drop = _selection(whole, "full", -1, several=False)
    bias = whole.flag("multimodal_projector_bias", default=False)
    eps = source.text.get("rms_norm_eps", 1e-6)
    steps = [
        *drop,
        {"kind": "norm", "norm": {"kind": "rmsnorm", "eps": eps}},
        merged(n),
        linear(encoder["d_model"], bias=False),
        *_perceptron(source, bias=bias),
    ]
    return {"model": encoder, "sizing": sizing, "projector": steps, **_feature_layer(whole, encoder, -1)}


def gemma3(source: TowerSource) -> Mapped:
    """Gemma 3: SigLIP's patches average-pooled in blocks, normalized, through one matrix."""
    encoder = source.encoder("vision_config", "siglip_vision_model")
    count = source.whole.size("mm_tokens_per_image", default=256)
    front = encoder["front_end"]
    side = hf.bare(front["image_size"])[0] // hf.bare(front["patch_size"])[0]
    n = side // isqrt(count.value)
    eps = encoder["norm"]["eps"]
    steps = [
        {"kind": "pool", "block": [max(n, 1)] * 2},
        {"kind": "norm", "norm": {"kind": "rmsnorm", "eps": eps, "offset": 1}},
        linear(source.width, bias=False),
    ]
    sizing = {"kind": "fixed", "size": source.size(front["image_size"])}
    if n == 0:
        why = f"mm_tokens_per_image {count.value} is more than the {side**2} patches of an image"
        sizing = {"kind": "unknown", "why": why}
    return {"model": encoder, "sizing": sizing, "projector": steps, "both_ways": "medium"}


def t5gemma2(source: TowerSource) -> Mapped:
    """T5Gemma 2: as Gemma 3, in front of a bidirectional encoder."""
    return {**gemma3(source), "both_ways": "none"}


def paligemma(source: TowerSource) -> Mapped:
    """PaliGemma: SigLIP's patches through one linear layer."""
    encoder = source.encoder("vision_config", "siglip_vision_model")
    source.whole.ignore("num_image_tokens")
    size = source.size(encoder["front_end"]["image_size"])
    # the class writes the whole file's width over the tower's own
    width = source.whole.size("projection_dim", default=2048)
    return {
        "model": encoder,
        "sizing": {"kind": "fixed", "size": size},
        "projector": [linear(width)],
        "both_ways": "prompt",
    }
