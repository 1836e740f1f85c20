"""Layers that are not attention, and layers without a network.

Rules neither fail on them nor ask of them what they lack.
"""

import pytest

from archcli.load.source import load_text
from archcli.rules.base import Case, Parallelism
from archcli.rules.lint import Selection, lint
from distribution import forget_outsiders, installed
from table import every_row

SSD = "{kind: outsider_ssd, n_heads: 8, head_dim: 64, d_state: 128}"
MAMBA = f"{{kind: pre_norm, mixer: {SSD}}}"
WINDOWED = (
    "{kind: pre_norm, attention: {kind: mha, n_heads: 8, window: 1024, position: {kind: rope, theta: 10000}}}"
)
OURS = (
    "{kind: pre_norm, mixer: {kind: mamba2, n_heads: 16, n_groups: 2, head_dim: 64, state: 128, "
    "norm: {kind: rmsnorm, groups: 2}}}"
)
DELTA = (
    "{kind: pre_norm, mixer: {kind: gated_delta_net, n_key_heads: 4, n_value_heads: 8, key_head_dim: 64, "
    "value_head_dim: 64}}"
)
BESIDE = (
    "{kind: pre_norm, mixer: {kind: parallel, branches: [{kind: mha, n_heads: 4, head_dim: 64, window: 1024, "
    "position: {kind: rope, theta: 10000}}, {kind: mamba2, n_heads: 16, head_dim: 64, state: 128}]}}"
)
NETWORK = "{kind: pre_norm, ffn: {kind: glu, d_ff: 1408}}"
STACKS = {
    "mixers alone": [MAMBA],
    "mixers and networks": [MAMBA, NETWORK],
    "networks alone": [NETWORK],
    "mixers and windows": [MAMBA, WINDOWED, NETWORK],
    "recurrent mixers": [OURS],
    "recurrent mixers and windows": [OURS, WINDOWED, NETWORK],
    "gated delta nets": [DELTA, NETWORK],
}


@pytest.fixture(autouse=True)
def outsider(monkeypatch, tmp_path):
    """A distribution that brings Mamba-2."""
    installed(tmp_path, "outsider", {}, {"outsider_ssd": "outsider_ssd:OutsiderSSD"})
    forget_outsiders(monkeypatch)
    monkeypatch.syspath_prepend(tmp_path)


def findings(layers, n_layers=8, d_model=512, top="", **more):
    text = f"""
vocab_size: 32000
d_model: {d_model}
max_seq_len: 2048
norm: {{kind: rmsnorm}}
{top}
groups:
  - n_layers: {n_layers}
    pattern: [{", ".join(layers)}]
"""
    return list(lint(Case(load_text(text, "f.yaml").model, **more), Selection()))


@every_row("kind", ["decoder", "encoder"])
@every_row("layers", STACKS.values(), ids=STACKS)
def test_no_rule_asks_a_mixer_for_attention(layers, kind):
    found = findings(layers, top=f"kind: {kind}", parallel=Parallelism(2, 2, 2))
    asked = {rule.code for rule, finding in found if ".mixer" in finding.path}
    assert not asked
    codes = {rule.code for rule, _ in found}
    if not any("attention" in layer for layer in layers):
        assert not {code for code in codes if code.startswith(("ATT", "POS", "STB", "CON003"))}


def test_windows_beside_a_mixer_do_not_bound_what_is_seen():
    assert "ATT007" in {rule.code for rule, _ in findings([WINDOWED])}
    assert "ATT007" not in {rule.code for rule, _ in findings([MAMBA, WINDOWED])}


def test_a_large_model_without_scores_has_none_to_hold():
    large = {"n_layers": 64, "d_model": 12288}
    network = NETWORK.replace("1408", "32768")
    attention = WINDOWED.replace("n_heads: 8, window: 1024", "n_heads: 96")
    assert "STB001" in {rule.code for rule, _ in findings([attention, network], **large)}
    assert "STB001" not in {rule.code for rule, _ in findings([MAMBA, network], **large)}


def test_the_mixer_key_leads_to_attention_as_well():
    text = WINDOWED.replace("attention:", "mixer:").replace("1024", "4096")
    [path] = [finding.path for rule, finding in findings([text]) if rule.code == "ATT006"]
    assert path == "groups.0.pattern.0.mixer.window"


def codes(layers, **more):
    return {rule.code for rule, _ in findings(layers, **more)}


def test_branches_of_a_layer_are_judged_by_what_the_layer_is():
    alone = "{kind: pre_norm, attention: {kind: mha, n_heads: 4, head_dim: 64}}"  # half of d_model
    assert "SHP003" in codes([alone, NETWORK])
    assert "SHP003" not in codes([BESIDE, NETWORK])
    assert "ATT007" not in codes([BESIDE, NETWORK])


def test_layers_of_one_sublayer_are_half_layers():
    whole = "{kind: pre_norm, attention: {kind: mha, n_heads: 32}, ffn: {kind: glu, d_ff: 11008}}"
    halves = ["{kind: pre_norm, mixer: {kind: mamba2, n_heads: 128, head_dim: 64, state: 128}}", NETWORK]
    assert "SHP001" in codes([whole], n_layers=64, d_model=4096)
    assert "SHP001" not in codes(halves, n_layers=64, d_model=4096)


def test_devices_share_the_heads_of_a_delta_net():
    [path] = [
        finding.path
        for rule, finding in findings(
            [DELTA.replace("n_value_heads: 8", "n_value_heads: 12")], parallel=Parallelism(8)
        )
        if rule.code == "HWD010" and "n_value_heads" in finding.path
    ]
    assert path == "groups.0.pattern.0.mixer.n_value_heads"


def test_devices_share_the_groups_of_a_state_space_layer():
    """One set of B and C, and one norm of all channels, cannot be two."""
    alone = OURS.replace("n_groups: 2, ", "").replace(", norm: {kind: rmsnorm, groups: 2}", "")
    found = {
        finding.path for rule, finding in findings([alone], parallel=Parallelism(2)) if rule.code == "HWD010"
    }
    assert found == {f"groups.0.pattern.0.mixer.{name}" for name in ("n_groups", "norm.groups")}
    assert "HWD010" not in codes([OURS], parallel=Parallelism(2))


def test_a_hybrid_as_published_breaks_no_rule_of_recurrent_layers():
    attention = "{kind: pre_norm, attention: {kind: mha, n_heads: 8}}"
    hybrid = [OURS, NETWORK, OURS, NETWORK, OURS, NETWORK, OURS, attention]
    assert not {code for code in codes(hybrid) if code.startswith("REC")}


def test_layers_alike_are_told_once_that_their_heads_are_padded():
    padded = DELTA.replace("key_head_dim: 64", "key_head_dim: 96")
    found = [finding.path for rule, finding in findings([padded, padded, NETWORK]) if rule.code == "REC006"]
    assert found == ["groups.0.pattern.0.mixer.key_head_dim"]
