"""`archcli fit` on this machine: presets that suit it, what a CPU runs, and an offload that is none."""

import json

import pytest

import archcli
from archcli.load.presets import preset_records
from archcli.wings.serving.api.fitting import suited
from archcli.wings.serving.api.fitting.question import FitOptions
from archcli.wings.serving.api.known_device import profiles
from archcli.wings.serving.recorded import cuda_driver, machine
from table import every_row, sampled_rows

GIB = 2**30
BANDWIDTH = 40e9
RECORDS = {record["name"]: record for record in preset_records()}


@pytest.fixture
def here(monkeypatch, tmp_path):
    """A machine of 8 cores without a GPU, with 24 of 32 GiB free, and without a model file."""
    for name in (
        "HOME",
        "USERPROFILE",
        "XDG_CACHE_HOME",
        "HF_HOME",
        "HF_HUB_CACHE",
        "LLAMA_CACHE",
        "OLLAMA_MODELS",
    ):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setattr(cuda_driver, "local_gpus", lambda *_: ())
    monkeypatch.setattr(machine, "available_memory", lambda *_: 24 * GIB)
    monkeypatch.setattr(machine, "total_memory", lambda *_: 32 * GIB)
    monkeypatch.setattr(machine, "cores", lambda: 8)
    monkeypatch.setattr(machine, "processor", lambda: "16 x Chip 8-Core Processor")
    monkeypatch.setattr(profiles, "processor", lambda: "16 x Chip 8-Core Processor")
    return tmp_path


def measured(home):
    rates = {"gemm_flops_per_s": 4e11, "dram_bytes_per_s": BANDWIDTH, "cache_bytes_per_s": 8e10}
    kept = {
        "16 x Chip 8-Core Processor | AVX2 | 8 | fp32 | cpu | 2.13.0": {
            **rates,
            "dtype": "fp32",
            "measured": "earlier",
        }
    }
    (home / "archcli").mkdir()
    (home / "archcli" / "ceilings.json").write_text(json.dumps(kept))


def check_choice(rows):
    """One preset of each of five series, all of the last years."""
    chosen = [RECORDS[row["model"]] for row in rows]
    assert len({record["series"] for record in chosen}) == len(rows) == 5
    newest = max(record["year"] for record in RECORDS.values())
    assert all(newest - record["year"] <= 2 for record in chosen)
    assert all(row["fits"] for row in rows)


@pytest.mark.long
def test_without_files_five_presets_of_a_usable_speed_are_named(here, cli):
    """None reads more bytes a token than the RAM gives in a fifth of a second."""
    measured(here)
    report = json.loads(cli("fit", "--json").out)
    check_choice(report["rows"])
    for row in report["rows"]:
        record, rates = RECORDS[row["model"]], row["tokens_per_s"]
        assert 5 <= rates["expected"] <= rates["floor"]
        read = record["active_params"] - record["vocab_size"] * record["d_model"]
        assert read * 4 / 8 * rates["expected"] < BANDWIDTH


@pytest.mark.long
def test_without_rates_presets_are_named_all_the_same(here, cli):
    done = cli("fit")
    assert done.code == 0
    assert "no model files lie in the caches" in done.out.splitlines()[0]
    assert "No rates of this machine are known: `archcli profile gpt2` measures them." in done.out
    report = json.loads(cli("fit", "--json").out)
    check_choice(report["rows"])
    assert {row["tokens_per_s"]["expected"] for row in report["rows"]} == {None}


def test_where_the_system_says_nothing_a_device_has_to_be_named(here, cli, monkeypatch):
    monkeypatch.setattr(machine, "available_memory", lambda *_: None)
    done = cli("fit")
    assert (done.code, len(done.out.splitlines())) == (0, 1)
    assert "`archcli fit --device NAME` says which presets fit." in done.out


