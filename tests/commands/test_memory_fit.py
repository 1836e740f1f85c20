"""`archcli memory --fit`: what was found fits, and one more, or one fewer, does not."""

import json

import pytest

from archcli.wings.serving.devices.datasheet import load_datasheet
from commands.test_memory import asked

TOO_SMALL = {"m1", "m2"}
LORA = ("--set", "lora.rank=16", "--set", "lora.targets=[q,v]")


@pytest.mark.long
def test_the_largest_batch_fits_and_one_more_does_not(cli):
    device = ("--memory", "8GiB")
    largest = asked(cli, "gpt2", "-s", "256", *device, "--fit", "batch")["totals"]["fit"]["value"]
    assert asked(cli, "gpt2", "-s", "256", "-b", largest, *device)["totals"]["fits"] is True
    assert asked(cli, "gpt2", "-s", "256", "-b", largest + 1, *device)["totals"]["fits"] is False


def test_a_smaller_batch_that_would_fit_is_the_largest_such(cli):
    args = ("gpt2", "--phase", "serve", "--memory", "2GB")
    change = asked(cli, *args, "-b", "999")["totals"]["change"]["change"]
    largest = asked(cli, *args, "--fit", "batch")["totals"]["fit"]["value"]
    assert change == f"--batch-size {largest}"


@pytest.mark.long
def test_the_longest_context_fits_and_one_more_token_does_not(cli):
    args = ("gpt2", "--phase", "serve", "--memory", "3GB")
    longest = asked(cli, *args, "--fit", "context")["totals"]["fit"]["value"]
    assert asked(cli, *args, "-s", longest)["totals"]["fits"] is True
    assert asked(cli, *args, "-s", longest + 1)["totals"]["fits"] is False


@pytest.mark.long
def test_the_longest_context_is_shared_by_the_ranks_of_sequence_parallelism(cli):
    args = ("gpt2", "--phase", "prefill", "--memory", "3GB", "--tp", "4", "--sp")
    longest = asked(cli, *args, "--fit", "context")["totals"]["fit"]["value"]
    assert longest % 4 == 0
    assert asked(cli, *args, "-s", longest)["totals"]["fits"] is True
    assert asked(cli, *args, "-s", longest + 4)["totals"]["fits"] is False


EAGER = ("gemma-2-9b", "-s", "4096", "--optimizer", "sgd", "--loss", "fused", "--memory")
"""Its capped scores have no fused kernel, so that attention keeps most."""


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("memory", "cheapest"),
    [
        ("200GB", "none"),
        ("100GB", "layers.*.attention.attend"),
        ("54GB", "layers.*.attention"),
        ("45GB", "layers.*.attention.attend,layers.*.ffn"),
        ("30GB", None),
    ],
)
def test_the_cheapest_recomputation_that_fits(cli, memory, cheapest):
    totals = asked(cli, *EAGER, memory, "--fit", "recompute")["totals"]
    assert totals["fit"]["value"] == cheapest
    if cheapest is not None:
        again = asked(cli, *EAGER, memory, "--recompute", cheapest)["totals"]
        assert (again["fits"], again["peak_bytes"]) == (True, totals["fit"]["peak_bytes"])


@pytest.mark.long
def test_what_is_repeated_is_the_forward_of_what_is_recomputed(cli):
    """Gated feed-forward networks of 42 layers: three matrices of 3,584 x 14,336, GELU and a product."""
    out = cli("memory", *EAGER, "100GB", "--alternatives").out
    line = next(line for line in out.splitlines() if line.startswith("layers.*.ffn "))
    assert f"{42 * 4096 * 14_336 * (3 * 2 * 3_584 + 1 + 1):,}" in line


@pytest.mark.long
def test_recomputing_two_modules_frees_what_both_free(cli):
    def kept(setting):
        return asked(cli, "gpt2", "-s", "64", "--recompute", setting)["totals"]["kept_bytes"]

    ffn, attention = "layers.*.ffn", "layers.*.attention"
    both = kept(f"{ffn}, {attention}")
    assert kept("none") - both == (kept("none") - kept(ffn)) + (kept("none") - kept(attention))
    assert kept("none") > kept(attention) > both > kept("layer")


