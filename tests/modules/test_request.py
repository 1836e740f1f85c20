"""A request, the tensors it is answered with, and the forms it picks."""

import re

import numpy as np
import pytest
import sympy

from archcli.errors import ArchError
from archcli.load.source import load
from archcli.measure.kvcache.cache_size import Unknown
from archcli.measure.passes import count_pass
from archcli.modules.spec.request import InputSpec, Request
from sources import OTHERS
from table import every_row


@pytest.mark.parametrize(
    ("request_", "resolved"),
    [
        (Request(seq_len=5), Request("forward", 1, 5, 0, None, "all")),
        (Request("prefill", 2, 5, 3), Request("prefill", 2, 5, 3, None, "last")),
        (Request("decode", 2, 5), Request("decode", 2, 1, 5, None, "last")),
        (Request("decode", 2, 5, 0), Request("decode", 2, 1, 0, None, "last")),
        (Request("train", 1, 5), Request("train", 1, 5, 0, None, "all")),
    ],
)
def test_a_phase_decides_what_is_left_out(request_, resolved):
    assert request_.resolved() == resolved == resolved.resolved()


@pytest.mark.parametrize(
    ("request_", "positions"),
    [
        (Request("forward", 1, 5), 5),
        (Request("prefill", 1, 5, 3), 5),
        (Request("decode", 1, 1, 3), 3),
        (Request("decode", 1, 1, 0), 1),
        (Request("decode", 1, 1, 3, source_len=7), 7),
    ],
)
def test_a_source_is_as_long_as_what_is_read_with_it(request_, positions):
    assert request_.source_positions == positions


def test_what_fills_the_cache_reads_the_same_source():
    filling = Request("decode", 2, 1, 9).filling()
    assert filling == Request("prefill", 2, 9, 0, 9, "last")
    assert filling.caches
    assert not filling.continues


def test_inputs_have_the_names_of_the_arguments():
    tokens = InputSpec((2, 5), "ids", 29)
    assert OTHERS["gpt2-base"].inputs(Request("train", 2, 5)) == {"tokens": tokens}
    assert OTHERS["marian"].inputs(Request("forward", 2, 5, source_len=7)) == {
        "tokens": tokens,
        "source": InputSpec((2, 7), "ids", 23),
    }
    assert OTHERS["whisper"].inputs(Request("forward", 2, 5))["source"] == InputSpec((2, 6, 22), "features")


def test_training_reads_targets_where_it_goes_on_to_a_loss():
    model = load("gpt2", ["loss={kind: cross_entropy}"]).model
    assert set(model.inputs(Request("train", 1, 4))) == {"tokens", "targets"}
    assert set(model.inputs(Request("forward", 1, 4))) == {"tokens"}


def test_too_few_tokens_to_predict_further_ones_are_refused():
    model = load("deepseek-v3", ["mtp={depth: 2}"]).model
    with pytest.raises(ArchError, match="2 tokens are too few to predict 2 beyond the next"):
        count_pass(model, Request("train", 1, 2))


def test_a_forward_after_cached_tokens_has_the_logits_of_all_new_ones():
    counted = count_pass(load("gpt2").model, Request("forward", 2, 4, 3))
    assert (counted.phase, counted.past, counted.request.caches) == ("forward", 3, True)
    head = next(row for row in counted.rows if row.path == "lm_head")
    assert head.outputs[0][:2] == (2, 4)


@every_row(
    ("values", "message"),
    [
        ({"seq_len": -5}, "Request: seq_len must be a whole number above 0, not -5"),
        ({"seq_len": 1.5}, "seq_len must be a whole number above 0, not 1.5"),
        ({"seq_len": True}, "seq_len must be a whole number above 0, not True"),
        ({"seq_len": "8k"}, 'seq_len must be a whole number above 0, not "8k"'),
        ({"seq_len": 10**40}, "seq_len must have at most 40 digits"),
        ({"seq_len": -(10**5000)}, "seq_len must have at most 40 digits"),
        ({"batch_size": 0}, "batch_size must be a whole number above 0, not 0"),
        ({"past": -1}, "past must be a whole number of at least 0, not -1"),
        ({"source_len": 0}, "source_len must be a whole number above 0, not 0"),
        ({"phase": "warp"}, 'phase must be forward, train, prefill or decode, not "warp"'),
        ({"logits": "some"}, 'logits must be all or last, not "some"'),
        ({"forms": "absorbed"}, 'forms must be a dict, each value text, not "absorbed"'),
        ({"seq_len": sympy.Rational(3, 2)}, "not a Rational"),
        ({"seq_len": sympy.Symbol("n", negative=True)}, "not a Symbol"),
        ({"seq_len": np.array([3, 0])}, "seq_len must be a whole number above 0, not 0"),
        ({"seq_len": np.array([1.5])}, "seq_len must be a whole number above 0, not a ndarray"),
        ({"past": np.array([], dtype=int)}, "not a ndarray"),
    ],
)
def test_values_that_no_pass_has_are_refused(values, message):
    with pytest.raises(ArchError, match=re.escape(message)):
        Request(**values)


def test_a_refusal_lists_everything_that_is_wrong():
    with pytest.raises(ArchError) as refused:
        Request("warp", 0, -1)
    assert len(refused.value.problems) == 3


def test_whole_numbers_of_numpy_become_ints():
    request_ = Request(batch_size=np.int64(2), seq_len=np.uint8(5), past=np.array(3))
    assert [type(size) for size in (request_.batch_size, request_.seq_len, request_.past)] == [int] * 3
    assert request_ == Request(batch_size=2, seq_len=5, past=3)


def test_symbols_arrays_and_deferred_numbers_are_sizes():
    symbol, array, later = sympy.Symbol("n"), np.array([3, 4]), Unknown("context")
    request_ = Request(batch_size=symbol, seq_len=array, past=later)
    assert (request_.batch_size, request_.seq_len, request_.past) == (symbol, array, later)
    assert not request_.is_plain
    assert Request(past=3).is_plain
