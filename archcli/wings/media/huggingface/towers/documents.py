"""Towers that read pages: GOT-OCR 2 and PP-Chart2Table (SAM), MiniCPM-V, Granite Docling, HunyuanOCR."""

from __future__ import annotations

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, ConfigValue, Mapped, groups
from archcli.wings.media.huggingface.towers.source import (
    NO_FIGURE,
    TowerSource,
    linear,
    merged,
    merger,
    multiples,
    still_patches,
    taps_of,
    tiled,
)
from archcli.wings.media.huggingface.whole.vit_like import patches, sides, vit_like

MOST_SIDE = 16
"""Tiles in a row or a column of a page: the tokenizer has no names of further ones."""
MOST_MERGES = 8
"""Rounds of merging, each of which halves both sides; MiniCPM has one."""


def got_ocr2(source: TowerSource) -> Mapped:
    """GOT-OCR 2: SAM's encoder and neck, two convolutions that make the grid coarser, a linear layer."""
    config = source.part("vision_config")
    config.only("use_rel_pos", True)
    out, width = config.size("output_channels").value, hf.bare(source.width)
    convolved = {"kind": "convolve", "kernel": 3, "padding": 1, "bias": False}
    norm = {"kind": "norm", "norm": hf.layernorm(1e-6)}
    neck = [
        {**convolved, "kernel": 1, "padding": 0, "width": out},
        norm,
        {**convolved, "width": out},
        norm,
    ]
    encoder = _sam(config)
    config.report_unread_keys()
    source.whole.ignore("image_seq_length")
    steps = [
        {**convolved, "width": 2 * out, "stride": 2},
        {**convolved, "width": width, "stride": 2},
        linear(width),
    ]
    sizing = tiled(source, source.size(encoder["front_end"]["image_size"]))
    return {"model": encoder, "sizing": sizing, "projector": [*neck, *steps], "within": len(neck)}


def _sam(config: Config) -> Mapped:
    """SAM's encoder: windows in most layers, all places in some, differences of rows and columns in all."""
    position = "learned" if config.flag("use_abs_pos").value else "none"
    grid = {"class_token": False, "keeps_grid": True, "resize": None, "position": position}
    heads, full = config.size("num_attention_heads"), config.value("global_attn_indexes")
    if not isinstance(full.value, list | tuple) or not all(type(index) is int for index in full.value):
        raise config.error("global_attn_indexes must be a list of layers", at=full.place)
    attention = {"kind": "grid_axes", "n_heads": heads, "bias": True, "causal": False}
    if not config.flag("qkv_bias").value:
        attention["bias"] = ["o"]
    layer = {
        "kind": "pre_norm",
        "attention": attention,
        "ffn": hf.mlp(config, config.size("mlp_dim"), "hidden_act"),
    }
    window = {**layer, "attention": {**attention, "side": config.size("window_size")}}
    return {
        "kind": "media_encoder",
        "d_model": config.size("hidden_size"),
        "norm": hf.layernorm(config.number("layer_norm_eps")),
        "front_end": patches(config, **grid) | {"resize": None},
        "final_norm": False,
        "groups": groups([layer if i in full.value else window for i in range(config.layers())]),
    }


def minicpm_ocr(source: TowerSource) -> Mapped:
    """MiniCPM-OCR: as MiniCPM-V, without the merger between layers, which the class holds all the same."""
    source.whole.only("downsample_mode", "4x", default="4x")
    sizing = _slices(source, "4x")
    if source.processor.get("small_image_upsize", default="always") != "always":
        sizing = {"kind": "unknown", "why": "its processor keeps small images by rules of its own"}
    return _minicpm(source, sizing, between=False)


def minicpm_v(source: TowerSource) -> Mapped:
    """MiniCPM-V 4.6 and 4.7: a merger between layers, or with downsample_mode 4x without it."""
    whole = source.whole
    whole.ignore("drop_vision_last_layer", "newline_id")
    whole.ignore(*(f"{what}_{end}_id" for what in ("image", "slice") for end in ("start", "end")))
    whole.only("downsample_mode", "16x", "4x", default="16x")
    mode = whole.get("downsample_mode", default="16x")
    return _minicpm(source, _slices(source, mode), between=mode == "16x")


