"""The built model is an ordinary nn.Module.

Saved, hooked, taken apart, checkpointed, trained, copied, on meta, in bf16.
"""

import copy
import io

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

from archcli.errors import ArchError
from archcli.measure.passes import forward_pass
from archcli.modules import Block
from archcli.wings.running.runtime import Cache, ModuleNode, build_model, set_expert_form
from sources import ENCODERS, OTHERS, PAIRS, source_of
from zoo import ZOO, D, V, assert_close, built, tokens

torch.set_num_threads(1)
EVERY = ZOO | OTHERS
FAMILIES = pytest.mark.parametrize("name", EVERY)


def some_families(test):
    """Of all families, a seeded four; the others are long."""
    return pytest.mark.sample(4)(FAMILIES(test))


FROZEN = {"whisper": {"encoder.position_embedding.weight"}}
"""Tables that are parameters and get no gradient."""
MIXTURES = [
    name for name, spec in EVERY.items() if "experts" in {row.group for row in forward_pass(spec, 1, 2).rows}
]


def answers(made, ids=None):
    """What the model says: logits, hidden states, classes, or two of these.

    An encoder-decoder of its source.
    """
    ids = tokens() if ids is None else ids
    return tree_leaves(made(ids, *source_of(made.spec, len(ids))))


def answer(made):
    return torch.cat([each.flatten() for each in answers(made)])


def loss_of(made, ids):
    """A loss: of logits the next token's cross entropy, of anything else the distance from random numbers."""
    first, *more = answers(made, ids)
    if first.shape[1:] == (ids.shape[1], V):
        return nn.functional.cross_entropy(first[:, :-1].flatten(0, 1), ids[:, 1:].flatten()) + sum(
            each.square().mean() for each in more
        )
    return nn.functional.mse_loss(first, torch.randn(first.shape, generator=torch.Generator().manual_seed(3)))


def grads_of(made, ids):
    made.zero_grad()
    loss_of(made, ids).backward()
    return {
        name: parameter.grad.clone() for name, parameter in made.named_parameters() if parameter.requires_grad
    }


def blocks(made):
    """Every layer of every stack."""
    return [node for node in made.modules() if isinstance(node, ModuleNode) and isinstance(node.spec, Block)]


HIDDEN = [(2, 9, D)]
SHAPES = {
    "bert-pooled": [(2, 1, D)],
    "bert-classifier": [(2, 1, 3)],
    "bert-tagger": [(2, 9, 3)],
    "bert-pretraining": [(2, 9, V), (2, 1, 2)],
    **dict.fromkeys(("longformer", "performer", "modern", "gpt2-base", "llama-base", "bert-base"), HIDDEN),
}
"""What a model answers to 2 sequences of 9 tokens, where that is not logits [2, 9, V] alone."""


def leaves(made):
    return {name: module for name, module in made.named_modules() if not list(module.children())}


def test_weighted_operations_are_torchs_own_modules():
    kinds = {
        type(module)
        for name in ("llama", "gpt2")
        for module in leaves(build_model(ZOO[name], device="meta")).values()
    }
    assert kinds == {nn.Embedding, nn.Linear, nn.RMSNorm, nn.LayerNorm}


@pytest.mark.sample(1, whole=True)
@some_families
def test_state_dict_goes_round(name):
    made, file = built(EVERY[name]), io.BytesIO()
    torch.save(made.state_dict(), file)
    file.seek(0)
    other = build_model(EVERY[name])
    result = other.load_state_dict(torch.load(file, weights_only=True))
    assert (result.missing_keys, result.unexpected_keys) == ([], [])
    assert torch.equal(answer(made), answer(other))


@pytest.mark.sample(2, whole=True)
@some_families
def test_parameters_are_named_as_the_rows(name):
    rows = {f"{row.path}.{weight}" for row in forward_pass(EVERY[name], 1, 2).rows for weight in row.weights}
    assert rows <= {parameter for parameter, _ in build_model(EVERY[name], device="meta").named_parameters()}


