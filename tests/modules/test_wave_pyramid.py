"""A pyramid of causal convolutions over a wave: figures worked out, features of its class, refusals."""

import pytest
import torch
from transformers import MuseSparkAudioConfig, MuseSparkAudioModel

import archcli
from archcli.errors import ArchError
from archcli.modules.spec.request import Medium, Request

KERNEL, STRIDES, WIDTHS, DEPTHS = 3, (4, 2), (6, 8), (2, 1)
FRONT = {
    "kind": "wave_pyramid",
    "channels": [6],
    "strides": [*STRIDES],
    "depths": [*DEPTHS],
    "networks": [{"kind": "mlp", "d_ff": 2 * width, "bias": True, "activation": "gelu"} for width in WIDTHS],
    "conv_kernel": KERNEL,
    "norm": {"kind": "rmsnorm", "eps": 1e-3},
}
NORM = {"kind": "rmsnorm", "eps": 1e-3}
STEPS = {"conv": "conv", "norm": "norm", "mlp.fc1": "ffn.up_proj", "mlp.fc2": "ffn.down_proj"}


def network(**front):
    return {
        "kind": "media_encoder",
        "d_model": 8,
        "norm": NORM,
        "front_end": {**FRONT, **front},
        "groups": [],
    }


def of_samples(number):
    return archcli.count_flops(network(), Request(media=(Medium("samples", (number,)),)))


def test_flops_are_those_of_each_stage():
    # 30 samples are filled up to 32: 8 vectors of 4 samples, then 4 of two vectors
    def convolved(vectors, width):
        return 2 * vectors * (KERNEL * width + 2 * width * 2 * width)

    first = 2 * 8 * 4 * 6 + 2 * convolved(8, 6)
    second = 2 * 4 * (2 * 6) * 8 + convolved(4, 8)
    report = of_samples(30)
    assert report.totals["matmul_flops"] == first + second
    assert report.totals["media"][0]["tokens"] == 4


def test_a_second_has_as_many_samples_as_the_encoder_says():
    report = archcli.count_flops(network(sampling_rate=800), Request(media=(Medium("seconds", (2,)),)))
    assert report.totals["media"][0]["tokens"] == 2 * 800 // (4 * 2)


def their_name(name):
    """The name of a weight in transformers' class."""
    if name.startswith("final_norm"):
        return name.replace("final_norm", "norm")
    place, end = name.removeprefix("front_end.stage").rsplit(".", 1)
    stage, part = place.split("_", 1)
    if part in ("project", "norm"):
        return f"layers.{stage}.patch_embedder.{part.replace('project', 'proj')}.{end}"
    block, step = part.split("_", 1)
    theirs = {ours: theirs for theirs, ours in STEPS.items()}[step]
    return f"layers.{stage}.conv_blocks.{block}.{theirs}.{end}"


@torch.inference_mode()
def test_features_are_those_of_the_class():
    torch.manual_seed(0)
    config = MuseSparkAudioConfig(
        patch_sizes=[*STRIDES],
        hidden_sizes=[*WIDTHS],
        depths=[*DEPTHS],
        num_hidden_layers=2,
        mlp_ratio=2.0,
        conv_kernel_size=KERNEL,
        rms_norm_eps=1e-3,
        out_hidden_size=8,
    )
    theirs, ours = MuseSparkAudioModel(config).eval(), archcli.build(network()).eval()
    for weight in theirs.parameters():
        weight.normal_(std=0.5)
    stored = theirs.state_dict()
    ours.load_state_dict({name: stored[their_name(name)] for name in ours.state_dict()})
    wave = torch.randn(2, 48)
    x = wave.unsqueeze(-1)
    for layer in theirs.layers:
        x = layer(x)
    assert (ours(wave) - theirs.norm(x)).abs().max() < 1e-5
    # causal: vectors before a change stay as they are
    changed = wave.clone()
    changed[:, 24:] += 1
    assert torch.equal(ours(changed)[:, :3], ours(wave)[:, :3])
    assert not torch.equal(ours(changed)[:, 3:], ours(wave)[:, 3:])


@pytest.mark.parametrize(
    ("front", "message"),
    [
        ({"strides": [4]}, "channels for all but the last"),
        ({"networks": [{"kind": "rwkv_channel_mix", "d_ff": 8}, FRONT["networks"][1]]}, "carry a state"),
    ],
    ids=["lists", "state"],
)
def test_refusals(front, message):
    with pytest.raises(ArchError, match=message):
        archcli.count_params(network(**front))
