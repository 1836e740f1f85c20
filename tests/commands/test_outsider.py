"""A mixer and two operations that archcli does not know (Mamba-2, `outsider_ssd.py`).

Every command takes them as its own.

H 4 heads of width P 8, state N 16, G 2 groups, K 4 taps, D 32, V 50, F 48; C = H P + 2 G N channels of the
convolution.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import outsider_ssd
from archcli.load.source import load
from archcli.measure.passes import forward_pass, prefill_pass
from archcli.wings.shapes.symbolic.formula import formula
from distribution import forget_outsiders, installed
from edits.kinds import SOFTMAX

H, P, N, G, K, D, V, F = 4, 8, 16, 2, 4, 32, 50, 48
INNER = H * P
CHANNELS = INNER + 2 * G * N
IN = 2 * INNER + 2 * G * N + H
SSD = "{kind: outsider_ssd, n_heads: 4, head_dim: 8, d_state: 16, n_groups: 2}"
HYBRID = f"""
name: hybrid
vocab_size: {V}
d_model: {D}
max_seq_len: 4096
norm: {{kind: rmsnorm, eps: 1e-5}}
groups:
  - n_layers: 8
    pattern:
      - {{kind: pre_norm, mixer: {SSD}}}
      - {{kind: pre_norm, attention: {{kind: gqa, n_heads: 4, n_kv_heads: 2, position: {{kind: rope}}}}}}
      - {{kind: pre_norm, ffn: {{kind: glu, d_ff: {F}}}}}
      - {{kind: pre_norm, mixer: {SSD}, ffn: {{kind: glu, d_ff: {F}}}}}