@pytest.mark.sample(2, whole=True)
@some_families
def test_hooks_fire_once_on_every_leaf(name):
    made, fired = built(EVERY[name]), []
    for path, leaf in leaves(made).items():
        leaf.register_forward_hook(lambda *_, path=path: fired.append(path))
    answers(made)
    borrowed = {"layers.0.attention.kv_b_proj"} if name == "deepseek-absorbed" else set()
    assert sorted(fired) == sorted(set(leaves(made)) - borrowed)


@pytest.mark.sample(1, whole=True)
@some_families
def test_hooks_fire_on_every_node(name):
    made, fired = built(EVERY[name]), []
    nodes = {
        path: node
        for path, node in made.named_modules()
        if list(node.children()) and not isinstance(node, nn.ModuleList)
    }
    for path, node in nodes.items():
        node.register_forward_hook(lambda *_, path=path: fired.append(path))
    answers(made)
    assert sorted(fired) == sorted(nodes)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "name", [name for name in EVERY if "t5" not in name]
)  # a T5 layer's bias is the stack's
def test_a_layer_runs_alone(name):
    made, seen = built(EVERY[name]), {}
    layer = blocks(made)[0]
    layer.register_forward_hook(lambda _, args, out: seen.update(into=args[0], out=out[0]))
    answers(made)
    alone, kept = layer(seen["into"])
    assert kept is None
    assert_close(alone, seen["out"], 0.0)
    assert layer.ffn(seen["into"]).shape == seen["into"].shape


def test_a_layer_that_attends_to_a_source_says_that_it_has_none():
    made = built(PAIRS["t5"])
    with pytest.raises(ArchError, match="cross attention needs the encoder's output"):
        made.decoder.layers[0](torch.zeros(1, 3, D))
    with pytest.raises(ArchError, match="cross attention needs the encoder's output"):
        made(tokens())


@pytest.mark.sample(1, whole=True)
@some_families
def test_activation_checkpointing_gives_the_same_gradients(name):
    made, ids = built(EVERY[name]), tokens()
    plain = grads_of(made, ids)
    for layer in blocks(made):
        layer.forward = lambda *args, run=layer.forward: checkpoint(run, *args, use_reentrant=False)
    for parameter, gradient in grads_of(made, ids).items():
        assert_close(gradient, plain[parameter], 1e-6)


@pytest.mark.sample(1, whole=True)
@some_families
def test_training_lowers_the_loss_and_reaches_every_parameter(name):
    torch.manual_seed(0)
    made, ids = build_model(EVERY[name]), tokens(4, 8)
    optimizer = torch.optim.AdamW(made.parameters(), lr=3e-3)
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        loss = loss_of(made, ids)
        loss.backward()
        assert {path for path, parameter in made.named_parameters() if parameter.grad is None} == FROZEN.get(
            name, set()
        )
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


@pytest.mark.sample(1, whole=True)
@some_families
def test_a_copy_is_the_same_and_its_own(name):
    made = built(EVERY[name])
    said, twin = answer(made), copy.deepcopy(made)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert torch.equal(answer(made), said)
    assert not torch.equal(answer(twin), said)


@pytest.mark.sample(1, whole=True)
@some_families
def test_meta_allocates_nothing_and_runs(name):
    made = build_model(EVERY[name], device="meta")
    assert {tensor.device.type for tensor in made.state_dict().values()} == {"meta"}
    said = tree_leaves(made(tokens().to("meta"), *(source.to("meta") for source in source_of(made.spec))))
    assert {each.device.type for each in said} == {"meta"}
    assert [tuple(each.shape) for each in said] == SHAPES.get(name, [(2, 9, V)])


