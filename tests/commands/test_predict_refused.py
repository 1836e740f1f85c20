"""`archcli predict`: what is refused, each in a line that says what would do, and extreme questions."""

import json

import pytest

GPT2 = ("predict", "gpt2", "--device", "h100-sxm")


@pytest.mark.parametrize("command", [("memory",), ("predict", "--device", "h100-sxm")])
def test_a_picture_that_cannot_be_written_is_told_first(cli, tmp_path, command):
    for file, words in (("x.bmp", "x.bmp ends in none of .svg"), ("none/x.svg", "cannot write")):
        done = cli(command[0], "no-such-model", *command[1:], "--plot", tmp_path / file)
        assert (done.code, done.out) == (2, "")
        assert words in done.err


REFUSED = {
    "no such device": (("predict", "gpt2", "--device", "h101"), "no device 'h101'"),
    "new tokens of no serving": ((*GPT2, "--new", "5"), "--new applies to serving only"),
    "past of a training": ((*GPT2, "--phase", "train", "--past", "5"), "--past applies to decode"),
    "past of serving": ((*GPT2, "--phase", "serve", "--past", "5"), "--past applies to decode"),
    "tokens of no training": ((*GPT2, "--tokens", "1e9"), "--tokens applies to training only"),
    "an engine that trains": (
        (*GPT2, "--phase", "train", "--engine", "vllm"),
        "--engine applies to inference",
    ),
    "micro batches of inference": (
        (*GPT2, "--pp", "2", "--micro-batches", "2"),
        "--micro-batches applies to training only",
    ),
    "a price below nothing": (
        (*GPT2, "--price-per-hour", "-1"),
        "price_per_hour must be a number of at least 0",
    ),
    "a price without end": (
        (*GPT2, "--price-per-hour", "inf"),
        "price_per_hour must be a number of at least",
    ),
    "tokens without end": ((*GPT2, "--phase", "train", "--tokens", "inf"), "'inf' is not a whole number"),
    "a dtype": ((*GPT2, "--dtype", "fp64"), "fp64 is no dtype to compute in"),
    "no dtype": ((*GPT2, "--dtype", "int3"), "unknown dtype 'int3'; such as bf16, "),
    "training in fp8": (
        (*GPT2, "--phase", "train", "--dtype", "fp8"),
        "predict does not support training in fp8",
    ),
    "an engine without a cache": (
        (*GPT2, "--phase", "forward", "--engine", "vllm"),
        "--engine applies to inference with a cache only",
    ),
    "keys that nothing reads": (
        (*GPT2, "--phase", "forward", "--kv-read", "heads"),
        "--kv-read applies to inference with a cache only",
    ),
    "an encoder that decodes": (
        ("predict", "roberta-base", "--device", "h100-sxm"),
        "an encoder has no cache",
    ),
    "a plan that is to be chosen": (
        (*GPT2, "--tp", "4", "--fit", "time"),
        "--fit time chooses the plan, and --tp states it",
    ),
    "heads that do not split": (("predict", "gpt2", "--device", "5xh100-sxm", "--tp", "5"), "5"),
    "recomputation": ((*GPT2, "--recompute", "layer"), "--recompute applies to training only"),
    "nothing fits": (
        ("predict", "llama-3.1-405b", "--device", "2xh100-sxm", "--fit", "time"),
        "none of 2 plans fits into 2 x h100-sxm\n  = help: more devices or shorter sequences",
    ),
    "no plan has so many devices": (
        ("predict", "gpt2", "--device", "13xh100-sxm", "--fit", "time"),
        "no plan shares the model among 13 x h100-sxm\n  = help: -b 13, a sequence for each, or fewer",
    ),
}


@pytest.mark.sample(2, whole=True)
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_in_a_line(cli, name):
    args, words = REFUSED[name]
    done = cli(*args)
    assert done.code == 2
    assert done.out == ""
    assert words in done.err
    assert "Traceback" not in done.err


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("model", ["gpt2", "gpt-oss-20b", "qwen3-next-80b-a3b", "mamba-130m"])
def test_no_sequence_is_too_long(cli, model):
    """Loops over pieces of 10^29 tokens are not run piece by piece, and no length is that of a list."""
    asked = ("predict", model, "--device", "h100-sxm", "--phase", "prefill", "-s", "1e29", "--json")
    totals = json.loads(cli(*asked).out)["totals"]
    assert totals["time_s"]["expected"] > 1e20
    # an engine computes a chunk at a time, so that a constant state is all that a longer sequence keeps
    assert totals["fits"] is (model == "mamba-130m")
