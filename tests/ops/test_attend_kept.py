"""What attention keeps, and what is alive while it runs, for shapes and masks drawn at random.

Equal to what torch saves and holds, to the byte, in eight settings.
"""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from archcli.ops import Attend, Bidirectional, Causal, Chunked, SlidingWindow, TopK
from ops.case import Case
from ops.kept_checks import SETTINGS, differences
from ops.live_checks import backward, running

torch.set_num_threads(1)
WIDTHS = st.sampled_from([4, 5, 8, 12, 16, 24, 264])
MASKS = {
    "causal": lambda n: Causal(),
    "full": lambda n: Bidirectional(),
    "window": SlidingWindow,
    "chunk": Chunked,
}
EXTRAS = st.lists(st.sampled_from(["sinks", "bias", "shared_bias"]), unique=True, max_size=2)


@st.composite
def calls(draw):
    """Attention of several sequences or one, with as many queries as keys or fewer."""
    batch, new, earlier = draw(st.integers(1, 3)), draw(st.integers(1, 9)), draw(st.sampled_from([0, 0, 4]))
    kv_heads, share, d = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(WIDTHS)
    heads, visible = kv_heads * share, new + earlier
    mask = MASKS[draw(st.sampled_from(sorted(MASKS)))](draw(st.sampled_from([3, 64])))
    plain = draw(st.booleans())
    extras = () if plain else tuple(draw(EXTRAS))
    options = {
        "softcap": None if plain else draw(st.sampled_from([None, 3.0])),
        "alibi": None if plain else draw(st.sampled_from([None, 8.0])),
        "relu": not plain and draw(st.booleans()) and "sinks" not in extras,
        "dropout": draw(st.sampled_from([0.0, 0.0, 0.1])),
    }
    sizes = {
        "sinks": (heads,),
        "bias": (batch, heads, new, visible),
        "shared_bias": (1, heads, new, visible),
    }
    if plain and draw(st.booleans()) and not earlier:
        mask, extras, sizes = TopK(2), ("selected",), {"selected": (batch, new, min(2, new))}
    q = (batch, new, heads, d)
    k, v = (batch, visible, kv_heads, d), (batch, visible, kv_heads, draw(st.sampled_from([d, 8, 20])))
    op = Attend("y", mask, 0.5, past=earlier, extras=extras, **options)
    return Case(op, (q, k, v, (new,), *(sizes[name] for name in extras)), (*q[:3], v[3]))


@pytest.mark.long
@given(calls())
def test_kept_of_random_attention(case):
    wrong = {name: found for name, how in SETTINGS.items() if (found := differences(case, how))}
    assert wrong == {}


@pytest.mark.long
@given(calls())
def test_bytes_alive_while_random_attention_runs(case):
    """Without gradients, and in training, where what is kept stays alive."""
    floats = [i != 3 and case.op.extras[i - 4 :][:1] != ("selected",) for i in range(len(case.inputs))]
    for how in SETTINGS.values():
        for needs in ((False,) * len(floats), tuple(floats)):
            ours, alive = running(case, how, needs)
            assert ours == alive


OPS = {
    "plain": Attend("y", Causal(), 0.5),
    "window": Attend("y", SlidingWindow(8), 0.5),
    "softcap": Attend("y", Causal(), 0.5, softcap=3.0),
    "alibi": Attend("y", Causal(), 0.5, alibi=8.0),
    "relu": Attend("y", Causal(), 0.5, relu=True),
    "dropout": Attend("y", Causal(), 0.5, dropout=0.1),
}


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("kv_heads", [4, 2])
@pytest.mark.parametrize("name", OPS)
def test_bytes_alive_in_the_backward(name, kv_heads):
    """Of 64 tokens, whose scores outweigh q, k and v."""
    q, k = (2, 64, 4, 16), (2, 64, kv_heads, 16)
    case = Case(OPS[name], (q, k, k, (64,)), q)
    for how in SETTINGS.values():
        ours, alive = backward(case, how)
        assert ours == alive
