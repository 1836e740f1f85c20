"""Which engine runs on which card, in which format: facts of engines/*.yaml, with sources."""

import json
import shlex

import pytest

import archcli
from archcli.errors import ArchError
from archcli.wings.serving.devices.engines import engines, load_engine, runs_on
from table import every_row

CHOSEN = [
    # vLLM begins at compute capability 7.5, and llama.cpp runs on all
    ("gtx-1080-ti", "llamacpp", "q8_0"),
    ("v100-sxm-16gb", "llamacpp", "q8_0"),
    ("rx-6800-xt", "llamacpp", "q8_0"),
    # vLLM's fp8 is not on Intel's GPUs, and on a T4 by Marlin's kernels
    ("arc-a770", "llamacpp", "q8_0"),
    ("t4", "vllm", "fp8"),
    ("rtx-4060-ti", "vllm", "fp8"),
    ("mi300x", "vllm", "bf16"),
    ("m3-max", "llamacpp", "fp16"),
]


@pytest.mark.long
@every_row(("device", "engine", "form"), CHOSEN, ids=str)
def test_fit_names_an_engine_and_a_format_that_run_on_the_card(device, engine, form):
    totals = archcli.fit("llama-3.1-8b", device).totals
    assert (totals["engine"], totals["format"]) == (engine, form)


NOTED = [
    ({"device": "gtx-1080-ti", "engine": "vllm"}, "vLLM does not run on gtx-1080-ti (0.33)"),
    ({"device": "t4", "engine": "trtllm"}, "TensorRT-LLM does not run on t4 ("),
    ({"device": "rx-6800-xt", "engine": "sglang"}, "SGLang does not run on rx-6800-xt ("),
    ({"device": "arc-a770", "engine": "vllm", "dtype": "fp8"}, "on arc-a770 with weights in fp8 (0.33)"),
    ({"device": "t4", "kv_dtype": "fp8"}, "vLLM does not run on t4 with a cache in fp8 (0.33)"),
]


@pytest.mark.long
@every_row(("asked", "told"), NOTED, ids=str)
def test_what_is_named_is_counted_with_a_note_as_another_version_may_run(asked, told):
    for ask in (archcli.count_memory, archcli.predict):
        assert any(told in note for note in ask("llama-3.1-8b", phase="decode", **asked).notes)
    ran = archcli.count_memory("llama-3.1-8b", "decode", device="rtx-4090", engine="vllm").notes
    assert not any("does not run" in note for note in ran)


def test_fit_refuses_a_named_engine_that_runs_on_the_card_in_no_format():
    with pytest.raises(ArchError, match="vLLM does not run on gtx-1080-ti") as refused:
        archcli.fit("llama-3.1-8b", "gtx-1080-ti", engine="vllm")
    assert refused.value.problems[0].hint == "--engine llamacpp or transformers"
    stated = archcli.fit("llama-3.1-8b", "gtx-1080-ti", dtype="fp8")
    assert any("vLLM does not run on gtx-1080-ti" in note for note in stated.notes)


def test_a_hint_names_nothing_that_does_not_run():
    """Half of the cache would fit on both: vLLM keeps it in fp8 on a RTX 3090, and not on a T4."""
    changes = {}
    for device, tokens in {"t4": 24_576, "rtx-3090": 57_344}.items():
        asked = {"phase": "serve", "dtype": "fp8", "batch_size": 2, "seq_len": tokens, "device": device}
        totals = archcli.count_memory("llama-3.1-8b", **asked).totals
        halved = totals["peak_bytes"] + totals["beyond_bytes"] - totals["parts"]["cache"] / 2
        memory = archcli.count_memory("llama-3.1-8b", **asked).inputs["memory_bytes"]
        assert totals["fits"] is False
        assert halved < memory
        changes[device] = totals["change"]["change"]
    assert changes["rtx-3090"] == "--kv-dtype fp8"
    assert changes["t4"] != "--kv-dtype fp8"


def test_a_platform_that_no_engine_states_is_not_refused():
    """A YAML of one's own, a memory alone, and a maker without an entry: nothing is known."""
    assert runs_on("vllm", "")
    assert runs_on("vllm", "Acme gpu")
    assert runs_on("vllm", "sm_121")
    assert not runs_on("vllm", "sm_70")
    assert all(runs_on("llamacpp", platform) for platform in ("sm_37", "gfx803", "Intel gpu", "cpu"))
    assert archcli.count_memory("llama-3.1-8b", "serve", memory="24GB").inputs["engine"] == "vllm"


def test_every_fact_on_devices_has_a_source_and_names_formats_of_its_engine():
    for name in engines():
        facts = load_engine(name)
        for fact in {"runs_on", "formats_on", "unusual", "margin"} & set(facts):
            assert facts["sources"][fact]
        caches = {f"{dtype} cache" for dtype in facts["cache_dtypes"]}
        assert set(facts.get("formats_on", ())) <= {*facts["formats"], *caches}
        assert set(facts.get("unusual", ())) <= set(facts["formats"])


PASTED = [
    ("memory", "mixtral-8x7b", "--phase serve --device 2xrtx-4090 --set n_layers=16"),
    ("memory", "gpt2", "--memory 3GB"),
    ("fit", "llama-3.1-8b", "--device rtx-4090"),
    ("predict", "llama-3.1-70b", "--device h100-sxm -b 2"),
]


@pytest.mark.long
@every_row(("command", "model", "options"), PASTED, ids=str)
def test_the_command_of_a_hint_can_be_pasted(cli, command, model, options):
    """Every option of the question is kept, and with the change it fits."""
    done = cli(command, model, *options.split(), "--json")
    change = archcli_json(done)["totals"]["change"]
    again = cli(*shlex.split(change["command"])[1:], "--json")
    assert again.code == 0, again.err
    assert archcli_json(again)["totals"]["fits"] is True
    printed = cli(command, model, *options.split()).out
    assert f"`{change['command']}`" in printed


def archcli_json(done):
    assert done.code == 0, done.err
    return json.loads(done.out)
