"""Large blocks kept by glibc's allocator: its settings are read once, so a process starts again.

Without them every large tensor is mapped anew and its pages are faulted in, seen to take 19 to 32% of a
training step on a CPU. Only the new process has the settings.
"""

from __future__ import annotations

import os
import sys

from archcli.commands.profile.restart import is_program, program

SETTINGS = {
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TRIM_THRESHOLD_": "100000000000",
    "THP_MEM_ALLOC_ENABLE": "1",
}


def keep_large_blocks(choice: str, device: str) -> None:
    """Start this command again with the settings, unless they are set: on Linux, a CPU, as a program."""
    if choice != "reuse" or device != "cpu" or sys.platform != "linux" or SETTINGS.keys() & os.environ.keys():
        return
    if not is_program():
        return
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [*program(), *sys.argv[1:]], {**os.environ, **SETTINGS})  # noqa: S606
