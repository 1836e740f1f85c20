"""What Python answers beside what the command prints."""

import json

import pytest

import archcli

CALLS = {
    ("params", "deepseek-v3", "--dtype", "fp8"): lambda: archcli.count_params("deepseek-v3", "fp8"),
    ("flops", "t5-base", "-s", "64", "--source-len", "9"): lambda: archcli.count_flops(
        "t5-base", seq_len=64, source_len=9
    ),
    ("flops", "deepseek-v3", "--phase", "decode", "--past", "99"): lambda: archcli.count_flops(
        "deepseek-v3", phase="decode", past=99
    ),
    ("kvcache", "gemma-2-9b", "-c", "9000", "--memory", "80GiB"): lambda: archcli.count_kv_cache(
        "gemma-2-9b", 9000, memory="80GiB"
    ),
    ("compare", "gpt2", "llama-3.2-1b", "-s", "64"): lambda: archcli.compare(
        "gpt2", "llama-3.2-1b", seq_len=64
    ),
    ("survey", "gpt2", "gemma-2b", "--no-presets", "--sort", "params"): lambda: archcli.survey(
        "gpt2", "gemma-2b", sort="params"
    ),
}


@pytest.fixture(params=CALLS, ids=" ".join)
def both(request):
    """(arguments of the command, report of the function) of the same question."""
    return request.param, CALLS[request.param]()


@pytest.mark.sample(1, whole=True)
def test_to_dict_is_what_the_command_prints_as_json(cli, both):
    args, report = both
    assert report.to_dict() == json.loads(cli(*args, "--json").out)


@pytest.mark.sample(1, whole=True)
def test_a_report_prints_as_the_command_does_into_a_pipe(cli, both):
    args, report = both
    assert f"{report}\n" == f"{report!s}\n" == f"{report!r}\n" == cli(*args).out
    assert f"{report:md}\n" == cli(*args, "--format", "md").out


def test_changing_what_to_dict_gave_leaves_the_report():
    report = archcli.count_params("gpt2")
    report.to_dict()["totals"].clear()
    assert report.totals["params"] == 124_439_808
