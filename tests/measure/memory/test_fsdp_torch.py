"""A step of FSDP2: its peak is that of torch's FSDPMemTracker, parts of what is gathered included."""

import pytest
import torch
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from archcli import load
from archcli.wings.running.runtime.model.build import build_model
from archcli.wings.serving.memory.answers.question import MemoryQuestion
from archcli.wings.serving.memory.plan import Plan
from archcli.wings.serving.memory.settings import MemorySettings
from dtensors import fake_rank

RANKS = 4
WORDS, SMALL = ["vocab_size=8192"], ["n_layers=4", "d_model=256", "d_ff=1024", "n_heads=8", "n_kv_heads=8"]


def tracked(model, tokens):
    """The peak of the second step of real modules, sharded layer by layer."""
    with fake_rank(0, RANKS):
        mesh = init_device_mesh("cpu", (RANKS,))
        built = build_model(model, device="cpu", dtype=torch.bfloat16)
        for part in (*built.layers, built):
            fully_shard(part, mesh=mesh)
        optimizer = torch.optim.AdamW(built.parameters(), foreach=True)
        tracker = FSDPMemTracker(built, optimizer)
        tracker.track_inputs(())
        ids = torch.zeros(1, tokens, dtype=torch.int64)
        with tracker:
            for step in range(2):
                built(ids).float().sum().backward()
                optimizer.step()
                optimizer.zero_grad()
                if step == 0:
                    tracker.reset_mod_stats()
        [found] = tracker.get_tracker_snapshot("peak").values()
    return found["Total"]


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("overrides", "tokens"),
    [(["vocab_size=64"], 16), (WORDS, 16), ([*WORDS, "embedding.tied=false"], 16), (["vocab_size=64"], 256)],
    ids=["layers", "tied table", "table and head", "activations"],
)
def test_the_peak_is_that_of_the_tracker(overrides, tokens):
    model = load("llama-3.2-1b", overrides=[*SMALL, *overrides, "max_seq_len=512"])
    settings = MemorySettings("train", 1, tokens, optimizer="adamw", loss="fused")
    ours = MemoryQuestion(model, settings, Plan(dp=RANKS, zero=3)).answer().peak_bytes
    assert ours == pytest.approx(tracked(model, tokens), rel=0.06)
