"""Pyramids of layers on ever coarser grids: SegFormer, GLPN, PVT v2 and PoolFormer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Family, Mapped, Parts, Rule, Weights
from archcli.load.huggingface.whole.conv_like import (
    CLASSIFIER,
    convolution,
    pyramid_ratios,
    pyramid_stages,
    size_list,
    stem,
    steps_layer,
)
from archcli.load.huggingface.whole.vit_like import UNREAD, labels

PLAIN_EPS = 1e-5
"""nn.LayerNorm's and nn.GroupNorm's own eps, where no key states one."""


def _attending(config: Config, norm: Mapped, bias: bool | list[str]) -> list[Mapped]:
    """The layer of each stage: attention over a coarser grid, and a convolved network."""
    stages = pyramid_stages(config)
    number = len(stages)
    heads, reductions = (size_list(config, name, number) for name in ("num_attention_heads", "sr_ratios"))
    function, layers = hf.activation(config, "hidden_act"), []
    for stage, n_heads, reduction, ratio in zip(
        stages, heads, reductions, pyramid_ratios(config, number), strict=True
    ):
        if stage.width % n_heads:
            what = f"num_attention_heads {n_heads} does not divide the width {stage.width} of its stage"
            raise config.error(what, at=config.place("num_attention_heads"))
        attention = {
            "kind": "reduced_grid",
            "n_heads": n_heads,
            "head_dim": stage.width // n_heads,
            **({"reduction": reduction} if reduction > 1 else {}),
            "bias": bias,
            "causal": False,
        }
        ffn = {"kind": "convolved_grid", "d_ff": int(stage.width * ratio), "activation": function}
        layers.append({"kind": "pre_norm", "norm": norm, "attention": attention, "ffn": ffn})
    return layers


def _pyramid(config: Config, norm: Mapped, layers: list[Mapped], *, normed: bool, **more: Any) -> Mapped:
    """Stages of a layer each, with a convolution in front; `normed` stages also end in a norm."""
    config.ignore(*UNREAD)
    stages, groups = pyramid_stages(config), []
    firsts = more.pop("firsts")
    for i, (stage, layer) in enumerate(zip(stages, layers, strict=True)):
        if i:
            before = [{"kind": "norm", "norm": norm}] if normed else []
            groups.append({"n_layers": 1, "layer": steps_layer([*before, firsts[i]])})
        groups.append({"n_layers": stage.depth, "layer": layer})
    return {
        "kind": "media_encoder",
        "d_model": stages[0].width,
        "norm": norm,
        "front_end": stem(config, [firsts[0]]),
        **more,
        "groups": groups,
    }


def _overlapping(config: Config, norm: Mapped) -> list[Mapped]:
    """Convolutions whose kernels overlap, each with a norm."""
    return [
        convolution(stage.width, stage.patch, stride=stage.stride, bias=True, norm=norm)
        for stage in pyramid_stages(config)
    ]


def _mean(config: Config) -> Mapped:
    """A classifier of the mean of all places, where the file's class has one."""
    if not config.architecture.endswith(CLASSIFIER):
        return {}
    return {"pooling": {"kind": "mean"}, **labels(config)}


def _segformer(config: Config, prefix: str = "Segformer") -> Mapped:
    """SegFormer without its decoder: the norms have their classes' own eps."""
    config.only_architectures(f"{prefix}Model", f"{prefix}{CLASSIFIER}")
    config.ignore(
        "layer_norm_eps",
        "decoder_hidden_size",
        "semantic_loss_ignore_index",
        "reshape_last_stage",
        "classifier_dropout_prob",
        "max_depth",
        "head_in_index",
    )
    norm = hf.layernorm(PLAIN_EPS)
    layers = _attending(config, norm, bias=True)
    return _pyramid(config, norm, layers, normed=True, firsts=_overlapping(config, norm), **_mean(config))


def _glpn(config: Config) -> Mapped:
    """GLPN without its decoder: SegFormer's encoder."""
    config.only_architectures("GLPNModel")
    return _segformer(config, "GLPN")


def _pvt_v2(config: Config) -> Mapped:
    """PVT v2: as SegFormer, with the eps of a key."""
    config.only_architectures("PvtV2Model", f"PvtV2{CLASSIFIER}")
    config.only("linear_attention", False)
    norm = hf.layernorm(config.number("layer_norm_eps"))
    bias = True if config.flag("qkv_bias").value else ["o"]
    layers = _attending(config, norm, bias)
    return _pyramid(config, norm, layers, normed=True, firsts=_overlapping(config, norm), **_mean(config))


