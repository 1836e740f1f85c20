"""`archcli devices`: the list by conditions, and one device with its sources."""

import json

import pytest


def rows(done):
    return json.loads(done.out)["rows"]


def test_devices_are_listed_by_conditions_and_in_order(cli):
    done = cli("devices", "--where", "memory_bytes>=79GiB", "--where", "vendor=NVIDIA", "--json")
    assert {row["name"] for row in rows(done)} >= {"h100-sxm", "h200-sxm"}
    assert all(row["memory_bytes"] >= 79 * 2**30 and row["vendor"] == "NVIDIA" for row in rows(done))
    ordered = rows(cli("devices", "--sort", "bandwidth_gb_s:desc", "--json"))
    assert [row["bandwidth_gb_s"] for row in ordered] == sorted(
        (row["bandwidth_gb_s"] for row in ordered), reverse=True
    )


def test_one_device_shows_the_source_of_each_figure(cli):
    found = {row["figure"]: row for row in rows(cli("devices", "h100-sxm", "--json"))}
    assert found["memory_bytes"]["value"] == 84_932_978_278
    assert found["memory_bytes"]["certainty"] == "B"
    assert "datasheet" in found["bf16_tflops"]["source"]
    assert "NVLink 4" in cli("devices", "h100-sxm").out


def test_estimates_are_printed_with_a_mark(cli):
    shown = cli("devices", "m3-pro", "--format", "plain").out
    assert "~6.4" in shown
    assert "note: memories: m3-pro:18gb, m3-pro:36gb" in shown
    assert "~6.4" in next(line for line in cli("devices").out.splitlines() if line.startswith("m3-pro "))
    assert {row["figure"]: row["value"] for row in rows(cli("devices", "m3-pro", "--json"))}[
        "fp16_tflops"
    ] == 6.4


def test_a_device_of_the_same_chip_says_whose_constants_it_has(cli):
    done = cli("devices", "h100-pcie")
    assert "note: constants: those of h100-sxm, which has the same chip" in done.out
    assert "80% within" in done.out


@pytest.mark.long
def test_a_device_without_bf16_computes_in_fp16_unless_bf16_is_asked_for(cli):
    assert (
        ", fp16, llamacpp of 2025 and 2026, on v100-sxm-32gb"
        in cli("predict", "gpt2", "--device", "v100-sxm-32gb").out
    )
    assert ", bf16, vllm of 0.11 to 0.24, on a10" in cli("predict", "gpt2", "--device", "a10").out
    refused = cli("predict", "gpt2", "--device", "t4", "--dtype", "bf16")
    assert (refused.code, "device t4 states no peak of bf16" in refused.err) == (2, True)


def test_one_device_shows_its_constants_with_their_errors_and_whose_they_are(cli):
    stated = json.loads(cli("devices", "b200-sxm", "--json").out)["totals"]["efficiency"]
    gated = stated["memory_bound"]["gated_activation"]
    assert gated["fitted_on"] == "h100-sxm"
    assert stated["matrix_products"]["bf16"]["error"] < 0.15
    shown = cli("devices", "b200-sxm", "--format", "plain").out
    for told in ("matrix products, bf16", "memory bound, gated activation", "communication, 8", "80% within"):
        assert told in shown
    bare = cli("devices", "v100-sxm-32gb", "--json")
    assert json.loads(bare.out)["totals"]["efficiency"] == {}
    assert "Constants turn counts" not in bare.out


def test_a_file_of_ones_own_is_read(cli, tmp_path):
    file = tmp_path / "mine.yaml"
    text = "name: mine\nvendor: me\nkind: cpu\nsource: a guess\ncertainty: C\nmemory_gb: 8\n"
    file.write_text(text)
    [size, label] = rows(cli("devices", file, "--json"))
    assert (size["value"], label["value"]) == (8 * 2**30, 8)
    file.write_text(text.replace("memory_gb: 8", "memory_gb: lots"))
    done = cli("devices", file)
    assert done.code == 2
    assert "memory_gb must be a number above 0" in done.err


def test_this_machine_is_written_and_read_again(cli, tmp_path):
    file = tmp_path / "this.yaml"
    assert cli("devices", "--this", "-o", file).code == 0
    assert rows(cli("devices", file, "--json"))[0]["figure"] == "memory_bytes"
    # all but the clock of now
    assert cli("devices", "--this").out.splitlines()[:3] == file.read_text().splitlines()[:3]
    for more in (["h100-sxm"], ["--json"], ["--sort", "name"]):
        done = cli("devices", "--this", *more)
        assert (done.code, "and takes -o FILE alone" in done.err) == (2, True)


MISSING = {
    "bandwidth_gb_s": "device mine states no bandwidth, so that nothing can be timed on it",
    "bf16_tflops": "device mine states no peak of bf16",
    "memory_gb": "device 'mine' states no memory",
}


def test_a_figure_that_a_file_lacks_is_told_in_a_line(cli, tmp_path):
    file = tmp_path / "mine.yaml"
    figures = {"memory_gb": 8, "bandwidth_gb_s": 100, "bf16_tflops": 10}
    for missing, told in MISSING.items():
        texts = {"name": "mine", "vendor": "me", "kind": "gpu", "source": "a guess", "certainty": "C"}
        stated = texts | {key: value for key, value in figures.items() if key != missing}
        file.write_text("".join(f"{key}: {value}\n" for key, value in stated.items()))
        done = cli("predict", "gpt2", "--device", file)
        assert (done.code, told in done.err) == (2, True)
        assert done.err.count("error:") == 1


def test_conditions_that_are_none_end_with_a_line(cli):
    for asked, told in (
        (("h1000",), "no device 'h1000'"),
        (("8xh100-sxm",), "of one device, and '8xh100-sxm' are 8\n  = help: h100-sxm"),
        (("2xlocal",), "of one device, and '2xlocal' are 2\n  = help: local"),
        (("--where", "colour=red"), "  = help: known are name, vendor, kind"),
        (("--sort", "colour"), "unknown column 'colour'"),
    ):
        done = cli("devices", *asked)
        assert (done.code, told in done.err) == (2, True)
