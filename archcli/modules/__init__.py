"""The core module library: what architectures are made of.

A class's fields are its YAML keys; its `forward` is stated once, in ops.

A name is imported when it is first asked for: a model loads the files of what it is made of and no others.
listing.json says which file has it, and __init__.pyi says so to type checkers and editors.
"""

from archcli.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
__all__ = list(__dir__())
