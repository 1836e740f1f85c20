"""A built model is an ordinary nn.Module.

What is hooked, replaced, lent, copied or dropped after a pass counts in the next.
"""

import copy
import gc
import io
import weakref

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from archcli.measure.passes import forward_pass
from archcli.modules import Group
from archcli.wings.running.runtime import build_model
from sources import OTHERS, PAIRS, source_of
from zoo import ZOO, D, assert_close, built, tokens

torch.set_num_threads(1)
EVERY = ZOO | OTHERS
FAMILIES = pytest.mark.parametrize("name", EVERY)


def answers(made, ids):
    with torch.no_grad():
        return tree_leaves(made(ids, *source_of(made.spec, len(ids))))


def same(ours, theirs):
    return len(ours) == len(theirs) and all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def other_tokens():
    """As many as before."""
    return tokens().flip(1)


@pytest.mark.sample(1)
@FAMILIES
def test_a_pass_leaves_nothing_behind(name):
    made = built(EVERY[name]).eval()
    first = answers(made, tokens())
    answers(made, other_tokens())
    assert same(answers(made, tokens()), first)


@pytest.mark.sample(2, whole=True)
@pytest.mark.parametrize("name", ["llama", "mixtral", "deepseek", "t5", "bert-pretraining"])
def test_gradients_of_every_pass_are_those_of_the_first(name):
    made, gradients = built(EVERY[name]), []
    for _ in range(2):
        made.zero_grad()
        sum(x.square().mean() for x in tree_leaves(made(tokens(), *source_of(made.spec)))).backward()
        gradients.append([parameter.grad for parameter in made.parameters() if parameter.grad is not None])
    assert gradients[0]
    assert same(*gradients)


def test_two_inputs_that_were_one_tensor_are_two_again():
    made = built(PAIRS["t5"])
    with torch.no_grad():
        expected = made(tokens(), other_tokens())
        ids = tokens()
        for _ in range(2):
            made(ids, ids)
        assert torch.equal(made(tokens(), other_tokens()), expected)


def test_every_place_a_row_names_is_called_where_someone_looks():
    """A hook on any module, leaf or not, fires; and no longer once it is removed."""
    made = built(ZOO["mixtral"])
    answers(made, tokens())
    names = [name for name, module in made.named_modules() if name and not isinstance(module, nn.ModuleList)]
    heard = []
    hooks = [
        made.get_submodule(name).register_forward_hook(lambda *_, name=name: heard.append(name))
        for name in names
    ]
    answers(made, tokens())
    assert sorted(heard) == sorted(names)
    assert {row.path for row in forward_pass(made.spec, 1, 2).rows if row.weights} <= set(heard) | {
        "layers.0.ffn.route"
    }
    for hook in hooks:
        hook.remove()
    answers(made, tokens())
    assert len(heard) == len(names)


def test_a_hook_sees_what_the_module_is_called_with_and_may_change_its_answer():
    made = built(ZOO["llama"])
    plain = answers(made, tokens())[0]
    seen = []
    block = made.layers[1]
    block.register_forward_pre_hook(lambda _, args: seen.append(args[0].shape))
    block.register_forward_hook(lambda _, args, out: (args[0], *out[1:]))
    skipped = answers(made, tokens())[0]
    assert seen == [(*tokens().shape, D)]
    assert not torch.allclose(plain, skipped)


def test_what_is_put_in_the_place_of_a_module_is_what_runs():
    made = built(ZOO["llama"])
    before = answers(made, tokens())
    leaf = made.layers[0].attention.q_proj
    wider = nn.Sequential(copy.deepcopy(leaf))
    wider[0].weight.data.mul_(2)
    made.layers[0].attention.q_proj = wider
    doubled = answers(made, tokens())
    leaf.weight.data.mul_(2)
    made.layers[0].attention.q_proj = leaf
    assert same(doubled, answers(made, tokens()))
    assert not same(before, doubled)
    ordinary = leaf.forward
    leaf.forward = lambda x: ordinary(x) / 2
    assert_close(answers(made, tokens())[0], before[0])


def test_a_layer_of_another_kind_runs_in_the_place_of_another():
    llama, bloom = ZOO["llama"].groups[0], ZOO["bloom"].groups[0]
    made = built(ZOO["llama"])
    before = answers(made, tokens())
    made.layers[0] = built(ZOO["llama"].replace(groups=(bloom,))).layers[0]
    mixed = (
        Group(n_layers=1, pattern=bloom.pattern),
        Group(n_layers=llama.n_layers - 1, pattern=llama.pattern),
    )
    same_model = build_model(ZOO["llama"].replace(groups=mixed)).eval()
    same_model.load_state_dict(made.state_dict())
    changed = answers(made, tokens())
    assert same(changed, answers(same_model, tokens()))
    assert not same(changed, before)


def test_other_parameters_are_used_where_they_are_lent():
    made = built(ZOO["llama"])
    before = answers(made, tokens())
    lent = {name: parameter.detach() * 1.5 for name, parameter in made.named_parameters()}
    with torch.no_grad():
        changed = torch.func.functional_call(made, lent, (tokens(),))
    assert not same(before, [changed])
    made.load_state_dict(lent)
    assert same([changed], answers(made, tokens()))


def test_dropout_is_a_matter_of_the_part_that_trains():
    made = build_model(ZOO["llama"].replace(embedding=ZOO["llama"].embedding.replace(dropout=0.5))).eval()
    calm = answers(made, tokens())
    made.train()
    assert not same(answers(made, tokens()), answers(made, tokens()))
    made.eval()
    assert same(calm, answers(made, tokens()))


def test_layers_alone_may_train():
    layer = ZOO["llama"].groups[0].blocks[0]
    shaken = layer.replace(attention=layer.attention.replace(dropout=0.5))
    made = build_model(
        ZOO["llama"].replace(groups=(ZOO["llama"].groups[0].replace(pattern=(shaken,)),))
    ).eval()
    calm = answers(made, tokens())
    made.layers[1].train()
    assert not same(answers(made, tokens()), answers(made, tokens()))
    made.layers[1].eval()
    assert same(calm, answers(made, tokens()))


def test_a_copy_and_a_saved_model_answer_alike():
    made = built(ZOO["mixtral"])
    expected = answers(made, tokens())
    file = io.BytesIO()
    torch.save(made, file)
    file.seek(0)
    for other in (copy.deepcopy(made), torch.load(file, weights_only=False)):
        assert same(answers(other, tokens()), expected)


def test_a_model_is_gone_when_nobody_holds_it():
    made = built(ZOO["mixtral"])
    answers(made, tokens())
    gone = [weakref.ref(made), weakref.ref(made.layers[0]), weakref.ref(made.lm_head)]
    gc.disable()
    try:
        del made
        assert [each() for each in gone] == [None] * 3
    finally:
        gc.enable()
