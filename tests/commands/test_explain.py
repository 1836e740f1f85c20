"""`archcli explain` and `params --explain`: what they say, in which forms, and what they refuse."""

import json
import re
import sys

import pytest
import sympy

import archcli
from archcli.errors import ArchError
from table import every_row


def totals(cli, *args):
    done = cli("explain", *args, "--json")
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)["totals"]


def test_the_keys_of_the_json(cli):
    found = json.loads(cli("explain", "gpt2", "--json").out)
    assert found["totals"]["symbols"] == {
        "vocab_size": 50257,
        "d_model": 768,
        "max_seq_len": 1024,
        "n_layers": 12,
        "d_ff": 3072,
    }
    assert found["totals"]["value"] == 124_439_808
    norms = found["rows"][2]
    assert (norms["component"], norms["formula"], norms["numbers"]) == (
        "norms",
        "4*d_model*n_layers",
        "4*768*12",
    )
    assert norms["value"] == 4 * 768 * 12
    assert norms["share"] == 4 * 768 * 12 / 124_439_808


@pytest.mark.long
def test_layers_alike_are_one_component_and_others_say_where_they_are(cli):
    found = json.loads(cli("explain", "gemma-3-1b", "kvcache", "--context", "32K", "--json").out)["rows"]
    local, full = found
    assert (local["layers"], full["layers"]) == (["groups.0.pattern.0-4"], ["groups.0.pattern.5"])
    assert local["value"] == (26 - 26 // 6) * 2 * 256 * 512
    assert full["value"] == 26 // 6 * 2 * 256 * 32_768
    assert "Min(context, window)" in local["formula"]


def test_growth_by_hand(cli):
    """GPT-2's parameters are a d^2 + b d + c of its width, and linear in its layers."""
    width, layers = totals(cli, "gpt2", "--at", "d_model,n_layers")["growth"]
    square, linear, rest = 12 * 4, 12 * (2 * 3072 + 9) + 50257 + 1024 + 2, 12 * 3072
    whole = 124_439_808
    assert square * 768**2 + linear * 768 + rest == whole
    assert width["at"] == 2 * square * 768 + linear
    assert width["elasticity"] == pytest.approx((2 * square * 768**2 + linear * 768) / whole, rel=1e-12)
    assert width["doubled"] == pytest.approx((square * 1536**2 + linear * 1536 + rest) / whole, rel=1e-12)
    assert [power["power"] for power in width["powers"]] == [2, 1, 0]
    assert width["powers"][0]["share"] == pytest.approx(square * 768**2 / whole, rel=1e-12)
    of_layer = 4 * 768 * 769 + 2 * 768 * 3072 + 3072 + 5 * 768
    assert (layers["at"], layers["value"]) == (of_layer, 12)


SIZES = [
    ("gpt2", "d_model", 1536),
    ("gpt2", "vocab_size", 2 * 50257),
    ("llama-3.1-8b", "n_layers", 64),
    ("gemma-3-1b", "n_layers", 52),
    ("deepseek-v3", "kv_lora_rank", 1024),
    ("mixtral-8x7b", "n_experts", 16),
]


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize(("name", "size", "double"), SIZES)
def test_twice_the_size_is_what_counting_it_gives(cli, name, size, double):
    (growth,) = totals(cli, name, "--at", size)["growth"]
    once, twice = (
        archcli.count_params(archcli.load(name, change)).totals["params"]
        for change in ([], [f"{size}={double}"])
    )
    assert growth["doubled"] == pytest.approx(twice / once, rel=1e-14)


def test_an_encoder_caches_nothing(cli):
    found = json.loads(cli("explain", "bert-base-uncased", "kvcache", "--json").out)
    assert (found["totals"]["formula"], found["totals"]["value"], found["rows"]) == ("0", 0, [])
    assert any("caches nothing" in note for note in found["notes"])


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize(("context", "grows"), [(100, 1), (4096, 0), (9000, 0)])
def test_a_full_window_grows_no_more(cli, context, grows):
    (growth,) = totals(cli, "mistral-7b-v0.1", "kvcache", "-c", context, "--at", "context")["growth"]
    assert growth["elasticity"] == grows
    assert growth["at"] == grows * 32 * 2 * 1024
    (growth,) = totals(cli, "mistral-7b-v0.1", "kvcache", "-c", context, "--at", "d_ff")["growth"]
    assert (growth["elasticity"], growth["doubled"]) == (0, 1)


def test_a_polynomial_is_not_told_of_what_is_none(cli):
    (growth,) = totals(cli, "llama-3.1-8b", "--at", "n_heads")["growth"]
    assert growth["powers"] == []  # n_kv_heads/n_heads
    heads = 2 * 4096**2 * 32 * 8  # over n_heads
    assert growth["at"] == -heads / 32**2


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize(
    "words", [["gpt2"], ["deepseek-v3"], ["t5-small"], ["gpt2", "flops"], ["jamba-1.5-mini", "kvcache"]]
)
def test_steps_lead_to_the_value(cli, words):
    """The last line of each component is its value, and the lines above add up to it."""
    for row in json.loads(cli("explain", *words, "--steps", "--json").out)["rows"]:
        steps = row["steps"]
        assert steps[-1]["value"] == row["value"]
        assert all(sympy.sympify(step["numbers"].replace("L", "1")) == step["value"] for step in steps)
        alone = [step["value"] for step in steps if step["step"] not in {"textbook", "sum", "together"}]
        assert len(steps) < 3 or row["value"] >= max(alone)


@pytest.mark.long
def test_which_formula_gave_a_row(cli):
    whole = cli("params", "deepseek-v3", "--explain", "layers.*.ffn", "--json")
    rows = {row["path"]: row for row in archcli.count_params("deepseek-v3").rows}
    found = json.loads(whole.out)
    assert found["totals"]["value"] == rows["layers.*.ffn"]["params"]
    assert found["totals"]["active_value"] == rows["layers.*.ffn"]["active_params"]
    dense = json.loads(cli("params", "deepseek-v3", "--explain", "layers.2.ffn", "--json").out)["totals"]
    sparse = json.loads(cli("params", "deepseek-v3", "--explain", "layers.60.ffn", "--json").out)["totals"]
    assert (dense["formula"], dense["value"]) == ("3*d_model*ffn_d_ff", 3 * 7168 * 18432)
    assert sparse["value"] == 7168 * (256 + 257 * 3 * 2048)
    one = archcli.explain("gpt2", path="layers.*.attention.q_proj", steps=True)
    assert one.totals["formula"] == "d_model*n_layers*(d_model + 1)"


def folded(rows, totals_by_name, key):
    """(values by heading, what other reports say of the same headings)."""
    sums = {}
    for row in rows:
        sums[row["heading"]] = sums.get(row["heading"], 0) + row["value"]
    return sums, {name: n for name, n in totals_by_name.totals[key].items() if n}


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize(
    "name", ["t5-small", "deepseek-v3", "zamba2-1.2b", "gemma-3n-e2b", "bert-base-uncased"]
)
def test_components_are_called_as_in_other_reports(name):
    for quantity, counted, key in (
        ("flops", archcli.count_flops(name), "by_component"),
        ("params", archcli.count_params(name), "by_group"),
    ):
        rows = archcli.explain(name, quantity).rows
        sums, expected = folded(rows, counted, key)
        assert sums == expected
        assert all(re.match(rf"{row['heading']}( of | outside |$)", row["component"]) for row in rows)
        assert len({row["component"] for row in rows}) == len(rows)


@pytest.mark.long
def test_a_long_formula_is_wrapped_in_a_pipe_and_can_be_pasted(cli):
    words = ("explain", "gemma-3n-e2b", "flops")
    whole = json.loads(cli(*words, "--json").out)["totals"]
    lines = cli(*words).out.split("Symbols")[0].splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("total "))
    column = next(line for line in lines if line.startswith("component ")).index("matmul FLOPs")
    assert max(len(line) for line in lines[3:]) <= column + 100
    formula, numbers, value = "\n".join(line[column:] for line in lines[start:]).split("\n= ")[:3]
    assert len(formula.splitlines()) > 2
    names = {name: sympy.Symbol(name) for name in whole["symbols"]}
    assert sympy.sympify(formula, locals=names) == sympy.sympify(whole["formula"], locals=names)
    assert sympy.sympify(numbers) == whole["value"]
    assert "\n" not in whole["formula"]
    assert value.splitlines()[0] == f"{whole['value']:,}"


