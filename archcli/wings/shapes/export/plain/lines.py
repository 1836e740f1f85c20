"""The lines of a module's forward: its statements with names, and equal lines as a loop."""

from __future__ import annotations

import keyword
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from archcli.errors import ArchError
from archcli.wings.shapes.export.plain.folding import folded
from archcli.wings.shapes.export.plain.loops import Loop
from archcli.wings.shapes.export.plain.numbers import ATOM, code_of
from archcli.wings.shapes.export.plain.scope import CodeScope
from archcli.wings.shapes.export.plain.traced import PendingLine, WrittenTensor, arguments, reads

LONGEST, NESTED = 78, 60
"""Characters of a line, and of an expression within another."""
SEPARATE = frozenset({"q", "k", "v"})
"""Names of tensors that have a line of their own."""
TOKEN = re.compile("\x02(\\w+)\x03")
DIMS = ("B", "T", "S", "Q")


class CodeLine(NamedTuple):
    """A line of code and its comment."""

    code: str
    comment: str = ""

    def __str__(self) -> str:
        return f"{self.code}  # {self.comment}" if self.comment else self.code


def settle(scope: CodeScope, returns: list[WrittenTensor]) -> list[WrittenTensor]:
    """Keep the statements that the results are computed from; returns the parameters that they read."""
    needed = {id(x) for x in returns}
    kept = []
    for statement in reversed(scope.every or scope.statements):
        every = statement.every if isinstance(statement, Loop) else statement.outs
        outs = [x for x in every if id(x) in needed]
        if not outs:
            continue
        if isinstance(statement, Loop):
            settle_loop(statement, outs)
        elif statement.call is not None:
            _settle_call(statement, outs)
        kept.append(statement)
        needed |= {id(x) for x in reads(statement)}
    scope.every = scope.every or scope.statements
    scope.statements, scope.returns, scope.settled = kept[::-1], returns, True
    scope.used = [p for p in scope.params if id(p) in needed]
    scope.wanted = needed
    return scope.used


def _settle_call(statement: PendingLine, outs: list[WrittenTensor]) -> None:
    """Make a call's code of the parameters that its module reads and the results that are read of it."""
    (name, inputs), child = statement.parts, statement.call
    if not name:
        # a function is written once, with all that it returns
        outs = statement.outs
    params = child.used if not name else settle(child, [x.source for x in outs])
    sources = dict(zip(map(id, child.order), inputs, strict=True)) if inputs else {}
    passed = tuple(sources.get(id(p), p.source) for p in params)
    name = f"self.{indexed(name)}" if name else function(child)
    more = "".join(f", \x02{size}\x03" for size in child.sizes)
    statement.parts = [f"{name}(", *arguments(passed, {}), f"{more})"]
    statement.outs, statement.keys = outs, tuple(f"[{i}]" for i in range(len(outs))) if outs[1:] else ("",)


def settle_loop(loop: Loop, outs: list[WrittenTensor]) -> None:
    """Keep what a loop's results need of its body, and of what it carries."""
    body, wanted = loop.call, list({id(x.source): x.source for x in outs}.values())
    while True:
        read = {id(p.source) for p in settle(body, wanted)}
        loop.kept = [(x, y) for x, y in loop.carried if id(x) in read]
        missing = [y for _, y in loop.kept if all(y is not z for z in wanted)]
        if not missing:
            break
        wanted += missing
    loop.used = [(sequence, item) for sequence, item in loop.items if id(item) in read]
    inside = {id(x) for _, x in loop.used}
    outer = [p.source for p in body.used if id(p.source) not in inside]
    loop.outs = outs
    loop.parts = [(x, ATOM) for x in (*(sequence for sequence, _ in loop.used), *outer)]
    for _, out in loop.kept:
        if all(x.every or x.source is not out for x in outs):
            WrittenTensor(loop.scope, loop, out.value).source = out
    for x in loop.outs:
        x.hint = x.hint or next((init.hint for init, out in loop.kept if out is x.source), "") or "state"