"""
SSD_LAYERS, ATTENTION_LAYERS, FFN_LAYERS = 4, 2, 4


@pytest.fixture(autouse=True)
def site(monkeypatch, tmp_path):
    """A folder of installed distributions that Python looks into."""
    folder = tmp_path / "site"
    installed(folder, "outsider", {}, {"outsider_ssd": "outsider_ssd:OutsiderSSD"})
    forget_outsiders(monkeypatch)
    monkeypatch.syspath_prepend(folder)
    return folder


@pytest.fixture
def hybrid(tmp_path):
    path = tmp_path / "hybrid.yaml"
    path.write_text(HYBRID)
    return path


@pytest.fixture
def totals(cli, hybrid):
    def ask(command, *options):
        done = cli(command, hybrid, *options, "--json")
        assert done.code == 0, done.err
        return json.loads(done.out)["totals"]

    return ask


@pytest.mark.long
def test_a_fresh_process_finds_it_by_its_distribution(site, hybrid, totals):
    path = os.pathsep.join([str(site), str(Path(outsider_ssd.__file__).parent), *sys.path])
    command = [sys.executable, "-m", "archcli", "params", str(hybrid), "--json"]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, check=True, timeout=300
    )
    assert json.loads(done.stdout)["totals"] == totals("params")


def test_parameters(totals):
    scan, conv = 3 * H, CHANNELS * K + CHANNELS
    groups = totals("params")["by_group"]
    assert groups["recurrent"] == SSD_LAYERS * (D * IN + conv + scan + INNER * D)
    assert groups["ffn"] == FFN_LAYERS * 3 * D * F
    assert (
        groups["norms"] == (8 + 2 + 1) * D + SSD_LAYERS * INNER
    )  # every layer, two with a network, the last


@pytest.mark.parametrize(("options", "tokens"), [(("-s", "6", "-b", "3"), 18), (("--phase", "decode"), 1)])
def test_flops_by_components_of_its_own(totals, options, tokens):
    components = totals("flops", *options)["by_component"]
    assert components["recurrence"] == SSD_LAYERS * tokens * 4 * H * P * N
    assert components["short_conv"] == SSD_LAYERS * tokens * 2 * K * CHANNELS
    assert components["recurrent_proj"] == SSD_LAYERS * tokens * 2 * (D * IN + INNER * D)
    assert components["attention_proj"] == ATTENTION_LAYERS * tokens * 2 * (2 * D * D + 2 * D * D // 2)


def test_training_is_three_forwards_of_every_component(totals):
    forward, train = (
        totals("flops", "-s", "6", "--phase", phase)["by_component"] for phase in ("forward", "train")
    )
    assert train == {name: 3 * flops for name, flops in forward.items()}


@pytest.mark.parametrize("context", [1, 1000])
def test_its_state_is_constant_beside_keys_and_values_that_grow(totals, context):
    cache = totals("kvcache", "-c", str(context), "-b", "3")
    assert cache["state_elements"] == 3 * SSD_LAYERS * (H * P * N + K * CHANNELS)
    assert cache["kv_elements"] == 3 * ATTENTION_LAYERS * context * 2 * 2 * (D // 4)
    assert cache["elements"] == cache["kv_elements"] + cache["state_elements"]
    assert cache["elements_per_token"] == ATTENTION_LAYERS * 2 * 2 * (D // 4)
    assert cache["as_kind"]["gqa"]["elements"] == cache["elements"]


def test_a_record_of_its_layers(cli, hybrid):
    sorts = json.loads(cli("kvcache", hybrid, "-c", "100", "--json").out)["rows"]
    assert [(sort["attention"], sort["layers"], sort["tokens"]) for sort in sorts] == [
        ("outsider_ssd", SSD_LAYERS, None),
        ("gqa", ATTENTION_LAYERS, 100),
    ]


def test_survey_and_compare_tell_of_it(cli, hybrid):
    (record, *_) = json.loads(cli("survey", hybrid, "--json").out)["rows"]
    assert record["attention"] == "outsider_ssd ×4, gqa ×2, none ×2"
    assert (record["placement"], record["n_heads"], record["pattern"]) == ("pre", 4, "none ×6, full ×2")
    done = cli("compare", hybrid, "gpt2")
    assert done.code == 0
    assert "layers.*.mixer.d_state" in done.out


@pytest.mark.long
@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize(
    "command", ["check", "show", "show -b 2", "params --depth 9", "kvcache --memory 1GiB"]
)
def test_the_rest_answers(cli, hybrid, command):
    verb, *options = command.split()
    done = cli(verb, hybrid, *options)
    assert (done.code in {0, verb == "check"}, done.err) == (True, "")  # 1: a rule found something


@pytest.mark.long
def test_its_formula_is_its_count(hybrid):
    model = load(str(hybrid)).model
    closed = formula(model)
    assert closed.kv_elements.subs(closed.values) == prefill_pass(model).cached()
    assert closed.matmul_flops.subs(closed.values) == forward_pass(model).flops()[0]


def test_what_show_writes_is_the_same_model(cli, hybrid, tmp_path):
    again = tmp_path / "again.yaml"
    again.write_text(cli("show", hybrid, "--format", "yaml").out)
    assert load(str(again)).model == load(str(hybrid)).model


def test_settings_of_it_are_changed_and_refused_by_name(cli, hybrid, totals):
    assert (
        totals("flops", "--set", "mixer.d_state=32")["by_component"]["recurrence"]
        == 2 * totals("flops")["by_component"]["recurrence"]
    )
    done = cli("params", hybrid, "--set", "groups.0.pattern.0.mixer.window=4")
    assert done.code == 2
    assert "unknown key 'window'" in done.err
    assert f"a key of {SOFTMAX}, not of outsider_ssd" in done.err


@pytest.mark.long
@pytest.mark.torch
def test_every_reference_agrees(hybrid):
    from asking import ask, failures

    assert failures(ask(load(str(hybrid)).model)) == []


@pytest.mark.long
@pytest.mark.torch
def test_steps_through_its_states_are_one_pass(hybrid):
    import torch

    from zoo import assert_close, built

    made = built(load(str(hybrid)).model)
    ids = torch.randint(V, (2, 9), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        logits, cache = made.prefill(ids[:, :2])
        logits, cache = made.step(ids[:, 2:7], cache)
        for i in (7, 8):
            logits, cache = made.decode(ids[:, i : i + 1], cache)
        assert_close(logits, made(ids)[:, -1:])


@pytest.mark.long
@pytest.mark.torch
def test_its_operations_are_timed(cli, hybrid):
    done = cli("profile", hybrid, "-s", "4", "--json")
    assert done.code == 0, done.err
    paths = {row["path"] for row in json.loads(done.out)["rows"] if "path" in row}
    assert {"layers.*.mixer.scan", "layers.*.mixer.conv"} <= paths


@pytest.mark.long
@pytest.mark.torch
def test_its_training_keeps_what_torch_saves(hybrid):
    """Its operations state nothing of it: what they keep is read off their run."""
    from archcli.wings.running.runtime.memory.models import WitnessSetting
    from kept_compared import differences

    model = load(str(hybrid), ["n_layers=4"]).model
    for dtype in ("bf16", "fp32"):
        assert differences(model, 2, 9, WitnessSetting(dtype, backend="cpu")) == {}


def test_its_training_has_an_answer(cli, hybrid):
    done = cli("memory", hybrid, "-b", "2", "-s", "9", "--json")
    assert json.loads(done.out)["totals"]["kept_bytes"] > 0
