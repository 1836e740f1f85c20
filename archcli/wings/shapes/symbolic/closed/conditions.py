"""Conditions on a model's sizes, such as n_heads % n_kv_heads == 0, read off its modules' checks."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from archcli.errors import ArchError
from archcli.modules import Model, substitute
from archcli.modules.spec.base import Spec, find, settings
from archcli.wings.shapes.symbolic import required
from archcli.wings.shapes.symbolic.closed.free import FreeModel, FreeSize
from archcli.wings.shapes.symbolic.symbols import size_values, symbol

Reload: TypeAlias = Callable[[Sequence[str]], Model]
"""Loads the model again with options of --set; ArchError where it is refused."""


class SizeCondition(NamedTuple):
    """A comparison of two expressions in the sizes that must hold: n_heads % n_kv_heads == 0."""

    left: Any
    sign: str
    right: Any

    @property
    def names(self) -> set[str]:
        """The names of the sizes that are compared."""
        return {str(size) for size in self.left.free_symbols | self.right.free_symbols}

    def holds(self, values: Mapping[str, int]) -> bool:
        """Whether it holds at these values."""
        numbers = {symbol(name): value for name, value in values.items()}
        left, right = (required("sympy").sympify(side).xreplace(numbers) for side in (self.left, self.right))
        return bool(SIGNS[self.sign](left, right))


SIGNS: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
Log: TypeAlias = dict[SizeCondition, None]


class RecordedInt(int):
    """An int that keeps its symbolic expression, and logs each comparison."""

    expression: Any
    log: Log

    @classmethod
    def of(cls, value: int, expression: Any, log: Log) -> RecordedInt:
        """A number of a value, with the expression that gives it."""
        number = cls(value)
        number.expression, number.log = expression, log
        return number

    def _with(
        self, operand: Any, compute: Callable[[Any, Any], Any], write: Callable[[Any, Any], Any]
    ) -> Any:
        """The result of an operation; a plain number if the other operand is not an integer."""
        value = compute(int(self), _plain(operand))
        if type(value) is not int:
            return value
        return RecordedInt.of(value, write(self.expression, _expression(operand)), self.log)

    def _noted(self, operand: Any, sign: str) -> bool:
        """The answer to a comparison, which is logged as a condition that holds."""
        answer = SIGNS[sign](int(self), _plain(operand))
        if answer is NotImplemented or type(operand) not in {int, RecordedInt}:
            return bool(answer)
        met = sign if answer else OPPOSITE[sign]
        self.log[SizeCondition(self.expression, met, _expression(operand))] = None
        return bool(answer)

    def __add__(self, operand: Any) -> Any:
        return self._with(operand, operator.add, operator.add)

    def __radd__(self, operand: Any) -> Any:
        return self._with(operand, lambda a, b: b + a, operator.add)

    def __sub__(self, operand: Any) -> Any:
        return self._with(operand, operator.sub, operator.sub)

    def __rsub__(self, operand: Any) -> Any:
        return self._with(operand, lambda a, b: b - a, lambda a, b: b - a)

    def __mul__(self, operand: Any) -> Any:
        return self._with(operand, operator.mul, operator.mul)

    def __rmul__(self, operand: Any) -> Any:
        return self._with(operand, lambda a, b: b * a, operator.mul)

    def __floordiv__(self, operand: Any) -> Any:
        return self._with(operand, operator.floordiv, operator.floordiv)

    def __rfloordiv__(self, operand: Any) -> Any:
        return self._with(operand, lambda a, b: b // a, lambda a, b: b // a)

    def __mod__(self, operand: Any) -> Any:
        return self._with(operand, operator.mod, operator.mod)

    def __rmod__(self, operand: Any) -> Any:
        return self._with(operand, lambda a, b: b % a, lambda a, b: b % a)

    def __lt__(self, operand: Any) -> bool:
        return self._noted(operand, "<")

    def __le__(self, operand: Any) -> bool:
        return self._noted(operand, "<=")

    def __gt__(self, operand: Any) -> bool:
        return self._noted(operand, ">")

    def __ge__(self, operand: Any) -> bool:
        return self._noted(operand, ">=")

    def __eq__(self, operand: object) -> bool:
        return self._noted(operand, "==")

    def __ne__(self, operand: object) -> bool:
        return self._noted(operand, "!=")

    def __bool__(self) -> bool:
        return self._noted(0, "!=")

    __hash__ = int.__hash__


def _plain(number: Any) -> Any:
    # Python asks a right operand of a subclass first: it would log the left one as a plain number
    return int(number) if type(number) is RecordedInt else number


def _expression(number: Any) -> Any:
    return number.expression if type(number) is RecordedInt else required("sympy").sympify(number)


def compared(free: FreeModel) -> list[SizeCondition]:
    """Every comparison of sizes in the checks of the model's modules, as it holds for this model."""
    log: Log = {}
    placed = {
        path: RecordedInt.of(setting.value, symbol(setting.name), log)
        for setting in free.settings
        for path in setting.paths
    }
    model = substitute(free.numeric, placed)
    for _, spec in find(model, Spec):
        for _ in spec.check():
            # a loaded model has no conflicts: the checks run for the comparisons that they make
            pass
    return [condition for condition in log if condition.names]


