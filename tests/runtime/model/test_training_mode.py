"""What is done in training alone, dropout and the statistics of BatchNorm.

Silent in evaluation, held against torch's own.
"""

import pytest
import torch
from torch import nn

from archcli.modules import GLU, BatchNorm, Embedding, LoRA, PreNorm, QKNorm
from archcli.wings.running.runtime.model.build import build_model
from archcli.wings.running.runtime.model.leaves import TokenBatchNorm
from asking import ask, failures
from zoo import RMS, ZOO, D, assert_close, built, gqa, mla, model, moe, tokens

torch.set_num_threads(1)
SHARES = {"embedding": 0.1, "residual": 0.2, "hidden": 0.3, "probabilities": 0.4}
BATCH = BatchNorm()


def dropping(attention=None, ffn=None, **shares):
    block = PreNorm(
        attention=attention or gqa(dropout=shares.get("probabilities", 0.0)),
        ffn=ffn or GLU(d_ff=20, dropout=shares.get("hidden", 0.0)),
        norm=RMS,
        dropout=shares.get("residual", 0.0),
    )
    return model(block, n_layers=2, embedding=Embedding(dropout=shares.get("embedding", 0.0)))


def test_dropout_is_torchs_own_module_in_its_place():
    made = build_model(dropping(**SHARES))
    found = {name: module.p for name, module in made.named_modules() if isinstance(module, nn.Dropout)}
    layer = {"attention_dropout": 0.2, "ffn_dropout": 0.2, "ffn.dropout": 0.3}
    assert found == {
        "embedding.dropout": 0.1,
        **{f"layers.{i}.{name}": p for i in range(2) for name, p in layer.items()},
    }


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_evaluation_drops_nothing_and_training_draws_anew(attention):
    made, plain = built(dropping(**SHARES), attention=attention), built(dropping(), attention=attention)
    plain.load_state_dict(made.state_dict())
    ids = tokens()
    assert not torch.equal(made(ids), made(ids))
    assert_close(made.eval()(ids), plain(ids))


@pytest.mark.sample(2, whole=True)
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("place", SHARES)
def test_every_place_drops_by_itself(place, attention):
    made, ids = built(dropping(**{place: 0.5}), attention=attention), tokens()
    assert not torch.equal(made(ids), made(ids))
    assert torch.equal(made.eval()(ids), made(ids))


def test_eager_attention_drops_a_share_and_scales_the_rest():
    """Values that are all one and one token that all may see.

    What is mixed is the sum of what is left of the probabilities.
    """
    torch.manual_seed(0)
    made = build_model(dropping(probabilities=0.25), attention="eager").layers[0].attention
    nn.init.zeros_(made.q_proj.weight)
    nn.init.zeros_(made.v_proj.weight)
    made.v_proj.bias = nn.Parameter(torch.ones(made.v_proj.out_features))
    nn.init.zeros_(made.o_proj.weight)
    nn.init.ones_(made.o_proj.weight[:, 0:1])
    sums = made(torch.randn(64, 1, D))[0][:, 0, 0]
    assert sorted({round(value, 4) for value in sums.tolist()}) == [0.0, round(1 / 0.75, 4)]


def test_gradients_pass_what_is_left():
    drop = build_model(dropping(residual=0.5)).layers[0].attention_dropout
    x = torch.ones(1000, requires_grad=True)
    y = drop(x)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())
    assert set(y.tolist()) == {0.0, 2.0}


def test_what_adapters_read_is_dropped():
    made = built(ZOO["llama"].replace(lora=LoRA(rank=3, targets=("q",), dropout=0.5)))
    assert made.layers[0].attention.q_proj.lora_dropout.p == 0.5
    assert not torch.equal(made(tokens()), made(tokens()))
    assert torch.equal(made.eval()(tokens()), made(tokens()))


def test_experts_drop_too():
    made = built(dropping(ffn=moe(expert=GLU(d_ff=10, dropout=0.5))))
    assert made.layers[0].ffn.experts.dropout.p == 0.5
    assert not torch.equal(made(tokens()), made(tokens()))


@pytest.mark.long
def test_dropout_compiles_in_both_modes():
    made, ids = built(dropping(**SHARES)), tokens()
    torch._dynamo.reset()
    compiled = torch.compile(made, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        assert not torch.equal(compiled(ids), compiled(ids))
        made.eval()
        assert_close(compiled(ids), made(ids))
    torch._dynamo.reset()


BATCH_NORMED = {
    "gqa": model(
        PreNorm(attention=gqa(qk_norm=QKNorm(norm=BATCH)), ffn=GLU(d_ff=20), norm=BATCH),
        n_layers=2,
        norm=BATCH,
    ),
    "qk-norm over all heads": model(
        PreNorm(attention=gqa(qk_norm=QKNorm(per="full", norm=BATCH)), ffn=moe(), norm=BATCH), norm=BATCH
    ),
    "latents": model(
        PreNorm(attention=mla(q_lora_rank=6, latent_norm=BATCH), ffn=GLU(d_ff=20), norm=BATCH), norm=BATCH
    ),
    "embedding": model(
        PreNorm(attention=gqa(), ffn=GLU(d_ff=20), norm=BATCH), norm=BATCH, embedding=Embedding(norm=BATCH)
    ),
}


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("spec", [*BATCH_NORMED.values(), dropping(**SHARES)], ids=[*BATCH_NORMED, "dropout"])
def test_all_witnesses_agree(spec):
    assert failures(ask(spec, batch_size=1)) == []


def test_batch_norm_is_torchs_own_over_all_tokens():
    torch.manual_seed(0)
    ours, theirs = TokenBatchNorm(D, eps=0.01, momentum=0.3), nn.BatchNorm1d(D, eps=0.01, momentum=0.3)
    with torch.no_grad():
        for value in ours.parameters():
            value.normal_()
    theirs.load_state_dict(ours.state_dict())
    for step in range(4):
        for norm in (ours, theirs):
            norm.train(step < 3)
        x = torch.randn(3, 5, D)
        a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
        out, expected = ours(a), theirs(b.transpose(1, 2)).transpose(1, 2)  # torch has channels second
        assert_close(out, expected)
        out.square().sum().backward()
        expected.square().sum().backward()
        assert_close(a.grad, b.grad)
        assert_close(ours.running_var, theirs.running_var)
        assert_close(ours.running_mean, theirs.running_mean)
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert_close(one.grad, other.grad)
    assert ours.num_batches_tracked == theirs.num_batches_tracked == 3


def test_a_fresh_batch_norm_starts_as_torchs_does_with_what_its_yaml_says():
    made = build_model(
        model(PreNorm(attention=gqa(), ffn=GLU(d_ff=20), norm=BatchNorm(eps=0.5, momentum=0.7)), norm=BATCH)
    )
    norm = made.layers[0].attention_norm
    assert isinstance(norm, nn.BatchNorm1d)
    assert (norm.eps, norm.momentum, norm.num_batches_tracked) == (0.5, 0.7, 0)
    assert torch.equal(norm.running_var, torch.ones(D))
    assert torch.equal(norm.running_mean, torch.zeros(D))


def test_evaluation_goes_by_running_averages_so_that_a_cache_gives_the_same_logits():
    made, ids = build_model(BATCH_NORMED["gqa"]), tokens()
    for _ in range(3):
        made(ids)
    made.eval()
    with torch.no_grad():
        cache = made.prefill(ids[:, :6])[1]
        for i in range(6, 9):
            logits, cache = made.decode(ids[:, i : i + 1], cache)
            assert_close(logits[:, 0], made(ids)[:, i])
