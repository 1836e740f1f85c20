"""Profiles of a tiny model on this machine, constants fitted to them, and a prediction beside a fourth."""

import json

import pytest

import archcli
from archcli.wings.serving.recorded.schema import first_violation
from launching import TINY, installed, torchrun

pytestmark = pytest.mark.long
SIZES = ("16", "32", "64")
PASS = ("--pairs", "2", "--threads", "1", "--allocator", "system", "--json")


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A model of two layers, and a folder where rates of this machine are kept."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY)
    return path


@pytest.fixture
def files(cli, tiny, tmp_path):
    """Profiles of three lengths."""
    saved = [tmp_path / f"{size}.json" for size in SIZES]
    for size, file in zip(SIZES, saved, strict=True):
        done = cli("profile", tiny, *PASS, "-s", size, "-o", file)
        assert done.code == 0, done.err
    return saved


def given(files):
    """The files as --calibrate takes them."""
    return [word for file in files for word in ("--calibrate", str(file))]


def test_measured_stands_beside_predicted_and_predict_takes_the_constants(cli, tiny, files):
    done = cli("profile", tiny, *PASS, "-s", "48", "--against-prediction", *given(files))
    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert first_violation(document) is None
    totals = document["totals"]
    *classes, whole = totals["prediction"]
    for one in classes:
        parts = [totals["by_class"][name]["seconds"] for name in one["class"].split(" + ")]
        assert one["measured_s"] == pytest.approx(sum(parts))
    assert whole["measured_s"] == pytest.approx(totals["wall_s"])
    for name in ("floor_s", "expected_s", "low_s", "high_s"):
        assert whole[name] == pytest.approx(sum(one[name] for one in classes))
    assert 0 < whole["low_s"] < whole["expected_s"] < whole["high_s"]
    assert whole["expected_over_measured"] == pytest.approx(whole["expected_s"] / whole["measured_s"])

    report = archcli.predict(tiny, "local", dtype="fp32", phase="prefill", seq_len=48, calibrate=files)
    seconds = report.totals["time_s"]
    assert 0 < seconds["floor"] < seconds["expected"] < seconds["high"]
    assert all(str(file) in report.totals["device"]["source"] for file in files)
    assert "datasheet" not in report.convention


def test_files_that_nothing_can_be_fitted_to_are_refused_in_a_line(cli, tiny, files):
    def refused(*calibrations, words=()):
        asked = ("predict", tiny, "--device", "local", "--dtype", "fp32", *words)
        done = cli(*asked, *given(calibrations))
        assert done.code == 2
        assert "Traceback" not in done.err
        return done.err

    def changed(name, change):
        document = json.loads(files[0].read_text())
        change(document)
        path = files[0].with_name(name)
        path.write_text(json.dumps(document))
        return path

    def other_processor(document):
        document["totals"]["machine"]["CPU"] = "64 x another"

    assert "3 are needed" in refused(*files[:2])
    assert "cannot be read" in refused(files[0].with_name("missing.json"))
    assert "64 x another" in refused(changed("other.json", other_processor), *files[1:])
    gone = changed("gone.json", lambda document: document["model"].update(source="gone.yaml"))
    assert "gone.json: error: its model cannot be read again" in refused(gone, *files[1:])
    strange = changed("strange.json", lambda document: document["rows"][0].update(seconds="soon"))
    assert "rows.0.seconds" in refused(strange, *files[1:])
    threads = changed("threads.json", lambda document: document["totals"]["machine"].update(threads=7))
    assert "threads differs" in refused(threads, *files[1:])
    assert "no peak of bf16 is measured" in refused(*files, words=("--dtype", "bf16"))

    crlf = files[0].with_name("crlf.json")
    crlf.write_bytes(files[0].read_bytes().replace(b"\n", b"\r\n"))
    done = cli("predict", tiny, "--device", "local", "--dtype", "fp32", *given([crlf, *files[1:]]))
    assert done.code == 0, done.err


def test_ranks_stand_beside_a_prediction_of_the_share_that_each_has(cli, tiny, files):
    """Half of each matrix product is predicted for a rank, and nothing for what the ranks exchange."""
    program = installed(tiny.parent)
    asked = ("profile", tiny, *PASS, "-s", "48", "--against-prediction", *given(files))
    alone = totals_of(cli(*asked))
    shared = totals_of(torchrun(2, program, *asked, "--tp", 2, cwd=tiny.parent))
    of_one, of_rank = ({one["class"]: one for one in totals["prediction"]} for totals in (alone, shared))
    half = pytest.approx(of_one["contraction"]["floor_s"] / 2, rel=0.5)
    assert of_rank["contraction"]["floor_s"] == half
    assert of_rank["communication"]["measured_s"] > 0
    assert of_rank["communication"]["expected_s"] is None
    whole = of_rank["all but communication"]
    parts = [one for name, one in of_rank.items() if name not in {"communication", whole["class"]}]
    assert whole["measured_s"] == pytest.approx(sum(one["measured_s"] for one in parts))
    assert whole["expected_s"] == pytest.approx(sum(one["expected_s"] for one in parts))


def totals_of(done):
    """The totals of what torchrun started."""
    code, out, err = done
    assert code == 0, err
    document = json.loads(out)
    assert first_violation(document) is None
    return document["totals"]
