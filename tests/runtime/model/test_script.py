"""Scripts: what is played back is what the forward says, whatever was done to the model in between, and nothing is kept that should go."""

import copy
import gc
import io
import weakref

import pytest
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook
from torch.utils._pytree import tree_leaves

from archcli.measure.passes import forward_pass
from archcli.runtime.model.build import Node, build_model
from archcli.runtime.model.script import KEPT, Script, Step
from sources import OTHERS, PAIRS, source_of
from zoo import ZOO, D, assert_close, built, tokens

torch.set_num_threads(1)
EVERY = ZOO | OTHERS
FAMILIES = pytest.mark.parametrize("name", EVERY)


def answers(made, ids):
    with torch.no_grad():
        return tree_leaves(made(ids, *source_of(made.spec, len(ids))))


def learn(made):
    """Let it see the shapes as often as it takes to know a script of them: the first time it reads, the second it writes."""
    for _ in range(2):
        found = answers(made, tokens())
    assert any(made.scripts.values())
    return found


def read(made, ids):
    """The forward read anew from the architecture, module by module, as it is for whoever hooks every module there is."""
    hook = register_module_forward_hook(lambda *_: None)
    try:
        return answers(made, ids)
    finally:
        hook.remove()


def same(ours, theirs):
    return len(ours) == len(theirs) and all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def others():
    """Other tokens, as many as before."""
    return tokens().flip(1)


@FAMILIES
def test_played_back_and_read_anew_are_equal_to_the_bit(name):
    made = built(EVERY[name]).eval()
    first = answers(made, tokens())
    assert same(first, learn(made))
    assert same(first, answers(made, tokens()))
    assert same(answers(made, others()), read(made, others()))
    assert same(first, read(made, tokens()))


@pytest.mark.parametrize("name", ["llama", "mixtral", "deepseek", "t5", "bert-pretraining"])
def test_gradients_of_passes_that_are_written_and_played_are_those_of_the_first(name):
    made, found = built(EVERY[name]), []
    for _ in range(3):
        made.zero_grad()
        sum(each.square().mean() for each in tree_leaves(made(tokens(), *source_of(made.spec)))).backward()
        found.append([parameter.grad for parameter in made.parameters() if parameter.grad is not None])
    assert found[0]
    assert same(found[0], found[2])
    assert same(found[0], found[1])


def test_two_inputs_that_were_one_tensor_are_two_again():
    made = built(PAIRS["t5"])
    with torch.no_grad():
        expected = made(tokens(), others())
        ids = tokens()
        for _ in range(2):
            made(ids, ids)
        assert torch.equal(made(tokens(), others()), expected)


def test_every_place_a_row_names_is_called_where_someone_looks():
    """A hook on any module, leaf or not, is heard though a script is known; and no longer once it is removed."""
    made = built(ZOO["mixtral"])
    learn(made)
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
    plain = learn(made)[0]
    seen = []
    block = made.layers[1]
    block.register_forward_pre_hook(lambda _, args: seen.append(args[0].shape))
    block.register_forward_hook(lambda _, args, out: (args[0], *out[1:]))
    skipped = answers(made, tokens())[0]
    assert seen == [(*tokens().shape, D)]
    assert not torch.allclose(plain, skipped)


def test_what_is_put_in_the_place_of_a_module_is_what_runs():
    made = built(ZOO["llama"])
    before = learn(made)
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


def test_a_layer_of_another_kind_in_the_place_of_one_is_read_for_itself():
    made, spec = (
        built(ZOO["llama"]),
        ZOO["llama"].model_copy(update={"groups": built(ZOO["bloom"]).spec.groups}),
    )
    stranger = built(spec)
    learn(made)
    learn(stranger)
    made.layers[0] = stranger.layers[0]
    changed = answers(made, tokens())
    assert same(changed, read(made, tokens()))


def test_other_parameters_are_used_where_they_are_lent():
    made = built(ZOO["llama"])
    before = learn(made)
    lent = {name: parameter.detach() * 1.5 for name, parameter in made.named_parameters()}
    with torch.no_grad():
        changed = torch.func.functional_call(made, lent, (tokens(),))
    assert not same(before, [changed])
    made.load_state_dict(lent)
    assert same([changed], answers(made, tokens()))


def test_dropout_is_a_matter_of_the_part_that_trains():
    made = build_model(
        ZOO["llama"].model_copy(
            update={"embedding": ZOO["llama"].embedding.model_copy(update={"dropout": 0.5})}
        )
    ).eval()
    calm = learn(made)
    made.train()
    assert not same(learn(made), answers(made, tokens()))
    made.eval()
    assert same(calm, answers(made, tokens()))


def test_layers_alone_may_train():
    layer = ZOO["llama"].groups[0].blocks[0]
    shaken = layer.model_copy(update={"attention": layer.attention.model_copy(update={"dropout": 0.5})})
    made = build_model(
        ZOO["llama"].model_copy(
            update={"groups": (ZOO["llama"].groups[0].model_copy(update={"pattern": (shaken,)}),)}
        )
    ).eval()
    calm = learn(made)
    made.layers[1].train()
    assert not same(answers(made, tokens()), answers(made, tokens()))
    made.layers[1].eval()
    assert same(calm, answers(made, tokens()))


def test_generating_writes_no_script_and_remembers_few_shapes():
    made, ids = built(ZOO["llama"]), tokens()
    with torch.no_grad():
        logits, cache = made.prefill(ids[:, :1])
        for _ in range(2 * KEPT):
            logits, cache = made.decode(logits.argmax(-1), cache)
    nodes = [node for node in made.modules() if isinstance(node, Node)]
    assert all(0 < len(node.scripts) <= KEPT for node in nodes)
    assert not any(made.scripts.values())


def test_a_copy_and_a_saved_model_start_without_scripts():
    made = built(ZOO["mixtral"])
    expected = learn(made)
    file = io.BytesIO()
    torch.save(made, file)
    file.seek(0)
    for other in (copy.deepcopy(made), torch.load(file, weights_only=False)):
        assert not other.scripts
        assert same(answers(other, tokens()), expected)


def test_a_model_is_gone_when_nobody_holds_it():
    made = built(ZOO["mixtral"])
    learn(made)
    gone = [weakref.ref(made), weakref.ref(made.layers[0]), weakref.ref(made.lm_head)]
    gc.disable()
    try:
        del made
        assert [each() for each in gone] == [None] * 3
    finally:
        gc.enable()


def test_what_no_later_step_needs_is_let_go():
    alive, made = [], []

    def run(_, values, __):
        alive.append([each() is not None for each in made])
        out = values[0] + 1
        made.append(weakref.ref(out))
        return out

    steps = (Step(run, (0,), (0,)), Step(run, (1,), (1,)), Step(run, (2,), ()), Step(run, (2,), (2,)))
    answer = Script(steps, (3, 4), tuple).play(None, [torch.zeros(3)], None)
    assert [each.tolist() for each in answer] == [[3.0] * 3, [3.0] * 3]
    assert alive == [[], [True], [False, True], [False, True, True]]
