"""Swin: layers that attend within windows of a grid, which becomes coarser and wider."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from archcli.load import huggingface as hf
from archcli.load.huggingface import Auxiliary, Config, Family, Mapped, Parts, Rule, Weights
from archcli.load.huggingface.whole.vit_like import UNREAD, labels, patches, sides

PLAIN_EPS = 1e-5
"""nn.LayerNorm's own eps: that of the norms behind patches and merged places, which no key states."""
BEHIND = "norm_after"
"""The kind of layer whose norms stand behind its sublayers."""
NUMBERS = Auxiliary("numbers of differences, which are computed")


def _depths(config: Config, name: str, stages: int | None = None) -> list[int]:
    """A list with a size for each stage."""
    entry = config.value(name)
    if (
        not isinstance(entry.value, list | tuple)
        or not entry.value
        or len(entry.value) != (stages or len(entry.value))
    ):
        what = f"{name} must be a list with an entry for each stage, not {hf.short_repr(entry.value)}"
        raise config.error(what, at=entry.place)
    config.sizes.add(name)
    return [config.as_size(name, entry.derive(size)).value for size in entry.value]


def _swin(config: Config) -> Mapped:
    """Swin: every other layer's windows are moved by half their side."""
    return _stages(config, "Swin", _layer)


def _stages(config: Config, prefix: str, layer: Callable[..., Mapped], **more: Any) -> Mapped:
    """Stages of layers, the windows of every other one moved, and between them merged places."""
    config.only_architectures(f"{prefix}Model", f"{prefix}ForImageClassification")
    # num_layers is the number of depths, hidden_size the width of the last stage
    config.ignore(*UNREAD, "path_norm", "num_layers", "hidden_size")
    config.only("use_absolute_embeddings", False)
    depths = _depths(config, "depths")
    heads, width = _depths(config, "num_heads", len(depths)), config.size("embed_dim")
    plain, groups = hf.layernorm(PLAIN_EPS), []
    for i, (depth, n_heads) in enumerate(zip(depths, heads, strict=True)):
        wide = width.value << i
        if wide % n_heads:
            what = f"num_heads {n_heads} does not divide the width {wide} of its stage"
            raise config.error(what, at=config.place("num_heads"))
        layers = [layer(config, i, n_heads, shifted=shifted) for shifted in (False, True)]
        alternate = depth > 1 and layers[0] != layers[1]
        groups.append({"n_layers": depth, **({"pattern": layers} if alternate else {"layer": layers[0]})})
        if i + 1 < len(depths):
            # what is normed behind sublayers is normed behind a merger
            last = {"norm_last": True} if layers[0]["kind"] == BEHIND else {}
            merging = {"kind": "patch_merging", "out": 2 * wide, "norm": plain, **last}
            groups.append({"n_layers": 1, "layer": merging})
    front_end = patches(config, class_token=False, position="none", norm=plain, keeps_grid=True, whole=True)
    is_classifier = config.architecture.endswith("Classification")
    return {
        "kind": "media_encoder",
        "d_model": width,
        "norm": hf.layernorm(config.number("layer_norm_eps")),
        "front_end": front_end,
        "pooling": {"kind": "mean"},
        **(labels(config) if is_classifier else {}),
        **more,
        "groups": groups,
    }


def _donut(config: Config) -> Mapped:
    """Donut's encoder of pages: Swin without a final norm."""
    return _stages(config, "DonutSwin", _layer, final_norm=False)


def _swinv2(config: Config) -> Mapped:
    """Swin V2: cosines, biases of a network, norms behind sublayers; windows go by the usual image."""
    return _stages(config, "Swinv2", _cosine_layer)


