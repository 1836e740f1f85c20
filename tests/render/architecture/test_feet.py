"""What stands at the foot of a drawing: of what the bars are, of how many tokens, and how sure."""

import json
import re

import pytest

import archcli
from archcli.wings.drawing.picture.architecture.page.foot import segments
from drawn.drawings import drawing


@pytest.fixture
def profiled(tmp_path):
    """The file of a profile of gpt2, disturbed by others: 60% in operators, 10% framework, 30% neither."""

    def write(**totals):
        document = archcli.profile("gpt2", seq_len=4, layers=1, pairs=1, no_ceilings=True).to_dict()
        document["model"]["name"] = "gpt2"
        spent = sum(row["seconds"] for row in document["rows"])
        known = {"wall_s": spent / 0.6, "framework_share": 0.1, "unattributed_share": 0.3}
        warnings = ["NOT RELIABLE: a busy machine. Repeat it on a quiet one."]
        document["totals"] |= known | {"reliable": False, "warnings": warnings} | totals
        file = tmp_path / "profile.json"
        file.write_text(json.dumps(document))
        return file

    return write


def texts(svg):
    return re.sub(r"<[^>]+>", "", svg.replace("</text>", "\n"))


@pytest.mark.long
def test_the_bar_of_a_profile_is_the_whole_pass(profiled):
    file = profiled()
    drawn, document = archcli.draw("gpt2", show="time", profile=file), json.loads(file.read_text())
    (anatomy,) = drawn.anatomies
    wall = document["totals"]["wall_s"]
    drawn_of = {share.name: share.stored.value for share in anatomy.shares}
    assert sum(drawn_of.values()) == pytest.approx(wall)
    assert wall == pytest.approx(sum(row["seconds"] for row in document["rows"]) / 0.6)
    parts = {piece.share.name: piece.part for piece in segments(anatomy.shares, 0.0, 1000.0, read=False)}
    assert parts["framework"] == pytest.approx(0.1)
    assert parts["unattributed"] == pytest.approx(0.3)
    assert sum(parts.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("form", ["svg", "text"])
def test_times_say_how_they_were_measured_and_that_they_are_not_reliable(profiled, form):
    drawn = archcli.draw("gpt2", show="time", profile=profiled())
    said = " ".join(texts(drawn.svg()).split() if form == "svg" else drawn.text().split())
    assert "phase forward, batch size 1, seq len 4, dtype fp32" in said
    assert "NOT RELIABLE: a busy machine. Repeat it on a quiet one." in said
    assert "unattributed" in said


@pytest.mark.long
def test_a_reliable_profile_is_drawn_without_a_warning(profiled):
    file = profiled(reliable=True, warnings=[])
    assert "NOT RELIABLE" not in archcli.draw("gpt2", show="time", profile=file).svg()


@pytest.mark.long
def test_a_trace_that_takes_longer_than_the_pass_says_so(profiled):
    drawn = archcli.draw("gpt2", show="time", profile=profiled(unattributed_share=-0.02))
    assert "unattributed" not in {share.name for share in drawn.anatomies[0].shares}
    assert "2.0% more than a pass without tracing" in drawn.text()


@pytest.mark.parametrize("name", ["deepseek-v3", "gemma-3-27b", "gpt2"])
def test_bars_say_of_how_many_tokens_they_are(name):
    cache, flops = archcli.count_kv_cache(name), archcli.count_flops(name)
    context, dtype = cache.inputs["context"], cache.inputs["dtype"]
    assert f"Where the cache of {context:,} tokens is, {dtype}" in texts(drawing(name, show="kv"))
    title = f"Where the FLOPs of {flops.inputs['seq_len']:,} tokens go"
    assert title in texts(drawing(name, show="flops"))
    assert title in str(archcli.draw(name, show="flops"))


def test_bytes_say_in_which_format_and_how_many_are_published():
    totals = archcli.count_params("deepseek-v3").totals
    published = f"{totals['published_bytes'] / 2**30:.0f} GiB as published, fp8-block"
    svg = texts(drawing("deepseek-v3", show="bytes"))
    assert "Where the bytes of the weights are, bf16" in svg
    assert published in svg
    assert published in str(archcli.draw("deepseek-v3", show="bytes"))
    assert "as published" not in texts(drawing("llama-3.1-8b", show="bytes"))


def test_a_model_without_a_cache_says_so():
    assert "an encoder keeps nothing from pass to pass" in texts(drawing("bert-base-uncased", show="kv"))
    assert "No cache" in str(archcli.draw("bert-base-uncased", show="kv"))
    assert "no cache" in texts(drawing("bert-base-uncased", "roberta-base", show="kv"))


@pytest.mark.parametrize("name", ["gemma-3-27b", "gpt-oss-120b", "mistral-7b-v0.1", "llama-3.1-8b"])
def test_a_cache_with_windows_has_two_figures(name):
    """Below the shortest window a token costs all layers; of all of the context the cache is less."""
    report = archcli.count_kv_cache(name)
    windows = [row["window"] for row in report.rows if row["window"]]
    said = [(figure.value, caption) for figure, caption, _ in archcli.draw(name).anatomies[0].headline]
    per_token, context = report.totals["bytes_per_token"], report.inputs["context"]
    if not windows or min(windows) >= context:
        assert (per_token, "cache per token, bf16") in said
        return
    assert (per_token, f"cache per token up to {min(windows):,}, bf16") in said
    assert (report.totals["bytes"], "cache of the full context, bf16") in said
    below = archcli.count_kv_cache(name, context=min(windows)).totals["bytes"]
    assert below == per_token * min(windows)
    assert report.totals["bytes"] < per_token * context


def test_the_legend_says_that_layers_are_not_to_scale():
    assert "scale of bars, not of layers" in texts(drawing("deepseek-v3"))
