"""`archcli fit`: its three forms, its JSON, what it refuses, and how it ends."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

import archcli
from gguf_files import tiny
from model_files_written import write_folder, write_gguf
from table import every_row, sampled_rows

RATES = {"floor", "low", "expected", "high"}
STEP = {"format", "context", "tokens_per_s", "peak_bytes"}
TOTALS = {
    *STEP,
    *("fits", "verdict", "sure_context", "engine", "memory_bytes", "better", "smaller"),
    *("other_engine", "change"),
    *("speed_at", "speed_source", "plan", "devices"),
}
OF_A_MODEL = {"model", "format", "fits", "verdict", "context", "peak_bytes", "tokens_per_s"}
REAL_FILES = Path(__file__).parents[1] / "load" / "huggingface" / "real_files"
PRESETS = {path.stem for path in (Path(__file__).parents[2] / "presets").glob("*.yaml")}
SMALL = ("--where", "params<200M")
"""Of few presets, whose traces are short."""


@pytest.fixture(autouse=True)
def bare_home(tmp_path, monkeypatch):
    """A home without models, which is also the current folder."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(home))
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "LLAMA_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("OLLAMA_MODELS", raising=False)


ANSWERS = {}
"""What was printed of presets, by arguments: a large model that does not fit takes seconds."""


@pytest.fixture
def answer(cli):
    """The JSON of `archcli fit` with these arguments."""

    def asked(*args):
        printed = ANSWERS.get(args)
        if printed is None:
            done = cli("fit", *args, "--json")
            assert done.code == 0, done.err
            printed = done.out
        if args[0] in PRESETS:
            ANSWERS[args] = printed
        return json.loads(printed)

    return asked


@pytest.mark.long
def test_a_model_and_a_device_have_a_verdict_in_the_first_line(cli):
    """Llama 3.1 70B on two 3090s: 4 bits fit, and llama.cpp generates 11 to 22 tokens/s."""
    lines = cli("fit", "llama-3.1-70b", "2xrtx-3090").out.splitlines()
    assert lines[0].startswith("llama-3.1-70b: fits 2 x rtx-3090 as q4_k_m with ")
    assert lines[0].endswith(" tokens/s (10.6 to 21.9)")
    assert lines[1].startswith("serving, 1 x ")
    assert lines[3].startswith("As llama.cpp runs it. Speed with 2,048 tokens in the cache: ")
    assert len(lines) <= 14


def test_the_json_of_a_model_has_its_keys(answer):
    report = answer("llama-3.1-8b", "rtx-4090")
    totals = report["totals"]
    assert set(totals) == TOTALS
    assert (totals["fits"], totals["format"], totals["engine"]) == (True, "bf16", "vllm")
    assert set(totals["tokens_per_s"]) == RATES
    assert totals["better"] is None
    assert set(totals["smaller"]) == STEP
    assert set(totals["change"]) == {"option", "value", "text", "command"}
    assert [set(row) for row in report["rows"]] == [STEP] * 2


@pytest.mark.long
def test_what_does_not_fit_has_neither_format_nor_context(answer, cli):
    totals = answer("llama-3.1-405b", "4090")["totals"]
    assert set(totals) == TOTALS
    assert (totals["fits"], totals["format"], totals["context"]) == (False, None, None)
    assert (totals["better"], totals["smaller"]) == (None, None)
    assert (totals["change"]["option"], totals["change"]["value"]) == ("--device", "8xrtx-4090")
    assert "does not fit rtx-4090: as q2_k" in cli("fit", "llama-3.1-405b", "4090").out.splitlines()[0]


@pytest.mark.long
@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(("llama-3.1-405b", "4090"), marks=pytest.mark.long),
        pytest.param(("llama-3.1-70b", "2x3090"), marks=pytest.mark.long),
        ("llama-3.1-8b", "4090", "--dtype", "bf16", "-c", "131072"),
    ],
    ids=" ".join,
)
def test_the_change_that_is_named_helps(answer, asked):
    before = answer(*asked)["totals"]
    option, value = before["change"]["option"], before["change"]["value"]
    kept = asked[:1] if option == "--device" else asked
    kept = kept[: kept.index(option)] + kept[kept.index(option) + 2 :] if option in kept else kept
    after = answer(*kept, option, value)["totals"]
    assert after["fits"]
    assert not before["fits"] or after["context"] > before["context"]


@pytest.mark.long
def test_a_format_and_a_context_that_are_stated_are_what_is_asked(answer, cli):
    asked = ("llama-3.1-8b", "rtx-4090", "--dtype", "q4_k_m", "--context", "32768")
    totals = answer(*asked)["totals"]
    assert (totals["format"], totals["speed_at"]) == ("q4_k_m", 32_768)
    assert totals["context"] >= 32_768
    assert "as q4_k_m with 32,768 tokens of context" in cli("fit", *asked).out.splitlines()[0]


