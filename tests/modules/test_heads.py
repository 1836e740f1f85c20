"""Heads and losses against torch's own classes and against sums written out.

Values, gradients, and what they cost when they run.
"""

from fractions import Fraction

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from archcli.errors import ArchError
from archcli.measure.passes import forward_pass, train_pass
from archcli.modules import (
    GLU,
    AdaptiveHead,
    CrossEntropy,
    Embedding,
    Head,
    HierarchicalHead,
    PreNorm,
    SampledHead,
)
from archcli.ops import Sample
from archcli.wings.running.runtime.model.build import build_model
from archcli.wings.running.runtime.model.random_data import random_targets
from asking import ask, failures
from importing import imported_file
from zoo import RMS, D, V, assert_close, built, gqa, model, tokens

torch.set_num_threads(1)
CUTOFFS, SHARES = (6, 14), (0.5, 0.3, 0.2)
ADAPTIVE = AdaptiveHead(cutoffs=CUTOFFS, cluster_shares=SHARES, div_value=2)
NAMES = {"head": "lm_head"} | {
    f"tail.{i}.{j}": f"lm_head_tail_{i}_{which}" for i in range(2) for j, which in enumerate(("down", "up"))
}


def with_head(head, **options):
    return model(PreNorm(attention=gqa(), ffn=GLU(d_ff=20), norm=RMS), head=head, **options)


HEADS = {
    "linear": with_head(Head(softcap=3.0, scale=0.5), loss=CrossEntropy(z_loss=0.1)),
    "adaptive": with_head(ADAPTIVE),
    "adaptive-bias": with_head(AdaptiveHead(cutoffs=(10,), cluster_shares=(0.9, 0.1), head_bias=True)),
    "hierarchical": with_head(HierarchicalHead(n_classes=6)),
    "hierarchical-tied": with_head(HierarchicalHead(n_classes=29), embedding=Embedding(tied=True)),
    "sampled": with_head(SampledHead(n_samples=7)),
    "sampled-tied": with_head(SampledHead(n_samples=29), embedding=Embedding(tied=True)),
}
EVERY = pytest.mark.parametrize("name", HEADS)


def targets(spec, batch_size=2, length=10, seed=1):
    return random_targets(spec, batch_size, length, torch.Generator().manual_seed(seed))


def read(made, ids):
    """What the head reads."""
    seen = []
    handle = made.final_norm.register_forward_hook(lambda _, args, out: seen.append(out))
    made(ids)
    handle.remove()
    return seen[0]


def torchs(spec, made):
    """torch's adaptive softmax with the weights of the built model."""
    head = spec.head
    theirs = nn.AdaptiveLogSoftmaxWithLoss(D, V, list(head.cutoffs), head.div_value, head.head_bias)
    state = made.state_dict()
    ours = {
        key: key.replace(*pair)
        for key in theirs.state_dict()
        for pair in NAMES.items()
        if key.startswith(f"{pair[0]}.")
    }
    theirs.load_state_dict({key: state[name] for key, name in ours.items()})
    return theirs, ours


@pytest.mark.parametrize("name", ["adaptive", "adaptive-bias"])
def test_the_adaptive_head_is_torchs(name):
    spec = HEADS[name]
    made, ids, wanted = built(spec, attention="eager"), tokens(2, 10), targets(HEADS[name])
    theirs, ours = torchs(spec, made)
    loss = made(ids, targets=wanted)
    loss.backward()
    expected = theirs(read(made, ids).flatten(0, 1), wanted.flatten()).loss
    body = [parameter for key, parameter in made.named_parameters() if not key.startswith("lm_head")]
    gradients = torch.autograd.grad(expected, [*theirs.parameters(), *body])
    assert_close(loss, expected, 1e-6)
    state = dict(made.named_parameters())
    for key, gradient in zip([ours[key] for key, _ in theirs.named_parameters()], gradients, strict=False):
        assert_close(state[key].grad, gradient, 1e-6)
    for parameter, gradient in zip(body, gradients[len(list(theirs.parameters())) :], strict=True):
        assert_close(parameter.grad, gradient, 1e-6)
    assert sum(parameter.numel() for parameter in theirs.parameters()) == sum(
        row.params for row in forward_pass(spec, 1, 1).rows if row.group == "lm_head"
    )
    assert_close(made(ids).flatten(0, 1), theirs.log_prob(read(made, ids).flatten(0, 1)), 1e-6)


