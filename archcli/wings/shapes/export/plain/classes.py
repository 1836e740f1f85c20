"""The classes of a file: modules that are equal but for numbers or parts are one class with arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from archcli.wings.shapes.export.plain.folding import MOST
from archcli.wings.shapes.export.plain.lines import DIMS, TOKEN, forward
from archcli.wings.shapes.export.plain.scope import CodeScope


class ClassArgument(NamedTuple):
    """An argument of a class: its name, and its code for each of the scopes that the class stands for."""

    name: str
    codes: tuple[str, ...]


class Class:
    """A class of the file, and the scopes that it stands for."""

    def __init__(self, name: str, lines: list[str]) -> None:
        self.name, self.lines = name, lines
        self.scopes: list[CodeScope] = []
        self.numbers: dict[tuple[str, ...], str] = {}
        self.parts: dict[str, ClassArgument] = {}

    def texts(self, scope: CodeScope) -> list[str]:
        """The code of a scope in which numbers stand."""
        parts = [part for part in scope.parts.values() if isinstance(part, str)]
        return [*parts, *scope.weights.values(), *scope.lines]


class Classes:
    """All classes of a model, parts before the modules that hold them."""

    def __init__(self, fields: dict[str, str]) -> None:
        self.fields = fields
        self.by_text: dict[Any, Class] = {}
        self.of: dict[int, Class] = {}
        self.exact: dict[Any, Class] = {}
        self.names: dict[str, int] = {}

    def add(self, scope: CodeScope) -> None:
        """Add the classes of a scope and of all in it."""
        for part in scope.parts.values():
            if isinstance(part, CodeScope):
                self.add(part)
        # what no forward runs, as layers of multi-token prediction, has the classes of what one runs
        held = tuple((key, p if isinstance(p, str) else id(self.of[id(p)])) for key, p in scope.parts.items())
        exact = type(scope.what), held, tuple(scope.weights.items())
        if not scope.settled and exact in self.exact:
            scope.lines = self.exact[exact].scopes[0].lines
            self.exact[exact].scopes.append(scope)
            self.of[id(scope)] = self.exact[exact]
            return
        scope.lines = forward(scope) if scope.settled else []
        name = base_name(scope)
        parts = tuple(
            (key, "@" if isinstance(p, CodeScope) else general(p)) for key, p in scope.parts.items()
        )
        weights = tuple((key, general(text)) for key, text in scope.weights.items())
        # a list of layers is written out once
        alone = id(scope) if any("." in key for key in scope.parts) else None
        key = name, tuple(map(general, scope.lines)), parts, weights, alone
        if key not in self.by_text:
            self.names[name] = number = self.names.get(name, 0) + 1
            self.by_text[key] = Class(name if number == 1 else f"{name}{number}", scope.lines)
        self.by_text[key].scopes.append(scope)
        self.of[id(scope)] = self.by_text[key]
        self.exact.setdefault(exact, self.by_text[key])

    def fill(self) -> None:
        """Find the arguments of all classes: numbers and parts in which their scopes differ."""
        for known in self.by_text.values():
            tokens = [TOKEN.findall(" ".join(known.texts(scope))) for scope in known.scopes]
            for codes in zip(*tokens, strict=True):
                if len(set(codes)) > 1 and codes not in known.numbers:
                    taken = set(known.numbers.values())
                    field = self.fields.get(codes[0], "layer")
                    names = (field, *(f"{field}_{i}" for i in range(2, 9)))
                    known.numbers[codes] = next(name for name in names if name not in taken)
            for name, part in known.scopes[0].parts.items():
                codes = tuple(self.maker(scope.parts[name]) for scope in known.scopes)
                if isinstance(part, CodeScope) and len(set(codes)) > 1:
                    known.parts[name] = ClassArgument(name, codes)

    def maker(self, part: Any) -> str:
        """The code that makes a part."""
        if not isinstance(part, CodeScope):
            return str(part)
        known = self.of[id(part)]
        at = next(i for i, scope in enumerate(known.scopes) if scope is part)
        numbers = [f"\x02{codes[at]}\x03" for codes in known.numbers]
        return f"{known.name}({', '.join([*numbers, *(slot.codes[at] for slot in known.parts.values())])})"

    def source(self, known: Class) -> str:
        """The source of a class."""
        scope = known.scopes[0]
        arguments = [*known.numbers.values(), *(name for name in known.parts)]
        tokens = {codes[0]: name for codes, name in known.numbers.items()}
        kept = {
            tokens[t] for line in scope.lines for t in TOKEN.findall(line.partition("#")[0]) if t in tokens
        }
        head = f"def __init__({', '.join(['self', *arguments])}):"
        init = ["super().__init__()", *(f"self.{name} = {name}" for name in tokens.values() if name in kept)]
        init += [argued(line, tokens) for line in self._parts(known, scope)]
        body = [argued(line, tokens, "self.") for line in scope.lines]
        doc = first_line(scope.what)
        lines = [f"class {known.name}(nn.Module):", f'    """{doc}"""', "", f"    {head}"]
        lines += [f"        {line}" for line in init]
        lines += ["", *(f"    {line}" for line in body)] if body else []
        return "\n".join(lines) + "\n"

    def _parts(self, known: Class, scope: CodeScope) -> Iterator[str]:
        for name, text in scope.weights.items():
            if text.startswith("buffer"):
                yield f'self.register_buffer("{name}", {text.removeprefix("buffer")[1:-1]})'
            else:
                yield f"self.{name} = {text}"
        lists: dict[str, list[str]] = {}
        for name, part in scope.parts.items():
            stem = name.rpartition(".")[0]
            if stem:
                lists.setdefault(stem, []).append(self.maker(part))
            else:
                yield f"self.{name} = {name if name in known.parts else self.maker(part)}"
        for stem, items in lists.items():
            yield f"self.{stem} = nn.ModuleList({repeated(items)})"


def general(text: str) -> str:
    """Code without the names of its numbers."""
    return TOKEN.sub(lambda match: match[0] if match[1] in DIMS else "@", text)


def argued(line: str, names: dict[str, str], prefix: str = "") -> str:
    """A line with arguments in place of numbers; in a comment without the prefix."""
    code, sign, comment = line.partition("  # ")
    code = TOKEN.sub(lambda m: prefix + names[m[1]] if m[1] in names else m[0], code)
    return code + sign + TOKEN.sub(lambda m: names.get(m[1], m[0]), comment)


def repeated(items: list[str]) -> str:
    """The code of a list of modules: patterns that repeat as a comprehension."""
    pieces, at = [], 0
    while at < len(items):
        period, times = max(
            ((p, _times(items, at, p)) for p in range(1, MOST)), key=lambda it: it[0] * (it[1] - 1)
        )
        if times < 2:  # noqa: PLR2004
            pieces.append(items[at])
            at += 1
            continue
        pieces.append(_comprehension(items[at : at + period], times))
        at += period * times
    alone = len(pieces) == 1 and pieces[0].startswith("*(")
    return pieces[0][2:-1] if alone else f"[{', '.join(pieces)}]"


def _comprehension(of: list[str], times: int) -> str:
    """Code that makes a pattern of modules several times."""
    period, first = len(of), LAYER.search(of[0])
    bounds, name = f"{times}", "_"
    if first:
        start, name = int(first[1]), "i"
        end, step = start + period * times, f", {period}" if period > 1 else ""
        bounds = f"{start}, {end}{step}" if start or step else f"{end}"
        of = [
            LAYER.sub(lambda m: f"i + {int(m[1]) - start}" if int(m[1]) > start else "i", item) for item in of
        ]
    if period == 1:
        return f"*({of[0]} for {name} in range({bounds}))"
    return f"*(layer for {name} in range({bounds}) for layer in ({', '.join(of)}))"


LAYER = re.compile("\x02l(\\d+)\x03")


def _times(items: list[str], at: int, period: int) -> int:
    times, of = 1, items[at : at + period]
    while [_later(item, period * times) for item in of] == items[
        at + period * times : at + period * (times + 1)
    ]:
        times += 1
    return times if at + period <= len(items) else 0


def _later(item: str, by: int) -> str:
    return LAYER.sub(lambda m: f"\x02l{int(m[1]) + by}\x03", item)


def base_name(scope: CodeScope) -> str:
    """The name of a module's class in the words of the field."""
    what = scope.what
    name = type(what).__name__
    *above, last = ["", *scope.path.split(".")]
    if scope.weights:
        norm = what.traits(*[p.shape for p in scope.params]).norm if name == "Normalize" else None
        return {"rmsnorm": "RMSNorm", "layernorm": "LayerNorm"}.get(norm or "", name)
    if not scope.path:
        return "Model"
    if above[-1] == "layers" and last.isdigit():
        return "EncoderLayer" if "encoder" in above else "DecoderLayer"
    activation = what.value_of("activation")
    if name == "GLU":
        return {"SiLU": "SwiGLU", "GELU": "GeGLU"}.get(type(activation).__name__, "GLU")
    return name


def first_line(what: Any) -> str:
    """The first line of the docstring of a module or operation."""
    return (type(what).__doc__ or "").strip().splitlines()[0]
