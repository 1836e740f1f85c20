"""`--command`: command lines of engines, held against the arguments that the engines' own parsers take."""

import json
import re
import shlex
from pathlib import Path

import pytest

import archcli
from archcli.api.asking.subject import given
from archcli.errors import ArchError
from archcli.wings.serving.api.memory import MemoryOptions
from archcli.wings.serving.api.programs.command_lines import serve_command
from archcli.wings.serving.devices.engines import engines, load_engine
from table import every_row

PARSERS = json.loads((Path(__file__).parents[1] / "oracle" / "engine_arguments.json").read_text())
"""Read off the sources of vLLM 0.33.0, SGLang 0.5.23, mlx-lm 0.32.2, llama.cpp b11434 and TensorRT-LLM."""
POSITIONAL = {"vllm serve": 1, "trtllm-serve": 1}
NATIVE = {"bf16", "fp16", "fp32"}


def refused(line):
    """What an engine's parser does not take of a command line."""
    program = max((name for name in PARSERS if line.startswith(f"{name} ")), key=len)
    words = shlex.split(re.sub(r"<[^<>]*>", "PLACEHOLDER", line.removeprefix(program)))
    options, positional, problems = PARSERS[program]["options"], 0, []
    while words:
        name = words.pop(0)
        kind = options.get(name)
        if not name.startswith("-"):
            positional += 1
        elif kind is None:
            problems.append(f"no {name}")
        elif kind != "flag" and not takes(kind, words.pop(0) if words else ""):
            problems.append(f"{name} takes {kind}")
    expected = POSITIONAL.get(program, 0)
    return problems + [f"{positional} words beside options"] * (positional != expected)


def takes(kind, value):
    if isinstance(kind, list):
        return value in map(str, kind)
    patterns = {"int": r"\d+", "float": r"\d*\.?\d+", "text": r"[^-].*"}
    return re.fullmatch(patterns[kind], value) is not None


@every_row(
    "line",
    [
        "vllm serve m --max-model-length 8192",
        "vllm serve m --max-model-len 8k8",
        "vllm serve m --kv-cache-dtype q8_0",
        "vllm serve m --enable-expert-parallel 8",
        "vllm serve m --tensor-parallel-size",
        "llama-server -m m --max-model-len 8",
        "llama-bench -m m --cpu-moe",
        "mlx_lm.server --model m --kv-cache-dtype fp8",
    ],
)
def test_a_wrong_line_is_refused(line):
    assert refused(line)


def texts(engine, what):
    """The option texts of an engine's file, each filled with a value that it may have."""
    words = load_engine(engine).get(what, {})
    for key, text in words.items():
        name, _, value = key.partition(" ")
        named = {other.partition(" ")[2] for other in words if other.startswith(f"{name} ")}
        caches = [dtype for dtype in load_engine(engine)["cache_dtypes"] if dtype not in named]
        samples = {"rank": ["16"], "utilization": ["0.92"], "split": ["24080/12032"]}
        samples |= dict.fromkeys(("keys", "values"), caches)
        for sample in [value] if value else samples.get(name, ["2"]):
            yield text.format(sample)


@every_row("engine", [name for name in engines() if "command" in load_engine(name)])
def test_every_text_of_a_file_is_taken(engine):
    for what in ("command", "check"):
        filled = list(texts(engine, what))
        program = next((name for name in PARSERS if any(text.startswith(name) for text in filled)), "")
        model = "m" * POSITIONAL.get(program, 0)
        options = [text for text in filled if text.startswith("-")]
        assert not [text for text in options if refused(f"{program} {model} {text}")]
        assert len(options) > 1 or not filled


def question(model, engine="vllm", **options):
    """The question of `archcli memory --phase serve`."""
    return MemoryOptions(model, "serve", engine=engine, **options).question(given(model).model)


def line(model, engine="vllm", place="", **options):
    return serve_command(question(model, engine, **options), place)


def test_a_mixture_on_eight_cards():
    """All 8 cards share the experts, and 64 sequences have 16,000 tokens each."""
    asked = {"batch_size": 64, "seq_len": 16000, "device": "8xh200-sxm", "tp": 8, "ep": 8, "kv_dtype": "fp8"}
    assert line("deepseek-v3", **asked) == (
        "vllm serve <deepseek-v3> --max-model-len 16000 --max-num-seqs 64 --tensor-parallel-size 8 "
        "--enable-expert-parallel --gpu-memory-utilization 0.92 --kv-cache-dtype fp8 "
        "--max-num-batched-tokens 8192"
    )
    # groups of attention share the 64 sequences, of which SGLang is told all and TensorRT-LLM those of one
    grouped = line("deepseek-v3", "sglang", dp_attention=8, **asked)
    assert "--max-running-requests 64 --tp-size 8 --ep-size 8 --attn-dp-size 8" in grouped
    assert "--max_batch_size 8 " in line("deepseek-v3", "trtllm", dp_attention=8, **asked)
    # vLLM's experts lie on all devices or on none apart
    assert "expert" not in line("deepseek-v3", **(asked | {"ep": 4}))


