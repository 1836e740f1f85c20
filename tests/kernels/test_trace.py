"""Kernels of a pass: equal to what torch dispatches, by row, direction, name and number."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archcli.load.presets import presets
from archcli.load.source import load
from archcli.modules.request import Request
from archcli.runtime.memory.models import WitnessSetting
from kernels_compared import differences
from readings.encoders import MODELS
from recurrent_models import PRESETS as RECURRENT
from short_presets import shortened

QUICK = 10
"""Examples of the quick stage's tests, of which these take a fifth of a second each."""
SETTINGS = {
    f"{backend}-{dtype}-{attention}": WitnessSetting(dtype, attention, backend)
    for backend in ("cuda", "cpu")
    for dtype in ("bf16", "fp32")
    for attention in ("sdpa", "eager")
}
EXAMPLES = 3 if settings.default.max_examples == QUICK else settings.default.max_examples
PHASES = ["train", "forward", "prefill", "decode"]
WITH_WINDOWS = [
    *("mistral-7b-v0.1", "gemma-2-2b", "gemma-3-1b", "gpt-oss-20b", "gpt-neo-1.3b", "llama-4-scout"),
    *("command-r7b", "modernbert-base", "olmo-3-7b", "longformer-base-4096", "starcoder2-3b"),
]
WHOLE = [
    *("gpt2", "bert-base-uncased", "bart-large", "t5-base", "whisper-small", "llama-3.2-1b", "qwen3-0.6b"),
    *("gemma-2-2b", "gemma-3n-e2b", "deepseek-v2-lite", "mixtral-8x7b", "gpt-oss-20b", "phi-3.5-moe"),
    *("falcon-7b", "bloom-560m", "deberta-v3-base", "albert-base-v2", "deepseek-v3.2", "longcat-flash"),
    "jetmoe-8b",
]
"""Twenty presets that are compared with all their layers."""


def compared(model, phase, setting, tokens=64):
    """What differs; an encoder, which keeps no cache, runs forward."""
    phase = phase if model.caches else {"prefill": "forward", "decode": "train"}.get(phase, phase)
    return differences(model, Request(phase, 2, tokens), setting)


@pytest.mark.sample(2, second=60)
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("name", [name for name in presets() if name not in RECURRENT])
def test_kernels_are_those_that_torch_dispatches(name, phase, setting):
    assert compared(shortened(name), phase, SETTINGS[setting]) == {}


@pytest.mark.sample(1, second=20)
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("name", WITH_WINDOWS)
def test_kernels_of_windows_that_tokens_go_beyond(name, phase, setting):
    assert compared(shortened(name, window=32), phase, SETTINGS[setting], tokens=80) == {}


@pytest.mark.long
@pytest.mark.parametrize("name", WHOLE)
def test_kernels_of_all_layers(name):
    number = WHOLE.index(name)
    phase, setting = PHASES[number % len(PHASES)], [*SETTINGS][number % len(SETTINGS)]
    assert compared(load(name).model, phase, SETTINGS[setting]) == {}


@given(
    model=MODELS,
    phase=st.sampled_from(PHASES),
    batch=st.integers(1, 3),
    tokens=st.integers(1, 9),
    dtype=st.sampled_from(["bf16", "fp32"]),
    attention=st.sampled_from(["sdpa", "eager"]),
)
@settings(max_examples=EXAMPLES)
def test_kernels_of_random_architectures(model, phase, batch, tokens, dtype, attention):
    phase = phase if model.caches else "train"
    assert differences(model, Request(phase, batch, tokens), WitnessSetting(dtype, attention)) == {}
