"""torch.compile takes the model as one graph and gives the same logits: full pass, prefill and decode."""

import pytest
import torch

from runtime.zoo import ZOO, assert_close, built, tokens

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(function):
    return torch.compile(function, fullgraph=True, backend="aot_eager")


@pytest.mark.parametrize("name", ["llama", "gemma2", "gpt2", "qwen-moe", "gpt-oss", "deepseek", "deepseek-absorbed", "llama4", "bloom"])
def test_one_graph_gives_the_same_logits(name):
    made, ids = built(ZOO[name]), tokens()
    with torch.no_grad():
        assert_close(compiled(made)(ids), made(ids))


@pytest.mark.parametrize("name", ["mixtral", "deepseek"])
def test_prefill_and_decode_compile(name):
    made, ids = built(ZOO[name]), tokens()
    with torch.no_grad():
        logits, cache = compiled(made.prefill)(ids[:, :6])
        expected, held = made.prefill(ids[:, :6])
        assert_close(logits, expected)
        logits, cache = compiled(made.decode)(ids[:, 6:7], cache)
        assert_close(logits, made.decode(ids[:, 6:7], held)[0])
    assert cache.length == 7


def test_a_compiled_step_trains_like_a_plain_one():
    made, ids = built(ZOO["mixtral"]), tokens()
    made(ids).square().mean().backward()
    plain = {name: parameter.grad.clone() for name, parameter in made.named_parameters()}
    made.zero_grad()
    compiled(made)(ids).square().mean().backward()
    for name, parameter in made.named_parameters():
        assert_close(parameter.grad, plain[name])
