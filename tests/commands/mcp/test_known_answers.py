"""Questions with known answers, asked as an assistant asks them: more than a hundred in one session.

Known are the figures of transformers' classes and torch's counter (tests/oracle), published totals, and
arithmetic worked out in the open.
"""

import json
from functools import reduce
from pathlib import Path

import pytest

from archcli.load import load
from archcli.load.presets import presets
from archcli.wings.doors.commands.mcp.answers import MOST_BYTES
from assistant import answers

TESTS = Path(__file__).parents[2]
ORACLE = json.loads((TESTS / "oracle" / "figures.json").read_text())["models"]
CONFIGS = TESTS / "oracle" / "configs"


def of_oracle(name, model):
    """(tool, arguments, path of the figure, its value) for a model of the oracle, as it is given."""
    truth = ORACLE[name]
    yield "params", {"model": model}, "params", truth["params"]
    yield "params", {"model": model}, "active_params", truth["active_params"]
    yield "params", {"model": model}, "by_group", truth["by_group"]
    for tokens, flops in truth["flops"].items():
        asked = {"model": model, "seq_len": int(tokens), "mask": "dense"}
        yield "flops", asked, "matmul_flops", flops
    for past, flops in truth.get("decode_flops", {}).items():
        asked = {"model": model, "phase": "decode", "past": int(past), "mla": "naive"}
        yield "flops", asked, "matmul_flops", flops
    for context, elements in truth.get("kv_elements", {}).items():
        yield "kvcache", {"model": model, "context": int(context)}, "elements", elements


def differing(questions):
    """The questions whose answer is not the known one, or is too long for a context."""
    questions = list(questions)
    results = answers([(tool, asked) for tool, asked, _, _ in questions])
    wrong = []
    for (tool, asked, key, value), result in zip(questions, results, strict=True):
        if result.is_error:
            wrong.append((tool, asked, result.content[0].text))
            continue
        found = reduce(
            lambda group, step: group.get(step), key.split("."), result.structured_content["totals"]
        )
        if found != value or len(result.content[0].text.encode()) > MOST_BYTES:
            wrong.append((tool, asked, key, found, value))
    return len(questions), wrong


@pytest.mark.long
@pytest.mark.parametrize(
    ("names", "questions"),
    [
        pytest.param([*ORACLE][::5], 70, id="some"),
        pytest.param([*ORACLE], 400, id="all", marks=pytest.mark.long),
    ],
)
def test_the_figures_of_transformers_and_torch(names, questions):
    asked, wrong = differing(one for name in names for one in of_oracle(name, name))
    assert not wrong
    assert asked >= questions


@pytest.mark.parametrize("name", sorted(ORACLE.keys() - {"gpt-1"}))  # of which no config.json is read
@pytest.mark.sample(1)
def test_the_same_of_a_config_json_in_the_question(name):
    config = {"architectures": ["ForCausalLM"], **json.loads((CONFIGS / f"{name}.json").read_text())}
    _, wrong = differing(of_oracle(name, config))
    assert not wrong


@pytest.mark.long
def test_the_published_totals_of_presets():
    stated = {name: load(name).published.get("params") for name in presets()}
    # those that are published rounded, as 4.62B, are a text; an adapter's parameters are published apart
    published = {name: n for name, n in stated.items() if isinstance(n, int) and "lora" not in name}
    asked, wrong = differing(
        ("params", {"model": name}, "params", total) for name, total in published.items()
    )
    assert not wrong
    assert asked >= 50


