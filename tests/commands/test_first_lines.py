"""Questions as people ask them in forums and issues, and what the first line of the answer must say.

What is known is from outside: arithmetic, makers' figures, sizes of published files, and speeds that people
measured, which the range of the answer must hold.
"""

import re
from typing import NamedTuple

import pytest

from table import every_row

RANGE = re.compile(r"([\d,.]+) to ([\d,.]+)\)")
GB, GIB = 10**9, 2**30
QLORA = ("--set", "lora.rank=16", "--dtype", "nf4-double")


class Asked(NamedTuple):
    """A command, words of its first line, and a measured figure that lies in the range of that line."""

    command: str
    words: tuple[str, ...] = ()
    measured: float | None = None


COUNTED = {
    # layers x keys and values x kv heads x head_dim x bytes x tokens
    "3": Asked("kvcache llama-3.1-70b -c 128k", (f"{80 * 2 * 8 * 128 * 2 * 128_000 / GB:.1f} GB of cache",)),
    # layers x (latent + rotary key) x bytes x tokens
    "4": Asked("kvcache deepseek-v3 -c 128Ki", (f"{61 * 576 * 2 * 131_072 / GIB:.2f} GiB in all",)),
    # 10 full layers, 52 of a window of 1,024
    "5": Asked(
        "kvcache gemma-3-27b -c 128Ki",
        (f"{(10 * 131_072 + 52 * 1_024) * 2 * 16 * 128 * 2 / GIB:.1f} GiB in all",),
    ),
    # OpenAI: 5.1B active, which leaves the input table out
    "26": Asked("params gpt-oss-120b", ("117B parameters", "5.13B without the input table")),
    # about 4.92 GB, 4.9 bits a weight
    "29": Asked("params llama-3.1-8b --dtype q4_k_m", ("4.91 GB (4.58 GiB)", "4.894 bits a weight")),
    "T6": Asked("kvcache llama-3.1-70b -c 4096", (f"{1_342_177_280 / GB:.2f} GB of cache",)),
    "T7": Asked("kvcache llama-3.1-8b -c 4096", (f"{536_870_912 / 1e6:.0f} MB of cache",)),
    "T8": Asked("kvcache qwen3-1.7b -c 131072", (f"{15_032_385_536 / GB:.1f} GB of cache",)),
    # llama.cpp held 43 GB (42.2 GiB is 45.3 GB) before it cached latents: 27 x 163,840 x 16 x (192 + 128) x 2
    "T9": Asked(
        "kvcache deepseek-v2-lite -c 163840",
        (
            f"{27 * 576 * 2 * 163_840 / GIB:.2f} GiB in all",
            f"{27 * 16 * (192 + 128) * 2 * 163_840 / GIB:.1f} GiB) with keys and values rebuilt",
        ),
    ),
    # 37.22 GiB and 4.53 bits, as llama.cpp prints them
    "T10": Asked("params llama-3.1-70b --dtype q4_0", ("37.2 GiB", "4.531 bits a weight")),
}
"""What is exact and quick."""