def _cosine_layer(config: Config, stage: int, n_heads: int, *, shifted: bool) -> Mapped:
    """A layer of a stage; windows are no larger than its grid, and those of a whole grid stay."""
    image, patch = sides(config, "image_size").value, sides(config, "patch_size").value
    rows = [image[i] // patch[i] // (1 << stage) for i in (0, 1)]
    window, width = config.size("window_size").value, config.size("embed_dim").value << stage
    if min(rows) < 1 or (rows[0] != rows[1] and min(rows) < window):
        what = "image_size leaves a stage a grid that is no square of windows"
        raise config.error(what, "state a larger one", config.place("image_size"))
    moves = shifted and window > 1 and rows[0] > window
    sizes = config.value("pretrained_window_sizes").value
    if not isinstance(sizes, list | tuple) or len(sizes) <= stage or sizes[stage] == 1:
        what = f"pretrained_window_sizes {hf.short_repr(sizes)} is not supported"
        raise config.error(
            what, "a size other than 1 for each stage", config.place("pretrained_window_sizes")
        )
    attention: dict[str, Any] = {
        "kind": "cosine_window",
        "n_heads": n_heads,
        "head_dim": width // n_heads,
        "side": min(rows[0], window),
        "bias": ["q", "v", "o"] if config.flag("qkv_bias").value else ["o"],
        "causal": False,
        **({"trained_side": sizes[stage]} if sizes[stage] else {}),
        **({"shifted": True} if moves else {}),
    }
    d_ff = int(config.number("mlp_ratio").value * width)
    ffn = {"kind": "mlp", "d_ff": d_ff, "activation": hf.activation(config, "hidden_act"), "bias": True}
    return {"kind": BEHIND, "attention": attention, "ffn": ffn}


def _layer(config: Config, stage: int, n_heads: int, *, shifted: bool) -> Mapped:
    """A layer of a stage, with the windows in their place or moved."""
    width = config.size("embed_dim").value << stage
    attention: dict[str, Any] = {
        "kind": "grid_window",
        "n_heads": n_heads,
        "head_dim": width // n_heads,
        "side": config.size("window_size"),
        "bias": True if config.flag("qkv_bias").value else ["o"],
        "causal": False,
    }
    d_ff = int(config.number("mlp_ratio").value * width)
    ffn = {"kind": "mlp", "d_ff": d_ff, "activation": hf.activation(config, "hidden_act"), "bias": True}
    moved = {"shifted": True} if shifted else {}
    return {"kind": "pre_norm", "attention": {**attention, **moved}, "ffn": ffn}


MODERN = {f"attention.{n}_proj.*": f"attention.{n}_proj.*" for n in "qkvo"} | {
    "attention.relative_position_bias.relative_position_bias_table": "attention.score_bias.weight",
    "mlp.fc1.*": "ffn.up_proj.*",
    "mlp.fc2.*": "ffn.down_proj.*",
    "layernorm_before.*": "attention_norm.*",
    "layernorm_after.*": "ffn_norm.*",
}
QKV = {"query": "q", "key": "k", "value": "v"}
DENSE = {
    **{f"attention.self.{theirs}.*": f"attention.{ours}_proj.*" for theirs, ours in QKV.items()},
    "attention.output.dense.*": "attention.o_proj.*",
    "intermediate.dense.*": "ffn.up_proj.*",
    "output.dense.*": "ffn.down_proj.*",
}
STORED = {**DENSE, "attention.self.relative_position_bias_table": "attention.score_bias.weight"}
"""Names in files that older transformers wrote."""


COSINE = {
    **DENSE,
    "attention.self.continuous_position_bias_mlp.0.*": "attention.bias_up.*",
    "attention.self.continuous_position_bias_mlp.2.*": "attention.bias_down.*",
    "layernorm_before.*": "attention_norm.*",
    "layernorm_after.*": "ffn_norm.*",
}


def _in_layer(theirs: str, ours: str) -> dict[str, Rule]:
    """Names of the tensors of a layer."""
    names: dict[str, Rule] = {
        f"{theirs}.{name}": f"{ours}.{rule}" for name, rule in (MODERN | STORED).items()
    }
    return {**names, f"{theirs}.attention.self.relative_position_index": NUMBERS}


def _in_cosine_layer(theirs: str, ours: str) -> dict[str, Rule]:
    """Names of the tensors of a layer of Swin V2, whose scale is stored with two axes more."""
    names: dict[str, Rule] = {f"{theirs}.{name}": f"{ours}.{rule}" for name, rule in COSINE.items()}
    computed = ("relative_coords_table", "relative_position_index")
    return {
        **names,
        f"{theirs}.attention.self.logit_scale": Parts((f"{ours}.attention.temperature.scale",), tapped=2),
        **{f"{theirs}.attention.self.{table}": NUMBERS for table in computed},
    }


def _weights(
    config: Config, base: str = "[swin.]", of_layer: Callable[[str, str], dict[str, Rule]] = _in_layer
) -> Weights:
    """Names of the tensors: a layer of ours that merges places follows each stage but the last."""
    first = 0
    names: dict[str, Rule] = {}
    for stage, depth in enumerate(_depths(config, "depths")):
        theirs = f"{base}encoder.layers.{stage}"
        for i in range(depth):
            names |= of_layer(f"{theirs}.blocks.{i}", f"layers.{first + i}")
        names[f"{theirs}.downsample.norm.*"] = f"layers.{first + depth}.norm.*"
        names[f"{theirs}.downsample.reduction.weight"] = f"layers.{first + depth}.reduce.weight"
        first += depth + 1
    return {
        f"{base}embeddings.patch_embeddings.projection.*": "front_end.patches.*",
        f"{base}embeddings.norm.*": "front_end.norm.*",
        **names,
        f"{base}layernorm.*": "final_norm.*",
        "classifier.*": "classifier.*",
    }


def _donut_weights(config: Config) -> Weights:
    """Names of Donut's tensors."""
    return _weights(config, "[donut.]")


def _swinv2_weights(config: Config) -> Weights:
    """Names of Swin V2's tensors."""
    return _weights(config, "[swinv2.]", _in_cosine_layer)


FAMILIES = {
    "swinv2": Family(
        "Swin V2: Swinv2Config, Swinv2Model, Swinv2ForImageClassification.", _swinv2, _swinv2_weights
    ),
    "donut-swin": Family(
        "Donut's encoder of pages: DonutSwinConfig, DonutSwinModel, its classifier.", _donut, _donut_weights
    ),
    "swin": Family("Swin: SwinConfig, SwinModel, SwinForImageClassification.", _swin, _weights),
}
