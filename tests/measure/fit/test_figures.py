"""What is recorded of presets is what `memory` counts of each, asked alone."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

import archcli
from archcli.api.asking.subject import given
from archcli.errors import ArchError
from archcli.wings.serving.api.fitting import figures
from archcli.wings.serving.api.fitting.formats import Formats
from archcli.wings.serving.api.fitting.question import FitOptions, question_of
from archcli.wings.serving.load import figures as file
from archcli.wings.serving.memory import inference
from archcli.wings.serving.memory.answers.changes import formats_by_bytes, sizes_of_formats
from archcli.wings.serving.memory.parts import beside
from table import sampled_rows

sys.path.insert(0, str(Path(__file__).parents[3] / "release"))
import fit_figures

RECORDED = file.figures()["presets"]
DEVICES = (("rtx-3090", "llamacpp"), ("rtx-3090", "vllm"), ("h100-sxm", "vllm"), ("m3-max-40-core", "mlx"))


def test_every_preset_of_the_list_is_recorded():
    assert sorted(RECORDED) == sorted(fit_figures.names())


def alone(name, options):
    """The question about a preset of which nothing is recorded."""
    fit = replace(options, model=name).question(given(name))
    fit.passes.figures = None
    return fit


@sampled_rows("name", sorted(RECORDED), 1, lots=20)
def test_bytes_that_are_recorded_are_those_of_memory(name):
    for device, engine in DEVICES:
        options = FitOptions(device=device, engine=engine)
        fit = question_of(options, name)()
        longest = fit.longest
        for dtype in ("bf16", "q4_k_m", "awq-int4", "mlx-4bit", None):
            for tokens in {min(8192, longest), longest, longest // 512 * 256 or longest}:
                try:
                    recorded = fit.memory(dtype=dtype, seq_len=tokens).needed()
                except ArchError:
                    continue
                counted = alone(name, options).memory(dtype=dtype, seq_len=tokens).answer()
                assert recorded.peak_bytes == counted.peak_bytes, (engine, dtype, tokens)
                assert recorded.needed_bytes == counted.needed_bytes, (engine, dtype, tokens)


IN_PAGES = sorted(
    name
    for name, record in RECORDED.items()
    if any(len(line) > 6 for _, lines in record["served"].values() for line in lines)
)


@sampled_rows("name", IN_PAGES, 1, lots=3)
def test_lines_of_pages_step_where_a_page_is_full(name):
    options = FitOptions(device="rtx-3090", engine="vllm")
    fit = question_of(options, name)()
    question = fit.memory(dtype=None, seq_len=4096)
    _, lines = RECORDED[name]["served"][beside.digest(question.settings)]
    (page,) = {line[2] for line in lines if len(line) > 6}
    full = 12 * page
    for tokens in (full, full + 16):
        counted = alone(name, options).memory(dtype=None, seq_len=tokens).answer()
        assert question.needed(tokens).peak_bytes == counted.peak_bytes
    assert question.needed(full).peak_bytes == question.needed(full - 16).peak_bytes
    assert question.needed(full).peak_bytes < question.needed(full + 16).peak_bytes


@sampled_rows("name", sorted(RECORDED), 3, lots=10)
def test_formats_that_are_recorded_are_in_the_order_of_their_bytes(name):
    for device in ("rtx-3090", "m3-max-40-core"):
        options = FitOptions(device=device)
        known, counted = Formats(question_of(options, name)()), Formats(alone(name, options))
        assert sizes_of_formats(known.published) == [it[:2] for it in formats_by_bytes(counted.published)]
        assert known.published_bytes == counted.published_bytes
        assert known._most_bytes == counted._most_bytes


@pytest.mark.long
def test_a_list_traces_no_pass_and_is_that_without_what_is_recorded(monkeypatch):
    where = ("params<1.5e9", "layers<20", "max_seq_len>4096")
    traced = []

    def trace(*args, **options):
        traced.append(args)
        return trace_memory(*args, **options)

    trace_memory = inference.trace_memory
    monkeypatch.setattr(inference, "trace_memory", trace)
    known = archcli.fit(device="rtx-3060", where=where)
    assert not traced
    assert known.totals["fitting"] > 3
    monkeypatch.setattr(figures, "figures", lambda: {"presets": {}})
    counted = archcli.fit(device="rtx-3060", where=where)
    assert traced
    assert known.to_dict() == counted.to_dict()


@pytest.mark.parametrize("options", [{"batch_size": 4}, {"kv_dtype": "fp8"}, {"utilization": 0.5}])
def test_other_options_than_those_recorded_are_counted(options):
    options = FitOptions(device="rtx-3090", engine="vllm", **options)
    known = question_of(options, "llama-3.1-8b")().memory(seq_len=8192)
    counted = alone("llama-3.1-8b", options).memory(seq_len=8192)
    assert known.needed().needed_bytes == counted.answer().needed_bytes
