"""Encoders of images and sounds give the features of their classes in transformers on equal weights."""

import subprocess
import sys
import zlib
from functools import cache

import pytest
import torch
import transformers
from safetensors.torch import load_file
from torch.utils.flop_counter import FlopCounterMode

import archcli
from archcli.load.huggingface.importer import weight_map
from archcli.modules.spec.request import Request
from archcli.wings.running.runtime.model.build import build_model
from archcli.wings.running.runtime.weights.compare import translate
from importing import imported_file
from parity.image_towers import IMAGES
from parity.towers import TOWERS, Rising
from table import every_row

TOWERS = {**TOWERS, **IMAGES}
TOLERANCE = 1e-5
NAME = pytest.mark.parametrize("name", TOWERS)


@cache
@torch.inference_mode(mode=False)
def theirs(name):
    """Their model with every tensor random."""
    tower, seed = TOWERS[name], torch.Generator().manual_seed(zlib.crc32(name.encode()))
    config = transformers.AutoConfig.for_model(**tower.config)
    model = getattr(transformers, tower.cls)._from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.add_(0.3 * torch.randn(tensor.shape, generator=seed))
        for key, tensor in model.named_buffers():
            if key.endswith(("running_mean", "running_var")):
                tensor.add_(0.3 * torch.rand(tensor.shape, generator=seed))
    return model


def spec(name):
    """The architecture of the tower's config.json."""
    tower = TOWERS[name]
    return imported_file({"architectures": [tower.cls], **tower.config})


def named(name, tensors):
    """Their tensors by our names."""
    tower = TOWERS[name]
    shapes = {key: value.shape for key, value in build_model(spec(name), device="meta").state_dict().items()}
    return translate(tensors, weight_map({"architectures": [tower.cls], **tower.config}), shapes)


def stored(model):
    """What a file of the model holds."""
    return {key: value for key, value in model.state_dict().items() if "position_ids" not in key}


def answer(name, pixels):
    """Their answer, [B, T, …] or [B, 1, …]."""
    tower = TOWERS[name]
    given = arguments(tower, len(pixels))
    if tower.config["model_type"] == "siglip2_vision_model":
        given, pixels = patched(pixels, tower.config["patch_size"])
    out = getattr(theirs(name)(pixels, **given), tower.answer)
    out = out.flatten(2).transpose(1, 2) if out.dim() == len("BCHW") else out
    return out if out.dim() > 2 else out[:, None]


def arguments(tower, batch):
    """Further arguments of their forward."""
    given = (tower.given or {}).items()
    return {key: value.of(torch, batch) if isinstance(value, Rising) else value for key, value in given}


def patched(pixels, patch):
    """An image as its processor hands it over: patches in rows, channels last, and the grid."""
    h, w = pixels.shape[2] // patch, pixels.shape[3] // patch
    cut = pixels.unfold(2, patch, patch).unfold(3, patch, patch)
    rows = cut.permute(0, 2, 3, 4, 5, 1).flatten(3).flatten(1, 2)
    shapes = torch.tensor([[h, w]] * len(pixels))
    return {"pixel_attention_mask": torch.ones(rows.shape[:2]), "spatial_shapes": shapes}, rows


@pytest.mark.long
@pytest.mark.sample(1)
@NAME
@every_row("attention", ["eager", "sdpa"])
@torch.inference_mode()
def test_features_are_those_of_the_class(name, attention):
    model = build_model(spec(name), attention=attention).eval()
    model.load_state_dict(named(name, stored(theirs(name))))
    for size in TOWERS[name].sizes:
        shape, seed = (2, *TOWERS[name].shape(size)), torch.Generator().manual_seed(size[0])
        pixels = torch.randn(shape, generator=seed)
        expected = answer(name, pixels)
        assert (model(pixels) - expected).abs().max() <= TOLERANCE * expected.abs().max()


@pytest.mark.long
@pytest.mark.sample(1)
@NAME
def test_a_saved_folder_holds_the_same_weights(name, tmp_path):
    theirs(name).save_pretrained(tmp_path)
    ours, held = named(name, stored(theirs(name))), named(name, load_file(tmp_path / "model.safetensors"))
    assert held.keys() == ours.keys()
    assert [key for key, value in held.items() if not torch.equal(value, ours[key])] == []
    assert archcli.count_params(spec(name)).totals["params"] == sum(
        tensor.numel() for tensor in theirs(name).parameters()
    )


@pytest.mark.long
@pytest.mark.sample(1)
@NAME
def test_flops_are_those_of_torchs_counter(name):
    for size in TOWERS[name].sizes:
        request = Request(media=(TOWERS[name].medium(size),))
        counted = archcli.count_flops(spec(name), request).totals
        assert counted["matmul_flops"] == counter_flops(name, size)
        assert counted["media"][0]["matmul_flops"] == counted["matmul_flops"]


@pytest.mark.long
def test_a_text_model_loads_no_file_of_images_and_sounds():
    code = (
        "import sys, archcli; archcli.count_flops('gpt2'); archcli.count_params('whisper-small'); "
        "print([name for name in sys.modules if 'media_encoder' in name or '.grids.' in name or "
        "name.endswith(('ends.patches', 'ends.sounds', 'ends.spectrograms', 'ends.pooling', "
        "'positions.grid', '.conformer', '.contexts'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout.strip() == "[]"


def counter_flops(name, size):
    """What torch's counter sees of the class, on meta: on a CPU it counts fused attention as 0."""
    tower = TOWERS[name]
    if tower.config["model_type"] == "siglip2_vision_model":
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            answer(name, torch.zeros((1, 3, *size)))
        # resizing the table is a product in the class: each patch with the 9 rows of 32 numbers
        return counter.get_total_flops() - 2 * (size[0] // 8) * (size[1] // 8) * 9 * 32
    config = transformers.AutoConfig.for_model(**tower.config)
    with torch.device("meta"), FlopCounterMode(display=False) as counter, torch.no_grad():
        model = getattr(transformers, tower.cls)._from_config(config, attn_implementation="eager").eval()
        # the counter's hooks look for what made an input that has a gradient: a view of a weight has nothing
        model.requires_grad_(False)
        model(torch.empty((1, *tower.shape(size))), **arguments(tower, 1))
    return counter.get_total_flops()
