"""A drawing as SVG with a JavaScript that redraws it when a figure of the report changes.

The script is a function (figures, svg): BigInts in the order of `Redraw.figures`, and the svg element.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, NamedTuple

from archcli.render.picture.elements import element, escaped
from archcli.wings.drawing.drawn import Figure, NumberedLine
from archcli.wings.drawing.picture.architecture.shapes import Many, SvgShape, attributes_of
from archcli.wings.drawing.picture.architecture.traced import (
    MARK,
    Scope,
    exact_code,
    is_traced,
    plain,
    plain_text,
    template,
    traced,
)

NUMBERED = "data-n"


class Redrawn(NamedTuple):
    """A drawing as SVG, the script that redraws it, and the figures that the script takes, in order."""

    svg: str
    script: str
    figures: tuple[Figure, ...]


@dataclass
class Redraw:
    """Prints the SVG of shapes, and the JavaScript that redraws them when figures change.

    figures: figures that shapes depend on, by (command, path, key).
    scope: JavaScript variables for terms of these figures.
    updates: JavaScript statements, `set(e[3],'width',…);`.
    numbered: number of elements so far that a statement changes.
    """

    figures: dict[tuple[str, str, str], Figure] = field(default_factory=dict)
    scope: Scope = field(default_factory=lambda: Scope("t"))
    updates: list[str] = field(default_factory=list)
    numbered: int = 0

    def traced(self, value: Any) -> Any:
        """Replace each figure of a record or tuple by a traced one: a number that keeps its JavaScript."""
        if type(value) is Figure:
            return self._figure(value)
        if type(value) is tuple:
            return tuple(map(self.traced, value))
        if type(value) is NumberedLine:
            return NumberedLine(*map(self.traced, value.parts))
        if is_dataclass(value):
            record: Any = value
            changed = {item.name: self.traced(getattr(value, item.name)) for item in fields(record)}
            return replace(record, **changed)
        # of a named tuple; anything else, as text and plain numbers, has no fields and stays
        names = getattr(type(value), "_fields", ())
        return (
            value._replace(**{name: self.traced(getattr(value, name)) for name in names}) if names else value
        )

    def svg(self, shapes: Iterable[SvgShape | Many]) -> str:
        """The shapes as SVG; one that depends on figures gets a number, and statements to update it."""
        return "".join(map(self._svg, shapes))

    def script(self) -> str:
        """The JavaScript function that redraws the shapes."""
        updates = "".join(self.updates)
        return f"(f,svg)=>{{const e=svg.querySelectorAll('[data-n]');{self.scope.script(updates)}{updates}}}"

    def _figure(self, figure: Figure) -> Any:
        """The figure with a traced value, `Number(f[3])` in JavaScript for the fourth figure."""
        address = figure.command, figure.path, figure.key
        self.figures.setdefault(address, figure)
        place = list(self.figures).index(address)
        return figure._replace(value=traced(figure.value, f"Number(f[{place}])", self.scope))

    def _svg(self, shape: SvgShape | Many) -> str:
        match shape:
            case Many():
                return self._many(shape)
            case SvgShape():
                return self._single(shape)

    def _single(self, shape: SvgShape) -> str:
        changing = dict(_changing(shape))
        number = self._next_number() if changing else None
        for name, code in changing.items():
            self.updates.append(f"set(e[{number}],'{name}',{code});")
        inside = "".join(map(self._svg, shape.inside))
        return _plain_svg(shape, inside, {} if number is None else {NUMBERED: number})

    def _next_number(self) -> int:
        """The index of an element in `svg.querySelectorAll('[data-n]')`, by order in the document."""
        self.numbered += 1
        return self.numbered - 1

    def _many(self, many: Many) -> str:
        """A group of alike shapes; JavaScript clones the first of them when their count changes."""
        count = int(plain(many.count))
        inside = "".join(map(_static, map(many.shape, range(count))))
        if not is_traced(many.count):
            return element("g", inside)
        number = self._next_number()
        turn = Scope("u", self.scope)
        shape = many.shape(traced(0, "i", turn))
        changes = [
            f"[{place},'{name}',{code}]"
            for place, inner in enumerate(_flat(shape))
            for name, code in _changing(inner)
        ]
        answer = f"[{','.join(changes)}]"
        body = f"i=>{{{turn.script(answer)}return {answer}}}"
        self.updates.append(f"many(e[{number}],{many.count.code},{body});")
        return element("g", inside, **{NUMBERED: number})


def _changing(shape: SvgShape) -> Iterator[tuple[str, str]]:
    """(attribute, JavaScript) of each attribute that depends on figures; `text` is the text inside."""
    for name, value in attributes_of(shape).items():
        if is_traced(value):
            # data-value holds the exact figure; a place or size is rounded to a tenth of a pixel
            exact = f"String({exact_code(value)})"
            yield name, exact if name == "data-value" else f"trimmed({value.code},1)"
        elif MARK.search(str(value)):
            yield name, template(str(value))
    if MARK.search(str(shape.content)):
        yield "text", template(str(shape.content))
    if MARK.search(shape.title):
        yield "title", template(shape.title)


def _flat(shape: SvgShape | Many) -> Iterator[SvgShape]:
    """A shape and the shapes inside it, in document order."""
    match shape:
        case Many():
            # the script of `many` indexes shapes of one turn by their place, so their number must be fixed
            raise NotImplementedError("a loop within a loop is not drawn anew")
        case SvgShape():
            yield shape
            for inner in shape.inside:
                yield from _flat(inner)


def _static(shape: SvgShape | Many) -> str:
    """A shape as SVG that no statement changes: without a number."""
    match shape:
        case Many():
            return element("g", "".join(map(_static, map(shape.shape, range(int(plain(shape.count)))))))
        case SvgShape():
            return _plain_svg(shape, "".join(map(_static, shape.inside)), {})


def _plain_svg(shape: SvgShape, inside: str, extra: dict[str, Any]) -> str:
    """A shape as SVG, with plain numbers in place of traced ones."""
    title = element("title", escaped(plain_text(shape.title))) if shape.title else ""
    attributes = {name: _attribute(value) for name, value in attributes_of(shape).items()}
    return element(shape.tag, title + inside + escaped(plain_text(str(shape.content))), **attributes, **extra)


def _attribute(value: Any) -> Any:
    return plain(value) if is_traced(value) else plain_text(value) if type(value) is str else value
