"""The memory of a pass without values, against the live storages of the same pass with them."""

import pytest
import torch
from torch import nn

import archcli
from archcli.wings.running.runtime.memory.peak import LiveStorages
from table import every_row


def convolutions():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(392, 5)
    )


class Pictures(nn.Module):
    """A depthwise convolution of one sequence seen as a picture, as SegFormer has it."""

    def __init__(self):
        super().__init__()
        self.linear, self.conv = nn.Linear(8, 8), nn.Conv2d(8, 8, 3, padding=1, groups=8)

    def forward(self, x):
        x = self.conv(self.linear(x).transpose(1, 2).view(1, 8, 4, 4))
        return self.linear(x.flatten(2).transpose(1, 2))


MODULES = {
    "linear": (lambda: nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 4)), [torch.randn(4, 8)]),
    "convolutions": (convolutions, [torch.randn(2, 3, 16, 16)]),
    "transformer": (
        lambda: nn.Transformer(16, 4, 2, 2, 32, batch_first=True),
        [torch.randn(5, 2, 16), torch.randn(5, 2, 16)],
    ),
    "attention": (lambda: nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0), [torch.randn(5, 2, 16)]),
    "gru": (lambda: nn.GRU(8, 16, 2), [torch.randn(5, 2, 8)]),
    "lstm": (lambda: nn.LSTM(8, 16, 2, bidirectional=True), [torch.randn(5, 2, 8)]),
    "pictures": (Pictures, [torch.randn(1, 16, 8)]),
    "patches": (
        lambda: nn.Sequential(nn.Unfold(3, padding=1), nn.Fold((4, 4), 3, padding=1), nn.Conv2d(8, 8, 1)),
        [torch.randn(1, 8, 4, 4)],
    ),
    "embedding": (
        lambda: nn.Sequential(nn.Embedding(50, 8), nn.LayerNorm(8)),
        [torch.zeros(2, 7, dtype=torch.int64)],
    ),
}


def measured(module, inputs, phase):
    """The peak of live storages of a real pass on this CPU, weights, buffers and inputs included."""
    there = [*module.parameters(), *module.buffers(), *inputs]
    module.train(phase == "train")
    with torch.set_grad_enabled(phase == "train"), LiveStorages(there) as live:
        out = module(*inputs)
        if phase == "train":
            out = out[0] if type(out) is tuple else out
            loss = out.sum()
            del out
            loss.backward()
    held = {x.untyped_storage()._cdata: x.untyped_storage().nbytes() for x in there}
    return live.peak.bytes + sum(held.values())


@pytest.mark.long
@every_row("phase", ["forward", "train"])
@every_row("name", MODULES)
def test_the_peak_equals_live_storages(name, phase):
    make, inputs = MODULES[name]
    module = make()
    # the last output of a tuple alone is summed in both
    loss = (lambda out: out[0].sum()) if name in {"gru", "lstm"} else None
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        real = measured(module, inputs, phase)
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    module.zero_grad()
    assert archcli.count_memory(module, tuple(inputs), phase=phase, loss=loss).totals["peak_bytes"] == real


def test_what_fits_counts_the_optimizer():
    module, inputs = nn.Linear(1000, 1000, bias=False), torch.empty(1, 1000)
    totals = archcli.count_memory(module, inputs, memory="13MB", optimizer="adamw").totals
    weights = 4 * 1000 * 1000
    assert totals["parts"]["weights"] == totals["parts"]["gradients"] == weights
    assert totals["optimizer_bytes"] == 2 * weights
    assert totals["fits"] is False
    totals = archcli.count_memory(module, inputs, phase="train", memory="13MB", optimizer="sgd").totals
    assert totals["fits"] is True


def test_an_optimizer_may_hold_copies_of_the_weights():
    module, inputs = nn.Linear(1000, 1000, bias=False).bfloat16(), torch.empty(1, 1000, dtype=torch.bfloat16)
    totals = archcli.count_memory(module, inputs).totals
    elements = 1000 * 1000
    # adamw-mixed: two moments and the weight in fp32, and the count of steps
    assert totals["optimizer_bytes"] == (4 + 4 + 4) * elements + 4
    # the gradient in fp32 is there while the optimizer steps
    assert totals["with_optimizer_bytes"] == totals["end_bytes"] + totals["optimizer_bytes"] + 4 * elements
