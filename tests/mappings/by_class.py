"""What `--by-class` counts of every type of transformers' mapping, beside what torch counts of its class.

Regenerates `by_class.jsonl`, one row a type, from the type's default config. It takes hours: rows that are
there stay, unless their types are named.

    python tests/mappings/by_class.py [--again] [MODEL_TYPE …]      # --again: those without FLOPs

`params` and `flops` are archcli's answer (all pairs of a mask), with the `input` that it made; `class_params`
and `torch` those of the class built here, by torch's FlopCounterMode, on the `witness`: meta, fake tensors
or a CPU. Experts run as batched products and attention in its parts, for which torch has formulas. What is
missing has its reason in `no_build`, `no_run` or `no_witness`; `no_formula` names products that torch counts
as none.
"""

import json
import logging
import os
import resource
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

os.environ.update({"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"})

import torch
import transformers
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

from archcli.errors import ArchError, UndescribedError
from archcli.wings.running.api import by_class

TABLE = Path(__file__).with_name("by_class.jsonl")
SHOWN = 140
DOOR_SECONDS, WITNESS_SECONDS, MOST_BYTES = 180, 90, 12 * 2**30
MOST_PARAMS, MOST_FLOPS = 10**9, 10**12
"""The largest class that a CPU runs as a witness, a minute on one core."""

Row = dict[str, Any]


class TimeUp(BaseException):
    """The time for a type is over; no library catches it."""


def _time_up(*_: Any) -> None:
    raise TimeUp("takes too long")


def _limit(seconds: int) -> None:
    """Let TimeUp be raised after so many seconds of a core; never after 0."""
    signal.setitimer(signal.ITIMER_PROF, seconds)


def row_of(kind: str) -> Row:
    """The answer of archcli and of torch for one type."""
    row: Row = {"type": kind, "base": kind in MODEL_MAPPING_NAMES}
    signal.signal(signal.SIGPROF, _time_up)
    _limit(DOOR_SECONDS)
    try:
        call = _ask(kind, row)
    finally:
        _limit(0)
    if "params" in row:
        _witness(kind, call, row)
    return row


def _ask(kind: str, row: Row) -> Any:
    """Add what archcli counts to a row; the call that it counted."""
    calls: list[Any] = []

    def answer(command: str, call: Any, question: Any) -> Any:
        calls.append(call)
        return asked(command, call, question)

    asked, unknown = by_class.answer, UndescribedError("not described")
    unknown.config = {"model_type": kind}
    with patch.object(by_class, "answer", answer):
        try:
            report = by_class.of_python("summary", unknown, allow_uncounted=True)
        except (ArchError, TimeUp) as failure:
            _limit(DOOR_SECONDS)  # a class that runs too long has parameters all the same
            try:
                report = by_class.of_python("params", unknown)
            except (ArchError, TimeUp) as error:
                row["no_build"] = said(error)
                return None
            row["no_run"] = said(failure)
    row |= {"class": type(calls[-1].module).__name__, "params": report.totals["params"]}
    if "no_run" in row:
        return None
    row |= {"flops": report.totals["executed_flops"], "input": " ".join(report.inputs["input"])}
    if report.inputs["run_on"] != "meta":
        row["run_on"] = report.inputs["run_on"]
    if report.totals["uncounted"]:
        row["uncounted"] = sorted({it["op"] for it in report.totals["uncounted"]})
    return calls[-1]


def _witness(kind: str, call: Any, row: Row) -> None:
    """Add what the class itself has, and what torch counts of it on the first kind of tensors that runs."""
    failures = []
    for name, build in WITNESSES.items():
        if name == "cpu" and max(row["params"] / MOST_PARAMS, row.get("flops", 0) / MOST_FLOPS) > 1:
            failures.append("cpu: too large")
            continue
        _limit(WITNESS_SECONDS)
        try:
            for model, inputs in build(kind, row["class"], call.kwargs if call else {}):
                row.setdefault("class_params", sum(weight.numel() for weight in model.parameters()))
                if call is None:
                    return
                with Products() as products:
                    row |= {"torch": torch_flops(model, inputs), "witness": name}
                row |= {"no_formula": sorted(products.names)} if products.names else {}
        except (Exception, TimeUp) as error:  # noqa: BLE001 - what any class may raise
            failures.append(f"{name}: {said(error)}")
        finally:
            _limit(0)
        if row.get("torch") == row.get("flops"):
            return
    if "torch" not in row:
        row["no_witness"] = "; ".join(failures)


