"""Where the time of one recurrent layer goes, beside attention of the same width, printed as Markdown.

    python benchmarks/recurrent_layers.py                     every kind at 256, 1,024 and 4,096 tokens
    python benchmarks/recurrent_layers.py mamba2 gqa -s 256   these kinds, this length

A model is one norm and one mixer at d_model 1,024, without a head. Every profile runs in its own process, as
a user runs it, in fp32 and eager, attention as products and softmax.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

MIXERS = {
    "gqa": "{kind: gqa, n_heads: 16, n_kv_heads: 4, head_dim: 64, position: rope}",
    "mamba": "{kind: mamba, d_inner: 2048, state: 16, dt_rank: 64}",
    "mamba2": "{kind: mamba2, n_heads: 32, head_dim: 64, state: 128, chunk: 256}",
    "gated_delta_net": "{kind: gated_delta_net, n_key_heads: 8, n_value_heads: 16, key_head_dim: 128, "
    "value_head_dim: 128, chunk: 64}",
    "kda": "{kind: kda, n_heads: 16, head_dim: 64, chunk: 64}",
    "lightning": "{kind: lightning, n_heads: 16, head_dim: 64, chunk: 256}",
    "retention": "{kind: retention, n_heads: 4, key_head_dim: 256, value_head_dim: 512, chunk: 256}",
    "mlstm": "{kind: mlstm, n_heads: 4, key_head_dim: 128, value_head_dim: 256, chunk: 64}",
    "rg_lru": "{kind: rg_lru, width: 1024, n_blocks: 8}",
    "rwkv4": "{kind: rwkv4}",
    "short_conv": "{kind: short_conv, conv_kernel: 3}",
}
MODEL = """
vocab_size: 16
d_model: 1024
norm: rmsnorm
head: null
groups:
  - {{n_layers: 1, layer: {{kind: pre_norm, mixer: {mixer}}}}}
"""
CLASSES = ("contraction", "elementwise", "recurrence")
PARTS = {
    "projections %": lambda row: "contraction" in row["class"] and row["path"].endswith("proj"),
    "scan or attention %": lambda row: row["path"].rpartition(".")[2] in {"scan", "attend", "wkv"},
    "convolution %": lambda row: row["path"].endswith("conv"),
}
"""Columns, and the rows that they sum; the rest is one more column."""


def profile(mixer, tokens):
    """The JSON document of one layer."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "layer.yaml"
        path.write_text(MODEL.format(mixer=mixer))
        options = ["-s", str(tokens), "--attention", "eager", "--no-ceilings", "--json"]
        command = [sys.executable, "-m", "archcli", "profile", str(path), *options]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def line(name, tokens):
    """A line of the table: wall, shares of parts, shares of classes."""
    found = profile(MIXERS[name], tokens)
    totals, rows = found["totals"], [row for row in found["rows"] if row["path"].startswith("layers.")]
    shares = [sum(row["time_share"] for row in rows if is_part(row)) for is_part in PARTS.values()]
    framework = totals["by_class"]["framework"]["time_share"]
    rest = 1 - sum(shares) - framework
    classes = [totals["by_class"][op_class]["time_share"] for op_class in CLASSES]
    cells = [name, f"{tokens:,}", f"{totals['matmul_flops'] / 1e9:.2f}", f"{totals['wall_s'] * 1e3:.1f} ms"]
    cells += [f"{100 * share:.0f}" for share in (*shares, rest, framework, *classes)]
    print("| " + " | ".join(cells) + (" |" if totals["reliable"] else " | NOT RELIABLE"), flush=True)


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("kinds", nargs="*", choices=[*MIXERS, []], metavar="KIND")
    parser.add_argument("-s", "--seq-len", type=int, action="append")
    asked = parser.parse_args()
    classes = "matrix products % | element-wise % | token to token %"
    head = f"layer | tokens | matmul GFLOP | wall | {' | '.join(PARTS)} | rest % | framework % | {classes}"
    print(f"| {head} |\n|---|---:|---:|---:|" + "---:|" * (head.count("|") - 3))
    for name in asked.kinds or MIXERS:
        for tokens in asked.seq_len or (256, 1024, 4096):
            line(name, tokens)


if __name__ == "__main__":
    main()