def test_layers_and_experts_in_ram():
    """48 layers and the head are 49; four slots of 8,192 tokens share 32,768."""
    asked = {"batch_size": 4, "seq_len": 8192, "device": "rtx-4090", "dtype": "q4_k_m", "ram": "64GiB"}
    assert line("qwen3-30b-a3b", "llamacpp", offload="layers:8,experts:20", **asked) == (
        "llama-server -m <qwen3-30b-a3b-Q4_K_M.gguf> -ngl 41 --n-cpu-moe 20 -c 32768 -np 4"
    )
    assert " -ngl 0 " in line("qwen3-0.6b", "llamacpp", device="ryzen-9-7950x", dtype="q8_0")


def test_unlike_cards_have_layers_by_their_bytes():
    cards = ("rtx-4090", "rtx-3060")
    sizes = [archcli.fit("llama-3.2-1b", card, engine="llamacpp").totals["memory_bytes"] for card in cards]
    split = "/".join(str(size // 2**20) for size in sizes)
    asked = {"device": "rtx-4090 + rtx-3060", "dtype": "q4_k_m", "seq_len": 4096}
    assert line("llama-3.1-70b", "llamacpp", **asked).endswith(f" -ts {split}")


PLACES = [
    # a preset's source; formats that vLLM makes of published weights, and others
    ("qwen2.5-7b-instruct", {}, "", "vllm serve Qwen/Qwen2.5-7B-Instruct --max-model-len 2048"),
    ("llama-3.1-8b", {}, "", "vllm serve <llama-3.1-8b> "),
    ("llama-3.1-8b", {}, "meta-llama/Llama-3.1-8B", "vllm serve meta-llama/Llama-3.1-8B "),
    (
        "qwen2.5-7b-instruct",
        {"dtype": "fp8"},
        "",
        "Qwen/Qwen2.5-7B-Instruct .* --quantization fp8_per_tensor",
    ),
    ("qwen2.5-7b-instruct", {"dtype": "awq-int4"}, "", "vllm serve <Qwen/Qwen2.5-7B-Instruct in awq-int4> "),
    ("qwen3-8b", {"dtype": "awq-int4"}, "Qwen/Qwen3-8B-AWQ", "vllm serve Qwen/Qwen3-8B-AWQ "),
    ("qwen3-8b", {"dtype": "fp8"}, "Qwen/Qwen3-8B-FP8", "vllm serve Qwen/Qwen3-8B-FP8 (?!.*quantization)"),
    # published in fp8 in blocks, which its config.json says
    ("deepseek-v3", {}, "", "vllm serve <deepseek-v3> (?!.*quantization)"),
    ("qwen3-8b", {"dtype": "q4_k_m"}, "Qwen/Qwen3-8B-GGUF", "llama-server -hf Qwen/Qwen3-8B-GGUF:Q4_K_M "),
    ("qwen3-8b", {}, "Qwen/Qwen3-8B-GGUF", "vllm serve <qwen3-8b> "),
    ("gpt-oss-20b", {"engine": "llamacpp"}, "", "llama-server -m <gpt-oss-20b-MXFP4_MOE.gguf> -ngl 25 "),
    # the encoder of images is a file of its own
    ("qwen2.5-vl-7b", {"dtype": "q8_0"}, "", r"-m \S+-Q8_0.gguf> --mmproj <qwen2.5-vl-7b-mmproj.gguf> -ngl"),
    ("qwen3-8b", {"dtype": "q8_0"}, "my models/a.gguf", "llama-server -m 'my models/a.gguf' "),
]


@every_row("model, options, place, expected", PLACES)
def test_where_the_weights_are(model, options, place, expected):
    engine = "llamacpp" if options.get("dtype", "").startswith("q") else "vllm"
    found = line(model, **({"engine": engine, "place": place} | options))
    assert re.search(expected, found), found


@every_row("engine", [name for name in engines() if load_engine(name)["serves"]])
def test_a_cache_type_is_said(engine):
    for dtype in {*load_engine(engine)["cache_dtypes"]} - NATIVE - {"fp8_ds_mla"}:
        plain = line("llama-3.1-8b", engine)
        assert line("llama-3.1-8b", engine, kv_dtype=dtype) != plain, dtype
    if engine == "llamacpp":
        assert line("llama-3.1-8b", engine, kv_dtype="q8_0:q4_0").endswith("-ctk q8_0 -ctv q4_0")


REPORTS = {
    "fit": lambda: archcli.fit("qwen2.5-7b-instruct", "rtx-4090", command=True),
    "fit, two cards": lambda: archcli.fit("llama-3.1-70b", "2xrtx-3090", command=True),
    "fit, in RAM": lambda: archcli.fit(
        "qwen3-235b-a22b", "rtx-4090", offload="auto", ram="256GiB", command=True
    ),
    "fit on a Mac": lambda: archcli.fit("qwen3-30b-a3b", "m3-max-64gb", engine="mlx", command=True),
    "fit with adapters": lambda: archcli.fit("llama-3.1-8b", "rtx-4090", adapters=4, command=True),
    "memory": lambda: archcli.count_memory(
        "mixtral-8x7b", "serve", 8, 4096, engine="sglang", device="4xa100-80gb", adapters=2, command=True
    ),
    "memory, the largest batch": lambda: archcli.count_memory(
        "llama-3.1-8b", "serve", seq_len=8192, device="h100-sxm", fit="batch", command=True
    ),
    "memory, TensorRT-LLM": lambda: archcli.count_memory(
        "llama-3.1-8b", "serve", device="h100-sxm", engine="trtllm", kv_dtype="fp8", pp=2, command=True
    ),
    "predict": lambda: archcli.predict("llama-3.1-8b", "h100-sxm", "serve", 16, 4096, command=True),
    "predict, in chunks": lambda: archcli.predict(
        "llama-3.1-8b", "rtx-4090", "serve", engine="llamacpp", dtype="q4_k_m", chunk=1024, command=True
    ),
}


@pytest.fixture(scope="module")
def reports():
    return {name: ask() for name, ask in REPORTS.items()}


@pytest.mark.long
@every_row("name", [*REPORTS])
def test_both_lines_are_taken(reports, name):
    commands = reports[name].totals["commands"]
    assert [refused(text) for text in commands.values() if text] == [[]] * (2 - (commands["check"] is None))
    assert f"`{commands['serve']}`" in reports[name].notes[0]


def test_the_context_and_the_batch_that_fit(reports):
    fits = reports["fit"].totals
    assert f"--max-model-len {fits['context']} " in fits["commands"]["serve"]
    # the speed of the answer is that with 2,048 tokens in the cache
    assert f"--random-input-len {fits['speed_at']} " in fits["commands"]["check"]
    largest = reports["memory, the largest batch"].totals
    assert (
        f"--max-model-len 8192 --max-num-seqs {largest['fit']['batch_size']} " in largest["commands"]["serve"]
    )
    served = reports["predict"].totals["commands"]
    # a prompt of 4,096 tokens and 128 new ones
    assert "--max-model-len 4224 --max-num-seqs 16" in served["serve"]
    assert "--random-input-len 4096 --random-output-len 128" in served["check"]
    assert "-b 1024 -ub 1024" in reports["predict, in chunks"].totals["commands"]["serve"]


def test_what_a_command_cannot_say_is_noted():
    report = archcli.count_memory(
        "mixtral-8x7b", "serve", engine="vllm", tp=8, ep=4, device="8xh100-sxm", command=True
    )
    assert "The command leaves out --ep 4: vLLM has no option for it that archcli knows." in report.notes
    assert "What stands in <> is yours to fill in." in report.notes


def test_a_plan_of_training_says_what_serves():
    """`memory --device` answers serving in a line; its command is that engine's."""
    report = archcli.count_memory("llama-3.1-8b", device="h100-sxm", command=True)
    assert report.totals["commands"]["serve"].startswith("vllm serve <llama-3.1-8b>")


def test_without_the_option_there_is_none():
    assert "commands" not in archcli.fit("gpt2", "l4").totals


def test_nothing_that_fits_has_no_command():
    assert "commands" not in archcli.fit("llama-3.1-405b", "rtx-4090", command=True).totals


REFUSED = [
    (
        lambda: archcli.count_memory("gpt2", "serve", engine="transformers", command=True),
        "transformers has none",
    ),
    (lambda: archcli.count_memory("gpt2", "train", command=True), "eager torch has none"),
    (lambda: archcli.predict("gpt2", "l4", "train", command=True), "eager torch has none"),
    (lambda: archcli.fit(device="l4", command=True), "--command is of one model"),
]


@every_row("ask, message", REFUSED)
def test_what_has_no_command_is_refused_in_a_line(ask, message):
    with pytest.raises(ArchError, match=message) as caught:
        ask()
    assert len(caught.value.problems) == 1
