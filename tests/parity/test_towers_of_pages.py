"""Towers that read pages give the vectors of their classes in transformers on equal weights.

Of MiniCPM-V a merger stands between layers, and positions are the nearest of a table; Granite Docling takes
the coarse or the fine path of its projector, with vectors of three layers beside; HunyuanOCR marks the ends
of rows and of the image.
"""

import json
import re

import pytest
import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

import archcli
from archcli.load.source import load, load_given
from archcli.wings.running.runtime.model.build import build_model

TOLERANCE = 1e-5
TEXT = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 101,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
VISION = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "image_size": 32,
}
MINICPM = {
    "model_type": "minicpmv4_6",
    "architectures": ["MiniCPMV4_6ForConditionalGeneration"],
    "insert_layer_id": 1,
    "merger_times": 1,
    "vision_config": {**VISION, "patch_size": 8},
    "text_config": {**TEXT, "model_type": "qwen3_5_text", "head_dim": 8},
}
GRANITE = {
    "model_type": "granite_docling",
    "architectures": ["GraniteDoclingForConditionalGeneration"],
    "image_token_id": 100,
    "pad_token_id": 0,
    "vision_config": {
        **VISION,
        "patch_size": 4,
        "out_hidden_size": 32,
        "deepstack_visual_indexes": [0, 2, 3],
    },
    "text_config": TEXT,
}
HUNYUAN = {
    "model_type": "hunyuan_vl",
    "architectures": ["HunYuanVLForConditionalGeneration"],
    "vision_config": {
        **{key: value for key, value in VISION.items() if key != "image_size"},
        "patch_size": 4,
        "max_image_size": 32,
        "text_hidden_size": 32,
        "rms_norm_eps": 0.01,
    },
    "text_config": {
        **TEXT,
        "head_dim": 8,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 1, 1]},
    },
}
MERGER = {
    "before_rms": "projector.0.norm",
    "proj_conv": "projector.2.linear",
    "proj_out": "projector.4.linear",
    "image_newline": "projector.5.end.weight",
    "mlp": "projector.6.linear",
    "image_begin": "projector.7.begin.weight",
    "image_end": "projector.7.end.weight",
    "after_rms": "projector.8.norm",
}
LAYER = {
    "layer_norm1": "attention_norm",
    "layer_norm2": "ffn_norm",
    r"self_attn\.out_proj": "attention.o_proj",
    "self_attn": "attention",
    r"mlp\.fc1": "ffn.up_proj",
    r"mlp\.fc2": "ffn.down_proj",
}
TOWER = {
    r"embeddings\.patch_embedding": "tower.front_end.patches",
    r"embeddings\.position_embedding": "tower.front_end.positions",
    "post_layernorm": "tower.final_norm",
}
OF_MERGER = {
    "layer_norm1": "norm",
    r"self_attn\.out_proj": "o_proj",
    r"self_attn\.": "",
    "pre_norm": "joined_norm",
    "linear_1": "up_proj",
    "linear_2": "down_proj",
}
PERCEPTRON = {"pre_norm": "1.norm", "layer_norm": "1.norm", "linear_1": "2.linear", "linear_2": "4.linear"}
CONNECTOR = {
    "ln_in": "projector.0.norm",
    "projection": "projector.2.linear",
    "ln_mid": "projector.4.norm",
    "mlp_fc2": "projector.6.linear",
    "ln_out": "projector.7.norm",
}


def renamed(key, words):
    for theirs, ours in words.items():
        key = re.sub(theirs, ours, key, count=1)
    return key


def ours(key, behind, taps=(), path="coarse"):
    """Our name of their tensor; None of one that no image reads. `behind` is the layer before the merger."""
    _, _, key = key.partition(".")
    if key.startswith("encoder.layers."):
        _, _, number, rest = key.split(".", 3)
        return f"tower.layers.{int(number) + (int(number) > behind)}.{renamed(rest, LAYER)}"
    if key.startswith("vit_merger."):
        return f"tower.layers.{behind + 1}.projector.0.{renamed(key.partition('.')[2], OF_MERGER)}"
    if key.startswith("mlp.0."):
        return f"projector.{renamed(key[len('mlp.0.') :], PERCEPTRON)}"
    if key.startswith("connector."):
        return of_connector(key.partition(".")[2], taps, path)
    return renamed(key, TOWER)


def of_connector(key, taps, path):
    """Our name of a tensor of Granite Docling's projector; None of one of the other path."""
    part, _, rest = key.partition(".")
    if part in ("coarse", "fine"):
        if part != path:
            return None
        key = rest
    if key.startswith("deepstack_mergers."):
        _, number, rest = key.split(".", 2)
        return f"tap{taps[int(number)]}.{renamed(rest, PERCEPTRON)}"
    return renamed(key, CONNECTOR)


@torch.inference_mode(mode=False)
def theirs(config):
    """Their class with every tensor random."""
    built = transformers.AutoConfig.for_model(**config)
    model = getattr(transformers, config["architectures"][0])
    model = model._from_config(built, attn_implementation="eager").eval()
    seed = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.add_(0.3 * torch.randn(tensor.shape, generator=seed))
    return model.model


