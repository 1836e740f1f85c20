"""glibc's allocator told to keep large blocks: it is told by the environment, at the start of a process, so a process starts again.

Without it every large tensor is mapped anew and its pages are faulted in, 19 to 32% of a training step on a CPU as seen. The environment of
whoever calls is left as it is: only the new process has more.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

SETTINGS = {
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TRIM_THRESHOLD_": "100000000000",
    "THP_MEM_ALLOC_ENABLE": "1",
}


def keep_large_blocks(choice: str, device: str) -> None:
    """Start this command again with the settings, where they would help and are not there: on Linux's CPU, asked as a program."""
    if choice != "reuse" or device != "cpu" or sys.platform != "linux" or SETTINGS.keys() & os.environ.keys():
        return
    if not _is_program():
        return
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, "-m", "archcli", *sys.argv[1:]], {**os.environ, **SETTINGS})  # noqa: S606


def _is_program() -> bool:
    """Whether this process is archcli's own: not a test or a notebook that calls its command line."""
    main = sys.modules.get("__main__")
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None) or ""
    return getattr(spec, "name", "") == "archcli.__main__" or Path(file).stem == "archcli"