def test_the_legend_says_what_a_number_is(cli):
    legend = {one["symbol"]: one["meaning"] for one in totals(cli, "qwen3-next-80b-a3b")["legend"]}
    assert legend["head_dim"] == "Width of a head; left out, d_model / n_heads."
    assert legend["n_key_heads"] == "Heads of queries and keys; divides n_value_heads."
    assert legend["conv_kernel"] == "Taps of the convolutions: how many tokens they see."
    assert not any(meaning.startswith("`") for meaning in legend.values())


def test_latex(cli, tmp_path):
    done = cli("explain", "gpt2", "--format", "latex")
    assert r"\text{norms} &= 4 d_{\mathrm{model}} n_{\mathrm{layers}} \\" in done.out
    assert r"&= 4 \cdot 768 \cdot 12 \\" in done.out
    assert done.out.count(r"\begin{align*}") == 1
    assert all(line.startswith(("%", "\\", "&")) for line in done.out.splitlines())
    assert cli("explain", "gpt2", "-o", tmp_path / "gpt2.tex").code == 0
    assert (tmp_path / "gpt2.tex").read_text() == done.out


REFUSED = {
    ("gpt2", "--at", "d_modl"): "d_modl: error: no size of this name = help: did you mean d_model?",
    ("gpt2", "flops", "--symbols", "seq_ln"): "did you mean seq_len",
    ("deepseek-v3", "--symbols", "d_ff"): "groups.1.layer.ffn.expert.d_ff 2048",
    ("gpt2", "parms"): "'parms' is not one of 'params', 'flops', 'kvcache'",
    ("gpt2", "--seq-len", "9"): "seq_len changes nothing of params",
    ("gpt2", "kvcache", "--phase", "decode"): "it depends on context, batch_size; leave phase out",
    ("bert-base-uncased", "flops", "--phase", "decode"): "an encoder has no cache to fill",
    ("gpt2", "flops", "--phase", "train", "--past", "3"): "training starts from an empty cache",
    ("gpt2", "--format", "json", "-o", "x.tex"): "contradict each other",
}


