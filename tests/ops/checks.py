"""What is asked of an op on a case, as functions that raise AssertionError.

The tests call them, and so do the mutants.
"""

import torch

from archcli.graph import Op, Part
from archcli.wings.running.runtime.model.leaves import MODULES
from ops import (
    block_cases,
    communicate_cases,
    head_cases,
    ngram_cases,
    placing_cases,
    scan_cases,
    stream_cases,
    zero_cases,
)
from ops.references import REFERENCES


def fold(parts: tuple[Part, ...], amount):
    found: dict[str, int] = {}
    for part in parts:
        found[part.op_class.value] = found.get(part.op_class.value, 0) + amount(part)
    return found


def check_shape(case):
    assert case.op.shape(*case.inputs) == case.shape


def check_weights(case):
    assert case.op.weights(*case.inputs) == case.weights
    assert case.op.buffers(*case.inputs) == case.buffers
    assert sum(state.elements for state in case.op.states(*case.inputs)) == case.cached


def check_cost(case):
    parts = case.op.parts(*case.inputs)
    gradients = tuple(gradient for part in parts for gradient in part.backward)
    dense = {**case.flops, **(case.dense or {})}
    assert fold(parts, lambda part: part.flops) == case.flops
    assert fold(parts, lambda part: part.unmasked_flops) == dense
    assert fold(gradients, lambda part: part.flops) == case.backward
    if case.dense_back is not None:
        assert fold(gradients, lambda part: part.unmasked_flops) == case.dense_back
    assert (sum(part.read for part in parts), sum(part.written for part in parts)) == case.moved
    assert sum(part.read + part.written for part in gradients) == case.moved_back
    assert bool(parts) != bool(case.op.zero_cost_reason), "an op costs something, or says why not"
    twice = {name: count * case.operands for name, count in dense.items()}
    if "contraction" in dense:
        assert fold(gradients, lambda part: part.unmasked_flops).get("contraction", 0) == (
            twice["contraction"] - case.unreached
        )


def check_run(case):
    """The op's own torch run makes what its shape promises, on tensors of those shapes."""
    out = case.op.run(torch, tensors(case.weights | case.buffers), *arguments(case))
    shapes = tuple(tuple(one.shape) for one in several(out))
    assert (shapes if isinstance(out, tuple | list) else shapes[0]) == case.shape


def check_leaf(case):
    """The torch module that stands for the op owns exactly its weights, and gives what its run gives."""
    leaf = case.op.leaf(MODULES, *case.inputs)
    if leaf is None:
        return
    weights = tensors(case.weights | case.buffers)
    assert {name: tuple(value.shape) for name, value in leaf.named_parameters()} == case.weights
    assert {name: tuple(value.shape) for name, value in leaf.named_buffers()} == case.buffers
    leaf.eval().load_state_dict(weights)
    assert torch.allclose(leaf(*arguments(case)), case.op.run(torch, weights, *arguments(case)), atol=1e-6)


def tensors(shapes):
    generator = torch.Generator().manual_seed(1)
    drawn = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    changed = {"running_var": torch.square, "experts_of": lambda value: (9 * value.abs()).long() % 4}
    return {name: changed.get(name, lambda value: value)(value) for name, value in drawn.items()}


def arguments(case):
    """Tensors of the case's input shapes; whole numbers where the op looks something up."""
    generator = torch.Generator().manual_seed(2)
    extras = dict(enumerate(getattr(case.op, "extras", ()), 4))
    return [
        ARGUMENTS.get((type(case.op).__name__, extras.get(i, i)), floats)(shape, generator)
        for i, shape in enumerate(case.inputs)
    ]


def floats(shape, generator):
    return torch.randn(shape, generator=generator)


def ids(shape, generator):
    return torch.randint(5, shape, generator=generator)