def with_weights(tower, model, **words):
    """Our tower with the tensors of their class, each of which has a place."""
    built = build_model(tower).eval()
    tensors = {
        key: value for key, value in model.state_dict().items() if not key.startswith(("lang", "text"))
    }
    named = {ours(key, **words): value for key, value in tensors.items() if "position_ids" not in key}
    named.pop(None, None)
    missing = built.load_state_dict(named, strict=False)
    assert missing.unexpected_keys == []
    assert all(key.startswith("path_") for key in missing.missing_keys)
    return built


def side_by_side(image, patch):
    """Pixels [1, C, H, W] as MiniCPM-V's class reads them: its patches in a row."""
    rows = torch.nn.functional.unfold(image, patch, stride=patch)
    return rows.view(1, 3, patch, patch, -1).transpose(3, 4).flatten(3)


def image(height, width):
    return torch.rand(1, 3, height, width, generator=torch.Generator().manual_seed(3))


def differ(a, b):
    return (a - b).abs().max().item()


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("behind", [0, 1, 3])
def test_a_merger_between_layers_is_that_of_minicpm_v(behind):
    config = {**MINICPM, "insert_layer_id": behind}
    model, tower = theirs(config), load_given(config).model.towers[0]
    pixels = image(32, 64)
    with torch.no_grad():
        wanted = model.get_image_features(side_by_side(pixels, 8), target_sizes=torch.tensor([[4, 8]]))
        found = with_weights(tower, model, behind=behind)(pixels)
    assert found.shape == (1, 2, 32)
    assert differ(found[0], wanted.pooler_output[0]) < TOLERANCE


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("path", ["coarse", "fine"])
def test_both_paths_are_those_of_granite_docling(path, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(GRANITE))
    settings = {"fine_route": path == "fine", "size": {"height": 32, "width": 32}}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(settings))
    model, tower = theirs(GRANITE), load(str(tmp_path / "config.json")).model.towers[0]
    pixels = image(32, 32)
    with torch.no_grad():
        wanted = model.vision_model(pixels, fine=path == "fine")
        taps = GRANITE["vision_config"]["deepstack_visual_indexes"]
        found, *deep = with_weights(tower, model, behind=9, taps=taps, path=path)(pixels)
    assert found.shape == (1, {"coarse": 4, "fine": 16}[path], 32)
    assert differ(found[0], wanted.pooler_output) < TOLERANCE
    assert len(deep) == len(wanted.deepstack_features) == len(taps)
    assert max(differ(a[0], b) for a, b in zip(deep, wanted.deepstack_features, strict=True)) < TOLERANCE


def of_hunyuan(state):
    """Their tensors by our names: a convolution is a matrix of what it merges, row by row."""
    named = {}
    for whole, tensor in state.items():
        _, _, key = whole.partition(".")
        if key.startswith("layers."):
            _, number, rest = key.split(".", 2)
            named[f"tower.layers.{number}.{renamed(rest, LAYER)}"] = tensor
        elif key == "embeddings.position_embedding.weight":
            named["tower.front_end.positions.weight"] = tensor[1:]
        elif key.startswith("patch_merger.") and not key.endswith("image_sep"):
            flat = tensor.permute(0, 2, 3, 1).flatten(1) if tensor.dim() > 2 else tensor
            named[renamed(key.removeprefix("patch_merger."), MERGER)] = flat
        elif key.startswith("embeddings."):
            named[renamed(key, TOWER)] = tensor
    return named


@pytest.mark.parametrize("size", [(32, 32), (16, 40)])
def test_ends_of_rows_and_of_the_image_are_those_of_hunyuan(size, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(HUNYUAN))
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"min_pixels": 64, "patch_size": 4}))
    model, whole = theirs(HUNYUAN), load(str(tmp_path / "config.json")).model
    built, (height, width) = build_model(whole.towers[0]).eval(), size
    seen = {key: value for key, value in model.state_dict().items() if not key.startswith("lang")}
    missing = built.load_state_dict(of_hunyuan(seen), strict=False)
    assert missing.unexpected_keys == []
    # the place of a class token, and a vector that separates images, are in no pass of theirs either
    assert missing.missing_keys == ["class_place.weight", "image_sep.weight"]
    assert sum(p.numel() for p in built.parameters()) == sum(tensor.numel() for tensor in seen.values())
    pixels, grid = image(height, width), torch.tensor([[1, height // 4, width // 4]])
    patches = torch.nn.functional.unfold(pixels, 4, stride=4)[0].T
    with torch.no_grad():
        with FlopCounterMode(display=False) as counter:
            wanted = model.get_image_features(patches, grid).pooler_output
        found = built(pixels)
    rows, columns = height // 8, width // 8
    assert found.shape == (1, rows * (columns + 1) + 2, 32)
    assert differ(found[0], torch.cat([*wanted]).view(-1, 32)) < TOLERANCE
    counted = archcli.count_flops(whole, seq_len=99, image=[f"{height}x{width}"], mask="dense")
    assert counted.totals["media"][0]["matmul_flops"] == counter.get_total_flops()
