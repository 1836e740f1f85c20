"""Bytes kept for the backward as archcli traces them, beside what torch saves, by the row that made them."""

from __future__ import annotations

import re
from collections import Counter

from archcli.graph.kept import Execution
from archcli.modules import Model
from archcli.modules.spec.request import Request
from archcli.wings.running.runtime.memory.kept import kept_of_model
from archcli.wings.running.runtime.memory.models import WitnessSetting
from archcli.wings.serving.memory.traced import trace_memory

WIDTHS = {"bf16": 2, "fp32": 4}


def folded(path: str) -> str:
    """The path with any layer of a stack as one."""
    return re.sub(r"layers\.\d+", "layers.*", path)


def traced_by_row(spec: Model, batch_size: int, seq_len: int, setting: WitnessSetting) -> Counter[str]:
    """Kept bytes by the path of the row that made them, from archcli's trace."""
    backend = "cpu" if setting.backend == "cpu" else "cuda"
    how = Execution(backend, setting.attention == "sdpa", WIDTHS[setting.dtype])
    traced = trace_memory(spec, Request("train", batch_size, seq_len), how)
    made: Counter[str] = Counter()
    for storage in traced.ledger.saved.values():
        made[folded(storage.record.path)] += storage.record.size * storage.record.times
    return made


def saved_by_row(spec: Model, batch_size: int, seq_len: int, setting: WitnessSetting) -> Counter[str]:
    """Kept bytes by the path of the row that made them, from torch's hooks."""
    made: Counter[str] = Counter()
    for path, size in kept_of_model(spec, batch_size, seq_len, setting).bytes_by_op().items():
        made[folded(path)] += size
    return made


def differences(
    spec: Model, batch_size: int = 2, seq_len: int = 64, setting: WitnessSetting | None = None
) -> dict[str, tuple[int, int]]:
    """(ours, torch's) kept bytes of every row where the two differ."""
    setting = setting or WitnessSetting()
    ours = traced_by_row(spec, batch_size, seq_len, setting)
    theirs = saved_by_row(spec, batch_size, seq_len, setting)
    paths = sorted({*ours, *theirs})
    return {path: (ours[path], theirs[path]) for path in paths if ours[path] != theirs[path]}
