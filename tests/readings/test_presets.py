"""Every preset: `flops --phase train --mask dense` against FlopCounterMode of the built model, on meta."""

import pytest
import torch

from archcli.load.source import load
from archcli.measure.flops import count_flops
from archcli.measure.params import count_params
from archcli.modules.spec.request import Request
from covering import COVERING
from readings.readings import by_torch

torch.set_num_threads(1)


@pytest.mark.sample(0)
@pytest.mark.parametrize("name", COVERING)
def test_training_costs_what_torch_counts(name):
    model = load(name).model
    ours = {
        phase: count_flops(model, Request(phase=phase, seq_len=16), mask="dense").totals["matmul_flops"]
        for phase in ("forward", "train")
    }
    params = count_params(model).totals
    assert ours | {"params": params["params"] + params["mtp_params"]} == by_torch(model, 1, 16)
