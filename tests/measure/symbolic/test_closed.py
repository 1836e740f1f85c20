"""Closed forms in a JavaScript engine give what the commands give with the same sizes by --set."""

import pytest
import sympy

from archcli.api.asking.subject import given
from archcli.load.presets import preset_records
from archcli.load.source import load_text
from archcli.wings.shapes.symbolic.closed.addresses import Address, RowPaths
from archcli.wings.shapes.symbolic.closed.forms import closed_forms
from archcli.wings.shapes.symbolic.closed.free import free_model
from archcli.wings.shapes.symbolic.closed.javascript import javascript, script
from archcli.wings.shapes.symbolic.symbols import symbol
from closing import RUNTIME, disagreement, engine
from different_layers import different_layers
from table import every_row

MODELS = (
    "deepseek-v3",  # latent attention, a mixture with groups, multi-token prediction
    "gpt-oss-20b",  # windows in every other layer
    "gemma-3-4b",
    "t5-base",
    "whisper-large-v3",
    "qwen3-next-80b-a3b",
    "jamba-1.5-mini",
    "zamba2-1.2b",  # blocks that layers share
    "longcat-flash",  # zero experts: expected numbers are fractions
    "llama-4-scout",  # chunks
)
SETTINGS = 20


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", MODELS)
def test_random_settings_give_the_json_of_the_commands(name):
    wrong = [words for seed in range(SETTINGS) for words in disagreement(name, seed)]
    assert wrong == []


@pytest.mark.sample(1)
@pytest.mark.parametrize("record", preset_records(), ids=lambda record: record["name"])
def test_every_preset_has_closed_forms(record):
    assert [words for seed in range(3) for words in disagreement(record["name"], seed)] == []


@pytest.mark.long
def test_numbers_are_exact_beyond_floats():
    known = engine("gpt2")
    sizes = known.values | {"batch_size": 2**20, "seq_len": 2048, "context": 2**60 + 1}
    elements = known.figures(sizes)["kvcache", "", "elements"]
    assert elements == 2**20 * (2**60 + 1) * 12 * 2 * 768


N, M = symbol("n"), symbol("m")


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        (3 * N + 1, "3n*s.n+1n"),
        (N * (N + 1) / 2, "quotient(2n*s.n*(s.n+1n)+2n,4n)"),
        (sympy.floor(N / M), "quotient(s.n,s.m)"),
        (sympy.Min(N, M) ** 2, "power(least(s.m,s.n),2n)"),
        (sympy.Max(N, M + 1), "most(s.n,s.m+1n)"),
        (sympy.Mod(N, M), "remainder(s.n,s.m)"),
        (sympy.ceiling(sympy.log(N) / sympy.log(2)), "binary(s.n)"),
    ],
)
def test_code(expression, code):
    assert javascript(expression) == code


@pytest.mark.long
@every_row("n", [1, 2, 3, 4, 5, 1023, 1024, 1025, 2**60 + 1])
@every_row("m", [1, 2, 7, 1024, 2**61])
def test_code_computes_what_the_expression_is(n, m):
    import quickjs

    expressions = [
        sympy.floor((N + 1) / M) + sympy.Min(N, M / 3) * 3,
        sympy.Max(N, M) - sympy.floor((N - M) / 2),
        sympy.ceiling(N / M),
        (N**3 + 3 * N**2 + 2 * N) / 6,
        sympy.floor(sympy.Min(N, sympy.floor(M / 2)) / 3) + N,
    ]
    context = quickjs.Context()
    context.eval(f"{RUNTIME.read_text()}; SCRIPT = {script(expressions).code}")
    context.eval(f"s = stepped(SCRIPT, {{n: {n}n, m: {m}n}})")
    values = [int(context.eval(f"String(SCRIPT.forms[{i}](s))")) for i in range(len(expressions))]
    # no size is a fraction, and so none is rounded but by floor and ceiling
    assert values == [
        expression.xreplace({N: sympy.Integer(n), M: sympy.Integer(m)}) for expression in expressions
    ]


def test_binary_digits_are_exact_beside_powers_of_two():
    import quickjs

    context = quickjs.Context()
    context.eval(RUNTIME.read_text())
    for n in (1, 2, 3, 4, 5, 2**60 - 1, 2**60, 2**60 + 1):
        assert int(context.eval(f"String(binary({n}n))")) == (n - 1).bit_length()


@pytest.mark.long
def test_conditions_are_those_of_the_loader():
    known = {f"{c.left} {c.sign} {c.right}" for c in engine("deepseek-v3").conditions}
    assert known == {
        "Mod(qk_rope_head_dim, 2) == 0",
        "top_k <= n_experts",
        "Mod(n_experts, n_groups) == 0",
        "top_k_groups <= n_groups",
        "top_k <= top_k_groups*floor(n_experts/n_groups)",
    }


@pytest.mark.long
@pytest.mark.parametrize("n_layers", [12, 24, 48, 96])
def test_titles_name_the_last_layers_wherever_they_stand(n_layers):
    forms = closed_forms(free_model(given("qwen3-next-80b-a3b").model))
    # attention stands in every fourth layer
    of_attention = {at.key: form for at, form in forms.items() if at.path.startswith("layers.3.")}
    numbers = {key: form for key, form in of_attention.items() if key.startswith("layers.")}
    sizes = {symbol("n_layers"): sympy.Integer(n_layers)}
    assert numbers["layers.0"] == 3
    assert numbers["layers.11"].xreplace(sizes) == n_layers - 1


@pytest.mark.long
def test_of_very_many_different_layers_the_sizes_at_the_top_are_free():
    def names(number):
        return {it.name for it in free_model(load_text(different_layers(number), "layers").model).settings}

    assert {"groups_0_layer_ffn_d_ff", "groups_47_layer_ffn_d_ff"} <= names(48)
    assert names(49) == {"vocab_size", "d_model", "max_seq_len"}


def test_a_module_means_the_rows_below_it():
    paths = ["layers.0.ffn.up", "layers.0.ffn.down", "layers.0.ffn", "layers.10.ffn.up", ""]
    rows = RowPaths({Address("params", path, "params"): 1 for path in paths})
    assert rows.of("params", "layers.0") == paths[:3]
    assert rows.of("params", "layers.0.ffn") == ["layers.0.ffn"]
    assert rows.of("params", "layers.1") == rows.of("flops", "layers.0") == []
    assert rows.of("params", "") == [""]