@pytest.mark.long
@sampled_rows("device", ["rtx-4090", "rtx-3060", "m3-max", "gtx-1650"], 1)
def test_a_larger_preset_of_the_series_is_slower_or_does_not_fit(device):
    chosen = suited.suited(FitOptions(device=device), lambda *_: None)
    for entry in chosen.entries[:2]:
        record = RECORDS[entry.name]
        larger = [
            other["name"]
            for other in RECORDS.values()
            if (other["series"], other["kind"], other["media"]) == (record["series"], "decoder", None)
            and other["year"] >= chosen.since
            and record["params"] * 1.1 < other["params"] < record["params"] * 3
        ]
        for name in larger:
            totals = archcli.fit(name, device, min_speed=5).totals
            bits = {"iq", "q2", "q3", "tq"}
            assert not totals["fits"] or totals["format"][:2] in bits


def test_a_cpu_begins_at_eight_bits(here):
    """Its weights are read for each token: in q8_0, 34 bytes of 32 weights, half as many as in bf16."""
    measured(here)
    report = archcli.fit("llama-3.2-1b", "local")
    assert report.totals["format"] == "q8_0"
    assert report.totals["better"]["format"] == "bf16"
    assert (
        "On a CPU the first choice has 8 bits a weight or fewer: --dtype bf16 asks for more." in report.notes
    )
    wide = archcli.fit("llama-3.2-1b", "local", dtype="bf16").totals
    assert wide["format"] == "bf16"
    speeds = report.totals["tokens_per_s"]["expected"] / wide["tokens_per_s"]["expected"]
    assert 1.5 < speeds < 32 * 2 / 34
    assert archcli.fit("llama-3.2-1b", "rtx-4090").totals["format"] == "bf16"


@every_row("asked", [("local",), ("LOCAL", "--where", "params<200M")])
def test_local_is_a_device_like_others(here, cli, asked):
    done = cli("fit", *asked, "--where", "series=gpt")
    assert (done.code, done.err) == (0, "")
    assert "presets fit 8 cores of Chip" in done.out
    assert cli("fit", "gpt2", asked[0]).out.startswith(
        "gpt2: fits 8 cores of Chip (24.0 GiB free of 32.0 GiB)"
    )
    shown = cli("devices", asked[0])
    assert shown.code == 0
    assert shown.out.startswith("local: ")


REFUSED = [
    (("gpt2", "rtx-4090", "--offload", "banana"), "--offload 'banana' is no offload"),
    (("llama-3.1-70b", "rtx-4090", "--offload", "banana"), "--offload 'banana' is no offload"),
    (("--device", "rtx-4090", "--offload", "banana"), "--offload 'banana' is no offload"),
    (("gpt2", "rtx-4090", "--offload", "layers:13"), "layers:13 is more than the 12 layers of gpt2"),
    (("gpt2", "rtx-4090", "--offload", "experts"), "gpt2 has no routed experts to leave in RAM"),
    (
        ("gpt2", "m2-max", "--offload", "auto"),
        "--offload leaves a part in RAM, and m2-max has no other memory",
    ),
]


@every_row(("asked", "told"), REFUSED, ids=str)
def test_an_offload_that_is_none_is_refused_whether_or_not_the_model_fits(cli, asked, told):
    done = cli("fit", *asked)
    assert (done.code, told in done.err.splitlines()[0]) == (2, True)


@pytest.mark.long
def test_computers_of_one_device_count_alone_in_training():
    """llama-3.1-8b in training holds 16 bytes of each of 8.03e9 parameters: no Mac below 128 GB does."""
    report = archcli.count_memory("llama-3.1-8b", "train", seq_len=128, fit="devices")
    fewest = {record["device"]: record["fewest_devices"] for record in report.totals["fit"]["devices"]}
    single = ("m", "jetson", "dgx-spark", "ryzen")
    alone = {
        name: n
        for name, n in fewest.items()
        if name.startswith(single) and not name.startswith(("mi", "max"))
    }
    assert alone["m2-max"] is alone["dgx-spark"] is None
    assert alone["m3-ultra"] == 1
    assert {n for name, n in alone.items() if name not in {"m10", "m40", "m60"}} == {None, 1}
    [table] = [table for table in report.tables if table.title.startswith("devices that hold it")]
    assert all(row["fewest_devices"] for row in table.records)
    named = archcli.count_memory("llama-3.1-8b", "train", seq_len=128, fit="devices", device="dgx-spark")
    assert named.totals["fit"]["value"] == 2
