"""What `fit` chooses first: four bits a weight where they fit, and on a Mac what both engines read."""

import pytest

import archcli
from archcli.errors import ArchError
from archcli.modules.stored.formats import is_format, stored_format
from table import every_row


def bits(name):
    return stored_format(name).bits if is_format(name) else 16


# models that fit these cards in fewer than 4 bits with 8,192 tokens, and in 4 bits or more with fewer
TIGHT = [
    ("codestral-22b", "rtx-3060"),
    ("qwen2.5-32b", "rtx-4080"),
    ("mixtral-8x7b", "rtx-4090"),
    ("llama-3.1-8b", "4GiB"),
    ("phi-4", "8GiB"),
]


@pytest.mark.long
@every_row("model, device", TIGHT)
def test_the_first_choice_has_four_bits_wherever_such_a_format_fits(model, device):
    report = archcli.fit(model, device, verbose=True)
    every = [
        row["format"] for table in report.tables if table.title == "every format" for row in table.records
    ]
    assert every
    assert bits(report.totals["format"]) >= 4 or all(bits(name) < 4 for name in every)


def test_min_bits_moves_the_floor():
    """Phi-4 in 8.5 GiB: IQ4_XS holds some 3,000 tokens, and IQ3_XXS the 8,192 that are wanted first."""
    four, three = (archcli.fit("phi-4", "8.5GiB", min_bits=n).totals for n in (4, 3))
    assert bits(four["format"]) >= 4 > bits(three["format"]) >= 3
    assert four["context"] < 8192 <= three["context"]
    with pytest.raises(ArchError, match=r"min[-_]bits"):
        archcli.fit("gpt2", "rtx-3060", min_bits=0)


def test_where_four_bits_do_not_fit_fewer_are_chosen_with_a_note():
    report = archcli.fit("llama-3.1-8b", "4.2GiB")
    assert bits(report.totals["format"]) < 4
    assert "No form of 4 bits a weight or more fits (--min-bits)." in report.notes
    # what is published in fewer bits is no less than it was
    assert archcli.fit("bitnet-b1.58-2b-4t", "rtx-4090").totals["format"].startswith("published")


@pytest.mark.long
def test_of_many_models_those_in_few_bits_stand_last():
    report = archcli.fit(device="rtx-4090", where=["params>28B", "params<60B"], verbose=True)
    rows = [row for row in report.rows if row["fits"]]
    enough = [bits(row["format"]) >= 4 for row in rows]
    assert enough == sorted(enough, reverse=True)
    assert {True, False} <= {*enough}
    assert any("fit in fewer than 4 bits a weight alone and stand last" in note for note in report.notes)
    fewer = archcli.fit(device="rtx-4090", where=["params>28B", "params<60B"], min_bits=2).rows
    sizes = [row["params"] for row in fewer if row["fits"]]
    assert sizes == sorted(sizes, reverse=True)


MACS = {"qwen3-32b": "m4-pro", "llama-3.1-70b": "m3-max", "gpt-oss-20b": "m3-pro:36gb"}


@pytest.mark.long
@every_row("model", MACS)
def test_on_a_mac_the_best_of_llama_cpp_and_that_of_mlx_are_named(model):
    totals = archcli.fit(model, MACS[model]).totals
    rival = totals["other_engine"]
    assert (totals["engine"], rival["engine"]) == ("llamacpp", "mlx")
    of_mlx = archcli.fit(model, MACS[model], engine="mlx").totals
    assert of_mlx["other_engine"] is None
    assert all(rival[key] == of_mlx[key] for key in ("format", "context", "peak_bytes", "engine"))
    assert rival["format"].startswith(("mlx-", "fp16", "bf16"))


def test_on_a_mac_no_format_of_gpu_engines_is_chosen():
    report = archcli.fit("llama-3.1-70b", "m3-max", verbose=True)
    [every] = [table for table in report.tables if table.title == "every format"]
    assert {row["engine"] for row in every.records} == {"llamacpp", "mlx"}
    assert {"q8_0", "mlx-8bit", "mlx-4bit"} <= {row["format"] for row in every.records}
    assert archcli.fit("llama-3.1-8b", "rtx-4090").totals["other_engine"] is None


def test_files_of_gpt_oss_keep_the_experts_they_were_published_with():
    """On 12 GB the checkpoint of 12.8 GiB does not fit; the GGUF file of 11.3 GiB does."""
    assert archcli.fit("gpt-oss-20b", "rtx-3060").totals["format"] == "mxfp4-moe"
    report = archcli.fit("llama-3.1-8b", "rtx-3060", verbose=True)
    assert "mxfp4-moe" not in str(report.tables)


@pytest.mark.long
def test_what_is_published_in_fp8_is_offloaded_in_llama_cpps_formats():
    for model, form in (("deepseek-v3", "q"), ("deepseek-v4-flash", "mxfp4-moe"), ("minimax-m2", "q")):
        totals = archcli.fit(model, "rtx-4090", offload="auto", ram="768GiB").totals
        assert totals["format"].startswith(form)
