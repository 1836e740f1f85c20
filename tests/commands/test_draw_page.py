"""`archcli draw -o x.html`: the steps of a token have the numbers of the commands that the page names."""

import json
import re
import shlex
from html import unescape

import pytest

import archcli

MODELS = (
    *("gpt2", "llama-3.1-8b", "deepseek-v3", "jamba-1.5-mini", "gemma-3-4b", "longcat-flash"),
    *("t5-base", "whisper-small", "qwen3-vl-8b", "llama-3.2-11b-vision", "bert-base-uncased"),
)
SOURCES = ("t5-base", "whisper-small", "llama-3.2-11b-vision")
"""Those with layers that read an encoder's output, or an image, by cross-attention."""
LARGEST = 25_000
"""Bytes that the page adds to an SVG, beside the steps."""
PARAMS, FLOPS, WRITTEN, READ = range(4)


def page(model, *overrides):
    return archcli.draw(archcli.load(model, list(overrides)) if overrides else model).html()


def data_of(html):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', html)[1])


def amounts(step):
    return [int(exact) for exact, _ in step["amounts"]]


def summed(stage):
    """The sums of a stage's steps, each as often as it has layers; a layer has its parts in it."""
    steps = [step for step in stage["steps"][:-1] if "letter" not in step]
    return [sum(step["times"] * amounts(step)[i] for step in steps) for i in range(4)]


