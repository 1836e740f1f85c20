"""The closed vocabulary: every forward is written in these operations and no other.

Each op states its output's shape, the weights it owns, what it costs in parts, and how torch does it.

A name is imported when it is first asked for. listing.json says which file has it, and __init__.pyi says so
to type checkers and editors.
"""

from archcli.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
__all__ = list(__dir__())
