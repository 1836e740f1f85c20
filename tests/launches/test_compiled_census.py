"""Compiled kernels by rule beside those that torch's compiler makes, as a profile lists them."""

from collections import Counter

import pytest

from archcli.graph.kept import Execution
from archcli.load.source import load
from archcli.modules import substitute
from archcli.modules.spec.base import settings
from archcli.modules.spec.request import Request
from archcli.wings.running.runtime.profile.census import take_census
from archcli.wings.running.runtime.profile.compiled import check_compiler, compile_work
from archcli.wings.running.runtime.profile.work import prepare
from archcli.wings.serving.launches.compiled import compiled_kernels

MOST = {"n_layers": 2, "vocab_size": 1024}
PRESETS = (
    "gpt2",  # LayerNorm, GELU, learned positions
    "smollm2-135m",  # RMSNorm, SwiGLU, RoPE, grouped queries
    "qwen3-0.6b",  # norms of queries and keys
    "gemma-3-270m",  # norms before and behind, two rotations, windows
    "bert-base-uncased",  # norms behind, token types, a pooler
    "t5-small",  # encoder and decoder, biases of scores, attention of single kernels
    "pythia-1.4b",  # attention and network side by side, RoPE of a part of each head
)


def shallow(name):
    """A preset of two layers and few tokens in its vocabulary, of its own widths otherwise."""
    model = load(name).model
    sizes = [(path, path.rpartition(".")[2], n) for path, n in settings(model) if isinstance(n, int)]
    return substitute(model, {path: min(n, MOST[name]) for path, name, n in sizes if name in MOST})


@pytest.mark.long
@pytest.mark.parametrize("name", PRESETS)
def test_kernels_hold_the_rows_that_torch_fuses(name):
    """Of each kernel its rows, and how many there are."""
    check_compiler("cpu")
    model, request = shallow(name), Request("forward", 2, 16).resolved()
    work = prepare(model, request)
    ran = {op.path: op for op in take_census(work.model, work.step).ran}
    theirs = Counter(kernel.key.path for kernel in compile_work(work, ran)[0].kernels)
    ours = Counter[str]()
    for run in compiled_kernels(model, request, Execution("cpu", True, 4)):
        ours[run.path] += run.times
    assert ours == theirs
