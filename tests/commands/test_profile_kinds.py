"""`archcli profile --per-kind` and `--layers`.

What they say, the switch where a model does not fit, what is refused.
"""

import json
import weakref
from importlib import import_module

import pytest

from archcli.load.source import load
from archcli.measure.flops import count_flops
from archcli.modules.spec.request import Request
from archcli.wings.running.runtime.profile import record as profile
from archcli.wings.running.runtime.profile import work as profile_work
from archcli.wings.serving.predict.calibrate.cut import cut

checks = import_module("archcli.wings.running.api.profiling.settings")
EIGHT = Request(seq_len=8)
TINY = """
name: tiny
vocab_size: 61
d_model: 32
max_seq_len: 64
norm: rmsnorm
layer: {kind: pre_norm, attention: {kind: mha, n_heads: 4, position: rope}}
groups:
  - {n_layers: 3, layer: {ffn: {kind: glu, d_ff: 48}}}
  - {n_layers: 5, layer: {ffn: {kind: moe, n_experts: 4, top_k: 2, expert: {kind: glu, d_ff: 24}}}}
"""


@pytest.fixture
def profiled(cli, tmp_path):
    """profiled("--layers", 2) of the tiny model, in JSON."""
    (tmp_path / "tiny.yaml").write_text(TINY)

    def run(*args):
        return cli(
            "profile",
            tmp_path / "tiny.yaml",
            "-s",
            8,
            "--pairs",
            1,
            "--threads",
            1,
            "--no-ceilings",
            "--json",
            *args,
        )

    return run


def with_memory(monkeypatch, gib):
    monkeypatch.setattr(checks, "available_memory", lambda: int(gib * 2**30))


@pytest.mark.long
def test_per_kind_counts_the_whole_model(profiled, cli, tmp_path):
    code, out, err = profiled("--per-kind")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["totals"]["extrapolated"] is True
    assert [(kind["kind"], kind["layers"], sorted(kind["walls_s"])) for kind in found["totals"]["kinds"]] == [
        ("layers.0", 3, ["1", "2"]),
        ("layers.3", 5, ["1", "2"]),
    ]
    flops = json.loads(cli("flops", tmp_path / "tiny.yaml", "-s", 8, "--json").out)["totals"]
    assert found["totals"]["flops_by_class"] == flops["by_class"]
    assert sum(row["flops"] for row in found["rows"]) == flops["matmul_flops"] + flops["other_flops"]


@pytest.mark.long
def test_a_model_that_fits_is_measured_itself(profiled, monkeypatch):
    with_memory(monkeypatch, 2)
    found = json.loads(profiled().out)
    assert found["totals"]["extrapolated"] is False
    assert "kinds" not in found["totals"]


@pytest.mark.long
def test_a_model_that_does_not_fit_is_measured_by_kinds(profiled, monkeypatch):
    monkeypatch.setattr("archcli.wings.serving.memory.beyond.timed_run.TORCH_BYTES", 0)
    with_memory(monkeypatch, 200 / 2**20)
    code, out, err = profiled()
    found = json.loads(out)
    reason = "tiny in fp32 needs about 0.0 GiB, of which 0.0 GiB are available: measured by kinds of layer."
    assert (code, err.strip()) == (0, reason)
    assert found["notes"][0] == reason
    assert found["totals"]["extrapolated"] is True
    assert (
        found["totals"]["memory"]["needed_bytes"]
        > 200 * 2**10
        > max(kind["memory"]["needed_bytes"] for kind in found["totals"]["kinds"])
    )


def test_what_does_not_fit_in_any_form_is_refused(profiled, monkeypatch):
    with_memory(monkeypatch, 0.25)
    code, out, err = profiled()
    assert (code, out) == (2, "")
    for words in (
        "tiny in fp32 does not fit one kind of layer at a time either",
        "layers like layers.3 (mha, moe) need two 0.4 GiB, one 0.4 GiB",
    ):
        assert words in err


@pytest.mark.long
def test_a_cut_model_is_measured_itself(profiled, tmp_path):
    found = json.loads(profiled("--layers", 4).out)
    assert found["model"]["name"] == "tiny (cut to 4 of 8 layers)"
    assert found["totals"]["extrapolated"] is False
    assert (
        found["totals"]["flops_by_class"]
        == count_flops(cut(load(str(tmp_path / "tiny.yaml")).model, 4), EIGHT).totals["by_class"]
    )
    assert found["inputs"]["layers"] == 4


REFUSED = {
    "both": (
        ["--layers", 2, "--per-kind"],
        "--layers and --per-kind are two ways to take less than all layers",
    ),
    "all layers": (["--layers", 8], "tiny has 8 layers, of which --layers 8 leaves out none"),
    "a trace": (["--per-kind", "--trace", "trace.json"], "--trace is of one pass of the whole model"),
}


@pytest.mark.parametrize(("args", "words"), REFUSED.values(), ids=REFUSED)
def test_what_contradicts_itself_is_refused(profiled, args, words):
    code, out, err = profiled(*args)
    assert (code, out) == (2, "")
    assert words in err


@pytest.mark.long
def test_an_interrupt_before_every_kind_was_measured_ends_cleanly(profiled, monkeypatch):
    honest, calls = profile.record, []

    def stopping(work, device, pairs, tick, **options):
        def told(what, done, total):
            if len(calls) == 2 and what == "timing" and done == 1:
                raise KeyboardInterrupt

        calls.append(work)
        return honest(work, device, 2, told, **options)

    monkeypatch.setattr(profile, "record", stopping)
    code, out, err = profiled("--per-kind")
    assert (code, out, len(calls)) == (130, "", 2)
    assert err == "interrupted before every kind of layer was measured\n"


@pytest.mark.long
def test_one_stack_is_freed_before_the_next_is_built(profiled, monkeypatch):
    honest, alive, most = profile_work.prepare, weakref.WeakSet(), []

    def prepared(*arguments):
        work = honest(*arguments)
        alive.add(work.model)
        most.append(len(alive))
        return work

    monkeypatch.setattr(profile_work, "prepare", prepared)
    assert profiled("--per-kind").code == 0
    assert most == [1] * 5


@pytest.mark.long
def test_layers_that_predict_further_tokens_are_not_measured_by_kinds(archcli):
    done = archcli("profile", "deepseek-v3", "--phase", "train", "--per-kind")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--set mtp=null trains without them" in done.stderr
