"""Weights, caches and states beside what llama.cpp's own dry run states: `benchmarks/llamacpp_dry_run.py`."""

import csv
from pathlib import Path

import pytest

import archcli
from table import sampled_rows

TABLE = Path(__file__).parents[3] / "benchmarks/measured/llamacpp_dry_run.csv"
ROWS = list(csv.DictReader(TABLE.read_text().splitlines()))
ONE_CARD = [row for row in ROWS if row["cards"] == "1" and row["experts"] == "card"]
NAMES = {"f16": "fp16"}
WITHOUT_DRAFTS = {"deepseek-v3": ["mtp=null"], "deepseek-v3.2": ["mtp=null"]}
"""Presets with multi-token prediction, which the files leave out (`--no-mtp`)."""

F32, Q8_0 = 4, 34 / 32
"""Bytes of a weight."""

BESIDE = {
    "llama-3.1-8b": 64 * F32,
    "llama-3.1-70b": 64 * F32,
    "llama-3.2-1b": 32 * F32,
    "exaone-4.0-32b": 64 * F32,
    "minicpm3-4b": 2 * 16 * F32,
    "minimax-m2.5": 62 * 256 * F32,
    "deepseek-v3": 58 * 256 * F32,
    "nemotron-3-nano-30b-a3b": 23 * 128 * F32,
    "lfm2-8b-a1b": 22 * 32 * F32,
    "qwen3.5-35b-a3b": 40 * 2048 * (F32 - Q8_0),
    "qwen3-next-80b-a3b": 48 * 2048 * (F32 - Q8_0),
    "deepseek-v3.2": 58 * 256 * F32 + 61 * 64 * 7168 * (F32 - Q8_0),
}
"""Bytes of a file beside archcli's count: factors of RoPE, biases of the choice of experts, and matrices that
stay in fp32: the gate of a shared expert, the weights of an indexer's heads."""

IN_FP32 = {
    "llama-3.1-8b": 65 * 4096,
    "qwen2.5-0.5b": 49 * 896 + 24 * (896 + 2 * 128),
    "phi-2": 32 * (2 * 2560 + 4 * 2560 + 10240 + 2560) + 2 * 2560 + 51200,
    "lfm2-1.2b": 33 * 2048 + 6 * 2 * 64 + 10 * 3 * 2048,
    "gemma-3-1b": 26 * 4 * 1152 + 1152 + 26 * 2 * 256,
    "mamba-130m": 24 * (1536 * (4 + 1 + 16 + 1 + 1) + 768) + 768,
}
"""Weights of 16-bit files that llama.cpp keeps in fp32: norms, biases, convolutions, decays of a scan."""

ROWS_OF_512 = {
    "llama-2-7b": 32 * 384,
    "olmo-2-7b": 32 * 384,
    "olmo-3-7b": 32 * 384,
    "qwen3-30b-a3b": 48 * 384,
}
"""ggml-cuda fills up the last row of a quantized matrix to whole 512 weights: after d_ff 11,008 and 768 there
are 256 to go, 8 blocks of 34 bytes, 384 with the alignment to 128."""

ROWS_OF_576 = {"deepseek-v2-lite": 27 * 512}
"""A quantized cache's last row of a layer likewise: 448 weights to go, 14 blocks, 476 bytes."""

OTHER_FILES = {"gpt-oss-20b", "gemma-4-26b-a4b", "gemma-4-e4b"}
"""gpt-oss is published in MXFP4 with the rest in q8_0; Gemma 4 on a CPU holds its table twice."""

OTHER_CACHES = {"phi-3-mini-4k", "minicpm3-4b"}
"""llama.cpp keeps Phi-3's whole context in place of a window, and MiniCPM3's keys and values of all heads."""


def in_one_window(row):
    """Whether windows hold what `window_extra` says: of one sequence, or with the usual micro batch."""
    usual = row["ubatch"] == "512" and row["unified"] == "0"
    return row["kind"] != "window" or row["sequences"] == "1" or usual


FILES = {(row["model"], row["form"]): row for row in ONE_CARD if row["model"] not in OTHER_FILES}
CACHES = [row for row in ONE_CARD if row["model"] not in OTHER_CACHES and in_one_window(row)]
PLAIN = [row for row in FILES.values() if row["model"] in ROWS_OF_512 or row["kind"] == "dense"]


SEVERAL = [
    row for row in ROWS if row["cards"].isdigit() and row["cards"] != "1" and row["model"] not in OTHER_FILES
]

