"""Bytes kept for the backward by symbols and by arrays, equal to those by ints.

Which tensors torch keeps follows from its kernels, and those from the number and the width of heads, so these
stay ints here; symbols and arrays stand for sequences longer than any window, and batches of more than one.
"""

import numpy as np
import pytest
import sympy
from hypothesis import assume, given
from hypothesis import strategies as st

from archcli.graph.kept import Execution
from archcli.load.source import load
from archcli.modules import HierarchicalHead, substitute
from archcli.modules.spec.request import Request
from archcli.wings.serving.memory.traced import kept_bytes, trace_memory
from archcli.wings.shapes.symbolic.candidates import branches
from readings.encoders import MODELS
from readings.readings import sizes_of
from table import every_row

EXECUTIONS = st.sampled_from(
    [
        Execution(backend, fused, width)
        for backend, fused in (("cpu", True), ("cpu", False), ("cuda", False))
        for width in (2, 4)
    ]
)
LENGTHS = {"batch_size": st.integers(2, 4), "seq_len": st.integers(40, 60)}
STEPS = st.lists(st.integers(0, 3), min_size=3, max_size=3)


def kept(model, batch_size, seq_len, execution, values=None):
    """Bytes that a training pass keeps for its backward."""
    request = Request("train", batch_size, seq_len)
    return kept_bytes(trace_memory(model, request, execution, moments=False, values=values))


def free_sizes(model):
    """Sizes by path of which no choice of a kernel depends; lengths of groups whose layers are all alike.

    An axis of 1 is laid out as no other, so it stays what it is.
    """
    fixed, sizes = ("head", "d_model", "top_k", "n_experts"), sizes_of(model)
    patterned = {path.split(".pattern.")[0] + ".n_layers" for path in sizes if ".pattern." in path}
    free = sizes.keys() - patterned
    return {
        path: n
        for path, n in sizes.items()
        if path in free and n > 1 and not any(name in path for name in fixed)
    }


def check_symbols(model, batch_size, seq_len, execution):
    """The closed form, evaluated at the sizes."""
    values = {sympy.Symbol(path, positive=True, integer=True): n for path, n in free_sizes(model).items()}
    asked = dict(zip(sympy.symbols("B T", positive=True, integer=True), (batch_size, seq_len), strict=True))
    model_of_symbols = substitute(model, {symbol.name: symbol for symbol in values})
    formula = kept(model_of_symbols, *asked, execution, values | asked)
    numbers = {symbol: sympy.Integer(n) for symbol, n in (values | asked).items()}
    assert sympy.sympify(formula).xreplace(numbers) == kept(model, batch_size, seq_len, execution)


def check_arrays(model, steps, batch_size, seq_len, execution):
    """Each candidate of arrays of sizes."""
    arrays = {
        path: n + (1 + i % 3) * np.array(steps) for i, (path, n) in enumerate(free_sizes(model).items())
    }

    def compute(numbers):
        return kept(substitute(model, numbers), batch_size, seq_len, execution)

    for branch in branches(arrays, len(steps), compute):
        for candidate, figure in zip(branch.places, branch.array(branch.result), strict=True):
            sizes = {path: int(array[candidate]) for path, array in arrays.items()}
            assert int(figure) == compute(sizes)


@pytest.mark.long
@given(model=MODELS, execution=EXECUTIONS, steps=STEPS, **LENGTHS)
def test_arrays_hold_what_ints_count_of_each_candidate(model, steps, batch_size, seq_len, execution):
    # a table made by adapters is kept itself where the classes of words are full, else a padded copy of it
    assume(not (isinstance(model.head, HierarchicalHead) and model.lora and "lm_head" in model.lora.targets))
    check_arrays(model, steps, batch_size, seq_len, execution)


EXECUTED = {"bf16": Execution(), "fp32": Execution(width=4), "eager": Execution(fused=False)}


@pytest.mark.long
@every_row("how", EXECUTED)
@every_row("name", ["gpt2", "llama-3.2-1b", "gemma-2-2b", "mixtral-8x7b"])
def test_arrays_by_the_kernels_of_a_gpu(name, how):
    check_arrays(load(name, ["n_layers=7"]).model, [0, 1, 4], 2, 5000, EXECUTED[how])


def test_symbols_by_the_kernels_of_a_gpu():
    check_symbols(load("gpt2", ["n_layers=7"]).model, 2, 5000, Execution())