class Products(TorchDispatchMode):
    """Kernels of products that ran and that torch's counter has no formula for."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a kernel, and write its name down."""
        name = func.overloadpacket.__name__
        if name in UNCOUNTED:
            self.names.add(name)
        return func(*args, **(kwargs or {}))


UNCOUNTED = ("mkldnn_rnn_layer", "_cdist_forward", "_euclidean_dist")
"""Layers of an LSTM as one kernel of a CPU, and distances to the entries of a codebook."""


def torch_flops(model: Any, inputs: Row) -> int:
    """The FLOPs of a forward by torch's own counter."""
    model.requires_grad_(False)  # it asks for a gradient's function where a view of a weight could have one
    torch.manual_seed(0)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(**inputs)
    return counter.get_total_flops()


def built(kind: str, name: str, attention: str | None = None) -> Any:
    """The class of a type's default config."""
    config, made = transformers.CONFIG_MAPPING[kind](), getattr(transformers, name)
    torch.manual_seed(0)
    try:
        forms = {"attn_implementation": attention, "experts_implementation": "batched_mm"}
        return made._from_config(config, **forms).eval()
    except (AttributeError, TypeError, ValueError):
        return made(transformers.CONFIG_MAPPING[kind]()).eval()


Built = Iterator[tuple[Any, Row]]


def _meta(kind: str, name: str, inputs: Row, attention: str | None = None) -> Built:
    with torch.device("meta"):
        model = built(kind, name, attention)
        yield model, {key: value.to("meta") for key, value in inputs.items()}


def _eager(kind: str, name: str, inputs: Row) -> Built:
    yield from _meta(kind, name, inputs, "eager")


def _fake(kind: str, name: str, inputs: Row) -> Built:
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fakes = {
            key: torch.empty(value.shape) if value.is_meta else mode.from_tensor(value)
            for key, value in inputs.items()
        }
        yield built(kind, name), fakes


def _cpu(kind: str, name: str, inputs: Row) -> Built:
    yield (
        built(kind, name),
        {key: torch.rand(value.shape) if value.is_meta else value for key, value in inputs.items()},
    )


WITNESSES: dict[str, Callable[[str, str, Row], Built]] = {
    "meta": _meta,
    "meta, eager": _eager,
    "fake": _fake,
    "cpu": _cpu,
}


def said(error: BaseException) -> str:
    """The first line of an error, without the folders of this machine."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return " ".join(word.rpartition("site-packages/")[2] for word in lines[0].split())[:SHOWN]


def apart(kind: str) -> Row:
    """The row of a type by a process of its own, which may die of its memory."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
            os.write(write, json.dumps(row_of(kind)).encode())
        finally:
            os._exit(0)  # whatever it raises, the loop is the parent's
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    dead = {"type": kind, "base": kind in MODEL_MAPPING_NAMES, "no_build": "its process dies"}
    return json.loads(text) if text else dead


def rows() -> dict[str, Row]:
    """The rows of the table by type."""
    lines = TABLE.read_text("utf-8").splitlines() if TABLE.exists() else []
    return {row["type"]: row for row in map(json.loads, lines)}


def write(table: dict[str, Row]) -> None:
    """Write the rows, in the order of the types' names."""
    lines = [json.dumps(table[kind], ensure_ascii=False) for kind in sorted(table)]
    TABLE.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def summary(table: dict[str, Row]) -> Iterator[str]:
    """How many rows end how, of all types and of those with a base class."""
    for name, kept in (("all", [*table.values()]), ("base", [row for row in table.values() if row["base"]])):
        counts = Counter(verdict(row) for row in kept)
        yield f"{name}: {len(kept)}: " + ", ".join(f"{count} {what}" for what, count in counts.most_common())


def verdict(row: Row) -> str:
    """How a row ends."""
    for reason in ("no_build", "no_run", "no_witness"):
        if reason in row:
            return reason
    return "equal" if row["torch"] == row["flops"] else "differs"


def main(words: list[str]) -> None:
    """Renew rows, and print how many end how."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    table = rows()
    there = {kind for kind, row in table.items() if "--again" not in words or "flops" in row}
    kinds = [word for word in words if word != "--again"]
    kinds = kinds or [kind for kind in CONFIG_MAPPING_NAMES if kind not in there]
    row_of("albert")  # its imports are those of all
    for kind in kinds:
        row = apart(kind)
        table = {**rows(), kind: row}
        write(table)
        print(kind, verdict(row), row.get(verdict(row), ""), flush=True)
    print(*summary(table), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