def indexed(path: str) -> str:
    """A path of modules as code: layers.0.ffn is layers[0].ffn."""
    return re.sub(r"\.(\d+)", r"[\1]", path)


class ForwardLines:
    """The forward of a settled scope as lines: which statements stand in others, and each tensor's name."""

    def __init__(self, scope: CodeScope) -> None:
        self.scope = scope
        self.uses = Counter(id(x) for s in scope.statements for x in reads(s))
        self.uses.update(id(x) for x in scope.returns)
        self.inlined: set[int] = set()
        # a local variable would hide the function
        self.called = {str(s.parts[0])[:-1] for s in scope.statements if s.call is not None}
        self.names: dict[int, str] = {}
        self._returned = PendingLine(arguments(tuple(scope.returns), {}))
        self._sizes: dict[int, int] = {}
        for statement in (*scope.statements, self._returned):
            self._choose(statement)
        self.rows = [s for s in scope.statements if id(s) not in self.inlined]
        self._last = self._last_reads()

    def _wanted(self, statement: PendingLine) -> list[WrittenTensor]:
        return [x for x in statement.outs if id(x) in self.scope.wanted]

    def _choose(self, statement: PendingLine) -> None:
        """Choose which of the statements that this one reads stand within it."""
        size = sum(len(_shown(part)) for part in statement.parts if isinstance(part, str))
        size += sum(len(x.hint) or 1 for x in reads(statement))
        hint = statement.outs[0].hint if statement.outs else ""
        for x in reads(statement):
            inner = x.statement
            more = self._sizes.get(id(inner), LONGEST)
            separate = x.hint in SEPARATE and x.hint != hint and inner.noted
            fits = more <= (LONGEST if statement is self._returned else NESTED) and size + more <= LONGEST
            # a layer has a line of its own, and what a loop reads at each step is computed before it
            numbered = inner.call is not None and "[" in str(inner.parts[0])
            numbered |= isinstance(statement, Loop) and all(
                x is not sequence for sequence, _ in statement.used
            )
            numbered |= isinstance(inner, Loop)
            if inner.parts and self._only(inner) and fits and not separate and not numbered:
                self.inlined.add(id(inner))
                size += more - (len(x.hint) or 1)
        self._sizes[id(statement)] = size

    def _only(self, statement: PendingLine) -> bool:
        """Whether one result of a statement is read, once."""
        wanted = self._wanted(statement)
        return len(wanted) == 1 and self.uses[id(wanted[0])] == 1

    def _last_reads(self) -> dict[int, int]:
        """The last line that reads each tensor, directly or within another statement."""
        last: dict[int, int] = {}

        def visit(statement: PendingLine, at: int) -> None:
            for x in reads(statement):
                last[id(x)] = max(last.get(id(x), -1), at)
                if id(x.statement) in self.inlined:
                    visit(x.statement, at)

        for at, row in enumerate((*self.rows, self._returned)):
            visit(row, at)
        return last

    def lines(self) -> list[CodeLine]:
        """The lines of the body, the last of which returns."""
        held: dict[str, WrittenTensor] = {}
        for p in self.scope.used:
            self._name(p, held, -1)
        lines = []
        for at, row in enumerate(self.rows):
            if isinstance(row, Loop):
                lines += self._loop(row, held, at)
                continue
            wanted, text = self._wanted(row), self._text(row)
            for x in wanted:
                self._name(x, held, at)
            shown = row.outs if len(wanted) > 1 else wanted
            key = row.keys[place(wanted[0])] if len(wanted) == 1 and len(row.keys) > 1 else ""
            left = ", ".join(self.names.get(id(x), "_") for x in shown)
            shape = shape_of(wanted[0].shape) if row.noted else ""
            lines.append(CodeLine(f"{left} = {text}{key}", shape))
        lines.append(CodeLine(f"return {self._text(self._returned)}"))
        return lines

    def _loop(self, loop: Loop, held: dict[str, WrittenTensor], at: int) -> list[CodeLine]:
        """The lines of a loop that calls its body."""
        body, lists = loop.call, [x for x in loop.outs if x.every]
        # the loop's first line reads its inputs after these names are passed
        for x in lists:
            self._name(x, held, at - 1)
        lines = [CodeLine(f"{self.names[id(x)]} = []") for x in lists]
        named = {}
        for init, out in loop.kept:
            final = next(x for x in loop.outs if x.source is out and not x.every)
            before = self._expression(init, ATOM)
            self._name(final, held, at - 1)
            named[id(init)] = named[id(out)] = self.names[id(final)]
            lines += [CodeLine(f"{named[id(out)]} = {before}")] if before != named[id(out)] else []
        taken = {name for name, x in held.items() if self._last.get(id(x), -1) >= at}
        taken |= {self.names[id(p)] for p in self.scope.used}
        taken |= {*named.values(), *(self.names[id(x)] for x in lists)}
        for x in (*(item for _, item in loop.used), *body.returns):
            named.setdefault(id(x), _fresh(x.hint or "y", taken))
        passed = [named.get(id(p.source)) or self._expression(p.source, ATOM) for p in body.used]
        sequences = [self._expression(sequence, ATOM) for sequence, _ in loop.used]
        over = f"zip({', '.join(sequences)})" if sequences[1:] else sequences[0]
        results, call = ", ".join(named[id(x)] for x in body.returns), function(body, "_step")
        lines.append(CodeLine(f"for {', '.join(named[id(item)] for _, item in loop.used)} in {over}:"))
        passed += [f"\x02{size}\x03" for size in body.sizes]
        lines.append(CodeLine(f"    {results} = {call}({', '.join(passed)})"))
        return [*lines, *(CodeLine(f"    {self.names[id(x)]}.append({named[id(x.source)]})") for x in lists)]

    def _name(self, x: WrittenTensor, held: dict[str, WrittenTensor], at: int) -> None:
        base = x.hint if x.hint.isidentifier() and not keyword.iskeyword(x.hint) else "y"
        names = (name for name in (base, *(f"{base}_{i}" for i in range(2, 99))) if name not in self.called)
        name = next(name for name in names if name not in held or self._free(held[name], x, at))
        held[name], self.names[id(x)] = x, name

    def _free(self, holder: WrittenTensor, x: WrittenTensor, at: int) -> bool:
        """Whether the name of a tensor is free for another one, which is made at a line."""
        together = holder.statement is x.statement and bool(x.statement.parts)
        return self._last.get(id(holder), -1) <= at and not together

    def _text(self, statement: PendingLine) -> str:
        return "".join(part if isinstance(part, str) else self._expression(*part) for part in statement.parts)

    def _expression(self, x: WrittenTensor, rank: int) -> str:
        statement = x.statement
        if id(statement) not in self.inlined:
            return self.names[id(x)]
        text = self._text(statement)
        if len(statement.keys) > 1:
            return text + statement.keys[place(x)]
        return f"({text})" if statement.rank < rank else text


