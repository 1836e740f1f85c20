"""The project's own source, read and parsed once in a process."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def sources(folder):
    """The text of each file of Python of a folder, by dotted name."""
    return {module_name(path): path.read_text() for path in sorted((ROOT / folder).rglob("*.py"))}


@cache
def parsed(folder):
    return {name: ast.parse(source) for name, source in sources(folder).items()}


@cache
def nodes(tree):
    """All nodes of a parsed file; a dozen rules walk through the same trees."""
    return tuple(ast.walk(tree))