@pytest.mark.sample(1, whole=True)
@some_families
def test_bf16_runs_and_is_near(name):
    made, ids = built(EVERY[name]), tokens()
    low = copy.deepcopy(made).bfloat16()
    source = [each.bfloat16() if each.is_floating_point() else each for each in source_of(made.spec)]
    with torch.no_grad():
        said = tree_leaves(low(ids, *source))
        found = [*said]
        if made.spec.caches:
            prefilled, cache = low.prefill(ids[:, :5], *source)
            decoded, cache = low.decode(ids[:, 5:6], cache)
            held = [
                each for each in tree_leaves(cache.layers) if isinstance(each, torch.Tensor)
            ]  # beside lengths
            assert held
            found += [prefilled, decoded, *held]
    assert {each.dtype for each in found} == {torch.bfloat16}
    # a router may choose another expert in low precision; everything else stays near
    near = (torch.cat([each.flatten() for each in said]).float() - answer(made)).abs().mean() / answer(
        made
    ).abs().mean()
    assert near < (0.5 if name in MIXTURES else 0.05)


@pytest.mark.sample(2, whole=True)
@some_families
def test_built_in_bf16_is_bf16_throughout(name):
    made = build_model(EVERY[name], dtype=torch.bfloat16)
    assert {parameter.dtype for parameter in made.parameters()} == {torch.bfloat16}
    source = [each.bfloat16() if each.is_floating_point() else each for each in source_of(made.spec)]
    assert {each.dtype for each in tree_leaves(made(tokens(), *source))} == {torch.bfloat16}
    assert torch.get_default_dtype() == torch.float32


@pytest.mark.sample(1, whole=True)
@some_families
def test_fused_and_eager_attention_agree(name):
    assert_close(answer(built(EVERY[name])), answer(built(EVERY[name], attention="eager")))


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("name", MIXTURES)
def test_both_forms_of_experts_agree(name):
    made, ids = built(EVERY[name]), tokens()
    grouped, gradients = answer(made), grads_of(made, ids)
    set_expert_form(made, "gather")
    assert_close(answer(made), grouped)
    for parameter, gradient in grads_of(made, ids).items():
        assert_close(gradient, gradients[parameter])


def test_absorbed_latent_attention_is_the_naive_one():
    spec = ZOO["deepseek-absorbed"]
    naive = spec.replace(groups=(spec.groups[0].replace(pattern=(_naive(spec.groups[0].pattern[0]),)),))
    absorbed, other = built(spec), build_model(naive)
    other.load_state_dict(absorbed.state_dict())
    assert_close(absorbed(tokens()), other(tokens()))


def _naive(block):
    return block.replace(attention=block.attention.replace(form="naive"))


@pytest.mark.long
def test_weights_start_such_that_the_model_is_sane():
    torch.manual_seed(0)
    for name, spec in EVERY.items():
        made = build_model(spec)
        assert all(torch.isfinite(tensor).all() for tensor in [*made.parameters(), *made.buffers()]), name
        assert answer(made).std() < 8, name


@pytest.mark.sample(2, whole=True)
@pytest.mark.parametrize("name", ENCODERS)
def test_an_encoder_generates_nothing(name):
    made, ids = built(ENCODERS[name]), tokens()
    for ask in (
        lambda: made.prefill(ids),
        lambda: made.step(ids, Cache()),
        lambda: made.decode(ids[:, :1], Cache()),
    ):
        with pytest.raises(ArchError, match="an encoder has no cache to fill and generates nothing"):
            ask()


@pytest.mark.long
def test_a_head_and_a_classifier_answer_as_they_do_alone():
    both = built(ENCODERS["bert-pretraining"])
    logits, classes = both(tokens())
    for name, expected in [("bert-masked", logits), ("bert-classifier", classes)]:
        spec = ENCODERS[name].replace(**({"n_labels": 2} if "classifier" in name else {}))
        alone = build_model(spec)
        alone.load_state_dict(
            {key: value for key, value in both.state_dict().items() if key in alone.state_dict()}
        )
        assert torch.equal(alone(tokens()), expected)
