"""`archcli kvcache --device`: a device in place of a memory."""

import json


def test_a_device_is_its_memory(cli):
    found = json.loads(cli("kvcache", "gpt2", "--device", "h100-sxm", "--json").out)
    alone = json.loads(cli("kvcache", "gpt2", "--memory", str(found["inputs"]["memory_bytes"]), "--json").out)
    assert found["totals"]["fits"]["beside_weights"] == alone["totals"]["fits"]["beside_weights"]


def test_a_device_and_a_memory_are_refused(cli):
    done = cli("kvcache", "gpt2", "--device", "h100-sxm", "--memory", "80GiB")
    assert done.code == 2
    assert "error:" in done.err


def test_several_devices_share_the_model_by_tp(cli):
    done = cli("kvcache", "gpt2", "--device", "4xh100-sxm", "--tp", "2")
    assert done.code == 2
    assert "names 4 devices, and --tp 2 shares the model among 2\n  = help: --tp 4, or" in done.err
    shared = json.loads(cli("kvcache", "gpt2", "--device", "4xh100-sxm", "--tp", "4", "--json").out)
    assert shared["totals"]["elements"] == 2 * 12 * 768 // 4 * 1024