def test_targets_of_one_cluster_alone_are_scored_too():
    made, ids = built(HEADS["adaptive"]), tokens(2, 10)
    theirs, _ = torchs(HEADS["adaptive"], made)
    for low, high in zip((0, *CUTOFFS), (*CUTOFFS, V), strict=True):
        wanted = torch.randint(low, high, (2, 10), generator=torch.Generator().manual_seed(2))
        assert_close(
            made(ids, targets=wanted), theirs(read(made, ids).flatten(0, 1), wanted.flatten()).loss, 1e-6
        )


def test_the_hierarchical_head_multiplies_two_probabilities():
    """Written out from Goodman 2001: 29 words in 6 classes of 5, the last of which has 4."""
    made, ids, wanted = built(HEADS["hierarchical"]), tokens(2, 10), targets(HEADS["hierarchical"])
    x = read(made, ids)
    words, classes = made.lm_head.weight, made.lm_head_classes.weight
    outer = (x @ classes.T).log_softmax(-1)
    inner = torch.cat(
        [(x @ words[5 * c : 5 * c + 5].T).log_softmax(-1) + outer[..., c : c + 1] for c in range(6)], dim=-1
    )
    assert_close(inner.exp().sum(-1), torch.ones(2, 10))
    assert_close(made(ids), inner)
    expected = nn.functional.nll_loss(inner.flatten(0, 1), wanted.flatten())
    loss = made(ids, targets=wanted)
    assert_close(loss, expected, 1e-6)
    for ours, theirs in zip(
        torch.autograd.grad(loss, [words, classes]),
        torch.autograd.grad(expected, [words, classes]),
        strict=True,
    ):
        assert_close(ours, theirs, 1e-6)


def test_both_forms_of_the_words_of_a_class_agree(monkeypatch):
    made, ids, wanted = built(HEADS["hierarchical"]), tokens(2, 10), targets(HEADS["hierarchical"])
    grouped = made(ids, targets=wanted)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert_close(made(ids, targets=wanted), grouped, 1e-6)


@pytest.mark.parametrize("name", ["sampled", "sampled-tied"])
def test_the_sampled_head_is_a_softmax_over_the_candidates(name):
    """Jean et al. 2014, equation 9.

    Cross entropy over the target and whichever samples are not the target.
    """
    made, ids, wanted = built(HEADS[name]), tokens(2, 10), targets(HEADS[name])
    table = made.lm_head.weight if name == "sampled" else made.embedding.tokens.weight
    torch.manual_seed(5)
    loss = made(ids, targets=wanted)
    torch.manual_seed(5)
    drawn = set(torch.randperm(V)[: HEADS[name].head.n_samples].tolist())
    losses = []
    for x, target in zip(read(made, ids).flatten(0, 1), wanted.flatten().tolist(), strict=True):
        candidates = [target, *sorted(drawn - {target})]
        losses.append(nn.functional.cross_entropy((table[candidates] @ x)[None], torch.tensor([0])))
    expected = torch.stack(losses).mean()
    assert_close(loss, expected, 1e-6)
    assert_close(torch.autograd.grad(loss, table)[0], torch.autograd.grad(expected, table)[0], 1e-6)
    assert_close(made(ids), read(made, ids) @ table.T, 1e-6)


def test_samples_are_different_words_and_new_ones_each_time():
    torch.manual_seed(0)
    draws = [Sample("y", 20, V).run(torch, {}, torch.zeros(1)).tolist() for _ in range(200)]
    assert all(len(set(draw)) == 20 for draw in draws)
    assert {word for draw in draws for word in draw} == set(range(V))
    assert len({tuple(draw) for draw in draws}) == 200


@pytest.mark.parametrize("coefficient", [None, 0.1])
def test_the_loss_is_torchs_cross_entropy_and_a_z_loss(coefficient):
    """PaLM, arXiv:2204.02311 section 5: coefficient * log^2 Z, here of all positions' mean."""
    spec = with_head(Head(), loss=CrossEntropy(z_loss=coefficient))
    made, ids, wanted = built(spec), tokens(2, 10), targets(spec)
    logits = made(ids)
    expected = nn.functional.cross_entropy(logits.flatten(0, 1), wanted.flatten())
    expected = expected + (coefficient or 0.0) * logits.logsumexp(-1).square().mean()
    loss = made(ids, targets=wanted)
    assert_close(loss, expected, 1e-6)
    parameters = list(made.parameters())
    for ours, theirs in zip(
        torch.autograd.grad(loss, parameters), torch.autograd.grad(expected, parameters), strict=True
    ):
        assert_close(ours, theirs, 1e-6)


def test_a_model_without_a_loss_gives_cross_entropy_to_whoever_brings_targets():
    made, ids = built(with_head(Head())), tokens(2, 10)
    assert_close(
        made(ids, targets=ids), nn.functional.cross_entropy(made(ids).flatten(0, 1), ids.flatten()), 1e-6
    )
    assert not with_head(Head()).trains_on_targets


