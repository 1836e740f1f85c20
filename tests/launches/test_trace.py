"""Kernels of a pass: equal to what torch dispatches, by row, direction, name and number."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archcli.load.source import load, load_text
from archcli.modules import HierarchicalHead
from archcli.modules.spec.request import Request
from combinations.mixers import ENCODING, MIXERS, encoder, model
from covering import COVERING
from kernels_compared import PHASES, differences, settings_of
from readings.encoders import MODELS
from recurrent_models import PRESETS as RECURRENT
from short_presets import shortened
from small import decoder

QUICK = 10
"""Examples of the quick stage's tests, of which these take a fifth of a second each."""
EXAMPLES = 3 if settings.default.max_examples == QUICK else settings.default.max_examples
SETTINGS = settings_of("cuda", "cpu")
WITH_WINDOWS = [
    *("mistral-7b-v0.1", "gemma-2-2b", "gemma-3-1b", "gpt-oss-20b", "gpt-neo-1.3b", "llama-4-scout"),
    *("command-r7b", "modernbert-base", "olmo-3-7b", "longformer-base-4096", "gemma-4-e4b", "starcoder2-3b"),
]
WHOLE = [
    *("gpt2", "bert-base-uncased", "bart-large", "t5-base", "whisper-small", "llama-3.2-1b", "qwen3-0.6b"),
    *("gemma-2-2b", "gemma-3n-e2b", "deepseek-v2-lite", "mixtral-8x7b", "gpt-oss-20b", "phi-3.5-moe"),
    *("falcon-7b", "bloom-560m", "deberta-v3-base", "albert-base-v2", "deepseek-v3.2", "longcat-flash"),
    "jetmoe-8b",
]
"""Twenty presets that are compared with all their layers."""


def compared(spec, phase, setting, tokens=64):
    """What differs; an encoder, which keeps no cache, runs forward."""
    phase = phase if spec.caches else {"prefill": "forward", "decode": "train"}.get(phase, phase)
    return differences(spec, Request(phase, 2, tokens), SETTINGS[setting])


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("name", [name for name in COVERING if name not in RECURRENT])
def test_kernels_are_those_that_torch_dispatches(name, phase, setting):
    assert compared(shortened(name), phase, setting) == {}


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("name", WITH_WINDOWS)
def test_kernels_of_windows_that_tokens_go_beyond(name, phase, setting):
    assert compared(shortened(name, window=32), phase, setting, tokens=80) == {}


@pytest.mark.long
@pytest.mark.parametrize("name", WHOLE)
def test_kernels_of_all_layers(name):
    number = WHOLE.index(name)
    phase, setting = PHASES[number % len(PHASES)], [*SETTINGS][number % len(SETTINGS)]
    assert compared(load(name).model, phase, setting) == {}


@pytest.mark.sample(1)
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("mixer", MIXERS | ENCODING)
def test_kernels_of_every_mixer(mixer, phase, setting, tmp_path):
    path = tmp_path / "model.yaml"
    path.write_text(model(mixer) if mixer in MIXERS else encoder(mixer))
    assert compared(load(str(path)).model, phase, setting, tokens=13) == {}


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("n_classes", [3, 7, 20])
def test_kernels_of_words_in_classes(n_classes):
    """The last class is not full."""
    words = decoder(vocab_size=3 * n_classes - 1, head=HierarchicalHead(n_classes=n_classes))
    assert differences(words, Request("train", 1, 8), SETTINGS["cuda-bf16-sdpa"]) == {}


LAYER = "kind: pre_norm, attention: {kind: mha, n_heads: 2}, ffn: {kind: mlp, d_ff: 2, activation: relu}"
NARROW = f"""
kind: encoder_decoder
vocab_size: 8
d_model: 2
norm: rmsnorm
encoder: {{groups: [{{n_layers: 1, layer: {{{LAYER.replace("n_heads: 2", "n_heads: 2, causal: false")}}}}}]}}
decoder: {{groups: [{{n_layers: 1, layer: {{{LAYER}, cross_attention: {{n_heads: 2, n_kv_heads: 1}}}}}}]}}
"""


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_heads_of_one_number_lie_by_column_and_so_does_their_gradient(attention):
    narrow = load_text(NARROW, "narrow.yaml").model
    assert differences(narrow, Request("train", 1, 3), SETTINGS[f"cuda-bf16-{attention}"]) == {}


@pytest.mark.long
@given(
    spec=MODELS,
    phase=st.sampled_from(PHASES),
    batch=st.integers(1, 3),
    tokens=st.integers(1, 9),
    setting=st.sampled_from([*settings_of("cuda").values()]),
)
@settings(max_examples=EXAMPLES)
def test_kernels_of_random_architectures(spec, phase, batch, tokens, setting):
    phase = phase if spec.caches else "train"
    assert differences(spec, Request(phase, batch, tokens), setting) == {}
