"""The memory of real training steps: what a process holds at its peak, within 3% of archcli's figure."""

import os
import subprocess
import sys

import pytest

from archcli.load.source import load
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.memory.traced import highest
from archcli.wings.serving.memory.training.step import training_step

CHILD = """
import sys
import torch
from archcli.load.source import load
from archcli.wings.running.runtime.memory.models import loss_of
from archcli.wings.running.runtime.model.build import build_model

def status(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(key))

def steps(model, batch, seq, n):
    update = torch.optim.AdamW(model.parameters(), lr=1e-3)
    ids = torch.zeros(batch, seq, dtype=torch.int64)
    for _ in range(n):
        logits = model(ids)
        loss = loss_of(logits, ids)
        del logits
        loss.backward()
        del loss
        update.step()
        update.zero_grad()
    return update

torch.set_num_threads(1)
name, batch, seq, *changes = sys.argv[1:]
small = ["n_layers=1", "d_model=64", "n_heads=2", "d_ff=64", "vocab_size=64"]
steps(build_model(load("gpt2", small).model), 1, 8, 1)  # loads what torch loads late
before = status("VmRSS")
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the peak starts anew
steps(build_model(load(name, changes).model).train(), int(batch), int(seq), 3)
print(status("VmHWM") - before)
"""
RUNS = [
    ("gpt2", 2, 256, ["n_layers=6"]),
    ("qwen3-0.6b", 1, 512, ["n_layers=4", "vocab_size=30000"]),
    ("llama-3.2-1b", 2, 300, ["n_layers=3", "vocab_size=20000"]),
]


@pytest.mark.long
@pytest.mark.parametrize(("name", "batch", "seq", "changes"), RUNS, ids=[name for name, *_ in RUNS])
def test_three_steps_take_what_is_counted(name, batch, seq, changes):
    settings = MemorySettings("train", batch, seq, dtype="fp32", backend="cpu")
    counted = highest(training_step(load(name, changes).model, settings).moments).bytes
    unpooled = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", CHILD, name, str(batch), str(seq), *changes]
    done = subprocess.run(
        command, env=os.environ | unpooled, capture_output=True, text=True, check=True, timeout=300
    )
    taken = int(done.stdout)
    assert abs(taken - counted) <= 0.03 * counted
