"""Losses beside what else changes a training step: adapters, dropout, an encoder.

Generation and storage, which know of none.
"""

import pytest
import torch

from archcli.errors import ArchError
from archcli.measure.params import count_params
from archcli.measure.passes import train_pass
from archcli.modules import (
    GLU,
    AdaptiveHead,
    BatchNorm,
    CrossEntropy,
    Embedding,
    Head,
    HierarchicalHead,
    LoRA,
    MultiTokenPrediction,
    PreNorm,
    Quantization,
    SampledHead,
    substitute,
)
from archcli.ops import Dropout
from archcli.wings.running.runtime.model.build import build_model
from asking import ask, failures
from sources import PAIRS, source_of
from zoo import DEEPSEEK, RMS, D, V, assert_close, built, gqa, mla, model, tokens

torch.set_num_threads(1)
LAYER = PreNorm(attention=gqa(), ffn=GLU(d_ff=20), norm=RMS)
SPARSE = PreNorm(attention=mla(q_lora_rank=6), ffn=DEEPSEEK, norm=RMS)
HEADS = {
    "linear": {"head": Head(softcap=3.0, scale=0.5), "loss": CrossEntropy(z_loss=0.1)},
    "adaptive": {"head": AdaptiveHead(cutoffs=(6, 14), cluster_shares=(1.0, 0.0, 0.0), div_value=2)},
    "hierarchical": {"head": HierarchicalHead(n_classes=6)},
    "sampled": {"head": SampledHead(n_samples=7)},
}
PREDICTING = {
    "dense mtp": model(LAYER, mtp=MultiTokenPrediction(depth=2, norm=RMS)),
    "sparse mtp": model(LAYER, SPARSE, mtp=MultiTokenPrediction(norm=RMS)),
    "tied mtp": model(LAYER, mtp=MultiTokenPrediction(norm=RMS), embedding=Embedding(tied=True)),
}
MODELS = {name: model(LAYER, **fields) for name, fields in HEADS.items()} | PREDICTING
RANK, ALPHA = 3, 6.0


def adapted(name, *targets):
    tied = MODELS[name].embedding.tied
    targets = targets or ("all_linear", *(() if tied else ("lm_head",)))
    return MODELS[name].replace(lora=LoRA(rank=RANK, alpha=ALPHA, targets=targets))


def loss_of(made):
    torch.manual_seed(3)  # the samples of a sampled head
    text = tokens(2, 10)
    return made(text[:, :-1], targets=text[:, 1:] % 6)


every = pytest.mark.parametrize("name", MODELS)


@pytest.mark.long
@pytest.mark.sample(1)
@every
def test_all_witnesses_agree_about_adapters_and_a_loss(name):
    assert failures(ask(adapted(name), 2, 10)) == []
    assert failures(ask(adapted(name, "down"), 2, 10)) == []


@pytest.mark.sample(1, whole=True)
@every
def test_the_loss_and_its_gradients_are_those_of_merged_matrices(name):
    spec = adapted(name)
    made = built(spec)
    state, pairs = dict(made.state_dict()), {}
    for first in [key for key in state if "lora_A" in key]:
        second = first.replace("_A.", "_B.")
        base = first.replace(".lora_A", "")
        pairs[base] = (first, second, state.pop(first), state.pop(second))
        state[base] = state[base] + ALPHA / RANK * pairs[base][3] @ pairs[base][2]
    plain = build_model(spec.replace(lora=None))
    plain.load_state_dict(state)
    ours, theirs = loss_of(made), loss_of(plain)
    assert_close(ours, theirs, 2e-5)
    ours.backward()
    theirs.backward()
    gradients, whole = ({key: one.grad for key, one in each.named_parameters()} for each in (made, plain))
    assert {key for key, one in gradients.items() if one is not None} <= {
        key for pair in pairs.values() for key in pair[:2]
    }
    assert "lm_head.weight" in pairs or spec.embedding.tied
    trained = [base for base in pairs if whole[base] is not None]
    assert len(trained) >= len(pairs) - 4  # the tails of an adaptive head that no target falls into
    for base in trained:
        first, second, a, b = pairs[base]
        assert_close(gradients[first], ALPHA / RANK * b.transpose(-1, -2) @ whole[base], 5e-5)
        assert_close(gradients[second], ALPHA / RANK * whole[base] @ a.transpose(-1, -2), 5e-5)