FITTED = {
    # nf4-double weights of an 8B are 5.3 GiB, table and head in bf16
    "1": Asked(
        "memory llama-3.1-8b QLORA --device rtx-4090 --fit batch", ("1 sequence of 2,048 tokens", "5.32 GiB")
    ),
    # guides say 46 to 52 GB: 42.7 GiB are 45.8 GB
    "2": Asked("memory llama-3.1-70b QLORA --memory 48GB --recompute layer", ("Fits into 48GB: 42.7 GiB",)),
    "6": Asked("fit gpt-oss-20b 'M3 Pro 36GB'", ("fits", "131,072 tokens")),
    # OpenAI: within 16 GB
    "7": Asked("memory gpt-oss-20b --phase serve --memory 16GB", ("Fits into 16GB: 13.2 GiB",)),
    # 35B parameters in 4.9 bits are 21.3 GB of 24
    "8": Asked("fit Qwen3.6-35B-A3B rtx-4090", ("qwen3.6-35b-a3b: fits rtx-4090 as ", "tokens/s (")),
    "9": Asked("fit qwen3.5-27b rtx-3090 --dtype q4_k_m -c 32Ki", ("fits", "32,768 tokens", "tokens/s (")),
    # 21.6 - 15.0 - 0.5 GiB at 128 KiB a token are 49,971 tokens less the pass
    "10": Asked("fit llama-3.1-8b rtx-4090", ("as bf16 with 48,832 tokens",)),
    "11": Asked("fit llama-3.1-70b 2xrtx-3090", ("as q4_k_m",), 18),
    "12": Asked("fit llama-3.1-70b 4xrtx-4090", ("as q8_0 with 64,000 tokens",)),
    "13": Asked("fit llama-3.1-8b rtx-4090", (), 54),
    "14": Asked("fit llama-3.1-8b 'M3 Max'", (), 22),
    # mixed precision: 16 bytes a parameter, 1,315,575,808 of them, are 19.6 GiB of 40
    "19": Asked(
        "memory gpt-neo-1.3b --device a100-sxm-40gb --fit batch", ("5 sequences of 2,048 tokens fit",)
    ),
    # 16 bytes for each of 6,738,415,616 parameters are 100.4 GiB, and the step has temporaries
    "20": Asked("memory llama-2-7b", ("101 GiB at the peak",)),
    "21": Asked("memory llama-3.1-70b --device 8xa100-sxm-80gb", ("Training does not fit into 8 x a100",)),
    "22": Asked("memory llama-3.1-70b --fit devices", ("Training fits", "16 x a100-sxm-80gb")),
    "30": Asked("fit llama-3.1-70b 'RTX 3060' --dtype q4_k_m --offload auto", ("fits", "-ngl 21")),
    "31": Asked("fit llama-3.1-8b rtx-4090 --utilization 0.9", ("39,664 tokens of context",)),
    # 30.5e9 weights of 2 bytes on 4 ranks: vLLM prints 14.2474 GiB
    "T11": Asked("memory qwen3-30b-a3b --phase serve --tp 4", ("14.2 GiB of weights",)),
    "T13": Asked("fit qwen3.5-27b 2xrtx-3090 --dtype fp8", ("fits 2 x rtx-3090",)),
    "T14": Asked("memory llama-2-7b --device 2xa100-sxm-80gb", ("Training fits into", "55.6 GiB")),
    "T15": Asked("fit llama-3.1-8b rtx-3080 --dtype q4_k_m", (), 112),
    "T16": Asked("fit llama-3.1-8b rtx-4090 --dtype q6_k", (), 93),
}
"""What fits, and how fast it is."""

TRAIN = "--phase train --device"
PREDICTED = {
    "15": Asked(
        "predict llama-3.1-8b --device h100-sxm --phase serve -b 32", ("Serving 32 sequences", "tokens/s (")
    ),
    "16": Asked("predict deepseek-v3 --device 8xh200-sxm -s 32Ki -b 32", ("Does not fit into 8 x h200-sxm",)),
    # fms-fsdp: 3.7k tokens/s on each of 8
    "24": Asked(f"predict llama-2-7b {TRAIN} 8xa100-sxm-80gb -b 2 -s 4096", (), 8 * 3_700),
    "25": Asked(
        f"predict llama-3.1-8b {TRAIN} 64xh100-sxm --tokens 1T --price-per-hour 2.5",
        ("days", "for 1T tokens on 64 x h100-sxm"),
    ),
    # published: 3.21B with 8,192
    "27": Asked(
        "sweep llama-3.2-3b --vary d_ff=6144,7168,8192,9216 --where 'params in 3.21e9±1%'",
        ("1 of 4 candidates match", "d_ff 8,192, params 3.21B"),
    ),
    # 20 to 22 tokens a parameter
    "28": Asked("scale llama-3.1-8b --params 3B", ("a parameter",)),
    "33": Asked(f"predict gpt2 {TRAIN} 8xa100-sxm-40gb --measured 1.2s", ("Slower than the range: 1.20 s",)),
    # 29% and 104% of 312 TFLOP/s, as nanoGPT prints MFU
    "T1": Asked(f"predict gpt2 {TRAIN} rtx-4090 -b 12 --compile", (), 105_000),
    "T2": Asked(f"predict gpt2 {TRAIN} h100-sxm -b 12 --compile", (), 378_000),
    # 9,600 on each of 8
    "T3": Asked(f"predict llama-2-7b {TRAIN} 8xh100-sxm -b 2 -s 4096", (), 8 * 9_600),
}
"""How long it takes, and which shape to take."""


def first_line(cli, command):
    words = [
        word
        for part in re.findall(r"'[^']*'|\S+", command)
        for word in (QLORA if part == "QLORA" else [part])
    ]
    done = cli(*(word.strip("'") for word in words))
    assert done.code == 0, done.err
    return done.out.partition("\n")[0]


