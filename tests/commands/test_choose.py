"""`archcli choose`: what a person sees, and what is refused."""

import json

import pytest

from archcli.api.asking.subject import given
from archcli.wings.serving.api.predict import PredictOptions
from archcli.wings.serving.api.programs.pasted import pasted


def test_the_first_line_and_the_command_of_a_row(cli):
    done = cli("choose", "gpt2", "--devices", "4090", "--speed", "100")
    first = done.out.splitlines()[0]
    assert first.startswith(
        "gpt2: rtx-4090, $1,599 new (NVIDIA's launch price, 2022-09-20): bf16, 1,024 tokens, "
    )
    (row, *_) = json.loads(cli("choose", "gpt2", "--devices", "4090", "--json").out)["rows"]
    assert row["command"] == "archcli fit gpt2 --device rtx-4090 --context 1024 --dtype bf16"
    single = json.loads(cli(*row["command"].split()[1:], "--json").out)["totals"]
    assert {key: single[key] for key in ("context", "peak_bytes", "tokens_per_s")}.items() <= row.items()


def test_a_command_to_paste_names_options_as_the_command_line_does():
    options = PredictOptions("gpt2", "h100-sxm", phase="prefill", engine="none", compiled=True)
    line = "archcli predict gpt2 --device h100-sxm --phase prefill --compile --engine none"
    assert pasted("predict", given("gpt2"), options) == line


def test_nothing_that_meets_is_no_error(cli):
    done = cli("choose", "gpt2", "--devices", "4090", "--budget", "100")
    assert done.code == 0
    assert done.out.startswith("gpt2: nothing meets --budget 100\nThe cheapest that holds it is rtx-4090")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--budget", "-4"), "--budget"),
        (("--budget", "4", "--per-hour", "4"), "--budget is to buy"),
        (("--devices", "nothing"), "no device 'nothing'"),
        (("--devices", "rtx-9*"), "--devices rtx-9* matches no device"),
        (("--within", "3days"), "--within of how many tokens"),
        (("--phase", "train", "--speed", "3"), "--speed is of --phase serve"),
        (("--method", "lora"), "--method is of --phase train"),
        (("--phase", "train", "--tokens", "1e9", "--within", "soon"), "--within soon is no time"),
        (("--prices", "nothing.yaml"), "nothing.yaml"),
        (("--users", "0"), "users"),
        (("--phase", "train", "--trainer", "nothing"), "nothing"),
        (("--engine", "vllm", "--dtype", "q4_k_m"), "vLLM does not read weights in q4_k_m"),
    ],
)
def test_what_is_refused(cli, arguments, said):
    done = cli("choose", "gpt2", "--devices", "rtx-4090", *arguments)
    assert done.code == 2
    assert said in done.err
    assert done.out == ""
