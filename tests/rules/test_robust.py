"""Whatever loads is checked.

Findings or an ArchError come out and nothing else, also where sizes contradict each other.
"""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archcli.errors import ArchError
from archcli.load.presets import preset_text, presets
from archcli.load.source import load_text
from archcli.load.spec.written import to_yaml
from archcli.rules import all_rules
from archcli.rules.base import ONE_DEVICE, Case, Parallelism
from archcli.rules.lint import Selection, lint
from readings.architectures import decoders
from table import every_row

SIZES = st.sampled_from([1, 2, 3, 7, 8, 64, 100, 4096, 14335, 10**9, 10**17]) | st.integers(1, 300)
PARALLEL = st.builds(Parallelism, *[st.sampled_from([1, 2, 3, 8])] * 3)
NUMBER = re.compile(r"(?<=[ \[])(\d+)(?=[],}\n])")
PATH = re.compile(r"[a-z_]+(\.[a-z_0-9]+)*")


def findings(text, parallel=ONE_DEVICE):
    """All findings of all rules, or None where the text was refused."""
    try:
        loaded = load_text(text, "f.yaml", strict=False)
    except ArchError:
        return None
    found = list(lint(Case(loaded.model, loaded.conflicts, parallel), Selection()))
    for rule, finding in found:
        assert finding.message.isprintable(), rule.code
        assert PATH.fullmatch(finding.path), (rule.code, finding.path)
        assert loaded.mark(finding.path).line > 0
    return found


def altered(data, text):
    """The same text with a few whole numbers of it replaced."""
    words = NUMBER.split(text)
    for i in data.draw(st.lists(st.sampled_from(range(1, len(words), 2)), min_size=1, max_size=4)):
        words[i] = str(data.draw(SIZES))
    return "".join(words)


@pytest.mark.long
@given(decoders(), PARALLEL)
def test_any_architecture(model, parallel):
    assert findings(to_yaml(model), parallel) is not None


@pytest.mark.long
@given(decoders().map(to_yaml) | st.sampled_from(presets()).map(preset_text), PARALLEL, st.data())
def test_any_architecture_with_other_sizes(text, parallel, data):
    findings(altered(data, text), parallel)


@given(
    st.sampled_from([text for rule in all_rules().values() for text in (*rule.valid, *rule.invalid)]),
    st.data(),
)
def test_any_example_with_other_sizes(text, data):
    findings(altered(data, text))


LAYER = "{kind: pre_norm, attention: {kind: mha, n_heads: 4}, ffn: {kind: glu, d_ff: 128}}"
TOP = "vocab_size: 256\nd_model: 64\nnorm: rmsnorm\n"
MISFITS = {
    "no-layer": f"{TOP}groups: [{{n_layers: 2}}]",
    "no-layer-last": f"{TOP}final_norm: false\ngroups: [{{n_layers: 2, layer: {LAYER}}}, {{n_layers: 2}}]",
    "no-layer-in-an-encoder": f"kind: encoder\n{TOP}groups: [{{n_layers: 2}}]",
    "no-layer-under-a-bias": f"{TOP}score_bias: {{kind: buckets, n_buckets: 8, max_distance: 16}}\n"
    "groups: [{n_layers: 2}]",
    "empty-pattern": f"{TOP}groups: [{{n_layers: 2, pattern: []}}]",
    "window-and-chunk": TOP
    + "groups: [{n_layers: 2, layer: "
    + LAYER.replace("4}", "4, window: 4, chunk: 4}")
    + "}]",
    "no-width": TOP + "groups: [{n_layers: 2, layer: " + LAYER.replace("4}", "100, position: rope}") + "}]",
    "an-expert-of-experts": TOP
    + "groups: [{n_layers: 2, layer: {kind: pre_norm, attention: {kind: mha, n_heads: 4}, "
    "ffn: {kind: moe, n_experts: 2, top_k: 1, "
    "expert: {kind: moe, n_experts: 2, top_k: 1, expert: {kind: glu, d_ff: 8}}}}}]",
    "shares-without-groups": TOP
    + "groups: [{n_layers: 2, layer: {kind: pre_norm, attention: {kind: mha, n_heads: 4}, "
    "ffn: {kind: moe, n_experts: 5, top_k: 2, "
    "router: {n_groups: 2, top_k_groups: 3}, expert: {kind: glu, d_ff: 8}}}}]",
    "dropout": f"{TOP}training: {{dropout: 1.0}}\ngroups: [{{n_layers: 2, layer: {LAYER}}}]",
}


@every_row("text", MISFITS.values(), ids=MISFITS)
def test_a_contradiction_is_a_finding(text):
    found = findings(text, Parallelism(2, 2, 2))
    assert "CON001" in {rule.code for rule, _ in found}