@pytest.mark.sample(2, whole=True)
@every
def test_all_linear_leaves_the_head_to_itself(name):
    names = [
        key
        for key, _ in build_model(adapted(name, "all_linear"), device="meta").named_parameters()
        if "lora" in key
    ]
    assert names
    assert not [key for key in names if key.startswith("lm_head") or "logits" in key]


@pytest.mark.parametrize(
    ("name", "tied", "target"),
    [
        ("hierarchical", True, "lm_head"),
        ("sampled", True, "lm_head"),
        ("tied mtp", True, "lm_head"),
        ("dense mtp", False, "embedding"),
    ],
)
def test_what_training_shares_cannot_be_adapted(name, tied, target):
    spec = substitute(
        MODELS[name], {"embedding": Embedding(tied=tied), "lora": LoRA(rank=2, targets=(target,))}
    )
    fields = {field: getattr(spec, field) for field in spec.fields}
    with pytest.raises(ArchError, match="cannot be adapted where"):
        type(spec)(**fields)


@pytest.mark.sample(1, whole=True)
@every
def test_an_adapted_model_generates(name):
    made = built(adapted(name)).eval()
    text = tokens()
    logits, cache = made.prefill(text[:, :5])
    steps = [logits]
    for i in range(5, text.shape[1]):
        logits, cache = made.decode(text[:, i : i + 1], cache)
        steps.append(logits)
    assert_close(torch.cat(steps, dim=1), made(text)[:, 4:], 2e-5)


@pytest.mark.long
@pytest.mark.sample(1)
@every
def test_dropout_and_batch_statistics_on_the_way_to_a_loss(name):
    norm = BatchNorm()
    layer = PreNorm(attention=gqa(dropout=0.3), ffn=GLU(d_ff=20, dropout=0.4), norm=norm, dropout=0.1)
    fields = {**HEADS.get(name, {}), "mtp": MODELS[name].mtp and MultiTokenPrediction(norm=norm)}
    spec = model(layer, embedding=Embedding(dropout=0.2), norm=norm, **fields)
    assert failures(ask(spec, 2, 10)) == []
    places = [row.path for row in train_pass(spec, 2, 10).rows if isinstance(row.op, Dropout)]
    assert len(places) == (
        8 if fields["mtp"] else 4
    )  # the embedding and three in a layer; that of scores is part of attention
    made = build_model(spec).eval()
    without = substitute(spec, {"embedding": Embedding(), "groups": model(LAYER.replace(norm=norm)).groups})
    plain = build_model(without).eval()
    plain.load_state_dict(made.state_dict())
    assert_close(loss_of(made), loss_of(plain), 0.0)
    assert loss_of(made.train()) != loss_of(plain.train())


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("pair", ["t5-v1.1", "whisper"])
@pytest.mark.parametrize("name", HEADS)
def test_encoder_decoders_train_on_targets_too(pair, name):
    ends = {"embedding": PAIRS[pair].embedding.replace(tied=False)}
    spec = PAIRS[pair].replace(**HEADS[name], **ends)
    assert failures(ask(spec, 2, 10)) == []
    made = built(spec)
    loss = made(tokens(), *source_of(spec), targets=tokens() % 6)
    loss.backward()
    assert all(
        one.grad is not None for key, one in made.named_parameters() if key.startswith("encoder.layers")
    )


@pytest.mark.long
def test_a_linear_head_of_an_encoder_decoder_gives_torchs_cross_entropy():
    spec = PAIRS["t5-v1.1"].replace(loss=CrossEntropy())
    made, text = built(spec), tokens(2, 10)
    source = source_of(spec)
    logits = made(text[:, :-1], *source)
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
    assert_close(made(text[:, :-1], *source, targets=text[:, 1:]), expected, 1e-6)


def test_quantized_bytes_and_totals_are_those_without_further_predictions():
    spec = PREDICTING["sparse mtp"].replace(quantization=Quantization(bits=4, group_size=4, scale_bits=8))
    ours = count_params(spec).totals
    plain = count_params(spec.replace(mtp=None)).totals
    apart = {key for key in ours if key.startswith("mtp")}
    assert {key: ours[key] for key in ours.keys() - apart} == {
        key: plain[key] for key in plain.keys() - apart
    }
    # P [D, 2D], norms of both inputs and of the output, and the layer, which is like the last
    last = sum(
        one.numel()
        for key, one in build_model(spec, device="meta").named_parameters()
        if key.startswith("layers.1.")
    )
    assert ours["mtp_params"] == D * 2 * D + 3 * D + last
    assert ours["mtp_stored_params"] == ours["mtp_params"] + 2 * V * D