@pytest.mark.long
def test_a_speed_that_is_stated_is_reached_or_the_fastest_is_named(answer, cli):
    usual, fast = answer("llama-3.1-8b", "4090")["totals"], ("llama-3.1-8b", "4090", "--min-speed")
    totals = answer(*fast, "100")["totals"]
    assert totals["tokens_per_s"]["expected"] >= 100 > usual["tokens_per_s"]["expected"]
    assert "too slow on rtx-4090: " in cli("fit", *fast, "5000").out.splitlines()[0]


@pytest.mark.long
def test_presets_that_fit_a_device_are_rows(answer, cli):
    report = answer("--device", "rtx-4090", *SMALL)
    assert set(report["totals"]) == {"fitting", "asked", "device"}
    assert report["totals"]["device"] == "rtx-4090"
    assert all(set(row) == {"params", *OF_A_MODEL} for row in report["rows"])
    assert report["totals"]["asked"] == len(report["rows"])
    assert report["totals"]["fitting"] == sum(row["fits"] for row in report["rows"])
    by_speed = answer("--device", "rtx-4090", *SMALL, "--sort", "speed")["rows"]
    rates = [row["tokens_per_s"]["expected"] for row in by_speed if row["fits"]]
    assert rates == sorted(rates, reverse=True)
    first = cli("fit", "4090", *SMALL).out.splitlines()[0]
    assert first.endswith(" presets fit rtx-4090, the largest first")


@pytest.mark.long
def test_rows_of_a_device_are_what_each_model_is_said_to_be(answer):
    """Four of those that fit and four of those that do not, asked alone; of the former also by memory."""
    context = ("--context", "32768")
    rows = answer("--device", "rtx-3090", *context)["rows"]
    random = Random(28)  # noqa: S311
    fitting = [row for row in rows if row["fits"]]
    for row in random.sample(fitting, 4):
        alone = answer(row["model"], "rtx-3090", *context)["totals"]
        assert {key: alone[key] for key in OF_A_MODEL - {"model"}} == {
            key: row[key] for key in OF_A_MODEL - {"model"}
        }
        dtype = None if row["format"] == "published" else row["format"]
        asked = {"phase": "serve", "device": "rtx-3090", "dtype": dtype, "engine": alone["engine"]}
        held = archcli.memory(row["model"], seq_len=row["context"], **asked).totals
        assert (held["fits"], held["peak_bytes"]) == (True, row["peak_bytes"])
    longer = {row["name"] for row in archcli.presets().rows if (row["max_seq_len"] or 32_768) >= 32_768}
    others = [row["model"] for row in rows if not row["fits"] and row["model"] in longer]
    for model in random.sample(others, 4):
        assert not answer(model, "rtx-3090", *context)["totals"]["fits"]


def test_files_below_a_folder_are_rows_and_damaged_ones_have_a_reason(answer, cli, tmp_path):
    folder = tmp_path / "models"
    size = write_folder(folder / "tuned")
    write_gguf(folder / "cut.gguf", more=-1)
    report = answer("--files", folder, "--device", "rtx-4090")
    [row] = report["rows"]
    assert set(row) == {"file", "bytes", *OF_A_MODEL}
    assert (row["model"], row["file"], row["bytes"]) == ("tuned", str(folder / "tuned"), size)
    assert set(report["totals"]) == {"fitting", "asked", "device"}
    out = cli("fit", "--files", folder, "--device", "rtx-4090").out
    assert "1 of 1 model files fit rtx-4090" in out.splitlines()[0]
    assert "Left out: " in out
    assert "cut.gguf: the file is cut short: 1 bytes are missing." in out


FORMS = {
    "gpt-oss-20b": "published (MXFP4, experts in blocks of 32)",
    "llama-3.1-8b-instruct-awq-int4": "published (AWQ, 4 bits in groups of 128)",
    "qwen3-8b-fp8": "published (FP8 in blocks of 128 x 128 with a scale of fp32)",
    "llama-2-7b-gptq": "published (GPTQ, 4 bits in groups of 128)",
}
"""What a config.json states in bits and groups."""


@sampled_rows("name", FORMS, 4)
def test_a_form_that_a_file_states_is_called_what_it_is(answer, name):
    """The nearest kin of gpt-oss-20b is no smaller form of it."""
    totals = answer(REAL_FILES / f"{name}.json", "rtx-4090")["totals"]
    assert totals["format"] == FORMS[name]
    smaller = (totals["smaller"] or {}).get("format")
    assert smaller != FORMS[name]
    assert "4 bits" not in FORMS[name] or smaller not in {"awq-int4", "gptq-int4", "nf4-double"}


