"""Prefill and decode through the cache give the logits of one full pass.

Whatever attends, is masked and knows positions.
"""

import pytest
import torch

from archcli.modules import (
    GLU,
    ALiBi,
    MultiHeadAttention,
    MultiQueryAttention,
    NoPosition,
    PreNorm,
    RMSNorm,
    Rope,
)
from sources import DECODERS, OTHERS, PAIRS, SOURCE, source_of
from table import every_row
from zoo import ZOO, D, assert_close, built, gqa, mla, model, tokens

torch.set_num_threads(1)
GENERATORS = {name: spec for name, spec in (ZOO | OTHERS).items() if spec.caches}
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
    """Logits of every token from the prompt's last on: prefill, then one token at a time.

    A source is read with the prompt alone.
    """
    logits, cache = made.prefill(ids[:, :prompt], *source_of(made.spec))
    found = [logits]
    for i in range(prompt, ids.shape[1]):
        logits, cache = made.decode(ids[:, i : i + 1], cache)
        found.append(logits)
    assert cache.length == ids.shape[1]
    return torch.cat(found, dim=1)


def assert_steps_like_one_pass(made, ids=None, prompts=(1, 5)):
    ids = tokens() if ids is None else ids
    with torch.no_grad():
        full = made(ids, *source_of(made.spec))
        for prompt in prompts:
            assert_close(stepwise(made, ids, prompt), full[:, prompt - 1 :])


@pytest.mark.sample(1)
@pytest.mark.parametrize("form", ["eager", "sdpa"])
@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("kind", KINDS)
def test_steps_like_one_pass(kind, mask, position, form):
    attention = KINDS[kind](position=POSITIONS[position], **MASKS[mask])
    spec = model(PreNorm(attention=attention, ffn=GLU(d_ff=8), norm=RMSNorm()), n_layers=2)
    assert_steps_like_one_pass(built(spec, attention=form))


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", GENERATORS)
def test_families_step_like_one_pass(name):
    assert_steps_like_one_pass(built(GENERATORS[name]))


@pytest.mark.long
@every_row("name", ["llama", "gemma2", "llama4", "deepseek", *PAIRS, *DECODERS])
def test_a_prompt_may_come_in_pieces(name):
    made, ids = built(GENERATORS[name]), tokens()
    source = source_of(made.spec)
    with torch.no_grad():
        full = made(ids, *source)
        logits, cache = made.prefill(ids[:, :3], *source)
        for piece in (ids[:, 3:7], ids[:, 7:]):
            logits, cache = made.step(piece, cache)
    assert_close(logits, full[:, 7:])


def test_the_caller_owns_the_cache():
    made, ids = built(ZOO["llama"]), tokens()
    with torch.no_grad():
        _, cache = made.prefill(ids[:, :5])
        held = [entry.clone() for layer in cache.layers[0] for entry in layer.states]
        first, _ = made.decode(ids[:, 5:6], cache)
        made.decode(ids[:, 6:7], cache)
        again, _ = made.decode(ids[:, 5:6], cache)
    assert torch.equal(first, again)
    assert all(
        torch.equal(a, b)
        for a, b in zip(held, [entry for layer in cache.layers[0] for entry in layer.states], strict=True)
    )


def test_a_window_keeps_no_more_than_it_sees():
    made = built(model(PreNorm(attention=gqa(window=3), ffn=GLU(d_ff=8), norm=RMSNorm())))
    with torch.no_grad():
        _, cache = made.prefill(tokens())
    assert [tuple(entry.shape) for entry in cache.layers[0][0].states] == [(2, 3, 2, 6)] * 2
    assert made.spec.d_model == D


@pytest.mark.long
def test_the_source_is_kept_as_it_was_made_and_never_read_again():
    made, ids = built(PAIRS["whisper"]), tokens()
    calls = []
    made.encoder.register_forward_hook(lambda *_: calls.append("encoder"))
    with torch.no_grad():
        _, cache = made.prefill(ids[:, :5], *source_of(made.spec))
        _, after = made.decode(ids[:, 5:6], cache)
        made.step(ids[:, 6:8], after, *source_of(made.spec))
    (_, (keys, values)), (own, kept) = cache.layers[0][0].states, after.layers[0][0].states
    assert calls == ["encoder"]
    assert kept[0] is keys
    assert kept[1] is values
    assert [tuple(entry.shape) for entry in (*own, *kept)] == [(2, 6, 2, 8)] * 2 + [(2, SOURCE, 2, 8)] * 2
