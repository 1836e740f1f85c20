"""Names of symbols: short where fields agree, telling where they differ; and numbers of layers."""

import math

import numpy as np
import pytest
import sympy

import archcli
from archcli.arith import ceil_log2, repetitions
from archcli.errors import ArchError
from archcli.load.source import load
from archcli.modules import GLU, Group, Quantization, Rule
from archcli.wings.shapes.symbolic.symbols import ModelSymbols, size_names, sizes
from covering import COVERING
from small import attention, decoder, layer


def test_layers_alike_share_a_symbol_and_others_have_their_own():
    windows = [layer(attention(window=n)) for n in (3, 3, 5)]
    names = size_names(decoder(Group(n_layers=3, pattern=tuple(windows))))
    stem = "groups.0.pattern"
    assert [names[f"{stem}.{i}.attention.window"] for i in range(3)] == [
        "pattern_0_attention_window",
        "pattern_0_attention_window",
        "pattern_2_attention_window",
    ]
    assert {names[f"{stem}.{i}.attention.n_heads"] for i in range(3)} == {"n_heads"}


def test_numbers_of_layers_are_never_shared():
    names = size_names(decoder(*(Group(n_layers=n, layer=layer(ffn=GLU(d_ff=7))) for n in (3, 1, 3))))
    assert [names[f"groups.{i}.n_layers"] for i in range(3)] == [f"groups_{i}_n_layers" for i in range(3)]


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", COVERING)
def test_each_symbol_stands_for_one_value_and_is_an_identifier(name):
    model = load(name).model
    values, names = {path: value for path, _, value in sizes(model)}, size_names(model)
    by_name = {}
    for path, symbol in names.items():
        assert symbol.isidentifier()
        assert by_name.setdefault(symbol, values[path]) == values[path]


@pytest.mark.parametrize("n_layers", [26, 24, 7])
def test_most_layers_of_a_pattern_are_all_but_the_others(n_layers):
    pattern = tuple(layer(attention(window=3 if i < 5 else 9)) for i in range(6))
    symbols = ModelSymbols(decoder(Group(n_layers=n_layers, pattern=pattern)), {})
    layers = symbols.model.groups[0].n_layers
    most = symbols.occurrences(sum(repetitions(layers, 6, i) for i in range(5)))
    every = symbols.occurrences(sum(repetitions(layers, 6, i) for i in range(6)))
    n = sympy.Symbol("n_layers", integer=True, positive=True)
    assert every == n
    assert most == (5 * n / 6 if n_layers % 6 == 0 else n - sympy.floor(n / 6))
    assert symbols.value(most) == len([i for i in range(n_layers) if i % 6 != 5])


@pytest.mark.long
def test_a_logarithm_is_rounded_up_for_every_kind_of_number():
    numbers = np.array([1, 2, 3, 4, 5, 8, 9, 1023, 1024, 1025, 2**20 + 1])
    n = sympy.Symbol("n", integer=True, positive=True)
    for number, of_array in zip(map(int, numbers), ceil_log2(numbers), strict=True):
        expected = math.ceil(math.log2(number))
        assert ceil_log2(number) == of_array == ceil_log2(n).xreplace({n: sympy.Integer(number)}) == expected


KEPT = Quantization(bits=4, group_size="row", rules=(Rule(match="embedding", bits="dtype"),))


@pytest.mark.long
def test_words_beside_numbers_are_no_sizes():
    # bits: dtype and group_size: row are words; the sizes of the model are those of the same one unquantized
    packed, plain = decoder(quantization=KEPT, max_seq_len=64), decoder(max_seq_len=64)
    for quantity in ("params", "flops", "kvcache"):
        assert archcli.explain(packed, quantity).totals == archcli.explain(plain, quantity).totals
    shapes = [archcli.scale(model, 20_000).rows for model in (packed, plain)]
    assert [row for row in shapes[0] if row["field"] != "bits"] == shapes[1]
    assert [row["value"] for row in shapes[0] if row["field"] == "bits"] == [4]
    names = ["quantization.rules.0.bits", "quantization.group_size", "quantization.bits"]
    swept = archcli.sweep(packed, vary=["d_ff=8,12"], show=names)
    assert [[row[name] for name in names] for row in swept.rows] == [[None, None, 4]] * 2
    with pytest.raises(ArchError, match=r"quantization.bits 4, quantization.rules.0.bits$"):
        archcli.sweep(packed, vary=["bits=2,4"])
