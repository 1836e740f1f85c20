"""The memory that a pass needs beside the peak memory of a process that ran it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from archcli.load.source import load
from archcli.modules.spec.request import Request
from archcli.wings.serving.memory.beyond.timed_run import run_memory

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux says what a process took"),
]
TOKENS = 2048
MIB = 2**20
SLACK = 16 * MIB
"""What torch takes besides: packed weights, buffers of its threads. `torch_bytes` holds them."""
TEXT = """
name: peak
vocab_size: 1000
d_model: 256
norm: {kind: rmsnorm, eps: 1e-5}
groups:
  - n_layers: 3
    layer:
      kind: pre_norm
      attention: {ATTENTION}
      ffn: {kind: glu, activation: silu, d_ff: 512}
"""
KINDS = {
    "softmax": ("kind: mha, n_heads: 8", "eager"),
    "relu": ("kind: mha, n_heads: 8, normalizer: relu", "sdpa"),
    "softcap": ("kind: mha, n_heads: 8, softcap: 30.0", "sdpa"),
    "linear": ("kind: linear, n_heads: 8", "sdpa"),
    "gated_delta_net": (
        "kind: gated_delta_net, n_key_heads: 4, n_value_heads: 8, key_head_dim: 32, value_head_dim: 32",
        "sdpa",
    ),
    "mamba": ("kind: mamba, d_inner: 512", "sdpa"),
    "rg_lru": ("kind: rg_lru, width: 256, n_blocks: 8", "sdpa"),
    "rwkv4": ("kind: rwkv4", "sdpa"),
    "lightning": ("kind: lightning, n_heads: 8, head_dim: 32, chunk: 64", "sdpa"),
    "mlstm": ("kind: mlstm, n_heads: 4, key_head_dim: 32, value_head_dim: 64", "sdpa"),
    "performer": ("kind: linear, n_heads: 8, features: softmax, n_features: 64", "sdpa"),
}
CHILD = """
import sys
from archcli.load.source import load
from archcli.modules.spec.request import Request
from archcli.wings.running.runtime.profile.work import BuildSettings, prepare

def status(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(key))

path, phase, tokens, attention = sys.argv[1:]
model, settings = load(path).model, BuildSettings(attention=attention)
prepare(model, Request(phase, 1, 4), settings).step()  # loads what torch loads late
work = prepare(model, Request(phase, 1, int(tokens)), settings)
before = status("VmRSS")
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the peak starts anew
made = work.step()
print(status("VmHWM") - before)
"""


def peak(path, phase, attention):
    """Bytes that a pass took at most beside the weights, what is freed handed back at once."""
    unpooled = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", CHILD, str(path), phase, str(TOKENS), attention]
    done = subprocess.run(
        command, env=os.environ | unpooled, capture_output=True, text=True, check=True, timeout=300
    )
    return int(done.stdout)


@pytest.mark.sample(0)
@pytest.mark.parametrize("phase", ["forward", "prefill", "train"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_pass_needs_what_a_process_takes(kind, phase, tmp_path):
    stated, attention = KINDS[kind]
    path = tmp_path / "model.yaml"
    path.write_text(TEXT.replace("ATTENTION", stated))
    memory = run_memory(load(str(path)).model, Request(phase, 1, TOKENS), "fp32", attention)
    needed = memory["needed_bytes"] - memory["weights_bytes"] - memory["torch_bytes"]
    taken = peak(path, phase, attention)
    assert taken - SLACK <= needed <= 1.15 * taken