def answers(cli, asked):
    line = first_line(cli, asked.command)
    assert [word for word in asked.words if word not in line] == [], line
    if asked.measured is not None:
        low, high = (float(bound.replace(",", "")) for bound in RANGE.search(line).groups())
        assert low <= asked.measured <= high, line


@every_row("name", COUNTED)
def test_what_is_counted_stands_in_the_first_line(cli, name):
    answers(cli, COUNTED[name])


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", FITTED)
def test_what_fits_stands_in_the_first_line(cli, name):
    answers(cli, FITTED[name])


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", PREDICTED)
def test_how_long_it_takes_stands_in_the_first_line(cli, name):
    answers(cli, PREDICTED[name])


@pytest.mark.long
def test_days_and_cost_are_those_of_the_rate(cli):
    """Q25: 1e12 tokens at the rate of the line, 64 devices at 2.5 an hour, each to its last digit."""
    line = first_line(cli, PREDICTED["25"].command)
    days, cost = re.search(r": ([\d.]+) days .*\) and ([\d,]+) for", line).groups()
    rate = re.search(r"sequences: ([\d,]+) tokens/s", line)[1]
    days, cost, rate = (float(text.replace(",", "")) for text in (days, cost, rate))
    assert abs(days - 1e12 / rate / 86_400) < 0.1
    assert abs(cost - 1e12 / rate / 3_600 * 64 * 2.5) < 100


SENTENCES = {
    # of one model beside the first: 671,026,404,352 / 8,030,261,248, and caches of 70,272 and 131,072 bytes
    "compare llama-3.1-8b deepseek-v3": (
        "deepseek-v3 beside llama-3.1-8b: 83.6 x the parameters, 4.68 x active, 0.536 x the cache a token"
    ),
    "flops gpt2": "272 GFLOP for a forward of 1,024 tokens; 266 MFLOP a token",
    "show gpt2": "124M parameters in 12 layers",
    "explain llama-3.1-8b kvcache": (
        f"{2 * 32 * 8 * 128 * 131_072:,} elements = 2*batch_size*context*head_dim*n_kv_heads*n_layers"
    ),
    "survey --no-presets gpt2 deepseek-v3": "2 models of 124M to 671B parameters",
    "devices h100-sxm": "79.1 GiB at 3,350 GB/s, 989.4 TFLOP/s in bf16",
    "engines vllm": "takes 92.0% of a device's memory",
    "engines": "7 engines: llamacpp",
    "rules": "64 rules: ",
    "check gpt2 --exit-zero": "1 model checked: ",
    "kvcache llama-3.1-8b --device h100-sxm": "vllm serves 447,680 tokens (or 3 sequences of 131,072)",
    # its processor rounds sides to multiples of 32, each 32 x 32 pixels a token
    "flops qwen3-vl-8b --image 1080x1920 -s 16": f"image 1080x1920: {34 * 60:,} tokens",
}


@pytest.mark.long
def test_what_does_not_fit_is_said_before_its_days(cli):
    line = first_line(cli, "predict llama-3.1-70b --phase train --device h100-sxm --tokens 1T")
    assert line.startswith("llama-3.1-70b: Does not fit into h100-sxm (needs ")
    assert line.count("Does not fit") == 1
    assert line.index("Does not fit") < line.index(" days (") < line.index("A training step")


@every_row("command", SENTENCES)
def test_every_command_answers_in_its_first_line(cli, command):
    assert SENTENCES[command] in first_line(cli, command)


@pytest.mark.parametrize("form", ["plain", "md", "table"])
def test_the_first_line_is_the_same_in_every_form(cli, form):
    done = cli("params", "gpt2", "--format", form)
    assert done.out.startswith("gpt2: 124M parameters, all active")


def test_memory_without_a_phase_says_what_training_and_serving_take(cli):
    """Two lines; with a phase, or an option of training, the one that is asked about."""
    asked = ("memory", "gpt2", "--device", "l4")
    both, train = cli(*asked).out.splitlines(), cli(*asked, "--optimizer", "sgd").out.splitlines()
    assert both[0].startswith("gpt2: Training fits into l4")
    assert both[1].startswith("Serving fits into l4")
    assert train[0].startswith("gpt2: Fits into l4")
    assert not any("Serving" in line for line in train)
