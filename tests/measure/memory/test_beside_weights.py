"""Bytes at many contexts and in many formats from few traced passes: those of each question asked alone."""

from itertools import product

import pytest

from archcli.api.asking.subject import given
from archcli.errors import ArchError
from archcli.load.presets import presets
from archcli.wings.serving.api.fitting.question import FitOptions
from archcli.wings.serving.memory import inference
from table import sampled_rows

ENGINES = {"llamacpp": "rtx-3090", "vllm": "h100-sxm", "sglang": "2xrtx-3090", "mlx": "m3-max-40-core"}
FORMATS = {"llamacpp": ("bf16", "q4_k_m"), "mlx": ("bf16", "mlx-4bit")}
WARM = (8192, 32768, 20480, 700)
"""Contexts that are asked first, so that those below lie between."""
CONTEXTS = (512, 8192 + 256, 16384, 20480 + 768, 30000)


def asked(model, engine, **options):
    """The question of memory about a model that shares no pass with any other."""
    fit = FitOptions(model=model, device=ENGINES[engine], engine=engine, **options).question(given(model))
    return fit.memory


@sampled_rows("model, engine", [*product(sorted(presets()), ENGINES)], 6, lots=40)
def test_bytes_of_many_contexts_are_those_of_each_asked_alone(model, engine):
    ask = asked(model, engine, batch_size=2)
    for dtype in FORMATS.get(engine, ("bf16", "fp8")):
        try:
            question = ask(dtype=dtype, seq_len=WARM[0])
        except ArchError:
            continue
        for tokens in WARM:
            question.changed(seq_len=tokens).lacking()
        for tokens in CONTEXTS:
            alone = asked(model, engine, batch_size=2)(dtype=dtype, seq_len=tokens).answer()
            summed = question.changed(seq_len=tokens).needed()
            assert (summed.peak_bytes, summed.needed_bytes) == (alone.peak_bytes, alone.needed_bytes), tokens


@pytest.mark.parametrize(("model", "passes"), [("llama-3.1-8b", 2), ("gemma-3-27b", 2)])
def test_contexts_between_two_and_formats_take_no_further_pass(model, passes, monkeypatch):
    traced = []

    def trace(*args, **options):
        traced.append(args)
        return trace_memory(*args, **options)

    trace_memory = inference.trace_memory
    monkeypatch.setattr(inference, "trace_memory", trace)
    ask = asked(model, "llamacpp")
    for dtype in ("bf16", "q8_0", "q4_k_m"):
        for tokens in (8192, 131_072, *range(9216, 131_072, 2560)):
            ask(dtype=dtype, seq_len=tokens).lacking()
    assert len(traced) == passes


def test_a_token_of_llama_adds_its_keys_values_and_mask():
    """32 layers cache 2 x 8 heads of 128 in bf16; the mask has 512 tokens of a chunk in fp16 for each."""
    question = asked("llama-3.1-8b", "llamacpp")(dtype="q4_k_m", seq_len=8192)
    more = question.changed(seq_len=8192 + 256).lacking() - question.lacking()
    assert more == 256 * (32 * 2 * 8 * 128 * 2 + 512 * 2)
