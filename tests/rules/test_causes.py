"""Findings that come from one cause: the most severe of a field is reported, once."""

from archcli.load.source import load_text
from archcli.rules import all_rules, lint
from archcli.rules.base import ONE_DEVICE, Case, Parallelism, example
from archcli.rules.diagnostics import diagnose
from archcli.rules.lint import Selection
from table import every_row

ROPE = "position: {kind: rope, theta: 600000"
MLA = (
    "{kind: mla, n_heads: 8, q_lora_rank: 256, kv_lora_rank: 128, qk_nope_head_dim: 64, qk_rope_head_dim: "
    f"33, v_head_dim: 64, {ROPE}}}}}"
)
CAUSES = {
    "aspect ratio": (
        {
            "d_model": "8192",
            "n_layers": "8",
            "attention": "{kind: mha, n_heads: 64}",
            "ffn": "{kind: glu, d_ff: 28672}",
        },
        ONE_DEVICE,
        "n_layers",
        "SHP001 SHP002",
        "SHP002",
    ),
    "odd head_dim": (
        {"attention": f"{{kind: mha, n_heads: 8, head_dim: 63, {ROPE}}}}}"},
        ONE_DEVICE,
        "head_dim",
        "HWD002 POS003",
        "POS003",
    ),
    "odd width of heads": (
        {"d_model": "504", "attention": f"{{kind: mha, n_heads: 8, {ROPE}}}}}"},
        ONE_DEVICE,
        "n_heads",
        "HWD002 POS003",
        "POS003",
    ),
    "odd rotary part of latent attention": (
        {"attention": MLA},
        ONE_DEVICE,
        "qk_rope_head_dim",
        "POS003",
        "POS003",
    ),
    "rotary_dim odd and too large": (
        {"attention": f"{{kind: mha, n_heads: 8, {ROPE}, rotary_dim: 97}}}}"},
        ONE_DEVICE,
        "rotary_dim",
        "POS003",
        "POS003",
    ),
    "d_ff": ({"ffn": "{kind: glu, d_ff: 1365}"}, Parallelism(tp=2), "d_ff", "HWD001 HWD010", "HWD010"),
    "vocab_size": ({"vocab_size": "32001"}, Parallelism(tp=2), "vocab_size", "HWD004 HWD013", "HWD004"),
    "n_kv_heads": (
        {"attention": f"{{kind: gqa, n_heads: 8, n_kv_heads: 3, {ROPE}}}}}"},
        Parallelism(tp=2),
        "n_kv_heads",
        "ATT001 HWD010",
        "ATT001",
    ),
    "n_kv_heads of heads that are no projections": (
        {"attention": "{kind: cca, n_heads: 8, n_kv_heads: 6, head_dim: 64}"},
        ONE_DEVICE,
        "n_kv_heads",
        "ATT001",
        "ATT001",
    ),
    "n_heads": (
        {"attention": f"{{kind: mha, n_heads: 7, {ROPE}}}}}"},
        Parallelism(tp=2),
        "n_heads",
        "CON001 HWD010",
        "CON001",
    ),
    "top_k": (
        {"ffn": "{kind: moe, n_experts: 4, top_k: 4, expert: {kind: glu, d_ff: 128}}"},
        ONE_DEVICE,
        "top_k",
        "MOE002 MOE003",
        "MOE002",
    ),
    "biases": (
        {
            "attention": f"{{kind: mha, n_heads: 8, bias: true, {ROPE}}}}}",
            "ffn": "{kind: glu, d_ff: 1408, bias: true}",
        },
        ONE_DEVICE,
        "bias",
        "NRM003",
        "NRM003",
    ),
}


def codes(text, field, rules, parallel=ONE_DEVICE):
    """What is reported of a field, of these rules alone: a rule that is added later changes no answer."""
    loaded = load_text(text, "my.yaml", strict=False)
    case = Case(loaded.model, loaded.conflicts, parallel)
    diagnostics = diagnose(case, "my", Selection(select=rules.split()), loaded.mark, ())
    return [one.rule.code for one in diagnostics if one.finding.path.rsplit(".", 1)[-1] == field]


@every_row(("changed", "parallel", "field", "rules", "expected"), CAUSES.values(), ids=CAUSES)
def test_one_cause_has_one_finding(changed, parallel, field, rules, expected):
    text = example(**changed)
    assert codes(text, field, rules, parallel) == [expected]
    assert all(codes(text, field, rule, parallel) == [rule] for rule in rules.split())


def test_without_the_most_severe_the_next_one_is_reported():
    changed, parallel, field, *_ = CAUSES["aspect ratio"]
    assert codes(example(**changed), field, "SHP001", parallel) == ["SHP001"]


def test_equal_causes_of_two_fields_are_two_findings():
    text = example(ffn="{kind: glu, d_ff: 1365}", vocab_size="32001")
    rules = "HWD001 HWD004"
    assert (codes(text, "d_ff", rules), codes(text, "vocab_size", rules)) == (["HWD001"], ["HWD004"])


def test_different_causes_of_one_field_are_two_findings():
    text = example(vocab_size="8200")
    assert codes(text, "vocab_size", "HWD005 VOC001") == ["HWD005", "VOC001"]


def test_a_rule_that_is_added_changes_no_answer(monkeypatch):
    class Wide(type(all_rules()["HWD001"])):
        code = "HWD099"

    monkeypatch.setattr(lint, "all_rules", lambda: {**all_rules(), "HWD099": Wide()})
    text = example(ffn="{kind: glu, d_ff: 1365}")
    assert codes(text, "d_ff", "HWD099") == ["HWD099"]
    for changed, parallel, field, rules, expected in CAUSES.values():
        assert codes(example(**changed), field, rules, parallel) == [expected]
