"""Real optimizers on the parameters of a built model: the bytes of their state, and the peak of a step."""

import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

WIDTHS = {4: torch.float32, 2: torch.bfloat16}


class Mixed:
    """AdamW on fp32 copies of the weights, a tensor at a time, as archcli defines `adamw-mixed`."""

    def __init__(self, weights):
        self.steps = []
        for weight in weights:
            master = weight if weight.dtype == torch.float32 else weight.detach().float().requires_grad_()
            self.steps.append((weight, master, torch.optim.AdamW([master], fused=True)))

    @property
    def masters(self):
        return [master for weight, master, _ in self.steps if master is not weight]

    def states(self):
        return [state for *_, step in self.steps for state in step.state.values()]

    @torch.no_grad()
    def step(self):
        for weight, master, step in self.steps:
            if master is weight:
                step.step()
                continue
            master.grad = weight.grad.float()
            step.step()
            weight.copy_(master)
            master.grad = None


class LiveBytes(TorchDispatchMode):
    """The bytes of all storages made within the block and alive: now, and at the highest."""

    def __init__(self):
        super().__init__()
        self.now = self.peak = 0
        self.known = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        before = {leaf.untyped_storage()._cdata for leaf in tree_leaves((args, kwargs)) if is_tensor(leaf)}
        result = function(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if is_tensor(leaf) and leaf.untyped_storage()._cdata not in before | self.known:
                self.book(leaf.untyped_storage())
        return result

    def book(self, storage):
        self.now += storage.nbytes()
        self.peak = max(self.peak, self.now)
        self.known.add(storage._cdata)
        weakref.finalize(storage, self.free, storage.nbytes(), storage._cdata)

    def free(self, size, key):
        self.now -= size
        self.known.discard(key)


def is_tensor(leaf):
    return isinstance(leaf, torch.Tensor)


def with_gradients(model, seed=0):
    """The trained parameters of a model in its order, with random gradients of their own dtype."""
    torch.manual_seed(seed)
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    for weight in weights:
        weight.grad = torch.randn_like(weight)
    return weights


def state_tensors(optimizer):
    """(name, tensor) of everything that the optimizer keeps, masters included; shared tensors once."""
    states = optimizer.states() if isinstance(optimizer, Mixed) else optimizer.state.values()
    tensors = {
        id(value): (name, value) for state in states for name, value in state.items() if is_tensor(value)
    }
    masters = getattr(optimizer, "masters", [])
    return [*tensors.values(), *(("master", master) for master in masters)]


def step_peak(*optimizers):
    """The peak of live bytes of a step, its state already allocated."""
    with LiveBytes() as live:
        for optimizer in optimizers:
            optimizer.step()
    return live.peak
