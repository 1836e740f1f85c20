"""`archcli kvcache --device`: a device in place of a memory."""

import json

import pytest


@pytest.mark.long
def test_a_device_is_its_memory(cli):
    found = json.loads(cli("kvcache", "gpt2", "--device", "h100-sxm", "--json").out)
    alone = json.loads(cli("kvcache", "gpt2", "--memory", str(found["inputs"]["memory_bytes"]), "--json").out)
    assert found["totals"]["fits"]["beside_weights"] == alone["totals"]["fits"]["beside_weights"]


def test_a_device_and_a_memory_are_refused(cli):
    done = cli("kvcache", "gpt2", "--device", "h100-sxm", "--memory", "80GiB")
    assert done.code == 2
    assert "error:" in done.err


@pytest.mark.long
def test_several_devices_share_the_model_by_tp(cli):
    done = cli("kvcache", "gpt2", "--device", "4xh100-sxm", "--tp", "2")
    assert done.code == 2
    assert "names 4 devices, and --tp 2 shares the model among 2\n  = help: --device 2xh100-sxm" in done.err
    shared = json.loads(cli("kvcache", "gpt2", "--device", "4xh100-sxm", "--tp", "4", "--json").out)
    assert shared["totals"]["elements"] == 2 * 12 * 768 // 4 * 1024
    usual = json.loads(cli("kvcache", "gpt2", "--device", "4xh100-sxm", "--json").out)
    assert usual == shared


@pytest.mark.long
def test_devices_without_a_link_are_stages_that_fit_together_what_they_hold(cli):
    one, four = (
        json.loads(cli("kvcache", "llama-3.2-1b", "-c", "4k", "--device", device, "--json").out)
        for device in ("m4-max", "4xm4-max")
    )
    assert (four["inputs"]["pp"], four["inputs"]["plan"]["pp"], "tp" in four["inputs"]) == (4, 4, False)
    assert four["totals"]["elements"] == one["totals"]["elements"]
    fits = {name: found["totals"]["fits"] for name, found in {"one": one, "four": four}.items()}
    assert fits["four"]["memory_bytes"] == 4 * fits["one"]["memory_bytes"]
    # each stage has a prefill and what is beyond the model; the weights are there once
    for part in ("temporaries_bytes", "beyond_bytes"):
        assert fits["four"]["served"][part] == 4 * fits["one"]["served"][part]
    assert fits["four"]["weights_bytes"] == fits["one"]["weights_bytes"]
