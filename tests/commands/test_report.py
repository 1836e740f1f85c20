"""`archcli report`: one file that allows nothing but its own scripts and styles; bad input is a line."""

import base64
import hashlib
import html
import json
import re
from pathlib import Path

import pytest

import archcli
from archcli.errors import ArchError

DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    file = tmp_path_factory.mktemp("report") / "gpt2.html"
    archcli.report("gpt2", device=("h100-sxm",)).save(file)
    return file.read_text()


def data_of(text):
    return json.loads(DATA.search(text)[1])


@pytest.mark.long
def test_the_page_is_one_file_without_a_network(page):
    assert len(page.encode()) <= 400_000
    assert "default-src 'none'" in page
    # an svg's name space is no address that anything is fetched from
    addresses = set(re.findall(r"https?://[^\"' <)]+", page.replace("http://www.w3.org/", "")))
    written_out = set(re.findall(r"https?://[^\"' <)]+", DATA.search(page)[1]))
    assert addresses <= written_out
    assert not re.search(r"<(link|img|iframe|object|embed)\b|\ssrc=|@import|url\(h", page)


@pytest.mark.long
def test_the_policy_names_every_style_and_script(page):
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1]
    assert "unsafe" not in policy
    for kind, content in re.findall(r"<(style|script)>(.*?)</\1>", page, re.DOTALL):
        text = html.unescape(content) if kind == "style" else content
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


@pytest.mark.long
def test_the_page_has_the_figures_of_the_commands(page):
    model = data_of(page)["models"][0]
    assert model["values"]["n_layers"] == "12"
    assert {"params", "active", "flops", "decode", "cache bf16", "cache q8_0"} <= model["figures"].keys()
    assert [it["code"] for it in model["findings"]] == [row["code"] for row in archcli.check("gpt2").rows]
    rate = archcli.fit("gpt2", "h100-sxm").totals["tokens_per_s"]
    assert data_of(page)["speeds"][0]["rate"] == rate


@pytest.mark.long
def test_html_in_a_name_stays_a_name():
    model = archcli.load("gpt2").replace(name='<script>alert(1)</script>"&<b>')
    text = archcli.report(model, device=("rtx-4090",)).html
    assert "<script>alert" not in text
    assert "<b>" not in text
    assert data_of(text)["models"][0]["name"] == model.name


@pytest.mark.long
def test_a_place_in_a_name_is_not_filled():
    text = archcli.report(archcli.load("gpt2").replace(name="{{data}}{{policy}}"), device=("rtx-4090",)).html
    assert "<h1>{{data}}{{policy}}</h1>" in text


@pytest.mark.long
def test_an_encoder_has_neither_cache_nor_speed():
    data = data_of(archcli.report("bert-base-uncased").html)
    assert data["speeds"] == []
    assert "cache bf16" not in data["models"][0]["figures"]


@pytest.mark.long
def test_models_that_no_single_device_holds_are_asked_of_servers():
    data = data_of(archcli.report("deepseek-v3").html)
    fits = {row["device"]: row["fits"] for row in data["speeds"]}
    assert fits == {
        "rtx-4090": False,
        "h100-sxm": False,
        "b200-sxm": False,
        "8xh100-sxm": True,
        "8xb200-sxm": True,
    }


@pytest.mark.long
def test_set_is_what_the_page_begins_with(cli, tmp_path):
    file = tmp_path / "wide.html"
    assert cli("report", "gpt2", "--set", "d_ff=4096", "-o", file, "--device", "rtx-4090").code == 0
    model = data_of(file.read_text())["models"][0]
    assert model["sets"] == ["d_ff=4096"]
    assert model["values"]["d_ff"] == "4096"


@pytest.mark.long
def test_several_models_stand_on_one_page(cli, tmp_path):
    file = tmp_path / "two.html"
    named = ("gpt2", "pythia-1.4b", "--set", "2:n_heads=8", "--device", "rtx-4090")
    assert cli("report", *named, "-o", file).code == 0
    data = data_of(file.read_text())
    assert [model["name"] for model in data["models"]] == ["gpt2", "pythia-1.4b"]
    assert [model["sets"] for model in data["models"]] == [[], ["n_heads=8"]]
    assert len(data["speeds"]) == 2


@pytest.mark.long
def test_without_a_name_the_page_is_report_html_and_json_says_so(archcli, tmp_path):
    done = archcli("report", "gpt2", "--device", "rtx-4090", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["command"], answer["model"]["name"]) == ("report", "gpt2")
    assert answer["totals"] == {"file": "report.html"}
    assert data_of((tmp_path / "report.html").read_text())["models"][0]["name"] == "gpt2"


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-o", "x.html"], "report needs a model"),
        (["gpt2", "-o", "{}/x.svg"], "x.svg does not end in .html"),
        (["gpt2", "-o", "{}/none/x.html"], "none"),
        (["gpt2"] * 5 + ["-o", "{}/x.html"], "report takes up to 4 models"),
        (["gpt2", "--device", "h1000", "-o", "{}/x.html"], "h1000"),
        (["gpt2", "--profile", "{}/none.json", "-o", "{}/x.html"], "none.json"),
    ],
)
def test_bad_input_is_a_line_and_writes_nothing(cli, arguments, words, tmp_path):
    done = cli("report", *(argument.format(tmp_path) for argument in arguments))
    assert done.code == 2
    assert words in done.err
    assert done.out == ""
    assert list(tmp_path.iterdir()) == []


def test_other_suffixes_are_refused_in_python(tmp_path):
    with pytest.raises(ArchError, match=r"does not end in \.html"):
        archcli.report("gpt2").save(tmp_path / "x.svg")


@pytest.mark.long
def test_findings_that_a_file_silences_are_not_on_the_page(tmp_path):
    file, preset = tmp_path / "quiet.yaml", Path(archcli.__file__).parents[1] / "presets" / "gpt2.yaml"

    def codes(text):
        file.write_text(text)
        data = data_of(archcli.report(file, device=("rtx-4090",)).html)
        return [it["code"] for it in data["models"][0]["findings"]]

    loud = preset.read_text()
    silenced = loud.replace("vocab_size: 50257", "vocab_size: 50257 # archcli: ignore[HWD004]")
    assert "HWD004" in codes(loud)
    assert codes(silenced) == [code for code in codes(loud) if code != "HWD004"]
