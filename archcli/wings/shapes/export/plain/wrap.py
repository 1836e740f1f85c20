"""Long lines of code, broken at their outermost brackets."""

from __future__ import annotations

from collections.abc import Iterator

WIDTH = 110


def wrapped(line: str) -> Iterator[str]:
    """A line in as many as it needs; its comment stands above it, or in a function's body."""
    if len(line) <= WIDTH or '"""' in line:
        yield line
        return
    code, _, comment = line.partition("  # ")
    indent = code[: len(code) - len(code.lstrip())]
    heads = code.endswith(":")
    if comment and not heads:
        yield f"{indent}# {comment}"
    yield from broken(code, indent)
    if comment and heads:
        yield f"{indent}    # {comment}"


def broken(code: str, indent: str) -> Iterator[str]:
    """Code with each argument of its longest brackets on a line."""
    spans = brackets(code)
    if len(code) <= WIDTH or not spans:
        yield code
        return
    start, end = max(spans, key=lambda span: span[1] - span[0])
    items = parts(code[start + 1 : end])
    yield code[: start + 1]
    inner = f"{indent}    {code[start + 1 : end]}"
    if len(inner) <= WIDTH:
        yield inner
        items = []
    for item in items:
        last = "," if len(items) > 1 and not item.endswith(",") else ""
        yield from broken(f"{indent}    {item}{last}", f"{indent}    ")
    yield indent + code[end:]


def brackets(code: str) -> list[tuple[int, int]]:
    """Where brackets that stand in no others begin and end."""
    spans, depth, start = [], 0, 0
    for i, sign in enumerate(code):
        if sign in "([":
            start, depth = (i, 1) if depth == 0 else (start, depth + 1)
        elif sign in ")]":
            depth -= 1
            if depth == 0 and i > start + 1:
                spans.append((start, i))
    return spans


def parts(code: str) -> list[str]:
    """The arguments between two brackets."""
    items, depth, start = [], 0, 0
    for i, sign in enumerate(code):
        depth += (sign in "([") - (sign in ")]")
        if sign == "," and depth == 0:
            items.append(code[start:i].strip())
            start = i + 1
    return [item for item in (*items, code[start:].strip()) if item]
