"""llm-foundry's published training runs as data: model, plan and device of each, all of which fitted.

mosaicml/llm-foundry (Apache-2.0), scripts/train/benchmarking/README.md at 8c8dd48, one line a run.
"""

import csv
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from archcli.wings.serving.devices.budget import Budget, read_budget

FOLDER = Path(__file__).parents[1] / "measure" / "memory" / "published"
ZERO = {"FULL_SHARD": 3, "SHARD_GRAD_OP": 2}
"""Stages of ZeRO by the names of torch's ShardingStrategy."""


def table(name: str) -> list[dict[str, str]]:
    """The rows of one of the tables."""
    return list(csv.DictReader((FOLDER / f"{name}.csv").read_text(encoding="utf-8").splitlines()))


SHAPES = {row["model"]: row for row in table("mpt_shapes")}


@dataclass(frozen=True)
class TrainingRun:
    """A run that fitted: `micro_batch` sequences of `seq_len` tokens on each of `n_devices`.

    zero: the stage of ZeRO over all devices. checkpointing: every layer is recomputed. precision and mp_mode
    are Composer's: amp_bf16 autocasts, and PURE also reduces gradients in bf16; weights, gradients and states
    are sharded in fp32.
    """

    line: int
    model: str
    device: str
    n_devices: int
    precision: str
    mp_mode: str
    zero: int
    checkpointing: bool
    seq_len: int
    micro_batch: int
    params: int

    @cached_property
    def mapping(self) -> dict[str, Any]:
        """The architecture as a YAML would hold it, with learned positions for this length."""
        shape = SHAPES[self.model]
        size = {key: int(shape[key]) for key in ("d_model", "n_heads", "n_layers", "d_ff", "vocab_size")}
        attention = {"kind": "mha", "n_heads": size["n_heads"], "bias": True}
        ffn = {"kind": "mlp", "activation": "gelu", "d_ff": size["d_ff"], "bias": True}
        return {
            "name": self.model,
            "vocab_size": size["vocab_size"],
            "d_model": size["d_model"],
            "max_seq_len": self.seq_len,
            "norm": {"kind": "layernorm", "eps": 1e-5},
            "embedding": {"tied": shape["tied"] == "true", "position": {"kind": shape["positions"]}},
            "groups": [
                {
                    "n_layers": size["n_layers"],
                    "layer": {"kind": "pre_norm", "attention": attention, "ffn": ffn},
                }
            ],
        }

    @cached_property
    def budget(self) -> Budget:
        """The memory of its devices."""
        budget = read_budget(f"{self.n_devices}x{self.device}")
        assert budget is not None
        return budget

    def __str__(self) -> str:
        recomputed = "-recomputed" if self.checkpointing else ""
        plan = f"{self.micro_batch}x{self.seq_len}-{self.n_devices}x{self.device}{recomputed}"
        return f"{self.line}-{self.model}-{plan}"


def training_run(row: dict[str, str]) -> TrainingRun:
    """The run that a row states."""
    sizes = {key: int(row[key]) for key in ("line", "n_devices", "seq_len", "micro_batch", "params")}
    texts = {key: row[key] for key in ("model", "device", "precision", "mp_mode")}
    recomputed = {"True": True, "False": False}[row["activation_checkpointing"]]
    return TrainingRun(**sizes, **texts, zero=ZERO[row["sharding"]], checkpointing=recomputed)


RUNS = [training_run(row) for row in table("llm_foundry")]
