"""What Ivanov et al. print, and a report of their layer whose times are made up."""

import csv
import sys
from functools import cache
from pathlib import Path

from archcli.load.source import load
from archcli.measure.passes import train_pass
from archcli.wings.running.profile.reports.one import profile_of
from archcli.wings.running.recording.recording import Recording
from archcli.wings.serving.recorded.operations import ExecutedOp, OpTime

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.append(str(BENCHMARKS))

from ivanov.report import with_table  # noqa: E402 the line above finds it

FILE = Path(__file__).parents[1] / "measure" / "published" / "ivanov.csv"
PRINTED = list(csv.DictReader(FILE.read_text(encoding="utf-8").splitlines()))
"""arXiv:2007.00072 Table 1, an operator a row: GFLOP and 1e6 words at the digits printed.

`lines` are ours, several where it has one.
"""

CONTRACTION, NORMALIZATION, ELEMENTWISE = "contraction", "normalization", "elementwise"
LAYER = "layers.0."
TIMED = (
    *(OpTime(f"{LAYER}attention.{name}_proj", "forward", "addmm", CONTRACTION, 0.05, 1) for name in "qkv"),
    OpTime(f"{LAYER}attention.attend", "forward", "bmm", CONTRACTION, 0.04, 2),
    OpTime(f"{LAYER}attention.attend", "forward", "_softmax", NORMALIZATION, 0.02, 1),
    OpTime(f"{LAYER}attention.attend", "forward", "mul", NORMALIZATION, 0.01, 2),
    OpTime(f"{LAYER}attention.attend", "forward", "bernoulli", "random", 0.08, 1),
    OpTime(f"{LAYER}attention.attend", "forward", "clone", "movement", 0.03, 1),
    OpTime(f"{LAYER}ffn.down_proj", "backward", "mm", CONTRACTION, 0.20, 2),
    OpTime(f"{LAYER}ffn.down_proj", "backward", "sum", NORMALIZATION, 0.05, 1),
    OpTime(f"{LAYER}ffn_norm", "backward", "native_layer_norm_backward", NORMALIZATION, 0.06, 1),
    OpTime(f"{LAYER}attention.q_proj", "sums", "add", ELEMENTWISE, 0.02, 3),
    OpTime("embedding.tokens", "forward", "embedding", "movement", 0.01, 1),
    OpTime("", "forward", "arange", "framework", 0.005, 1),
)
CENSUS = (
    ExecutedOp(f"{LAYER}attention.q_proj", "forward", "addmm", CONTRACTION, 1, 990, 30, 10),
    ExecutedOp(f"{LAYER}ffn_norm", "forward", "native_layer_norm", NORMALIZATION, 1, 8, 12, 10),
    ExecutedOp(f"{LAYER}attention.q_proj", "sums", "add", ELEMENTWISE, 3, 2, 6, 3),
    ExecutedOp("embedding.tokens", "forward", "embedding", "movement", 1, 0, 10, 10),
)
MADE_UP = Recording(
    timed=TIMED,
    ran=(),
    plain_s=(1.0,),
    traced_s=(1.0,),
    framework_s=0.2,
    executed=21,
    counted=21,
    differing=(),
    rejected=0,
    page_faults=0,
    switches_per_s=0.0,
    machine={"device": "cpu"},
    census=CENSUS,
)
CEILINGS = {"gemm_flops_per_s": 1e12, "dram_bytes_per_s": 1e10, "cache_bytes_per_s": 1e11}


@cache
def layer():
    return load("ivanov").model


def report(recording=MADE_UP, sizes=(8, 512), ceilings=CEILINGS):
    counted = train_pass(layer(), *sizes)
    inputs = {"phase": "train", "batch_size": sizes[0], "seq_len": sizes[1], "dtype": "fp32"}
    return with_table(profile_of(layer(), counted, recording, inputs, ceilings=ceilings), counted, recording)
