"""A program run under the watch, with torch.profiler's own reading of each step's trace beside ours.

    python beside_profiler.py OUTPUT.json PROGRAM [ARGUMENT ...]

Writes {"ours": shares of the traced steps by operation, "theirs": the same by torch's own tree of the trace,
"left": operations of torch's tree without an operation of ours around them}.
"""

import importlib
import json
import runpy
import sys
from collections import Counter, defaultdict
from pathlib import Path

import torch

from archcli.wings.running.recording.program import Watching
from archcli.wings.running.recording.walk import operation
from archcli.wings.running.runtime.program.watch import Watch


def above(event):
    """The events around one of torch's, from inside outwards."""
    while event.cpu_parent is not None:
        event = event.cpu_parent
        yield event


def is_operation(name, known):
    """Whether a range is an operation or a compiled kernel: a range `div` of Python's own is none."""
    return operation(name) in known and ("::" in name or not hasattr(torch.ops.aten, name))


class Beside(Watch):
    """A watch that keeps torch's events of each traced step."""

    def __init__(self):
        super().__init__(Watching())
        self.trees, end = [], self.tracer.end

        def keep():
            trace = self.tracer.profiler
            end()
            self.trees.append([*trace.function_events])

        self.tracer.end = keep

    def shares(self):
        """What is written, when the program is over."""
        recording = self.recording()
        ours = defaultdict(float)
        for it in recording.placed:
            ours[it.name] += it.seconds / recording.traced_total_s
        theirs, left = Counter(), set()
        for tree in self.trees:
            # an operation within one of its own name is what that one calls to do the work
            wrappers = {id(x) for event in tree for x in above(event) if x.name == event.name}
            kernels = {
                id(event) for event in tree if is_operation(event.name, ours) and id(event) not in wrappers
            }
            for event in tree:
                if any(id(x) in kernels for x in above(event)):
                    continue
                if id(event) in kernels:
                    theirs[operation(event.name)] += event.cpu_time_total / 1e6 / recording.traced_total_s
                elif "::" in event.name and not event.cpu_children:
                    left.add(event.name)
        return {"ours": ours, "theirs": theirs, "left": sorted(left)}


if __name__ == "__main__":
    output, *sys.argv = sys.argv[1:]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    watch = Beside()
    watch.begin()
    if "compiled" in sys.argv[0]:
        importlib.import_module("torch._inductor.compile_fx")
        watch.compiled.install()
    runpy.run_path(sys.argv[0], run_name="__main__")
    Path(output).write_text(json.dumps(watch.shares()))
