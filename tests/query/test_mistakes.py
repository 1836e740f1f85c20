"""Expressions that make no sense: each mistake is one clear line at its place."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archcli.errors import ArchError
from archcli.query.expression import parse_expression
from table import every_row

MISSING = "write one there, or an expression in parentheses"
BETWEEN = "write one of + - * / // @ between numbers and names"
SIGNS = "an expression has numbers, names, + - * / // @ and ( )"
FIGURES_ALONE = "expressions read figures of models and nothing else"
SETTING = "settings are NAME=VALUE: kv_bytes(context=32768)"
AROUND = "@ rounds all that is before it; put that in parentheses: (…@128) + …"
# text: the column of the caret, the message and how to mend it
WRONG = {
    "": (1, "a number or a name is missing at the end", MISSING),
    "2*": (3, "a number or a name is missing at the end", MISSING),
    "*2": (1, "a number or a name is missing before '*'", MISSING),
    "x**2": (3, "a number or a name is missing before '*'", MISSING),
    "()": (2, "a number or a name is missing before ')'", MISSING),
    "2 3": (3, "no operator before '3'", BETWEEN),
    "lambda x": (8, "no operator before 'x'", BETWEEN),
    "lambda: 0": (7, 'unexpected ":"', SIGNS),
    "x, y": (2, 'unexpected ","', BETWEEN),
    "(2": (1, "this parenthesis is not closed", "add )"),
    "2)": (2, "this parenthesis was never opened", "leave it out, or add ("),
    "x[0]": (2, 'unexpected "["', SIGNS),
    "`ls`": (1, 'unexpected "`"', SIGNS),
    "x;y": (2, 'unexpected ";"', SIGNS),
    "é": (1, 'unexpected "é"', SIGNS),
    "x\x1b": (2, 'unexpected "\\x1b"', SIGNS),
    "1.2.3": (4, 'unexpected "."', SIGNS),
    "__import__('os')": (1, "'__import__' is no name of a figure", FIGURES_ALONE),
    "2*a.__class__": (3, "'a.__class__' is no name of a figure", FIGURES_ALONE),
    "open('x')": (6, 'unexpected "\'"', SIGNS),
    "exec(x)": (6, "not a setting", SETTING),
    "time(device=)": (6, "not a setting", SETTING),
    "time(1=2)": (6, "not a setting", SETTING),
    "time(a=f(b=1))": (9, 'unexpected "("', BETWEEN),
    "time(a=1": (5, "this parenthesis is not closed", "add )"),
    "time(a=1, a=2)": (11, "'a' is set twice", "leave one out"),
    "x@128*2": (6, "'*' behind @", AROUND),
    "x@128@64": (6, "'@' behind @", AROUND),
    "x@": (3, "a number or a name is missing at the end", MISSING),
    "x + 1.0005k": (
        5,
        "'1.0005k' is not a whole number such as 4096, 8k (8,000), 8K (8,192), 1.5M, 70B or 8e9",
        None,
    ),
    "8q": (1, "'8q' is no number", None),
    "1e-99": (1, "'1e-99' is not a number such as 2.5 or 25%", ""),
    "(" * 10_000: (1001, "longer than 1,000 characters", "write it shorter"),
    "(" * 400 + "x" + ")" * 400: (51, "more than 50 parentheses inside each other", "write it flatter"),
}


@every_row(("text", "told"), WRONG.items(), ids=[text[:20] for text in WRONG])
def test_a_mistake_is_answered_at_its_place(text, told):
    with pytest.raises(ArchError) as error:
        parse_expression(text, "--tie d_ff=")
    (problem,) = error.value.problems
    column, what, hint = told
    assert (problem.mark.column, problem.what) == (len("--tie d_ff=") + column, what)
    assert problem.mark.file == "--tie"
    assert problem.mark.text == f"--tie d_ff={text}"
    assert problem.hint == hint if hint is not None else problem.hint


NO_VALUE = {
    "x/0": "'x/0' divides by zero; its divisor must be 0 for no candidate",
    "1/(z-3)": "'1/(z-3)' divides by zero; its divisor must be 0 for no candidate",
    "x//z + r/z": "'x//z + r/z' divides by zero; its divisor must be 0 for no candidate",
    "r/(z*1.5)": "'r/(z*1.5)' divides by zero; its divisor must be 0 for no candidate",
    "x@0": "'x@0' has no value: @ rounds to multiples of a whole number above 0; write EXPRESSION@128",
    "x@2.5": "'x@2.5' has no value: @ rounds to multiples of a whole number above 0; write EXPRESSION@128",
    "x@z": "'x@z' has no value: @ rounds to multiples of a whole number above 0; write EXPRESSION@128",
    "r@2": "'r@2' has no value: @ rounds exact numbers, and this is a real one",
    "w + 1": "'w + 1' has no value: w is no number",
    "n + 1": "'n + 1' has no value: n is no number",
    "*".join(
        ["x", *["9e30"] * 30]
    ): f"'{'*'.join(['x', *['9e30'] * 30])[:39]}…' has no value: a number comes to more than 1e300",
    "/".join(
        ["r", *["1e-30"] * 30]
    ): f"'{'/'.join(['r', *['1e-30'] * 30])[:39]}…' has no value: a number comes to more than 1e300",
}
OF = {"x": 7, "z": np.array([3, 0, 2]), "r": np.array([0.5, 1.5, 2.5]), "w": "gqa", "n": None}


@every_row(("text", "told"), NO_VALUE.items(), ids=[text[:20] for text in NO_VALUE])
def test_an_expression_without_a_value_is_named(text, told):
    with pytest.raises(ArchError) as error:
        parse_expression(text, "--tie d_ff=").value(OF.__getitem__)
    assert str(error.value) == f"--tie d_ff: {told}"


@given(st.text("ab1.( )@*/+-=,'_%eGB±in\n", max_size=30))
def test_any_text_is_an_expression_or_one_clear_line(text):
    with suppress(ArchError):
        parse_expression(text).value(lambda _: 3)
