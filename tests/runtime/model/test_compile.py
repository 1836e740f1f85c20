"""torch.compile takes the model as one graph and gives the same logits: full pass, prefill and decode."""

import pytest
import torch
from torch.utils._pytree import tree_leaves

from sources import OTHERS, source_of
from zoo import ZOO, assert_close, built, tokens

torch.set_num_threads(1)
EVERY = ZOO | OTHERS


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(function):
    return torch.compile(function, fullgraph=True, backend="aot_eager")


@pytest.mark.sample(0)
@pytest.mark.parametrize(
    "name",
    [
        *(
            "llama",
            "gemma2",
            "gpt2",
            "qwen-moe",
            "gpt-oss",
            "deepseek",
            "deepseek-absorbed",
            "llama4",
            "bloom",
        ),
        *("bert-pretraining", "longformer", "performer", "whisper", "linear-decoder"),
    ],
)
def test_one_graph_gives_the_same_logits(name):
    made = built(EVERY[name])
    inputs = tokens(), *source_of(made.spec)
    with torch.no_grad():
        for ours, theirs in zip(
            tree_leaves(compiled(made)(*inputs)), tree_leaves(made(*inputs)), strict=True
        ):
            assert_close(ours, theirs)


@pytest.mark.long
@pytest.mark.parametrize("name", ["mixtral", "deepseek", "t5", "linear-decoder"])
def test_prefill_and_decode_compile(name):
    made, ids = built(EVERY[name]), tokens()
    source = source_of(made.spec)
    with torch.no_grad():
        logits, cache = compiled(made.prefill)(ids[:, :6], *source)
        expected, held = made.prefill(ids[:, :6], *source)
        assert_close(logits, expected)
        logits, cache = compiled(made.decode)(ids[:, 6:7], cache)
        assert_close(logits, made.decode(ids[:, 6:7], held)[0])
    assert cache.length == 7


@pytest.mark.long
@pytest.mark.parametrize("name", ["mixtral", "bert-tagger", "t5"])
def test_a_compiled_step_trains_like_a_plain_one(name):
    made = built(EVERY[name])
    inputs = tokens(), *source_of(made.spec)
    made(*inputs).square().mean().backward()
    plain = {path: parameter.grad.clone() for path, parameter in made.named_parameters()}
    made.zero_grad()
    compiled(made)(*inputs).square().mean().backward()
    for path, parameter in made.named_parameters():
        assert_close(parameter.grad, plain[path])
