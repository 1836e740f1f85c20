"""Stretched frequencies against Hugging Face's, at real models' published settings and every length."""

import pytest
import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from archcli.modules import (
    DynamicNTKScaling,
    LinearScaling,
    Llama3Scaling,
    LongRopeScaling,
    NTKScaling,
    Rope,
    YarnScaling,
)
from table import every_row

SHORT, LONG = tuple(1.0 + i / 50 for i in range(48)), tuple(1.0 + i for i in range(48))

# name: theta, rotary dims, our scaling, their rope parameters, their max_position_embeddings
SCALINGS = {
    "gemma-3 linear": (1e6, 256, LinearScaling(factor=8.0), {"rope_type": "linear", "factor": 8.0}, 131072),
    "dynamic": (
        1e4,
        64,
        DynamicNTKScaling(factor=4.0, original_max_seq_len=2048),
        {"rope_type": "dynamic", "factor": 4.0},
        2048,
    ),
    "llama-3.1": (
        5e5,
        128,
        Llama3Scaling(factor=8.0, original_max_seq_len=8192),
        {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
        131072,
    ),
    "qwen yarn": (
        1e6,
        128,
        YarnScaling(factor=4.0, original_max_seq_len=32768),
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768},
        131072,
    ),
    "deepseek-v3 yarn": (
        1e4,
        64,
        YarnScaling(factor=40.0, original_max_seq_len=4096, mscale=1.0, mscale_all_dim=0.707),
        {
            "rope_type": "yarn",
            "factor": 40.0,
            "beta_fast": 32,
            "beta_slow": 1,
            "mscale": 1.0,
            "mscale_all_dim": 0.707,
            "original_max_position_embeddings": 4096,
        },
        163840,
    ),
    "gpt-oss yarn": (
        150000.0,
        64,
        YarnScaling(factor=32.0, original_max_seq_len=4096, truncate=False),
        {"rope_type": "yarn", "factor": 32.0, "truncate": False, "original_max_position_embeddings": 4096},
        131072,
    ),
    "yarn with a factor of its own": (
        1e4,
        32,
        YarnScaling(factor=2.0, original_max_seq_len=64, beta_fast=4.0, beta_slow=0.5, attention_factor=1.3),
        {
            "rope_type": "yarn",
            "factor": 2.0,
            "beta_fast": 4.0,
            "beta_slow": 0.5,
            "attention_factor": 1.3,
            "original_max_position_embeddings": 64,
        },
        128,
    ),
    "yarn in one step": (
        1e4,
        8,
        YarnScaling(factor=2.0, original_max_seq_len=8, beta_fast=32.0, beta_slow=16.0),
        {
            "rope_type": "yarn",
            "factor": 2.0,
            "beta_fast": 32.0,
            "beta_slow": 16.0,
            "original_max_position_embeddings": 8,
        },
        16,
    ),
    "phi-3 longrope": (
        1e4,
        96,
        LongRopeScaling(factor=32.0, original_max_seq_len=4096, short_factor=SHORT, long_factor=LONG),
        {
            "rope_type": "longrope",
            "factor": 32.0,
            "short_factor": list(SHORT),
            "long_factor": list(LONG),
            "original_max_position_embeddings": 4096,
        },
        131072,
    ),
}


@every_row("length", [1, 2048, 2049, 4096, 4097, 10000])
@every_row(("theta", "width", "scaling", "theirs", "context"), SCALINGS.values(), ids=SCALINGS)
def test_frequencies_and_amplitude(theta, width, scaling, theirs, context, length):
    config = LlamaConfig(
        head_dim=width, max_position_embeddings=context, rope_parameters={"rope_theta": theta, **theirs}
    )
    expected, amplitude = ROPE_INIT_FUNCTIONS[theirs["rope_type"]](config, "cpu", seq_len=length)
    ours = Rope(theta=theta, scaling=scaling).frequencies(torch, width, torch.arange(length))
    torch.testing.assert_close(ours, expected, rtol=2e-6, atol=0)
    assert scaling.amplitude == pytest.approx(amplitude)


def test_ntk_is_dynamic_ntk_at_one_length():
    positions = torch.arange(24)
    dynamic = DynamicNTKScaling(factor=2.0, original_max_seq_len=16)  # 2 * 24 / 16 - (2 - 1) = 2
    torch.testing.assert_close(
        NTKScaling(factor=2.0).frequencies(torch, 1e4, 64, positions),
        dynamic.frequencies(torch, 1e4, 64, positions),
    )