def conditions(free: FreeModel, reload: Reload) -> list[SizeCondition]:
    """The comparisons that must hold: a model that breaks one is refused by the loader."""
    return [condition for condition in compared(free) if _is_needed(condition, free, reload)]


MOST_TRIED = 3
"""Values that break a condition and are tried: each loads the model, which is slow."""


def _is_needed(condition: SizeCondition, free: FreeModel, reload: Reload) -> bool:
    """Whether the loader refuses a model that breaks the condition."""
    known = {setting.name: setting for setting in free.settings}
    tried = 0
    for name in sorted(condition.names):
        setting = known[name]
        for value in _near(setting, free):
            if tried < MOST_TRIED and not condition.holds({**free.values, name: value}):
                tried += 1
                if reloaded(reload, setting, value) is None:
                    return True
                break
    return False


def _near(setting: FreeSize, free: FreeModel) -> Iterator[int]:
    """Values to try: neighbours and multiples of the model's value, then values of its other sizes."""
    value = setting.value
    others = (number + step for number in free.values.values() for step in (0, 1, -1))
    for number in (value + 1, value - 1, 2 * value, 3 * value, value // 2, 1, 2, *others):
        if number >= 1 and number != value:
            yield number


def reloaded(reload: Reload, setting: FreeSize, value: int) -> Model | None:
    """The model with another value of a setting; None where it is refused."""
    try:
        return reload(setting.overrides(value))
    except ArchError:
        return None


def settable(free: FreeModel, reload: Reload) -> tuple[FreeSize, ...]:
    """The settings that --set changes as their symbol does: those fields, and no others.

    Keys are short (d_ff) where these change the same fields, else full paths.
    """
    before = dict(settings(free.numeric))
    tried = (_changing_alone(setting, free, before, reload) for setting in free.settings)
    return tuple(setting for setting in tried if setting is not None)


def _changing_alone(
    setting: FreeSize, free: FreeModel, before: Mapping[str, Any], reload: Reload
) -> FreeSize | None:
    """The setting with keys that change its fields alone; None if there are none."""
    value, sizes = setting.value, size_values(free.numeric, predictions=True).keys()
    for named in dict.fromkeys((setting, setting.by_paths())):
        for tried in {2 * value, 3 * value, value + 1, max(1, value // 2)} - {value}:
            model = reloaded(reload, named, tried)
            if model is not None:
                after = dict(settings(model))
                changed = {path for path in before.keys() | after if before.get(path) != after.get(path)}
                if changed & sizes == set(named.paths) == changed & before.keys():
                    return named
                break
    return None