def test_no_files_are_a_line(cli):
    done = cli("fit", "--files", ".")
    assert done.code == 0
    assert done.out.startswith("This machine has ")
    assert "no model files lie in " in done.out
    assert len(done.out.splitlines()) == 1


BARE = "name: bare\nkind: gpu\nvendor: own\nsource: none\ncertainty: C\n"
REFUSED = {
    "an unknown card": (("gpt2", "rtx-4091"), "no device 'rtx-4091'\n  = help: did you mean rtx-4090"),
    "a card without memory": (("gpt2", "bare.yaml"), "device 'bare' states no memory"),
    "a kind of device": (("gpt2", "cuda"), "'cuda' is a kind of device: its memory is not known"),
    "two memories": (("gpt2", "4090", "--memory", "24GB"), "--device and --memory both say what memory"),
    "no folder": (("--files", "nowhere"), "nowhere: error: no folder"),
    "conditions on files": (("--files", ".", "--where", "params>1B"), "--where chooses among presets"),
    "two devices": (("gpt2", "4090", "--device", "3090"), "two devices: 4090 and --device 3090"),
    "a condition on one model": (
        ("gpt2", "4090", "--where", "params>1B"),
        "--where chooses among models, and gpt2 is one",
    ),
    "an encoder": (("bert-base-uncased", "4090"), "an encoder has no cache"),
    "no format": (
        ("gpt2", "4090", "--dtype", "q9"),
        "unknown dtype 'q9'; such as bf16, fp8, q8_0, q4_k_m, awq-int4 or nf4",
    ),
    "no model": (("gpt2x", "4090"), "no file or preset 'gpt2x'"),
    "a cut file": (("cut.gguf", "4090"), "cut.gguf: error: the file is cut short"),
    "no speed": (("gpt2", "4090", "--min-speed", "0"), "min_speed must be a number above 0, not 0"),
    "a change of no model": (("--device", "4090", "--set", "d_ff=8"), "--set changes a model"),
    "a picture of many": (("--device", "4090", "--plot", "x.svg"), "--plot draws one model on a device"),
}


@sampled_rows("name", REFUSED, 4)
def test_what_is_refused_in_a_line(cli, tmp_path, name):
    (tmp_path / "home" / "bare.yaml").write_text(
        "name: bare\nkind: gpu\nvendor: own\nsource: none\ncertainty: C\n"
    )
    cut = 4 * tiny.COUNTED - 1
    write_gguf(tmp_path / "home" / "cut.gguf", metadata=tiny.LLAMA, tensors=tiny.TENSORS, size=cut)
    args, words = REFUSED[name]
    done = cli("fit", *args)
    assert (done.code, done.out) == (2, "")
    assert words in done.err
    assert "Traceback" not in done.err
    assert len(done.err.splitlines()) <= 3