def place(x: WrittenTensor) -> int:
    """Which result of its statement a tensor is."""
    return next(i for i, out in enumerate(x.statement.outs) if out is x)


def _fresh(base: str, taken: set[str]) -> str:
    """A name that is not taken, and is from now on."""
    names = (base, *(f"{base}_{i}" for i in range(2, 99)))
    name = next(name for name in names if name not in taken)
    taken.add(name)
    return name


def _shown(text: str) -> str:
    return TOKEN.sub("D_MODEL", text)


def shape_of(shape: Sequence[Any]) -> str:
    """A shape as a comment: [B, T, D_MODEL]."""
    return f"[{', '.join(code_of(n) for n in shape)}]"


def forward(scope: CodeScope, title: str = "forward") -> list[str]:
    """The source of a scope's forward, or of a function of that name."""
    body_lines = ForwardLines(scope)
    lines = body_lines.lines()
    names = [body_lines.names[id(p)] for p in scope.used]
    for p, name in zip(scope.used, names, strict=True):
        for axis, size in enumerate(p.shape):
            if "\x02" in (text := code_of(size)) and text[1:-1] not in DIMS and _varies(text):
                lines = [
                    line._replace(code=line.code.replace(text, f"{name}.shape[{axis}]")) for line in lines
                ]
    places = _places(scope, names)
    scope.sizes = [dim for dim in _dims(lines) if dim not in places]
    if scope.sizes and title == "forward":
        what = f"{scope.path} is passed no tensor with the size {scope.sizes[0]}"
        raise ArchError(f"{what}: it cannot be written as plain torch yet")
    wanted = [dim for dim in _dims(lines) if dim in places]
    first = [_sizes(wanted, places)] if wanted else []
    shapes = ", ".join(f"{name} {shape_of(p.shape)}" for p, name in zip(scope.used, names, strict=True))
    head = f"def {title}({', '.join(['self'] * (title == 'forward') + names + scope.sizes)}):"
    body = [*first, *folded([str(line) for line in lines], layer_counts(scope))]
    return [f"{head}  # {shapes}" if shapes else head, *(f"    {line}" for line in body)]