def printed(cli, command, model):
    """The JSON that a command of the page prints."""
    done = cli(*shlex.split(command.replace("{}", model)), "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


@pytest.mark.sample(4, whole=True)
@pytest.mark.parametrize("model", MODELS)
def test_the_steps_add_up_to_what_their_commands_print(cli, model):
    last = data_of(page(model))["stages"][-1]
    totals = {command.split()[0]: printed(cli, command, model)["totals"] for command in last["commands"]}
    total = summed(last)
    assert amounts(last["steps"][-1]) == total
    assert total[FLOPS] == totals["flops"]["matmul_flops"]
    # what reads a source runs in two stages
    assert ("params" in totals) == (model not in SOURCES)
    if "params" in totals:
        assert total[PARAMS] == totals["params"]["active_params"]
    if "kvcache" in totals:
        cache = totals["kvcache"]
        assert total[WRITTEN:] == [cache["bytes_per_token"] + cache["state_bytes"], cache["all_bytes"]]
    else:
        assert total[WRITTEN:] == [0, 0]


@pytest.mark.parametrize("model", ["qwen3-vl-8b", "llama-3.2-11b-vision"])
def test_a_tower_comes_first_with_the_numbers_of_its_medium(cli, model):
    tower, *_ = data_of(page(model))["stages"]
    flops, params = (printed(cli, command, model)["totals"] for command in tower["commands"])
    (medium,) = flops["media"]
    parts = params["by_part"]
    assert tower["column"] == 1
    assert summed(tower)[FLOPS] == medium["matmul_flops"]
    assert summed(tower)[PARAMS] == parts["vision_tower"] + parts["projector"]
    assert tower["title"].endswith(f"{medium['tokens']:,} tokens")


@pytest.mark.parametrize("model", ["t5-base", "whisper-small"])
def test_a_source_is_read_once_by_the_rows_of_show(cli, model):
    """The encoder, and the keys and values of cross-attention."""
    source, token = data_of(page(model))["stages"]
    rows = printed(cli, source["commands"][0], model)["rows"]
    once = [
        row
        for row in rows
        if not row["path"].startswith("decoder.") or re.search(r"cross_attention\.(k|v)_proj$", row["path"])
    ]
    encoder = [row for row in once if row["path"] != "lm_head"]
    cache = printed(cli, token["commands"][1], model)["totals"]
    assert summed(source)[WRITTEN] == cache["cross_bytes"]
    assert summed(source)[FLOPS] == sum(row["times"] * row["layer_flops"] for row in encoder)
    kinds = {step["kind"].partition(".")[0] for step in source["steps"][:-1]}
    assert kinds == {"encoder", "decoder"}


def steps_by_letter(model, *overrides):
    stage = data_of(page(model, *overrides))["stages"][-1]
    return {step.get("letter") or step.get("end") or step["kind"]: step for step in stage["steps"][:-1]}


def test_of_llama_each_step_is_worked_out():
    """32 query heads and 8 KV heads of 128, d_model 4,096, d_ff 14,336, vocabulary 128,256; token 2,048."""
    d, kv, wide, vocabulary, tokens = 4096, 8 * 128, 14336, 128256, 2048
    steps = steps_by_letter("llama-3.1-8b")
    projections = 2 * d * d + 2 * d * kv
    assert amounts(steps["A"]) == [
        projections,
        2 * projections + 2 * 2 * tokens * d,
        2 * 2 * kv,
        tokens * 2 * 2 * kv,
    ]
    assert amounts(steps["B"]) == [3 * d * wide, 2 * 3 * d * wide, 0, 0]
    assert amounts(steps["layers.0"])[PARAMS] == projections + 3 * d * wide + 2 * d
    assert amounts(steps["before"]) == [vocabulary * d, 0, 0, 0]
    assert amounts(steps["after"])[FLOPS] == 2 * vocabulary * d
    assert {steps[name]["times"] for name in ("A", "B", "layers.0")} == {32}
    stream = [1, 1, d]
    assert (steps["before"]["entered"], steps["before"]["left"]) == ([1, 1], stream)
    assert all(steps[name][side] == stream for name in "AB" for side in ("entered", "left"))
    assert (steps["after"]["entered"], steps["after"]["left"]) == (stream, [1, 1, vocabulary])


def test_each_kind_of_layer_is_there_once_and_says_for_how_many():
    """DeepSeek-V3: 3 dense layers, 58 mixtures of 8 of 256 experts; a latent of 512 and a key of 64."""
    steps = steps_by_letter("deepseek-v3")
    assert {name: step["times"] for name, step in steps.items() if name.startswith("layers")} == {
        "layers.0": 3,
        "layers.3": 58,
    }
    assert steps["C"]["experts"] == [8, 256]
    assert amounts(steps["C"])[PARAMS] == (8 + 1) * 3 * 7168 * 2048 + 256 * 7168
    assert amounts(steps["A"])[WRITTEN:] == [2 * (512 + 64), 2048 * 2 * (512 + 64)]


def test_a_short_model_is_followed_at_its_own_length():
    """GPT-2 has 1,024 positions: the last token comes after 1,023."""
    stage = data_of(page("gpt2"))["stages"][-1]
    assert stage["title"] == "One token, after 1,023 others"
    assert stage["commands"][:2] == ["flops {} --phase decode --past 1023", "kvcache {} --context 1024"]


def test_weights_that_layers_share_are_read_in_each_and_counted_once(cli):
    """ALBERT: one layer, twelve times."""
    (stage,) = data_of(page("albert-base-v2"))["stages"]
    params = printed(cli, "params {}", "albert-base-v2")["totals"]["active_params"]
    layer = next(step for step in stage["steps"] if step.get("times") == 12)
    assert amounts(stage["steps"][-1])[PARAMS] == params
    assert summed(stage)[PARAMS] == params + 11 * amounts(layer)[PARAMS]


@pytest.mark.parametrize("models", [("gpt2",), ("deepseek-v3",), ("gpt2", "llama-3.1-8b")])
def test_the_page_is_the_svg_and_little_more(models):
    drawing = archcli.draw(*models)
    html, svg = drawing.html(), drawing.svg()
    assert svg in html
    steps = json.dumps(data_of(html)["stages"], separators=(",", ":"))
    assert len(html.encode()) - len(svg.encode()) - len(steps.encode()) < LARGEST
    # without its script nothing is shown but the drawing
    body = html.partition("<body>")[2].replace(svg, "")
    top = re.findall(r"^<(header|main|section|footer|dialog|aside|nav)\b([^>]*)>", body, re.MULTILINE)
    assert {tag for tag, attributes in top if "hidden" not in attributes} == {"main", "dialog"}


def test_of_several_models_there_are_no_steps():
    data = data_of(archcli.draw("gpt2", "llama-3.1-8b").html())
    assert data == {"models": ["gpt2", "llama-3.1-8b"], "stages": []}


def test_no_network_is_allowed():
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page("gpt2"))[1]
    rules = dict(rule.split(" ", 1) for rule in unescape(policy).split("; "))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert rules.pop("img-src") == "blob:"
    assert all(re.fullmatch(r"('sha256-[\w+/=]+' ?)+", rules[kind]) for kind in ("style-src", "script-src"))
    assert not re.search(r"(?:src|href)=|url\((?!#)|@import", page("gpt2"))


def test_a_changed_model_is_asked_for_with_its_changes(cli, tmp_path):
    file = tmp_path / "drawn.html"
    assert cli("draw", "gpt2", "--set", "d_ff=1024", "-o", file).code == 0
    data = data_of(file.read_text())
    assert data["models"] == ["gpt2 --set d_ff=1024"]
    (network,) = (step for step in data["stages"][0]["steps"] if step.get("letter") == "B")
    assert amounts(network)[PARAMS] == 2 * 768 * 1024 + 1024 + 768


def test_a_name_stays_a_name():
    model = archcli.load("gpt2").replace(name="</script><script>alert(1)</script>'")
    html = archcli.draw(model).html()
    assert "<script>alert" not in html
    assert shlex.split(data_of(html)["models"][0]) == ["</script><script>alert(1)</script>'"]
