"""A rank's part of random numbers is that of the whole tensor, which is never made."""

import pytest
import torch

from archcli.modules.tensor_parallel.shard import shard
from archcli.wings.running.runtime.model.build import build_model
from archcli.wings.running.runtime.model.random_data import tile
from archcli.wings.running.runtime.ranks.shares import RankPlace, fill_part, starts_of
from ranks import share_of
from small import decoder
from table import every_row

BLOCK = torch.arange(97.0)
SHAPES = {
    "rows": ((12, 5), (4, 5)),
    "columns": ((5, 12), (5, 4)),
    "both": ((12, 6), (4, 2)),
    "heads of a cache": ((2, 6, 7, 3), (2, 2, 7, 3)),
    "experts": ((4, 6, 10), (4, 2, 10)),
    "nothing": ((12, 5), (12, 5)),
}


@every_row(("whole", "own"), SHAPES.values(), ids=SHAPES)
def test_a_part_is_a_slice_of_the_whole(whole, own):
    full = tile(torch.empty(whole), BLOCK)
    for rank in range(3):
        starts = starts_of(whole, own, RankPlace(rank, 3))
        part = torch.empty(own)
        fill_part(part, whole, starts, BLOCK)
        slices = tuple(slice(start, start + size) for start, size in zip(starts, own, strict=True))
        assert torch.equal(part, full[slices])


UNEVEN = {
    # 50 words are 13, 13, 13 and 11
    "words": (50, [13, 13, 13, 11], [0, 13, 26, 39]),
    # two heads of 3 channels on four ranks
    "heads held by several": (6, [3, 3, 3, 3], [0, 0, 3, 3]),
    "one head": (5, [5, 5, 5, 5], [0, 0, 0, 0]),
}


@pytest.mark.parametrize(("size", "own", "starts"), UNEVEN.values(), ids=UNEVEN)
def test_where_parts_begin(size, own, starts):
    found = [starts_of([size], [part], RankPlace(rank, 4))[0] for rank, part in enumerate(own)]
    assert found == starts


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("tp", [2, 4])
def test_parts_of_a_model_are_those_of_the_other_way_to_share(tp):
    """By the slices that tests take of weights whose ranks compute the whole model's logits."""
    spec = decoder()
    whole = dict(build_model(spec, device="meta").named_parameters())
    for rank in range(tp):
        for name, own in build_model(shard(spec, tp, rank=rank), device="meta").named_parameters():
            full = torch.arange(whole[name].numel()).view(whole[name].shape)
            part = torch.empty(own.shape)
            starts = starts_of(full.shape, own.shape, RankPlace(rank, tp))
            fill_part(part, full.shape, starts, torch.arange(float(full.numel())))
            assert torch.equal(part, share_of(full, own.shape, rank, tp).float()), name
