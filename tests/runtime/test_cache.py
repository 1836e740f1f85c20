"""Prefill and decode through the cache give the logits of one full pass, whatever attends, is masked and knows positions."""

import pytest
import torch

from archcli.modules import GLU, ALiBi, MultiHeadAttention, MultiQueryAttention, NoPosition, PreNorm, RMSNorm, Rope
from runtime.zoo import ZOO, D, assert_close, built, gqa, mla, model, tokens

torch.set_num_threads(1)
KINDS = {
    "mha": lambda **fields: MultiHeadAttention(n_heads=4, head_dim=6, **fields),
    "gqa": gqa,
    "mqa": lambda **fields: MultiQueryAttention(n_heads=4, head_dim=6, **fields),
    "mla": mla,
    "mla-absorbed": lambda **fields: mla(form="absorbed", **fields),
}
MASKS = {"causal": {}, "window": {"window": 3}, "window-1": {"window": 1}, "chunk": {"chunk": 4}}
POSITIONS = {
    "none": NoPosition(),
    "rope": Rope(theta=100.0),
    "partial": Rope(theta=100.0, rotary_dim=2, pairing="interleaved"),
    "alibi": ALiBi(),
}


def stepwise(made, ids, prompt):
    """Logits of every token from the prompt's last on: prefill, then one token at a time."""
    logits, cache = made.prefill(ids[:, :prompt])
    found = [logits]
    for i in range(prompt, ids.shape[1]):
        logits, cache = made.decode(ids[:, i : i + 1], cache)
        found.append(logits)
    assert cache.length == ids.shape[1]
    return torch.cat(found, dim=1)


def assert_steps_like_one_pass(made, ids=None, prompts=(1, 5)):
    ids = tokens() if ids is None else ids
    with torch.no_grad():
        full = made(ids)
        for prompt in prompts:
            assert_close(stepwise(made, ids, prompt), full[:, prompt - 1 :])


@pytest.mark.parametrize("form", ["eager", "sdpa"])
@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("kind", KINDS)
def test_steps_like_one_pass(kind, mask, position, form):
    attention = KINDS[kind](position=POSITIONS[position], **MASKS[mask])
    spec = model(PreNorm(attention=attention, ffn=GLU(d_ff=8), norm=RMSNorm()), n_layers=2)
    assert_steps_like_one_pass(built(spec, attention=form))


@pytest.mark.parametrize("name", ZOO)
def test_families_step_like_one_pass(name):
    assert_steps_like_one_pass(built(ZOO[name]))


@pytest.mark.parametrize("name", ["llama", "gemma2", "llama4", "deepseek"])
def test_a_prompt_may_come_in_pieces(name):
    made, ids = built(ZOO[name]), tokens()
    with torch.no_grad():
        full = made(ids)
        logits, cache = made.prefill(ids[:, :3])
        for piece in (ids[:, 3:7], ids[:, 7:]):
            logits, cache = made.step(piece, cache)
    assert_close(logits, full[:, 7:])


def test_the_caller_owns_the_cache():
    made, ids = built(ZOO["llama"]), tokens()
    with torch.no_grad():
        _, cache = made.prefill(ids[:, :5])
        held = [entry.clone() for layer in cache.layers[0] for entry in layer]
        first, _ = made.decode(ids[:, 5:6], cache)
        made.decode(ids[:, 6:7], cache)
        again, _ = made.decode(ids[:, 5:6], cache)
    assert torch.equal(first, again)
    assert all(torch.equal(a, b) for a, b in zip(held, [entry for layer in cache.layers[0] for entry in layer], strict=True))


def test_a_window_keeps_no_more_than_it_sees():
    made = built(model(PreNorm(attention=gqa(window=3), ffn=GLU(d_ff=8), norm=RMSNorm())))
    with torch.no_grad():
        _, cache = made.prefill(tokens())
    assert [tuple(entry.shape) for entry in cache.layers[0][0]] == [(2, 3, 2, 6)] * 2
    assert made.spec.d_model == D
