"""All readings of one forward agree.

Ints, symbols, arrays and the built torch model give the same figures of any architecture.
"""

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from archcli.measure.passes import forward_pass, prefill_pass
from archcli.modules import substitute
from readings.encoders import GENERATORS, MODELS
from readings.predictors import predictors
from readings.readings import by_symbols, by_torch, by_torch_cache, counted, counted_dense, sizes_of

torch.set_num_threads(1)
LENGTHS = {"batch_size": st.integers(1, 3), "seq_len": st.integers(1, 9)}
PAST = st.integers(1, 9)


@pytest.mark.long
@given(model=MODELS, **LENGTHS)
@settings(max_examples=settings.default.max_examples // 2)
def test_torch_counts_what_ints_count(model, batch_size, seq_len):
    ours, theirs = counted_dense(model, batch_size, seq_len), by_torch(model, batch_size, seq_len)
    assert theirs == {name: ours[name] for name in theirs}


@pytest.mark.long
@given(model=GENERATORS, **LENGTHS)
@settings(max_examples=settings.default.max_examples // 2)
def test_torch_counts_and_caches_in_prefill_and_decode_what_ints_count(model, batch_size, seq_len):
    ours, theirs = counted_dense(model, batch_size, seq_len), by_torch_cache(model, batch_size, seq_len)
    assert theirs == {name: ours[name] for name in theirs}


@pytest.mark.long
@given(model=MODELS, past=PAST, **LENGTHS)
@settings(max_examples=settings.default.max_examples * 3 // 5)  # most of a second each: sympy
def test_symbols_evaluate_to_what_ints_count(model, batch_size, seq_len, past):
    assert by_symbols(model, batch_size, seq_len, past) == counted(model, batch_size, seq_len, past)


@pytest.mark.long
@given(model=MODELS, steps=st.lists(st.integers(0, 3), min_size=3, max_size=3), past=PAST, **LENGTHS)
def test_arrays_hold_what_ints_count_of_each_candidate(model, steps, batch_size, seq_len, past):
    sizes = sizes_of(model)
    arrays = {
        path: value + (4 if path == "d_model" else 1 + i % 3) * np.array(steps)
        for i, (path, value) in enumerate(sizes.items())
    }
    # heads without a width of their own are as wide as d_model has room for; a candidate with none for them
    # is no model
    heads, widths = (
        [sizes for path, sizes in arrays.items() if path.endswith(name)] for name in ("n_heads", "d_model")
    )
    assume(all((width >= sizes).all() for width in widths for sizes in heads))
    figures = counted(substitute(model, arrays), batch_size, seq_len, past)
    for candidate in range(len(steps)):
        one = substitute(model, {path: int(array[candidate]) for path, array in arrays.items()})
        expected = counted(one, batch_size, seq_len, past)
        assert {
            name: int(np.broadcast_to(figure, len(steps))[candidate]) for name, figure in figures.items()
        } == expected


@pytest.mark.long
@given(model=predictors(), batch_size=st.integers(1, 3), seq_len=st.integers(3, 9), past=PAST)
@settings(max_examples=settings.default.max_examples // 8)  # two seconds each: sympy differentiates
def test_all_readings_agree_of_what_training_alone_runs(model, batch_size, seq_len, past):
    ours, theirs = counted_dense(model, batch_size, seq_len), by_torch(model, batch_size, seq_len)
    assert theirs == {name: ours[name] for name in theirs}
    assert by_symbols(model, batch_size, seq_len, past) == counted(model, batch_size, seq_len, past)


@pytest.mark.long
@given(model=MODELS)
def test_rows_of_a_pass_have_paths_of_their_own(model):
    for one in (forward_pass(model, 1, 3), prefill_pass(model, 1, 3)):
        paths = [row.path for row in one.rows]
        assert sorted(set(paths)) == sorted(paths)
