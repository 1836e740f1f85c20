"""Parameters that a model or a layer stores and no pass reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from archcli.graph import Tensor
from archcli.modules.spec.base import Conflict, Module
from archcli.ops import Parameter

UNREAD = "unread"
"""Their group of rows."""


class Holder(Module):
    """Base of modules that may hold parameters besides those that a pass reads.

    `unread` are such parameters by name, with how many numbers each is, or its shape; `unread_frozen` names
    those of them that are not trained (ERNIE 4.5 VL's biases of routing).
    """

    unread: Mapping[str, int | tuple[int, ...]] = {}
    unread_frozen: tuple[str, ...] = ()

    def hold(self, x: Tensor) -> None:
        """Declare the unread parameters on the tape of x, where weights are declared."""
        tape = x.tape.declaring() if self.unread else None
        if tape is None:
            return
        for name, size in self.unread.items():
            shape = (size,) if isinstance(size, int) else tuple(size)
            trained = name not in self.unread_frozen
            tape.weight(Parameter(name, shape), Tensor(tape, x.value), group=UNREAD, trained=trained)

    def check(self) -> Iterator[Conflict]:
        """Conflicts: unread parameters without a size, or without a plain name."""
        yield from super().check()
        for name, size in self.unread.items():
            sizes = (size,) if isinstance(size, int) else size
            if not sizes or min(sizes) < 1 or not name.isidentifier():
                what = f"unread {name!r} needs a size above 0 and a plain name"
                yield Conflict("unread-size", "unread", what, "mend it")
        for name in self.unread_frozen:
            if name not in self.unread:
                what = f"unread_frozen {name!r} is not among the unread"
                yield Conflict("unread-frozen", "unread_frozen", what, "state its size in unread")