def _minicpm(source: TowerSource, sizing: Mapped, *, between: bool) -> Mapped:
    """SigLIP's layers, 2 x 2 patches merged a number of times, each time by a perceptron.

    A merger of windows stands `between` layers, or is not read. Where patches are merged more than once, the
    processor's tokens are not the class's: images of whole windows alone are read.
    """
    whole, config = source.whole, source.part("vision_config")
    whole.ignore("image_size", "patch_size")
    config.ignore("insert_layer_id")
    block, window = (
        sides(whole.with_defaults(merge_kernel_size=[2, 2]), "merge_kernel_size"),
        sides(config, "window_kernel_size"),
    )
    if block.value != [2, 2]:
        raise whole.error(
            "merge_kernel_size other than 2 x 2 is not known: the class joins by four", at=block.place
        )
    front_end = patches(config, class_token=False, resize="nearest")
    encoder = vit_like(config, front_end, norm=hf.layernorm(config.number("layer_norm_eps")))
    d = config.size("hidden_size").value
    times = whole.size("merger_times", default=1).value
    if times > MOST_MERGES:
        raise whole.error(f"merger_times is at most {MOST_MERGES}", at=whole.place("merger_times"))
    factor = hf.bare(front_end["patch_size"])[0] * 2**times
    if between:
        factor = 2 * factor
        if window.value != [2, 2]:
            raise config.error("window_kernel_size other than 2 x 2 is not run", at=window.place)
        encoder = _merged_between(source, config, encoder)
    else:
        whole.ignore("insert_layer_id")
    config.report_unread_keys()
    widths: list[ConfigValue[int] | int] = [*[d] * (times - 1), source.width]
    return {
        "model": encoder,
        "sizing": {"kind": "exact", "factor": factor} if times > 1 else sizing,
        "projector": [step for width in widths for step in _merged_by_four(4 * d, width)],
        "unread": {} if between else _window_merger(config, window.value),
    }


def _window_merger(config: Config, window: list[int]) -> dict[str, int]:
    """Parameters of the merger of windows that a class holds and does not run."""
    d, n = config.size("hidden_size").value, window[0] * window[1]
    joined, inner = d * n, config.size("intermediate_size").value * n
    return {
        "window_attention": 4 * (d + 1) * d,
        "window_norms": 2 * d + 2 * joined,
        "window_network": (joined + 1) * inner + (inner + 1) * d,
    }


def _merged_between(source: TowerSource, config: Config, encoder: Mapped) -> Mapped:
    """The encoder with a merger of 2 x 2 patches behind the layer that the file names."""
    behind = source.whole.count("insert_layer_id", default=6)
    group, depth = encoder["groups"][0], config.size("num_hidden_layers")
    if behind.value >= depth.value:
        what = f"insert_layer_id {behind} is no layer of {depth}, counted from 0"
        raise source.whole.error(what, at=behind.place)
    merger_of_windows = {
        "kind": "window_merger",
        "n_heads": config.size("num_attention_heads"),
        "d_ff": 4 * config.size("intermediate_size").value,
        "norm": encoder["norm"],
    }
    first = behind.value + 1
    groups = [
        {**group, "n_layers": depth.derive(first)},
        {"n_layers": 1, "layer": {"kind": "steps", "steps": [merger_of_windows]}},
        {**group, "n_layers": depth.derive(depth.value - first)},
    ]
    return {**encoder, "groups": groups[: 3 if depth.value > first else 2]}


def _slices(source: TowerSource, mode: str) -> Mapped:
    """An overview and slices, as MiniCPM-V's processor makes them."""
    patch = sides(source.whole.inner("vision_config", source.defaults("vision_config")), "patch_size").value
    processor = source.processor
    if not source.in_file:
        source.note("it is cut into at most 9 slices of the area of 448 x 448")
    elif processor.get("downsample_mode", default=mode) != mode:
        return {"kind": "unknown", "why": "its processor has another downsample_mode than the model"}
    elif [processor.size("patch_size", default=14).value] * 2 != patch:
        return {"kind": "unknown", "why": "its processor has another patch_size than the model"}
    cuts = processor.flag("slice_mode", default=True).value
    return {
        "kind": "slices",
        "side": processor.size("scale_resolution", default=448),
        "factor": patch[0] * (2 if mode == "4x" else 4),
        "most": processor.size("max_slice_nums", default=9) if cuts else 1,
    }


def _merged_by_four(hidden: int, width: ConfigValue[int] | int) -> list[Mapped]:
    """2 x 2 patches concatenated, a norm, two linear layers."""
    normed = {"kind": "norm", "norm": hf.layernorm(1e-6)}
    return [merged(2), normed, linear(hidden), {"kind": "activation"}, linear(width)]


