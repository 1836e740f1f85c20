"""A compiled model, for real.

One training pass of a tiny model is compiled once, and what was recorded must hold together.
"""

import os
import threading

import pytest
import torch
from torch._dynamo import config as dynamo
from torch._functorch import config as functorch
from torch._inductor import config as inductor
from torch._inductor.codegen.cpp import CppScheduling
from torch._inductor.scheduler import Scheduler

from archcli.errors import ArchError
from archcli.measure.passes import checked_pass
from archcli.modules.spec.request import Request
from archcli.wings.running.profile.reports.one import profile_of
from archcli.wings.running.runtime.profile import compiled as profile_compiled
from archcli.wings.running.runtime.profile.compiled import (
    check_compiler,
    compile_work,
    reason,
    record_compiled,
)
from archcli.wings.running.runtime.profile.work import prepare
from archcli.wings.serving.recorded.classes import FUSED_KERNELS, UNATTRIBUTED, TimeClass
from archcli.wings.serving.recorded.operations import JOIN
from recordings import MODELS, question


def state():
    """What compiling must leave as it was; torch's own caches of functions and its atexit hooks apart."""
    settings = [config.get_config_copy() for config in (dynamo, functorch, inductor)]
    hooks = vars(CppScheduling)["codegen_comment"], vars(Scheduler)["codegen_extern_call"]
    return (
        settings,
        hooks,
        dict(os.environ),
        torch.get_num_threads(),
        threading.active_count(),
        sorted(os.listdir()),  # noqa: PTH208
    )


@pytest.fixture(scope="session")
def compiled():
    """(the counted pass, what was recorded of it compiled, whether all was as before)."""
    counted = checked_pass(MODELS["gpt2"], question("train"))
    profile_compiled.check_compiler("cpu")
    before = state()
    work = prepare(MODELS["gpt2"], counted.request)
    recording = record_compiled(work, "cpu", 2, lambda what, done, total: None, trace="tiny")
    return counted, recording, (before, state())


@pytest.mark.long
def test_the_trace_shows_every_kernel_that_was_compiled(compiled):
    _, recording, _ = compiled
    assert recording.differing == ()
    assert recording.counted == recording.executed == len(recording.compiled.kernels) > 0
    assert len(recording.compiled.graphs) == 2  # forward and backward


@pytest.mark.long
def test_every_kernel_has_operations_and_a_class(compiled):
    _, recording, _ = compiled
    paths = {each.path for each in recording.ran}
    for kernel in recording.compiled.kernels:
        assert set(kernel.key.path.split(JOIN)) <= paths
        assert kernel.op_class in set(TimeClass)
    assert {timed.path for timed in recording.timed} == {
        kernel.key.path for kernel in recording.compiled.kernels
    }


@pytest.mark.long
def test_every_operation_that_computes_is_in_a_kernel(compiled):
    counted, recording, _ = compiled
    assert recording.compiled.missing == recording.compiled.shared == ()
    held = {path for kernel in recording.compiled.kernels for path in kernel.key.path.split(JOIN)}
    assert {row.path for row in counted.rows if any(part.flops for part in row.parts)} <= held


@pytest.mark.long
def test_products_are_kernels_of_their_own(compiled):
    _, recording, _ = compiled
    classes = {
        (kernel.key.path, kernel.key.phase): kernel.op_class
        for kernel in recording.compiled.kernels
        if kernel.library
    }
    for name in ("layers.0.attention.q_proj", "layers.1.ffn.down_proj", "lm_head"):
        assert classes[name, "forward"] == classes[name, "backward"] == "contraction"
    assert classes["layers.0.attention.attend", "forward"] == "fused_attention"


@pytest.mark.long
def test_a_norm_is_fused_with_the_residual_before_it(compiled):
    _, recording, _ = compiled
    found = {
        kernel.key.path: kernel.op_class
        for kernel in recording.compiled.kernels
        if kernel.key.phase == "forward"
    }
    assert found["layers.1.attention_residual + layers.1.ffn_norm"] == FUSED_KERNELS
    assert found["layers.0.ffn.activation"] == found["layers.1.ffn.activation"] == "elementwise"