T5 = {
    "model_type": "t5",
    "architectures": ["T5ForConditionalGeneration"],
    "d_model": 16,
    "d_ff": 20,
    "d_kv": 4,
    "num_heads": 2,
}


def test_an_encoder_decoder_has_a_loss_too():
    spec = imported_file({**T5, "num_layers": 1, "vocab_size": V}).replace(loss=CrossEntropy())
    made, ids, source = built(spec), tokens(2, 10), tokens(2, 7)
    expected = nn.functional.cross_entropy(made(ids, source).flatten(0, 1), ids.flatten())
    assert_close(made(ids, source, targets=ids), expected, 1e-6)
    assert [row.path for row in train_pass(spec, 1, 5).rows][-1] == "loss_mean"


@pytest.mark.long
@pytest.mark.parametrize("name", ["linear", "hierarchical"])
def test_a_loss_compiles_whole(name):
    made, ids, wanted = built(HEADS[name]), tokens(2, 10), targets(HEADS[name])
    torch.compiler.reset()
    compiled = torch.compile(made, fullgraph=True, backend="eager")
    assert_close(compiled(ids, targets=wanted), made(ids, targets=wanted), 1e-6)


@pytest.mark.long
@pytest.mark.sample(1)
@EVERY
def test_every_witness_counts_the_same(name):
    verdict = ask(HEADS[name], 2, 10)
    assert failures(verdict) == []


@pytest.mark.sample(1, whole=True)
@EVERY
def test_a_run_on_targets_of_the_stated_shares_costs_what_is_expected(name):
    """No meta device: real targets, each routed to its own cluster."""
    spec = HEADS[name]
    made, wanted = built(spec, attention="eager"), targets(spec)
    with FlopCounterMode(display=False) as counter:
        made(tokens(2, 10), targets=wanted).backward()
    assert counter.get_total_flops() == train_pass(spec, 2, 10).flops(unmasked=True)[0]


@pytest.mark.long
def test_the_mean_of_runs_with_those_shares_on_average_is_the_expected_cost():
    """Each run alone has other shares: only together they are half, three tenths, two tenths.

    So is their mean cost, not any one's.
    """
    spec = HEADS["adaptive"]
    made, costs = built(spec, attention="eager"), []
    together = targets(spec, 4, 10).flatten().sort().values.view(4, 1, 10)
    for wanted in together:
        with FlopCounterMode(display=False) as counter:
            made(tokens(1, 10), targets=wanted).backward()
        costs.append(counter.get_total_flops())
    assert len(set(costs)) > 1
    assert Fraction(sum(costs), 4) == train_pass(spec, 1, 10).flops(unmasked=True)[0]


@pytest.mark.sample(1, whole=True)
@EVERY
def test_training_lowers_the_loss_and_reaches_every_parameter(name):
    torch.manual_seed(0)
    made, ids, wanted = build_model(HEADS[name]), tokens(2, 10), targets(HEADS[name])
    optimizer, losses = torch.optim.AdamW(made.parameters(), lr=1e-2), []
    for _ in range(12):
        optimizer.zero_grad()
        loss = made(ids, targets=wanted)
        loss.backward()
        assert all(parameter.grad is not None for parameter in made.parameters())
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


@pytest.mark.sample(2, whole=True)
@EVERY
def test_bf16_trains_and_its_loss_is_fp32(name):
    made, wanted = built(HEADS[name]), targets(HEADS[name])
    torch.manual_seed(3)
    exact = made(tokens(2, 10), targets=wanted)
    torch.manual_seed(3)
    loss = made.bfloat16()(tokens(2, 10), targets=wanted)
    loss.backward()
    assert loss.dtype == torch.float32
    assert abs(loss - exact) < 0.05 * exact


@pytest.mark.sample(4, whole=True)
@EVERY
def test_prefill_and_decode_give_what_one_pass_gives(name):
    made, ids = built(HEADS[name]), tokens(2, 10)
    whole = made(ids)
    logits, cache = made.prefill(ids[:, :9])
    assert_close(logits, whole[:, 8:9])
    assert_close(made.decode(ids[:, 9:], cache)[0], whole[:, 9:])


def test_on_meta_a_share_must_be_a_whole_number_of_tokens():
    made = build_model(HEADS["adaptive"], device="meta")
    ids = torch.zeros(1, 7, dtype=torch.int64, device="meta")
    with pytest.raises(ArchError, match=r"a share of 0\.3 of 7 tokens is no whole number"):
        made(ids, targets=ids)
