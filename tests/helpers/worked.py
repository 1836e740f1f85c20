"""Examples that pages work by hand: the lines of their tables, and the value of the arithmetic in them."""

import ast
import operator
import re
from typing import NamedTuple

ARITHMETIC = r"[\d(][\d .()*/+e-]*"
LINE = re.compile(rf"^\| (?P<what>[^|]+) \| (?P<sum>{ARITHMETIC}) \| (?P<result>[\d.,]+) \|$", re.MULTILINE)
OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}


class WorkedLine(NamedTuple):
    """A line of a table: what it works out, the arithmetic, and the result that is shown."""

    what: str
    arithmetic: str
    result: float

    @property
    def value(self):
        """What the arithmetic comes to."""
        return value_of(self.arithmetic)


def worked_lines(page):
    """The lines of a page that have arithmetic in them."""
    return [
        WorkedLine(m["what"].strip("* "), m["sum"], ast.literal_eval(m["result"].replace(",", "")))
        for m in LINE.finditer(page.read_text())
    ]


def result_of(lines, start):
    """The result of the only line that begins with these words."""
    [result] = [line.result for line in lines if line.what.startswith(start)]
    return result


def value_of(arithmetic):
    """What arithmetic of numbers comes to: 51.5 of "2 * 25.75"."""
    return _value(ast.parse(arithmetic, mode="eval").body)


def _value(node):
    if isinstance(node, ast.BinOp):
        return OPERATORS[type(node.op)](_value(node.left), _value(node.right))
    return ast.literal_eval(node)