@pytest.mark.long
def test_the_fewest_devices_train_and_one_fewer_do_not(cli):
    found = asked(cli, "llama-3.1-8b", "--device", "rtx-4090", "--fit", "devices")["totals"]["fit"]
    dp, tp = found["plan"]["dp"], found["plan"]["tp"]
    assert found["value"] == dp * tp
    plan = ("--tp", tp, "--device", "rtx-4090", "--zero", "3")
    assert asked(cli, "llama-3.1-8b", "--dp", dp, *plan)["totals"]["fits"] is True
    assert asked(cli, "llama-3.1-8b", "--tp", tp, "--device", "rtx-4090")["totals"]["fits"] is False
    assert found["value"] == 8


@pytest.mark.long
def test_serving_takes_a_tensor_degree_that_divides_heads(cli):
    args = ("llama-3.1-70b", "--phase", "serve", "--device", "h100-sxm")
    found = asked(cli, *args, "--fit", "devices")["totals"]["fit"]
    assert found["value"] == found["plan"]["tp"]
    assert 64 % found["value"] == 0
    assert asked(cli, *args, "--tp", found["value"])["totals"]["fits"] is True
    assert asked(cli, *args)["totals"]["fits"] is False


@pytest.mark.long
def test_which_gpu_is_needed_is_one_command(cli):
    """Qwen3-8B with LoRA at 4k on every GPU, those with least memory in all first."""
    document = asked(cli, "qwen3-8b", *LORA, "-s", "4096", "--fit", "devices")
    devices = document["totals"]["fit"]["devices"]
    enough = [d["fewest_devices"] is not None for d in devices]
    assert enough == sorted(enough, reverse=True)
    # too small for two layers, or sold without a link over which to share a matrix
    without = {d["device"]: d["memory_bytes"] for d in devices if d["fewest_devices"] is None}
    assert {*without} >= TOO_SMALL
    for name, size in without.items():
        figures = load_datasheet(name).figures
        joined = figures["devices_per_node"].value if "devices_per_node" in figures else 8
        alone = "link_gb_s" not in figures or joined == 1
        assert size < 8 * 2**30 or alone, name
    in_all = [d["fewest_devices"] * d["memory_bytes"] for d in devices if d["fewest_devices"]]
    assert in_all == sorted(in_all)
    needed = document["totals"]["peak_bytes"] + document["totals"]["beyond_bytes"]
    assert all(d["fits"] is (d["fewest_devices"] == 1) for d in devices)
    for device in devices:  # the workspaces of cuBLAS differ by tens of MB from device to device
        assert device["fits"] is (device["memory_bytes"] >= needed)
    out = cli("memory", "qwen3-8b", *LORA, "-s", "4096", "--fit", "devices").out
    assert "devices that hold it, least memory in all first" in out


@pytest.mark.long
def test_no_plan_leaves_the_links_of_a_node(cli):
    """A matrix is shared by no more devices than a link joins; more devices are stages."""
    totals = asked(cli, "llama-3.1-70b", "--phase", "serve", "--fit", "devices")["totals"]
    plans = {each["device"]: each["plan"] for each in totals["fit"]["devices"] if each["plan"]}
    joined = {"dgx-spark": 1, "m2-ultra": 1, "jetson-orin-64gb": 1, "mi50": 4, "rtx-3080": 8}
    assert {name: plans[name]["tp"] <= most for name, most in joined.items()} == dict.fromkeys(joined, True)
    for plan in plans.values():
        assert plan["tp"] in {1, 2, 4, 8}
    # 141.1 GB of weights: two of 130.7 GB have half of them each
    assert (plans["dgx-spark"]["tp"], plans["dgx-spark"]["pp"]) == (1, 2)