def own_and_others(shape, generator):
    """Of as many keys as queries some for each: its own, and others; or of blocks of 2 of them."""
    if len(shape) > 3:
        order = torch.rand((*shape[:-1], shape[1] // 2), generator=generator)
        tokens = torch.arange(shape[1])
        order[:, tokens, :, tokens // 2] = -1.0
        return order.argsort(-1)[..., : shape[-1]]
    order = torch.rand((*shape[:-1], shape[-2]), generator=generator)
    order[..., range(shape[-2]), range(shape[-2])] = -1.0
    return order.argsort(-1)[..., : shape[-1]]


def positive(shape, generator):
    return torch.rand(shape, generator=generator) + 0.1


def count_up(shape, generator):
    return torch.arange(shape[0])


def last_of_seven(shape, generator):
    return torch.arange(7 - shape[0], 7)


def shuffled(shape, generator):
    return torch.randperm(shape[0], generator=generator)


SHAPED = scan_cases.SHAPED | block_cases.ARGUMENTS | ngram_cases.ARGUMENTS
ARGUMENTS = {
    ("Lookup", 0): ids,
    ("Dispatch", 1): ids,
    ("Combine", 2): shuffled,
    ("CollectHeads", 2): shuffled,
    ("SpreadHeads", 2): shuffled,
    ("Attend", 3): lambda shape, generator: torch.arange(shape[0]) if shape[0] > 1 else torch.tensor([3]),
    ("IndexTopK", 3): last_of_seven,
    ("IndexBlocks", 2): last_of_seven,
    ("GridBias", 0): count_up,
    ("PairPadding", 0): count_up,
    ("GateKeys", 1): last_of_seven,
    ("Attend", "selected"): own_and_others,
    ("Positions", 0): ids,
    ("Zeros", 0): ids,
    ("Gather", 0): ids,
    ("WithinTable", 0): ids,
    ("ScaleChosen", 1): ids,
    ("SkipLast", 1): lambda shape, generator: torch.arange(6).view(shape) % 4,
    ("QueryTemperature", 1): count_up,
    ("RelativeBias", 0): count_up,
    ("RelativeKeys", 1): count_up,
    ("RelativeProfiles", 1): count_up,
    ("RelativeVectors", 1): count_up,
    ("ClippedBias", 0): count_up,
    ("Distances", 0): count_up,
    ("ByDistance", 1): count_up,
    **{("LinearAttend", i): positive for i in range(5)},
    ("AddConstant", 0): count_up,
    ("RotaryTable", 0): count_up,
    ("Sinusoid", 0): count_up,
    **head_cases.ARGUMENTS,
    **zero_cases.ARGUMENTS,
    **placing_cases.ARGUMENTS,
    **{place: globals()[name] for place, name in SHAPED.items()},
}


def check_result(case):
    """The torch run computes what the op's definition says, element by element."""
    weights = tensors(case.weights | case.buffers)
    ours = case.op.run(torch, weights, *arguments(case))
    theirs = REFERENCES[type(case.op).__name__](case.op, weights, *arguments(case))
    for one, other in zip(several(ours), several(theirs), strict=True):
        assert torch.allclose(one.float(), other.float(), rtol=1e-5, atol=1e-5)


def check_fused(case):
    """A second form computes the same as the first."""
    if type(case.op).run_fused is not Op.run_fused:
        fused, plain = (run(torch, {}, *arguments(case)) for run in (case.op.run_fused, case.op.run))
        assert torch.allclose(fused, plain, rtol=1e-5, atol=1e-5)


def several(out):
    return out if isinstance(out, tuple | list) else (out,)


def check_gradients(case):
    """Backward has a part for each weight and input that torch gives a gradient, and for no other."""
    if case.op.zero_cost_reason:
        return
    weights, inputs = (
        {
            name: one.requires_grad_(case.op.trained([], *case.inputs))
            for name, one in tensors(case.weights).items()
        },
        arguments(case),
    )
    given = {
        i: one.requires_grad_()
        for i, one in enumerate(inputs)
        if one.is_floating_point() and i not in untrained(case)
    }
    with torch.enable_grad():
        made = [
            one
            for one in several(case.op.run(torch, weights | tensors(case.buffers), *inputs))
            if one.requires_grad
        ]
        if made:
            torch.autograd.backward(made, [torch.randn_like(one) for one in made])
    got = {name for name, one in {**given, **weights}.items() if one.grad is not None}
    stated = (gradient.wrt for part in case.op.parts(*case.inputs) for gradient in part.backward)
    said = {one for wrt in stated for one in (wrt if isinstance(wrt, tuple) else (wrt,))}
    assert said <= got
    assert got - said <= passed_on(case)


def untrained(case):
    """Inputs that are numbers of positions, or what a cache holds: nothing is trained through them."""
    own = {"Rotate": {1, 2}, "GridRotaryTable": {0}, "ExtendCache": {1}, **scan_cases.UNTRAINED}
    own |= block_cases.UNTRAINED | ngram_cases.UNTRAINED
    return own.get(type(case.op).__name__, set())


def passed_on(case):
    """What gets the gradient that comes in just as it is, at no cost.

    A norm's bias, whose sums are those of the weight.
    """
    if "bias" in getattr(case.op, "extras", ()):
        return {4 + case.op.extras.index("bias")}
    own = {
        "Add": {0, 1},
        "HeadBias": {0},
        "HeadSkip": {0},
        "Subtract": {0},
        "WeightedDifference": {0},
        "ScatterAdd": {0},
        "Normalize": {"bias"},
        "BatchNormalize": {"bias"},
        **communicate_cases.PASSED_ON,
        **stream_cases.PASSED_ON,
    }
    return own.get(type(case.op).__name__, set())


CHECKS = (
    check_shape,
    check_weights,
    check_cost,
    check_run,
    check_leaf,
    check_result,
    check_fused,
    check_gradients,
)