@pytest.mark.long
@every_row("width", [60, 100])
def test_no_line_is_wider_than_the_terminal(cli, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    for args in (("llama-3.1-8b", "4090"), ("--device", "4090", *SMALL)):
        done = cli("fit", *args, "--format", "table")
        assert max(map(len, done.out.splitlines())) <= width
        assert "\x1b" not in done.out


@pytest.mark.long
def test_nothing_imports_torch():
    code = (
        "import sys\nimport archcli\narchcli.fit('gpt2', 'rtx-4090')\narchcli.fit()\n"
        "archcli.fit(device='rtx-4090', where=['params<20M'])\nprint({'torch', 'numpy'} & {*sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout == "set()\n"


@pytest.mark.long
def test_a_closed_pipe_ends_it_quietly():
    command = [sys.executable, "-m", "archcli", "fit", "gpt2", "rtx-4090"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    running.stdout.close()
    with running.stderr:
        assert running.stderr.read() == ""
    assert running.wait(timeout=300) in {0, 141}


@pytest.mark.long
@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_it_quietly():
    command = [sys.executable, "-m", "archcli", "fit", "--device", "rtx-4090"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(1.5)
    os.kill(running.pid, signal.SIGINT)
    out, err = running.communicate(timeout=300)
    assert (running.returncode, err) == (130, "")
    assert out == "" or "more were not asked" in out  # before the first was asked, or behind it


@pytest.mark.long
def test_what_lies_in_ram_is_that_of_memory(answer):
    totals = answer("gpt-oss-120b", "4090", "--offload", "experts")["totals"]
    asked = {"phase": "serve", "engine": "llamacpp", "device": "rtx-4090", "offload": "experts"}
    memory = archcli.count_memory("gpt-oss-120b", seq_len=totals["context"], **asked).totals
    assert (totals["offload"], totals["peak_bytes"]) == (memory["offload"], memory["peak_bytes"])
    assert (totals["offload"]["layers"], totals["offload"]["experts"]) == (0, True)


@pytest.mark.long
def test_a_part_in_ram_is_the_change_where_nothing_fits(answer):
    change = answer("gpt-oss-120b", "4090")["totals"]["change"]
    assert (change["option"], change["value"]) == ("--offload", "auto")
    totals = answer("gpt-oss-120b", "4090", "--offload", "auto")["totals"]
    assert (totals["fits"], totals["engine"], totals["offload"]["experts"]) == (True, "llamacpp", True)


@pytest.mark.long
def test_layers_and_experts_in_ram_are_predicted_together(answer):
    """Half of an RTX 3060 holds neither all caches nor any experts of Qwen3 235B at 32k."""
    asked = ("--dtype", "q4_k_m", "--ram", "512GiB", "--utilization", "0.5")
    totals = answer("qwen3-235b-a22b", "rtx-3060", "-c", "32768", "--offload", "auto", *asked)["totals"]
    layers, experts = (totals["offload"][key] for key in ("layers", "expert_layers"))
    assert 0 < layers < experts
    options = {"engine": "llamacpp", "dtype": "q4_k_m", "ram": "512GiB", "utilization": 0.5}
    options |= {"seq_len": 32768, "offload": f"layers:{layers},experts:{experts}"}
    predicted = archcli.predict("qwen3-235b-a22b", "rtx-3060", **options).totals
    assert totals["tokens_per_s"] == predicted["tokens_per_s"]


@pytest.mark.long
def test_what_ram_holds_is_asked_about(answer):
    """gpt-oss-120b is more than a card of 24 GB has, and less than it and 64 GiB of RAM."""
    only = ("--where", "series=gpt", "--where", "params in 100B..120B")
    assert answer("--device", "4090", *only)["totals"]["fitting"] == 0
    assert answer("--device", "4090", *only, "--offload", "auto")["totals"]["fitting"] == 1


def test_an_offload_is_of_llama_cpp(cli):
    done = cli("fit", "qwen3-8b", "4090", "--offload", "auto", "--engine", "vllm")
    assert (done.code, done.err.splitlines()[0]) == (
        2,
        "error: --offload is of llama.cpp, and the engine is vllm",
    )


@pytest.mark.long
def test_servers_serve_in_the_formats_of_their_engine(answer):
    """70B: q8_0 of llama.cpp fits two H100, too, and people serve fp8 there."""
    totals = answer("llama-3.1-70b", "2xh100", "-c", "100000")["totals"]
    assert (totals["engine"], totals["format"]) == ("vllm", "fp8")


PUBLISHED_IN_BLOCKS = ("deepseek-r1", "deepseek-v3", "deepseek-v3.2", "kimi-k2")
"""Further presets whose weights are published in blocks of fp8, which llama.cpp does not read."""


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    ["minimax-m2", *(pytest.param(it, marks=pytest.mark.long) for it in PUBLISHED_IN_BLOCKS)],
)
@pytest.mark.parametrize("offload", ["auto", pytest.param("experts", marks=pytest.mark.long)])
def test_an_offload_leaves_out_a_form_that_llama_cpp_does_not_read(name, offload, answer):
    totals = answer(name, "2xrtx-3090", "--offload", offload, "--ram", "1TiB")["totals"]
    assert (totals["fits"], totals["engine"], totals["format"]) == (True, "llamacpp", "q6_k")


@pytest.mark.long
def test_an_offload_that_holds_no_format_is_a_verdict(cli):
    done = cli("fit", "deepseek-v3", "rtx-4090", "--offload", "auto", "--ram", "64GiB")
    assert (done.code, done.out.splitlines()[0]) == (
        0,
        "deepseek-v3: does not fit rtx-4090 and 64.0 GiB of RAM in any format",
    )


@pytest.mark.long
def test_the_rate_of_several_sequences_is_that_of_all_and_of_each(cli):
    line = cli("fit", "llama-3.1-8b", "h100-sxm", "-b", "16").out.splitlines()[0]
    rate, each = re.search(r"; ([\d,]+) tokens/s \(.*\) of all, ([\d.]+) each$", line).groups()
    assert float(each) == pytest.approx(float(rate.replace(",", "")) / 16, rel=0.005)
    assert " of all" not in cli("fit", "llama-3.1-8b", "h100-sxm").out.splitlines()[0]
