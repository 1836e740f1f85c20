"""What a training pass counts backward; and that the built model trains what is counted as trained."""

import pytest
import torch

from archcli.modules import ConvFrontEnd, Embedding, Learned
from archcli.wings.running.runtime.model.build import build_model
from gradients import CHECKS, encoder_decoder

torch.set_num_threads(1)


@pytest.mark.parametrize("name", CHECKS)
def test_counted_backward(name):
    CHECKS[name]()


def test_a_frozen_table_is_built_frozen():
    front = {
        "front_end": ConvFrontEnd(in_channels=6, d_model=8),
        "position": Learned(max_seq_len=5, frozen=True),
    }
    built = build_model(encoder_decoder(Embedding(tied=True), front))
    built(torch.zeros(1, 3, dtype=torch.int64), torch.randn(1, 6, 10)).sum().backward()
    assert [name for name, one in built.named_parameters() if one.grad is None] == [
        "encoder.position_embedding.weight"
    ]