def _poolformer(config: Config) -> Mapped:
    """PoolFormer: a mean of the places around in place of attention."""
    config.only_architectures("PoolFormerModel", f"PoolFormer{CLASSIFIER}")
    config.ignore("patch_size", "stride")
    norm, side = {"kind": "groupnorm", "eps": PLAIN_EPS}, config.size("pool_size")
    stages = pyramid_stages(config)
    if side.value % 2 == 0:
        raise config.error(f"pool_size {side} is not supported", "an even one has no middle", side.place)
    function, ratio = hf.activation(config, "hidden_act"), config.number("mlp_ratio").value
    scale = config.number("layer_scale_init_value")
    scaled = config.flag("use_layer_scale").value
    more = {"layer_scale": scale} if scaled and scale.value > 0 else {}
    if scaled and not more:
        what = "layer_scale_init_value 0 with use_layer_scale is not supported"
        raise config.error(what, "state a number above 0", scale.place)
    layers = [
        {
            "kind": "pre_norm",
            "mixer": {"kind": "grid_pool", "side": side},
            "ffn": {"kind": "mlp", "d_ff": int(stage.width * ratio), "activation": function, "bias": True},
            **more,
        }
        for stage in stages
    ]
    paddings = _paddings(config, len(stages))
    firsts = [
        convolution(stage.width, stage.patch, stride=stage.stride, bias=True, padding=padding)
        for stage, padding in zip(stages, paddings, strict=True)
    ]
    whole = _pyramid(config, norm, layers, normed=False, firsts=firsts, final_norm=False, **_mean(config))
    if config.architecture.endswith(CLASSIFIER):
        whole["groups"].append({"n_layers": 1, "layer": steps_layer([{"kind": "norm", "norm": norm}])})
    return whole


def _paddings(config: Config, stages: int) -> list[int]:
    """Zeros around the grid in front of each stage."""
    entry = config.value("padding")
    given = entry.value
    if (
        not isinstance(given, list | tuple)
        or len(given) != stages
        or not all(isinstance(n, int) and n >= 0 for n in given)
    ):
        what = f"padding must be a list with a whole number for each stage, not {hf.short_repr(given)}"
        raise config.error(what, at=entry.place)
    return [*given]


def _places(config: Config) -> Iterator[tuple[int, int | None, str]]:
    """(stage, number there, ours) of each layer; None is the one in front of a stage."""
    first = 0
    for number, stage in enumerate(pyramid_stages(config)):
        if number:
            yield number, None, f"layers.{first - 1}"
        yield from ((number, i, f"layers.{first + i}") for i in range(stage.depth))
        first += stage.depth + 1


def _ends(number: int, last: int, patches: str, norm: str, ours: str) -> dict[str, Rule]:
    """Names of the convolution in front of a stage, and of the norm behind it."""
    step = "front_end.steps.0" if not number else f"{ours}.steps.1"
    names: dict[str, Rule] = {
        f"{patches}.proj.*": f"{step}.conv.*",
        f"{patches}.layer_norm.*": f"{step}.norm.*",
    }
    if number == last:
        names[f"{norm}.*"] = "final_norm.*"
    return names


def _attention(parts: dict[str, str], theirs: str, ours: str) -> dict[str, Rule]:
    """Names of a layer's tensors, `parts` being ours for theirs."""
    return {f"{theirs}.{name}.*": f"{ours}.{part}.*" for name, part in parts.items()}


COMMON = {"mlp.dwconv.dwconv": "ffn.conv"}
MODERN = COMMON | {
    **{f"attention.{n}_proj": f"attention.{n}_proj" for n in "qkvo"},
    "attention.sequence_reduction.sequence_reduction": "attention.reduce",
    "attention.sequence_reduction.layer_norm": "attention.reduce_norm",
    "layernorm_before": "attention_norm",
    "layernorm_after": "ffn_norm",
    "mlp.fc1": "ffn.up_proj",
    "mlp.fc2": "ffn.down_proj",
}
DENSE = COMMON | {
    "layer_norm_1": "attention_norm",
    "layer_norm_2": "ffn_norm",
    "mlp.dense1": "ffn.up_proj",
    "mlp.dense2": "ffn.down_proj",
}
QKV = {"query": "q_proj", "key": "k_proj", "value": "v_proj"}
STORED = DENSE | {
    **{f"attention.self.{theirs}": f"attention.{ours}" for theirs, ours in QKV.items()},
    "attention.self.sr": "attention.reduce",
    "attention.self.layer_norm": "attention.reduce_norm",
    "attention.output.dense": "attention.o_proj",
}
PVT = DENSE | {
    **{f"attention.{theirs}": f"attention.{ours}" for theirs, ours in QKV.items()},
    "attention.spatial_reduction": "attention.reduce",
    "attention.layer_norm": "attention.reduce_norm",
    "attention.proj": "attention.o_proj",
}


