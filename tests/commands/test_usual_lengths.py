"""Where no length is stated a pass has 2,048 tokens, or as many as the model was made for."""

import json
import re

import pytest

import archcli
from archcli.load.presets import preset_text, presets
from archcli.load.spec.written import to_mapping
from table import sampled_rows

LENGTH = re.compile(r"^max_seq_len: (\d+)", re.MULTILINE)
LENGTHS = {name: int(stated[1]) for name in presets() if (stated := LENGTH.search(preset_text(name)))}
SHORT = {name: size for name, size in LENGTHS.items() if size < 2048}


def test_27_presets_are_shorter_than_the_usual_length():
    assert len(SHORT) == 27


@sampled_rows("name", SHORT, 6)
def test_no_pass_is_longer_than_the_model(name):
    size = SHORT[name]
    flops = archcli.count_flops(name)
    assert flops.inputs["seq_len"] == size
    assert not [note for note in flops.notes if "beyond max_seq_len" in note]
    assert archcli.show(name).inputs["seq_len"] == size
    figure, caption, _ = archcli.draw(name).anatomies[0].headline[-1]
    assert (figure.value, caption) == (flops.totals["matmul_flops_per_token"], f"FLOP per token at {size:,}")


def test_a_longer_model_and_one_without_a_length_have_2048_tokens():
    without = {
        key: value for key, value in to_mapping(archcli.load("llama-3.1-8b")).items() if key != "max_seq_len"
    }
    for model in ("llama-3.1-8b", without):
        assert archcli.count_flops(model).inputs["seq_len"] == 2048
        assert archcli.count_flops(model, phase="decode").inputs["past"] == 2048


def test_a_decoded_token_has_a_position_behind_the_usual_cache():
    flops = archcli.count_flops("gpt2", phase="decode")
    assert flops.inputs["past"] == 1024 - 1
    assert not [note for note in flops.notes if "beyond max_seq_len" in note]
    assert archcli.count_flops("gpt2", phase="decode", past=1024).inputs["past"] == 1024


def test_a_length_that_is_asked_for_is_counted_with_a_note():
    flops = archcli.count_flops("gpt2", seq_len=2048)
    assert flops.inputs["seq_len"] == 2048
    assert "2,048 tokens are beyond max_seq_len 1,024: counted by shape all the same." in flops.notes


def test_models_that_are_compared_have_one_length():
    assert archcli.compare("llama-3.1-8b", "llama-2-7b").inputs["seq_len"] == 2048
    assert archcli.compare("llama-3.1-8b", "gpt2", "bert-base-uncased").inputs["seq_len"] == 512


@pytest.mark.parametrize("command", ["memory", "predict", "flops", "show", "explain", "sweep", "draw"])
def test_every_command_has_the_same_default(cli, command):
    options = {
        "memory": ["--phase", "prefill"],
        "predict": ["--device", "h100-sxm", "--phase", "prefill"],
        "explain": ["flops"],
        "sweep": ["--vary", "n_layers=2:3", "--show", "flops"],
    }
    out = cli(command, "gpt2", *options.get(command, [])).out
    assert re.search(r"1,024|seq_len=1024", out)
    assert not re.search(r"2,048|2048", out)


@pytest.mark.long
def test_the_page_of_a_report_begins_with_it():
    html = archcli.report("gpt2").html
    data = json.loads(re.search(r'id="data">(.*?)</script>', html, re.DOTALL)[1])
    assert data["pass"]["seq_len"] == "1024"


def test_a_usual_length_has_positions_behind_the_past(cli):
    # gpt2 has 1,024 positions: 8 are taken
    assert json.loads(cli("flops", "gpt2", "--past", "8", "--json").out)["inputs"]["seq_len"] == 1024 - 8
    assert json.loads(cli("flops", "llama-3.1-8b", "--past", "8", "--json").out)["inputs"]["seq_len"] == 2048