def granite_docling(source: TowerSource) -> Mapped:
    """Granite Docling: tiles of a page; n x n patches are merged, also of three deeper layers (taps).

    A second, finer path merges n/2 x n/2 patches; the processor decides which path pages take.
    """
    whole, config = source.whole, source.part("vision_config")
    whole.only("density_router_hidden_size", None, default=None)
    whole.ignore("density_router_threshold", "density_router_loss_weight")
    width, out = config.size("hidden_size").value, config.size("out_hidden_size")
    if out.value != hf.bare(source.width) or out.value % 4:
        what = f"out_hidden_size {out} must be a multiple of 4, and as wide as the language model"
        raise config.error(what, at=out.place)
    norm, taps = hf.layernorm(config.number("layer_norm_eps")), taps_of(config)
    encoder = vit_like(config, patches(config, class_token=False) | {"resize": None}, norm=norm)
    taken, unused = _paths(source, config)
    hidden = width * unused * unused
    config.report_unread_keys()
    path = merger(out.value, out, "gelu", norm=hf.layernorm(1e-5), n=taken, first=False)
    more = {"taps": taps, "tap_projector": path} if taps else {}
    # weights of the path that pages do not take
    unread = {"path_projection": hidden * out.value} if unused else {}
    if unused and taps:
        # a norm (weight and bias), and two linear layers with biases
        merger_params = 2 * hidden + (hidden + 1) * out.value + (out.value + 1) * out.value
        unread["path_mergers"] = len(taps) * merger_params
    return {
        "model": encoder,
        "sizing": _page(source, encoder),
        "projector": _connector(taken, out),
        "unread": unread,
        **more,
    }


def _connector(n: int, out: ConfigValue[int]) -> list[Mapped]:
    """n x n patches through a matrix, plus sinusoidal positions, a norm, an activation and a matrix."""
    normed = {"kind": "norm", "norm": hf.layernorm(1e-5)}
    return [
        normed,
        merged(n),
        linear(out, bias=False),
        {"kind": "grid_tables", "frame": False},
        normed,
        {"kind": "activation", "activation": "gelu"},
        linear(out, bias=False),
        normed,
    ]


def _paths(source: TowerSource, config: Config) -> tuple[int, int]:
    """Patches in a row that become one: on the path that pages take, and on the other (0: there is none)."""
    n, fine = config.size("scale_factor"), config.flag("use_fine_route").value
    if fine and n.value == 1:
        raise config.error("scale_factor 1 has no finer path", at=n.place)
    taken, unused = n.value, n.value // 2 if fine else 0
    if source.processor.flag("fine_route", default=False).value:
        if not fine:
            raise config.error("pages take the fine path, which use_fine_route leaves out")
        taken, unused = unused, taken
    rows, columns = (
        side // patch
        for side, patch in zip(
            sides(config, "image_size").value, sides(config, "patch_size").value, strict=True
        )
    )
    if rows != columns or rows % taken:
        what = f"scale_factor {n} merges a square of patches, not {rows} x {columns}"
        raise config.error(what, at=n.place)
    return taken, unused


def _page(source: TowerSource, encoder: Mapped) -> Mapped:
    """Tiles of a page by the nearest shape, as its processor cuts them."""
    processor = source.processor
    tile = encoder["front_end"]["image_size"]
    if source.in_file:
        tile = source.size(tile)
    else:
        source.note(f"a page is cut into at most 32 tiles of {' x '.join(map(str, hf.bare(tile)))}")
    if processor.get("dense_max_patches", default=0):
        return {
            "kind": "unknown",
            "why": "its processor cuts wide pages into more tiles, by rules of its own",
        }
    if not processor.flag("crop_to_patches").value or processor.size("max_patches").value == 1:
        return {"kind": "fixed", "size": tile}
    counts = {"least": processor.size("min_patches"), "most": processor.size("max_patches")}
    return {"kind": "canvas", "tile": tile, **counts, "most_side": MOST_SIDE}


UNREAD_BY_HUNYUAN = """
    num_key_value_heads out_hidden_size img_max_token_num min_image_size max_vit_seq_len
"""
"""Keys that the class does not read."""


def hunyuan_vl(source: TowerSource) -> Mapped:
    """Hunyuan VL: a table of places that is resized, two convolutions, ends of rows, and of the image."""
    config = source.part("vision_config")
    config.ignore(*NO_FIGURE, *UNREAD_BY_HUNYUAN.split())
    config.only("temporal_patch_size", 1)
    config.only("interpolate_mode", "bilinear", "bicubic")
    width, patch = config.size("hidden_size").value, config.size("patch_size").value
    rows, out = config.size("max_image_size").value // patch, config.size("text_hidden_size")
    front_end = still_patches(config, position="learned", coordinates="order")
    front_end |= {"image_size": [rows * patch] * 2, "resize": config.value("interpolate_mode")}
    eps = config.number("rms_norm_eps")
    encoder = vit_like(config, front_end, norm=hf.layernorm(eps), final_norm=False)
    normed = {"kind": "norm", "norm": {"kind": "rmsnorm", "eps": eps}}
    steps = [
        normed,
        merged(config.size("spatial_merge_size").value),
        linear(2 * width),
        {"kind": "activation", "activation": hf.activation(config, "hidden_act")},
        linear(4 * width),
        {"kind": "row_ends"},
        linear(out),
        {"kind": "framed"},
        normed,
    ]
    config.report_unread_keys()
    return {
        "model": encoder,
        "sizing": multiples(source, config, 512 * 512, 2048 * 2048),
        "projector": steps,
        # the place of a class token, and a vector that would separate images
        "unread": {"class_place": width, "image_sep": out},
    }