WORKED = [
    # layers x keys and values x kv heads x head_dim x bytes x tokens
    ("kvcache", {"model": "llama-3.1-70b", "context": 128_000}, "bytes", 80 * 2 * 8 * 128 * 2 * 128_000),
    ("kvcache", {"model": "llama-3.1-8b", "context": "128Ki"}, "bytes", 32 * 2 * 8 * 128 * 2 * 131_072),
    ("kvcache", {"model": "gpt2", "context": 1024, "dtype": "fp32"}, "bytes", 12 * 2 * 768 * 4 * 1024),
    ("kvcache", {"model": "gpt2", "context": 1024, "batch_size": 3}, "bytes", 3 * 12 * 2 * 768 * 2 * 1024),
    # a window of 4,096 keeps no more
    ("kvcache", {"model": "mistral-7b-v0.1", "context": 32_768}, "elements", 32 * 2 * 8 * 128 * 4096),
    # a latent of 512 and a rotary key of 64 in each of 61 layers
    ("kvcache", {"model": "deepseek-v3", "context": "32k"}, "elements", 61 * (512 + 64) * 32_000),
    ("kvcache", {"model": "deepseek-v3", "context": 1000}, "bytes_per_token", 61 * (512 + 64) * 2),
    # one kv head in place of 32
    (
        "kvcache",
        {"model": "llama-3-8b", "set": ["n_kv_heads=1"], "context": 10},
        "elements",
        32 * 2 * 128 * 10,
    ),
    ("kvcache", {"model": "llama-3.1-70b", "context": 8192, "tp": 8}, "elements", 80 * 2 * 128 * 8192),
    # a block of GPT-2: 12 matrices' worth of d_model^2, biases and norms
    (
        "params",
        {"model": "gpt2", "set": ["n_layers=24"]},
        "params",
        124_439_808 + 12 * (12 * 768**2 + 13 * 768),
    ),
    ("params", {"model": "gpt2", "set": ["vocab_size=50304"]}, "params", 124_439_808 + 47 * 768),
    ("params", {"model": "llama-3.1-8b"}, "bytes", 2 * 8_030_261_248),
    ("params", {"model": "llama-3.1-8b", "dtype": "fp32"}, "bytes", 4 * 8_030_261_248),
    (
        "params",
        {"model": "mixtral-8x7b", "set": ["top_k=1"]},
        "active_params",
        12_879_925_248 - 32 * 3 * 4096 * 14336,
    ),
    # every weight but the token table in one multiply-add, and 128 heads' worth of scores and mixes
    (
        "flops",
        {"model": "llama-3.1-8b", "phase": "decode", "past": 8191},
        "matmul_flops",
        2 * (8_030_261_248 - 128_256 * 4096 - 65 * 4096) + 2 * 2 * 32 * 32 * 128 * 8192,
    ),
    (
        "flops",
        {"model": "llama-3.1-8b", "seq_len": 2},
        "matmul_flops",
        2 * 2 * (8_030_261_248 - 128_256 * 4096 - 65 * 4096) + 2 * 2 * 32 * 32 * 128 * (1 + 2),
    ),
    (
        "flops",
        {"model": "gpt2", "seq_len": 512, "mask": "dense", "batch_size": 2},
        "matmul_flops",
        2 * 136_160_477_184,
    ),
    ("flops", {"model": "gpt2", "seq_len": 512, "mask": "dense"}, "macs", 136_160_477_184 // 2),
    ("memory", {"model": "llama-3.1-8b"}, "parts.weights", 2 * 8_030_261_248),
    ("memory", {"model": "llama-3.1-8b"}, "parts.gradients", 2 * 8_030_261_248),
    ("memory", {"model": "llama-3.1-8b", "optimizer": "sgd"}, "parts.optimizer", 0),
    ("memory", {"model": "gpt2", "phase": "decode", "seq_len": 1024}, "parts.weights", 2 * 124_439_808),
    # 16 bytes a parameter are 130 GB, and 80 GB are less
    ("memory", {"model": "llama-3.1-8b", "device": "h100-sxm"}, "fits", False),
    ("memory", {"model": "gpt2", "device": "h100-sxm"}, "fits", True),
    # 70 billion weights of two bits are more than 12 GB
    ("fit", {"model": "llama-3.1-70b", "device": "rtx-3060"}, "fits", False),
    ("fit", {"model": "gpt2", "device": "rtx-4090"}, "format", "bf16"),
    ("check", {"model": "llama-3.1-8b", "set": ["n_kv_heads=7"]}, "by_code.ATT001", 1),
    ("check", {"model": "llama-3.1-8b"}, "errors", 0),
    ("compare", {"models": ["gpt2", "gpt2"], "seq_len": 1024}, "differences", 0),
    ("explain", {"model": "gpt2"}, "value", 124_439_808),
    (
        "explain",
        {"model": "llama-3.1-8b", "quantity": "kvcache", "context": 10},
        "value",
        32 * 2 * 8 * 128 * 10,
    ),
    ("sweep", {"model": "gpt2", "vary": ["d_ff=1024:4096:1024"]}, "candidates", 4),
    # 1,024 rows less are those of two matrices and as many biases, in each of 12 layers
    (
        "sweep",
        {
            "model": "gpt2",
            "vary": ["d_ff=1024:4096:1024"],
            "where": [f"params <= {124_439_808 - 12 * 1024 * (2 * 768 + 1)}"],
        },
        "matching",
        2,
    ),
]


@pytest.mark.long
def test_arithmetic_worked_out_in_the_open():
    _, wrong = differing(WORKED)
    assert not wrong


def test_a_decoded_token_is_bound_by_reading_the_weights():
    """The datasheet's bandwidth alone gives the limit: 2 bytes of each weight but the token table."""
    (result,) = answers([("predict", {"model": "llama-3.1-8b", "device": "h100-sxm", "past": 1})])
    floor = result.structured_content["totals"]["time_s"]["floor"]
    least = 2 * (8_030_261_248 - 128_256 * 4096) / 3.35e12
    assert least < floor < 1.02 * least