@pytest.fixture(scope="session")
def report(compiled):
    counted, recording, _ = compiled
    return profile_of(MODELS["gpt2"], counted, recording, {"dtype": "fp32", "phase": "forward"})


@pytest.mark.long
def test_groups_cost_what_is_counted(compiled, report):
    counted, _, _ = compiled
    assert sum(row["flops"] for row in report.rows) == sum(counted.flops())
    assert sum(entry["flops"] for entry in report.totals["by_class"].values()) == sum(counted.flops())
    lines = {row["path"]: row for row in report.rows}
    rows = {row.path: row for row in counted.rows}

    def forward(*paths):
        return sum(part.flops for path in paths for part in rows[path].parts)

    def backward(*paths):
        return sum(back.flops for path in paths for part in rows[path].parts for back in part.backward)

    # of the layers, only the last's residual goes to the final norm
    fused = lines["{layers.*.ffn_residual, final_norm}"]
    assert fused["operators"] == ["layers.*.ffn_residual", "final_norm"]
    assert fused["flops"] == forward("layers.0.ffn_residual", "final_norm")
    assert lines["final_norm"]["flops"] == backward("final_norm")


@pytest.mark.long
def test_shares_add_up(report):
    shares = {name: entry["time_share"] for name, entry in report.totals["by_class"].items()}
    assert sum(shares.values()) == pytest.approx(1.0)
    assert shares[FUSED_KERNELS] > 0
    assert UNATTRIBUTED in shares


@pytest.mark.long
def test_the_report_says_what_was_compiled(compiled, report):
    _, recording, _ = compiled
    found = report.totals["compiled"]
    assert (found["graphs"], found["kernels"]) == (2, recording.executed)
    assert found["kernels_of_several_operators"] == sum(
        JOIN in kernel.key.path for kernel in recording.compiled.kernels
    )
    assert found["operators_in_no_kernel"] == []
    assert any("whose time is not split" in note for note in report.notes)


@pytest.mark.long
def test_the_trace_names_what_a_kernel_holds(compiled):
    _, recording, _ = compiled
    names = {event["name"] for event in recording.trace["traceEvents"] if event.get("cat") == "operator"}
    assert {kernel.key.path for kernel in recording.compiled.kernels} == names


@pytest.mark.long
def test_everything_is_as_before(compiled):
    _, _, (before, after) = compiled
    for was, now in zip(before, after, strict=True):
        assert was == now


def test_a_missing_compiler_is_told_in_a_line():
    with (
        inductor.patch({"cpp.cxx": (None, "no-such-compiler")}),
        pytest.raises(ArchError, match=r"needs a C\+\+ compiler.*install g\+\+.*CXX"),
    ):
        check_compiler("cpu")


def test_a_gpu_is_refused():
    with pytest.raises(ArchError, match="on a CPU alone, not on cuda"):
        check_compiler("cuda")


def test_a_torch_that_cannot_annotate_is_refused(monkeypatch):
    monkeypatch.delattr(torch.fx.traceback, "annotate")
    with pytest.raises(ArchError, match=r"cannot tell compiled kernels apart; torch 2\.9 on Linux can"):
        check_compiler("cpu")


@pytest.mark.long
def test_what_cannot_be_compiled_says_why():
    work = prepare(MODELS["adaptive"], Request("train", 2, 10))
    before = state()
    with pytest.raises(ArchError, match=r"torch\.compile cannot take this pass: Could not guard"):
        compile_work(work, {})
    for was, now in zip(before, state(), strict=True):
        assert was == now


REASONS = {
    "the first line": ("No graph.\n\nfrom user code", "No graph."),
    "an error of C++": (
        "C++ compile error\n\nCommand:\ng++ x.cpp\n\nOutput:\nx.h:8:10: fatal error: Python.h: no\n",
        "x.h:8:10: fatal error: Python.h: no",
    ),
    "of whom it is told": ("backend='inductor' raised:\nTypeError: no\n", "TypeError: no"),
    "none": ("", "RuntimeError"),
}


@pytest.mark.parametrize(("text", "line"), REASONS.values(), ids=REASONS)
def test_the_reason_is_one_line(text, line):
    assert reason(RuntimeError(text)) == line
