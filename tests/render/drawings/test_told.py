"""What drawings tell in words: positions, kinds as differences, pairs, parallel branches as text."""

import os
import re
import subprocess
import sys
from xml.etree import ElementTree as ET

import pytest

import archcli
from archcli.load.presets import preset_text
from archcli.measure.survey.compare.differences import said_apart
from drawn.drawings import drawing
from table import every_row

SVG = "{http://www.w3.org/2000/svg}"


def texts_of(name):
    root = ET.fromstring(drawing(name))  # noqa: S314 - a drawing of ours
    return ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]


@pytest.mark.long
@every_row(
    ("name", "field", "told"),
    [
        ("bloom-7b1", "alibi", "ALiBi"),
        ("t5-base", "score_bias", "relative bias"),
        ("gpt-oss-20b", "sinks: true", "sinks"),
        ("gemma-2-9b", "softcap: 50", "softcap 50"),
        ("gemma-2-9b", "softcap: 30", "softcap 30"),
        ("gpt2", "learned", "learned positions"),
        ("qwen2-7b", "bias: [q, k, v]", "biases of q, k, v"),
        ("longcat-flash", "zero_experts: 256", "256 zero experts"),
        ("deepseek-v4-pro", "token_table", "by a table of tokens"),
        ("deepseek-v3", "factor: 40", "YaRN × 40"),
        ("llama-3.1-8b", "n_kv_heads: 8", "8 KV heads"),
    ],
)
def test_what_a_preset_states_is_told(name, field, told):
    assert field in preset_text(name)
    assert any(told in text for text in texts_of(name))


def test_parts_of_one_title_say_in_what_they_differ():
    parts = archcli.draw("deepseek-v4-pro").anatomies[0].parts
    rates = re.findall(r"rate: (\d+)", preset_text("deepseek-v4-pro"))
    told = [part.lines[-1] for part in parts if part.title == "Compressed attention"]
    assert {f"compressor rate {rate}" for rate in rates} == {line.split(", ")[0] for line in told}


def test_fields_are_said_with_what_is_there_first():
    encoder, decoder = archcli.load("t5-base").encoder, archcli.load("t5-base").decoder
    first, second = (stack.groups[0].layer.attention for stack in (encoder, decoder))
    assert (said_apart(first, second), said_apart(second, first)) == (["not causal"], ["causal"])
    assert said_apart(first, first) == []


def test_of_many_kinds_one_is_whole():
    texts = texts_of("jamba-1.5-mini")
    assert "as layers 0, 2 … 30, but C for B" in texts
    assert not any(
        text.startswith("as layers") for text in texts_of("deepseek-v3")
    )  # two kinds are both whole


def test_a_pair_marks_what_the_first_lacks():
    root = ET.fromstring(drawing("llama-3.1-8b", "mixtral-8x7b"))  # noqa: S314 - a drawing of ours
    dots, ends, bold = {}, {}, {}
    for group in root.iter(f"{SVG}g"):
        name = group.get("data-model")
        if name is None:
            continue
        circles = [circle for circle in group.iter(f"{SVG}circle") if circle.get("class") == "solid-experts"]
        dots[name] = dots.get(name, 0) + len(circles)
        labels = [text for text in group.iter(f"{SVG}text") if "size-label" in text.get("class", "")]
        bold.setdefault(name, set()).update("".join(text.itertext()) for text in labels)
        bars = [bar for bar in group.iter(f"{SVG}rect") if bar.get("data-command") == "params"]
        ends.setdefault(name, []).extend(float(bar.get("x")) for bar in bars)
    # the kind, attention by its theta, and the mixture in place of the network
    assert dots == {"llama-3.1-8b": 0, "mixtral-8x7b": 3}
    assert "RoPE θ 1,000,000" in bold["mixtral-8x7b"]
    assert not any("RoPE" in text for text in bold["llama-3.1-8b"])
    assert max(ends["llama-3.1-8b"]) < min(ends["mixtral-8x7b"])


def test_parallel_branches_are_branches_as_text():
    lines = archcli.draw("gemma-3n-e4b").text(100).splitlines()
    norm = lines.index("  ├─ RMSNorm")
    assert [line[:6] for line in lines[norm + 1 : norm + 3]] == ["  │  ├"] * 2
    assert "LAuReL" in lines[norm + 2]
    assert "  ├─ same LayerNorm ─ B MLP" in archcli.draw("falcon-7b").text(100).splitlines()


def test_an_expert_has_its_width_as_text():
    d_ff = int(re.search(r"expert: .*?d_ff: (\d+)", preset_text("deepseek-v3"), re.DOTALL)[1])
    assert re.search(rf"each gate, up +{d_ff:,} ", archcli.draw("deepseek-v3").text(40))


@pytest.mark.long
def test_a_pipe_is_as_wide_as_it_is_told():
    command = [sys.executable, "-m", "archcli", "draw", "gemma-3n-e4b"]
    environment = {**os.environ, "COLUMNS": "40", "PYTHONIOENCODING": "utf-8"}
    run = subprocess.run(
        command, capture_output=True, check=True, env=environment, encoding="utf-8", timeout=120
    )
    lines = run.stdout.splitlines()
    assert max(map(len, lines)) <= 40
    assert not any(line.endswith("…") for line in lines)