def function(scope: CodeScope, end: str = "") -> str:
    """The name of the function that runs an operation without weights; equal ones are one function."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(scope.what).__name__).lower() + end
    lines = forward(scope, name)
    # a number of a layer is handed on: layers that differ by it have one function
    for token in {token for line in lines for token in TOKEN.findall(line) if token.startswith("l")}:
        lines = [line.replace(f"\x02{token}\x03", "layer") for line in lines]
        lines[0] = lines[0].replace("):", ", layer):", 1)
        scope.sizes = [*scope.sizes, token]
    key = tuple(line.partition("  # ")[0] for line in lines)
    if key not in scope.functions:
        number = 1 + sum(
            re.match(rf"def {name}(_\d+)?\(", text[0]) is not None for text, _ in scope.functions.values()
        )
        lines[0] = lines[0].replace(f"def {name}(", f"def {name}_{number}(") if number > 1 else lines[0]
        scope.functions[key] = lines, scope.what
    known, _ = scope.functions[key]
    known[:] = [common(a, b) for a, b in zip(known, lines, strict=True)]
    title: str = known[0][4:]
    return title.partition("(")[0]


def common(line: str, twin: str) -> str:
    """A line with its comment, in which sizes that differ from those of its twin are dots."""
    code, sign, comment = line.partition("  # ")
    sizes = zip(
        re.split(r"([\[\], ]+)", comment), re.split(r"([\[\], ]+)", twin.partition("  # ")[2]), strict=False
    )
    return code + sign + "".join(a if a == b else "…" for a, b in sizes)


def layer_counts(scope: CodeScope) -> Counter[str]:
    """How many modules each list of the scope's has."""
    return Counter(name.rpartition(".")[0] for name in scope.parts)


def _varies(text: str) -> bool:
    return any(name in DIMS for name in TOKEN.findall(text))


def _dims(lines: list[CodeLine]) -> list[str]:
    """The sizes of a pass that the lines name."""
    known = {name for line in lines for name in TOKEN.findall(line.code)}
    return [dim for dim in DIMS if dim in known]


def _places(scope: CodeScope, names: list[str]) -> dict[str, tuple[str, int]]:
    """By size of a pass: the parameter that has it, and on which axis."""
    places: dict[str, tuple[str, int]] = {}
    for p, name in zip(scope.used, names, strict=True):
        for axis, size in enumerate(p.shape):
            places.setdefault(code_of(size)[1:-1], (name, axis))
    return places


def _sizes(wanted: list[str], places: dict[str, tuple[str, int]]) -> str:
    """The line that reads batch and length off the parameters."""
    if (
        wanted == ["B", "T"]
        and [places[dim][1] for dim in wanted] == [0, 1]
        and places["B"][0] == places["T"][0]
    ):
        return f"B, T = {places['B'][0]}.shape[:2]"
    values = ", ".join(f"{places[dim][0]}.shape[{places[dim][1]}]" for dim in wanted)
    return f"{', '.join(wanted)} = {values}"
