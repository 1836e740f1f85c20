"""What tests of `archcli check` share: a file with four mistakes, and what is read of an answer."""

import json
import shutil
import subprocess

BROKEN = """\
name: broken
vocab_size: 128257
d_model: 4096
max_seq_len: 8192
norm: {kind: rmsnorm, eps: 1e-5}
groups:
  - n_layers: 32
    layer:
      kind: pre_norm
      attention: {kind: gqa, n_heads: 32, n_kv_heads: 7, head_dim: 100, position: {kind: rope, theta: 500000}}
      ffn: {kind: glu, activation: silu, d_ff: 14335}
"""


def apply(patch):
    subprocess.run(
        [shutil.which("git"), "apply", "-"],
        input=patch,
        text=True,
        check=True,
        capture_output=True,
        timeout=300,
    )


def rows(done):
    return json.loads(done.out)["rows"]


def codes(done):
    return sorted(row["code"] for row in rows(done))
