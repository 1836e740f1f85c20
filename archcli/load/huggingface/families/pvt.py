"""PVT: a pyramid with a table of positions in front of each stage, and a class token in the last."""

from __future__ import annotations

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Family, Mapped, Rule, Weights
from archcli.load.huggingface.whole.conv_like import (
    CLASSIFIER,
    convolution,
    pyramid_ratios,
    pyramid_stages,
    size_list,
    stem,
    steps_layer,
)
from archcli.load.huggingface.whole.vit_like import UNREAD, flat, labels, qkv_biases


def _places(config: Config) -> list[int]:
    """How many places of each stage have vectors: those of an image that is halved before each."""
    side, numbers = config.size("image_size"), []
    for i, stage in enumerate(pyramid_stages(config)):
        rows = (side.value if not i else side.value // (1 << (i + 1))) // stage.patch
        if rows < 1:
            what = f"image_size {side} leaves no place in stage {i + 1}"
            raise config.error(what, "state a larger one", side.place)
        numbers.append(rows * rows)
    return numbers


def _layers(config: Config, norm: Mapped) -> list[Mapped]:
    """The layer of each stage; the last attends to all tokens, as a class token is none of a grid."""
    stages = pyramid_stages(config)
    number = len(stages)
    heads, reductions = (
        size_list(config, name, number) for name in ("num_attention_heads", "sequence_reduction_ratios")
    )
    if reductions[-1] > 1:
        what = f"sequence_reduction_ratios: {reductions[-1]} in the last stage is not supported"
        hint = "the class does not run: with its class token the last stage is no grid"
        raise config.error(what, hint, config.place("sequence_reduction_ratios"))
    layers, function = [], hf.activation(config, "hidden_act")
    for i, ratio in enumerate(pyramid_ratios(config, number)):
        width = stages[i].width
        if width % heads[i]:
            what = f"num_attention_heads {heads[i]} does not divide the width {width} of its stage"
            raise config.error(what, at=config.place("num_attention_heads"))
        attention = {
            "kind": "reduced_grid",
            "n_heads": heads[i],
            "head_dim": width // heads[i],
            **({"reduction": reductions[i]} if reductions[i] > 1 else {}),
            "bias": qkv_biases(config),
            "causal": False,
        }
        d_ff = int(width * ratio)
        if d_ff < 1:
            raise config.error("mlp_ratios leaves no width", at=config.place("mlp_ratios"))
        ffn = {"kind": "mlp", "d_ff": d_ff, "activation": function, "bias": True}
        layers.append({"kind": "pre_norm", "norm": norm, "attention": attention, "ffn": ffn})
    return layers


def _pvt(config: Config) -> Mapped:
    """PVT: the base model, and its classifier of the class token."""
    config.only_architectures("PvtModel", f"Pvt{CLASSIFIER}")
    config.ignore(*UNREAD)
    norm, stages, places = (
        hf.layernorm(config.number("layer_norm_eps")),
        pyramid_stages(config),
        _places(config),
    )
    parts, last = [], len(stages) - 1
    for i, (stage, layer) in enumerate(zip(stages, _layers(config, norm), strict=True)):
        # the class's kernels are as large as its strides, and its strides as its patches
        step = convolution(stage.width, stage.stride, stride=stage.patch, bias=True, norm=norm)
        steps: list[Mapped] = [{**step, "padding": 0}]
        if i < last:
            steps.append({"kind": "positions", "number": places[i]})
        if i:
            parts.append({"n_layers": 1, "layer": steps_layer(steps)})
        else:
            first = steps
        if i == last:
            parts.append({"n_layers": 1, "layer": {"kind": "grid_sequence", "number": places[i]}})
        parts.append({"n_layers": stage.depth, "layer": layer})
    is_classifier = config.architecture.endswith(CLASSIFIER)
    return {
        "kind": "media_encoder",
        "d_model": stages[0].width,
        "norm": norm,
        "front_end": stem(config, first),
        **({"pooling": {"kind": "first"}, **labels(config)} if is_classifier else {}),
        "groups": parts,
    }


LAYER = {
    "layer_norm_1": "attention_norm",
    "layer_norm_2": "ffn_norm",
    "attention.self.query": "attention.q_proj",
    "attention.self.key": "attention.k_proj",
    "attention.self.value": "attention.v_proj",
    "attention.self.sequence_reduction": "attention.reduce",
    "attention.self.layer_norm": "attention.reduce_norm",
    "attention.output.dense": "attention.o_proj",
    "mlp.dense1": "ffn.up_proj",
    "mlp.dense2": "ffn.down_proj",
}


def _names(config: Config) -> Weights:
    """Names of the tensors."""
    base = "[pvt.]encoder"
    names: dict[str, Rule] = {f"{base}.layer_norm.*": "final_norm.*", "classifier.*": "classifier.*"}
    stages, number = pyramid_stages(config), 0
    for i, stage in enumerate(stages):
        theirs, ours = f"{base}.patch_embeddings.{i}", f"layers.{number}" if i else "front_end"
        number += 1 if i else 0
        table = f"{ours}.steps.1.table"
        if i == len(stages) - 1:
            table = f"layers.{number}.positions"
            names[f"{theirs}.cls_token"] = flat(f"layers.{number}.class_token.weight", 2)
            number += 1
        names[f"{theirs}.position_embeddings"] = flat(f"{table}.weight")
        names[f"{theirs}.projection.*"] = f"{ours}.steps.0.conv.*"
        names[f"{theirs}.layer_norm.*"] = f"{ours}.steps.0.norm.*"
        for j in range(stage.depth):
            layer = f"{base}.block.{i}.{j}"
            names |= {f"{layer}.{name}.*": f"layers.{number + j}.{part}.*" for name, part in LAYER.items()}
        number += stage.depth
    return names


FAMILIES = {
    "pvt": Family("PVT: PvtConfig, PvtModel and its classifier.", _pvt, _names),
}