def _names(config: Config, forms: dict[str, tuple[str, str, str, dict[str, str]]]) -> Weights:
    """Names by each of several forms: those of patches, of a stage's norm, of a layer, and of its parts."""
    names: dict[str, Rule] = {"classifier.*": "classifier.*"}
    last = len(pyramid_stages(config)) - 1
    for patches, norm, layer, parts in forms.values():
        names |= _ends(0, last, patches.format(0), norm.format(0), "")
        for stage, i, ours in _places(config):
            if i is None:
                names |= _ends(stage, last, patches.format(stage), norm.format(stage), ours)
                names[f"{norm.format(stage - 1)}.*"] = f"{ours}.steps.0.norm.*"
            else:
                names |= _attention(parts, layer.format(stage, i), ours)
    return names


def _segformer_names(config: Config) -> Weights:
    """Names of SegFormer's and GLPN's tensors, in memory and as stored."""
    base = "[segformer.]"
    return _names(
        config,
        {
            "modern": (
                f"{base}stages.{{}}.patch_embeddings",
                f"{base}stages.{{}}.layer_norm",
                f"{base}stages.{{}}.blocks.{{}}",
                MODERN,
            ),
            "stored": (
                f"{base}encoder.patch_embeddings.{{}}",
                f"{base}encoder.layer_norm.{{}}",
                f"{base}encoder.block.{{}}.{{}}",
                STORED,
            ),
        },
    )


def _pvt_names(config: Config) -> Weights:
    """Names of PVT v2's tensors."""
    stage = "[pvt_v2.]encoder.layers.{}"
    form = (f"{stage}.patch_embedding", f"{stage}.layer_norm", f"{stage}.blocks.{{}}", PVT)
    return _names(config, {"memory": form})


def _pool_names(config: Config) -> Weights:
    """Names of PoolFormer's tensors: its matrices are stored as kernels of one place."""
    base = "[poolformer.]encoder"
    names: dict[str, Rule] = {
        f"{base}.patch_embeddings.0.projection.*": "front_end.steps.0.conv.*",
        "classifier.*": "classifier.*",
    }
    end = 0
    for stage, i, ours in _places(config):
        end += 1
        if i is None:
            names[f"{base}.patch_embeddings.{stage}.projection.*"] = f"{ours}.steps.0.conv.*"
            continue
        theirs = f"{base}.block.{stage}.{i}"
        names |= {
            f"{theirs}.layer_scale_1": f"{ours}.mixer_layer_scale.scale",
            f"{theirs}.layer_scale_2": f"{ours}.ffn_layer_scale.scale",
            f"{theirs}.before_norm.*": f"{ours}.mixer_norm.*",
            f"{theirs}.after_norm.*": f"{ours}.ffn_norm.*",
        }
        for their_conv, matrix in (("conv1", "up_proj"), ("conv2", "down_proj")):
            names[f"{theirs}.output.{their_conv}.weight"] = Parts((f"{ours}.ffn.{matrix}.weight",), tapped=2)
            names[f"{theirs}.output.{their_conv}.bias"] = f"{ours}.ffn.{matrix}.bias"
    return {**names, "norm.*": f"layers.{end}.steps.0.norm.*"}


FAMILIES = {
    "segformer": Family(
        "SegFormer's encoder: SegformerConfig, SegformerModel, its classifier.", _segformer, _segformer_names
    ),
    "glpn": Family("GLPN's encoder: GLPNConfig, GLPNModel.", _glpn, _segformer_names),
    "pvt_v2": Family("PVT v2: PvtV2Config, PvtV2Model and its classifier.", _pvt_v2, _pvt_names),
    "poolformer": Family(
        "PoolFormer: PoolFormerConfig, PoolFormerModel and its classifier.", _poolformer, _pool_names
    ),
}
