"""What every recurrent mixer can do: be compiled, trained, checkpointed, and built without memory."""

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from archcli.load.source import load_text
from combinations.mixers import MIXERS, model
from zoo import assert_close, built, tokens

torch.set_num_threads(1)


def spec_of(name):
    return load_text(model(name), f"{name}.yaml").model


RECURRENT = [name for name in MIXERS if spec_of(name).groups[0].blocks[0].facts(16).recurrence is not None]
every_mixer = pytest.mark.parametrize("name", RECURRENT)


def test_there_are_recurrent_mixers():
    assert {"linear", "mamba2"} <= {*RECURRENT}


@pytest.mark.long
@every_mixer
def test_it_compiles_as_one_graph(name):
    made, ids = built(spec_of(name), attention="eager"), tokens(length=64)
    torch.compiler.reset()  # so many kinds in one process would exceed its limit of compilations
    with torch.no_grad():
        assert_close(torch.compile(made, fullgraph=True, backend="aot_eager")(ids), made(ids))


@pytest.mark.sample(2, whole=True)
@every_mixer
def test_a_training_step_reaches_every_parameter(name):
    made, ids = built(spec_of(name), attention="eager"), tokens()
    made.train()
    made(ids).square().mean().backward()
    without = [path for path, weight in made.named_parameters() if weight.grad is None]
    assert without == []
    assert all(weight.grad.isfinite().all() for weight in made.parameters())


@pytest.mark.sample(1, whole=True)
@every_mixer
def test_recomputed_gradients_are_equal(name):
    made, ids = built(spec_of(name), attention="eager"), tokens()
    made(ids).square().mean().backward()
    plain = {path: weight.grad.clone() for path, weight in made.named_parameters()}
    made.zero_grad()
    checkpoint(made, ids, use_reentrant=False).square().mean().backward()
    for path, weight in made.named_parameters():
        assert torch.allclose(weight.grad, plain[path]), path


@pytest.mark.sample(1)
@every_mixer
def test_it_runs_on_the_meta_device(name):
    made = built(spec_of(name), attention="eager").to("meta")
    logits, cache = made.prefill(tokens().to("meta"))
    logits, _ = made.decode(tokens()[:, :1].to("meta"), cache)
    assert logits.shape[1:] == (1, 29)