UNLIKE = [
    row
    for row in ROWS
    if "+" in row["cards"] and row["model"] not in OTHER_FILES and int(row["layers"].split("+")[-1]) > 1
]


def options_of(row):
    """Of a question to archcli: the format of a row, and its model without drafts."""
    return {"dtype": NAMES.get(row["form"], row["form"]), "set": WITHOUT_DRAFTS.get(row["model"], ())}


def asked_of(row):
    """Options of a server's memory."""
    served = {
        "seq_len": int(row["context"]),
        "batch_size": int(row["sequences"]),
        "chunk": int(row["ubatch"]),
    }
    kept = (
        {"kv_dtype": NAMES.get(row["cache"], row["cache"])} if row["cache"] != "f16" else {"kv_dtype": "fp16"}
    )
    return {**served, **kept, **options_of(row), "engine": "llamacpp"}


def held(row):
    """Bytes of the parts of a server's memory."""
    return archcli.count_memory(row["model"], "serve", **asked_of(row)).totals["parts"]


def numbers(text):
    """Of `17+16`, one for each card."""
    return [int(number) for number in text.split("+")]


def beside(row):
    """Bytes that the file has beside archcli's count."""
    wider = 0 if row["form"] == "q8_0" else 2 * IN_FP32[row["model"]]
    return BESIDE.get(row["model"], 0) + wider


@sampled_rows("row", FILES.values(), quick=6)
def test_a_file_weighs_what_llama_cpp_says(row):
    counted = archcli.count_params(row["model"], **options_of(row)).totals["bytes"]
    assert counted + beside(row) == int(row["cpu_weights"])


@sampled_rows("row", PLAIN, quick=4)
def test_a_card_holds_the_weights_that_llama_cpp_says(row):
    """All but the tables that stay in RAM."""
    padding = ROWS_OF_512.get(row["model"], 0)
    assert held(row)["weights"] + beside(row) + padding == int(row["weights_card"])


@sampled_rows("row", CACHES, quick=8)
def test_caches_and_states_are_those_of_llama_cpp(row):
    padding = ROWS_OF_576.get(row["model"], 0) if row["cache"] == "q8_0" else 0
    assert held(row)["cache"] + padding == int(row["context_card"])
    printed = float(row["kv_mib"]) + float(row["rs_mib"])
    assert round(abs(held(row)["cache"] / 2**20 - printed), 2) <= 0.01


@sampled_rows("row", SEVERAL, quick=2)
def test_each_of_equal_cards_holds_its_layers(row):
    """The output is a layer of the last card; each has the factors of RoPE."""
    cards = len(numbers(row["layers"]))
    answer = archcli.count_memory(row["model"], "serve", **asked_of(row), plan={"pp": cards})
    stages = sorted(answer.totals["ranks"], key=lambda rank: rank["stage"])
    *layers, last = numbers(row["layers"])
    padding = [384 * held for held in (*layers, last - 1)] if row["model"] in ROWS_OF_512 else [0] * cards
    weights = [stage["parts"]["weights"] + beside(row) for stage in stages]
    assert [counted + more for counted, more in zip(weights, padding, strict=True)] == numbers(
        row["weights_card"]
    )
    assert [stage["parts"]["cache"] for stage in stages] == numbers(row["context_card"])


@sampled_rows("row", UNLIKE, quick=3)
def test_each_of_unlike_cards_holds_its_layers(row):
    """By bytes that are free on each; a card with no layer or the output alone gets one here."""
    device = "+".join(f"{size}GiB" for size in row["cards"].split("+"))
    ranks = archcli.count_memory(row["model"], "serve", **asked_of(row), device=device).totals["ranks"]
    stages = sorted(ranks, key=lambda rank: rank["stage"])
    assert [stage["parts"]["cache"] for stage in stages] == numbers(row["context_card"])
    for stage, held_there in zip(stages, numbers(row["weights_card"]), strict=True):
        assert stage["parts"]["weights"] == pytest.approx(held_there, rel=1e-5)


def test_the_table_covers_the_kinds():
    """Forty cases at least of each kind of memory, with other caches and several sequences."""
    assert len(ROWS) >= 40
    kinds = {"dense", "mixture", "latent", "sparse", "hybrid", "window", "recurrent"}
    assert {row["kind"] for row in ROWS} == kinds
    for column, values in {
        "cache": {"f16", "q8_0"},
        "ubatch": {"512", "2048"},
        "sequences": {"1", "4"},
    }.items():
        assert {row[column] for row in ROWS} == values