@every_row("words", REFUSED, ids=" ".join)
def test_what_is_refused(cli, words):
    done = cli("explain", *words)
    assert (done.code, done.out) == (2, "")
    assert REFUSED[words] in re.sub(r"\s*\n\s*│?\s*", " ", done.err)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("layers.*.atention", "did you mean layers.*.attention"),
        ("layers.12.attention", "no parameters at 'layers.12.attention'"),
        ("", "no parameters at ''"),
        ("layers.*.attention.", "no parameters at"),
    ],
)
def test_a_path_without_parameters(cli, path, said):
    done = cli("params", "gpt2", "--explain", path)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_two_reports_at_once_are_refused(cli):
    done = cli("params", "gpt2", "--explain", "layers.*.ffn", "--against", "nowhere")
    assert done.code == 2
    assert "--explain and --against ask for different reports" in done.err


@pytest.mark.parametrize("package", ["sympy", "numpy"])
def test_other_commands_need_no_sympy(cli, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    assert cli("params", "gpt2").code == 0
    done = cli("explain", "gpt2")
    missing = "this needs sympy, which is not installed; pip install sympy numpy, then: archcli explain gpt2"
    if package == "sympy":
        assert (done.code, done.err.replace("\n  = help:", ";").strip()) == (2, f"error: {missing}")


def test_a_path_is_one_of_parameters():
    with pytest.raises(ArchError, match="path changes nothing of flops"):
        archcli.explain("gpt2", "flops", path="layers.*.ffn")


@every_row(
    ("name", "formula"),
    [
        # 2 L n_kv head_dim T, as in textbooks
        ("llama-2-70b", "2*batch_size*context*head_dim*n_kv_heads*n_layers"),
        ("mixtral-8x7b", "2*batch_size*context*head_dim*n_kv_heads*n_layers"),
        # one head of keys and values
        ("falcon-7b", "2*batch_size*context*head_dim*n_layers"),
        # n_kv_heads * head_dim is d_model
        ("gpt2", "2*batch_size*context*d_model*n_layers"),
    ],
)
def test_the_cache_of_shared_heads_is_written_with_their_width(cli, name, formula):
    assert totals(cli, name, "kvcache")["formula"] == formula


def test_the_width_of_the_model_stays_where_its_growth_is_asked_for(cli):
    growing = totals(cli, "llama-3.1-8b", "kvcache", "--at", "d_model")
    assert growing["formula"] == "2*batch_size*context*d_model*n_kv_heads*n_layers/n_heads"