@pytest.mark.long
def test_serving_fits_a_screen_and_the_verdict_stands_first_and_once(cli, monkeypatch):
    """Of 80 and of 60 columns: one table of ticks, no list; each verdict is that of JSON."""
    args = ("llama-3.1-8b", "--phase", "serve", "-s", "128Ki", "--device")
    for device, verdict in (
        ("l4", "Does not fit into l4 (20.2 GiB): "),
        ("h200-sxm", "Fits into h200-sxm ("),
    ):
        assert asked(cli, *args, device)["totals"]["fits"] is verdict.startswith("Fits")
        for columns in (80, 60):
            monkeypatch.setenv("COLUMNS", str(columns))
            out = cli("memory", *args, device, "--format", "table").out
            lines = out.splitlines()
            assert len(lines) < 40
            assert max(map(len, lines)) <= columns
            assert any(line.split()[:4] == ["1", *"✓✓✓"] for line in lines)
            assert out.startswith(f"llama-3.1-8b: {verdict}"[:columns])
            assert " ".join(out.split()).count(verdict) == 1


@pytest.mark.long
def test_a_table_of_serving_is_left_out_where_nothing_fits(cli):
    args = ("gpt2", "--phase", "serve", "--memory")
    assert "✗" not in cli("memory", *args, "100MB").out
    ticks = [line for line in cli("memory", *args, "1.6GB").out.splitlines() if "✗" in line or "✓" in line]
    assert all("✓" in line for line in ticks[:-1])
    assert "✓" not in ticks[-1]


@pytest.mark.long
def test_a_peak_that_fits_by_itself_is_told_with_what_is_beyond_it(cli):
    totals = asked(cli, "gpt2", "--phase", "serve")["totals"]
    between = totals["peak_bytes"] + totals["beyond_bytes"] // 2
    headline = cli("memory", "gpt2", "--phase", "serve", "--memory", between).out.splitlines()[0]
    assert "Does not fit into " in headline
    assert " at the peak and up to " in headline


@pytest.mark.long
def test_a_table_of_batch_and_context_for_serving(cli):
    args = ("--phase", "serve", "--device", "2xh100-sxm", "--tp", "2", "--chunk", "2048", "-s", "32Ki")
    out = cli("memory", "llama-3.1-8b", *args).out
    line = next(line for line in out.splitlines() if line.lstrip().startswith("64 "))
    assert "1,024  2,048  4,096  8,192  16,384  32,768" in out
    assert line.count("✓") + line.count("✗") == 6


def test_an_interrupt_while_fitting_ends_with_a_line(cli, monkeypatch):
    def interrupted(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("archcli.wings.serving.memory.answers.fit.fit", interrupted)
    done = cli("memory", "gpt2", "--memory", "8GiB", "--fit", "batch")
    assert done.code == 130
    assert "Traceback" not in done.err


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize(
    "args",
    [
        ("llama-3.1-8b", "--device", "8xh100-sxm", "--phase", "decode"),
        ("llama-3.1-8b", "--device", "16xh100-sxm", "--phase", "prefill", "-b", "1"),
        ("llama-3.1-8b", "--device", "16xh100-sxm", "--phase", "prefill", "-b", "4"),
        ("phi-4", "--device", "4xl4", "--phase", "decode"),
        ("gpt2", "--device", "6xa100-sxm-80gb", "--phase", "train"),
        ("llama-3.1-405b", "--device", "16xh100-sxm", "--phase", "serve", "-b", "16"),
        ("deepseek-v3", "--device", "2xdgx-spark", "--phase", "decode"),
    ],
)
def test_memory_and_predict_share_the_model_alike(cli, args):
    """All devices are used, and both commands say whether the plan fits."""
    memory = asked(cli, *args)
    predicted = json.loads(cli("predict", *args, "--json").out)
    plan = memory["inputs"]["plan"]
    assert predicted["inputs"]["plan"] == plan
    used = plan["dp"] * plan["tp"] * plan["pp"]
    assert used == memory["inputs"]["n_devices"] == predicted["inputs"]["n_devices"]
    assert predicted["totals"]["fits"] is memory["totals"]["fits"]
