"""`archcli report`: one file that allows nothing but its own scripts and styles; bad input is a line."""

import base64
import hashlib
import html
import json
import re
from pathlib import Path
from random import Random

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


def answer(data, row, key="||"):
    """An answer of the page for a device: by `engine|format|context`, the usual without a name."""
    return dict(zip(data["answer"], data["speeds"][row]["answers"][key], strict=True))


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
    rate, usual = archcli.fit("gpt2", "h100-sxm").totals["tokens_per_s"], answer(data_of(page), 0)
    assert {name: usual[name] for name in rate} == rate


@pytest.mark.long
@pytest.mark.parametrize(
    ("model", "device"),
    [("llama-3.1-8b", "rtx-4090"), ("mixtral-8x7b", "2xrtx-4090"), ("gpt-oss-20b", "rtx-3060")],
)
def test_what_if_of_format_engine_and_context_is_what_fit_says(model, device):
    data = data_of(archcli.report(model, device=(device,)).html)
    answers, seen, wrong = data["speeds"][0]["answers"], set(), []
    for key in Random(model).sample(sorted(answers), 30):  # noqa: S311
        engine, dtype, context = key.split("|")
        options = {
            "engine": engine or None,
            "dtype": dtype or None,
            "context": int(context) if context else None,
        }
        page = answer(data, 0, key)
        try:
            totals = archcli.fit(model, device, **options).totals
        except ArchError as error:
            wrong += [] if (page["fits"], page["words"]) == (None, error.problems[0].what) else [(key, page)]
            seen.add(None)
            continue
        seen.add(totals["fits"])
        same = {
            name: totals[name]
            for name in ("fits", "verdict", *(("format", "context", "speed_at") * totals["fits"]))
        }
        same |= totals["tokens_per_s"] if totals["fits"] else {}
        same["memory"] = totals["memory_bytes"] * totals["devices"]
        wrong += [] if {name: page[name] for name in same} == same else [(key, page, same)]
    assert wrong == []
    assert {True, None} <= seen


@pytest.mark.long
def test_the_weights_of_a_row_are_those_of_its_format():
    data = data_of(archcli.report("llama-3.1-8b", device=("rtx-3060",)).html)
    usual = answer(data, 0)
    assert usual["format"] == "q8_0"
    assert usual["weights"] == archcli.params("llama-3.1-8b", dtype="q8_0").totals["bytes"]


@pytest.mark.long
def test_a_page_says_what_a_review_asks_and_is_the_same_on_the_same_day(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1767225600")
    asked = {"device": ("h100-sxm",), "title": "Which <GPU>?", "note": "For chat.\nBy March."}
    pages = [archcli.report("gpt2", **asked).html for _ in range(2)]
    assert pages[0] == pages[1]
    data = data_of(pages[0])
    published = archcli.load("gpt2").source
    assert data["made"] == f"preset gpt2 ({published}) · archcli {archcli.__version__} · 2026-01-01"
    assert data["note"] == "For chat.\nBy March."
    assert "<h1>Which &lt;GPU&gt;?</h1>" in pages[0]


@pytest.mark.long
def test_a_date_that_is_none_is_an_error(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "soon")
    done = cli("report", "gpt2", "--device", "h100-sxm", "-o", tmp_path / "x.html")
    assert done.code == 2
    assert "SOURCE_DATE_EPOCH is 'soon'" in done.err


def profile(**totals):
    """The smallest that the page reads of a profile: 10 ms, of which 6 are of products."""
    shares = {"contraction": 0.6, "elementwise": 0.05, "framework": 0.1, "unattributed": 0.25}
    by_class = {name: {"time_share": share} for name, share in shares.items()}
    inputs = {"phase": "forward", "batch_size": 1, "seq_len": 32, "past": 0, "dtype": "fp32", "device": "cpu"}
    known = {"wall_s": 0.01, "by_class": by_class, "machine": {"CPU": "2 x Abacus"}, "reliable": True}
    return {"notes": [], "inputs": inputs, "totals": {**known, "warnings": [], **totals}}


def test_measured_time_is_of_the_whole_wall_and_says_when_it_is_not_reliable(monkeypatch):
    from archcli.wings.drawing.api.reporting import content
    from archcli.wings.drawing.api.reporting.options import ReportOptions

    shown = {}
    for document in (profile(), profile(reliable=False, warnings=["NOT RELIABLE: a busy machine."])):
        monkeypatch.setattr(content, "_profile", lambda _, it=document: it)
        timed = content._timed(ReportOptions("gpt2.json"))
        shown[timed["unreliable"]] = timed["measured"]
        entries = content._measured(ReportOptions("gpt2.json"))
        # 6 of 10 ms, and last what no operation took
        assert [entry["share"] for entry in entries] == [0.6, 0.05, 0.25, 0.1]
    assert [*shown] == ["", "NOT RELIABLE: a busy machine."]
    for words in shown.values():
        conditions = "phase forward, batch size 1, seq len 32, dtype fp32, 2 x Abacus; 10.0 ms a pass"
        assert f"Shares of the whole wall time: {conditions}" in words


def test_a_notebook_shows_the_page_in_a_frame(monkeypatch):
    from archcli.wings.drawing.api.report import ReportPage

    monkeypatch.setattr(ReportPage, "html", '<p title="x">&</p>')
    frame = re.fullmatch(
        r'<iframe title="gpt2" style="[^"]*" srcdoc="([^"]*)"></iframe>', archcli.report("gpt2")._repr_html_()
    )
    assert html.unescape(frame[1]) == '<p title="x">&</p>'


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
    fits = {row["device"]: answer(data, i)["fits"] for i, row in enumerate(data["speeds"])}
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
