"""The words of a command line, told apart by the options of a command, as typer tells them apart.

    archcli params gpt2 -s8k --set n_layers=2 --set d_ff=64 --json
    {"seq_len": ["8k"], "overrides": ["n_layers=2", "d_ff=64"], "as_json": [True], "model": ["gpt2"]}

Its errors are those that typer's become. `values` reads the texts.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn, get_args, get_origin

from archcli.api.asking.question import Option, option_of
from archcli.commands.line.names import near_option, usage_hint
from archcli.commands.line.values import line_type
from archcli.errors import ArchError, shorten

CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class LineParameter:
    """An option or an argument of a command.

    annotation  the type and limits of its values, with its `Option`
    default     the value where it is left out
    required    whether it may not be left out
    """

    name: str
    option: Option
    annotation: Any
    default: Any = None
    required: bool = False

    @cached_property
    def kind(self) -> Any:
        """The type of its values on the command line."""
        return line_type(self.annotation, self.option)

    @property
    def repeats(self) -> bool:
        """Whether it may be given several times."""
        return list in {get_origin(self.kind), *map(get_origin, get_args(self.kind))}

    @property
    def switches(self) -> bool:
        """Whether it takes no value."""
        return bool in {self.kind, *get_args(self.kind)} and not self.option.argument

    @cached_property
    def names(self) -> dict[str, bool]:
        """The names of an option, and whether each switches it on; none of an argument."""
        if self.option.argument:
            return {}
        on, _, off = f"--{self.option.name or self.name.replace('_', '-')}".partition("/")
        return {on: True, **dict.fromkeys(filter(None, [off]), False), **self._letters}

    @property
    def _letters(self) -> dict[str, bool]:
        return dict.fromkeys(filter(None, [self.option.letter, *self.option.also]), True)

    @property
    def shown(self) -> str:
        """How messages name it."""
        names = [name for name, on in self.names.items() if on and name not in self.option.also]
        return " / ".join(f"'{name}'" for name in names or [self.option.metavar or self.name])


HELP = LineParameter("help", Option("Show this message and exit.", "-h"), bool, default=False)


def parameters_of(run: Callable[..., Any]) -> list[LineParameter]:
    """The options and arguments of a subcommand, and -h."""
    signature = inspect.signature(run, eval_str=True).parameters.values()
    return [*[_parameter(it) for it in signature], HELP]


def _parameter(parameter: inspect.Parameter) -> LineParameter:
    option = option_of(parameter.annotation)
    if option is None:
        raise TypeError(f"{parameter.name} is no option of a command line")
    required = parameter.default is inspect.Parameter.empty
    default = None if required else parameter.default
    return LineParameter(parameter.name, option, parameter.annotation, default, required)


def usage_error(
    message: str, path: str = "archcli", known: Collection[str] = (), args: Sequence[str] = ()
) -> ArchError:
    """What is wrong with a command line of the `known` options, with what to do."""
    return ArchError(message.rstrip("."), usage_hint(message, path, known, args))


def printable(text: str) -> str:
    r"""A text of the user's as messages show it, \x1b for what a terminal would obey."""
    return CONTROLS.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


@dataclass
class Words:
    """The words of a command, told apart.

    path      the command, as messages name it: archcli params
    given     the texts of each option and argument, in their order; True or False of a switch
    extra     the words that no argument takes
    """

    path: str
    parameters: Sequence[LineParameter]
    values: dict[str, list[Any]] = field(default_factory=dict)
    extra: list[str] = field(default_factory=list)

    def read(self, args: Sequence[str], *, interspersed: bool = True) -> Words:
        """Tell the words apart; without `interspersed` options end at the first argument."""
        rest, placed = [*args], []
        while rest:
            word = rest.pop(0)
            if word == "--":
                break
            if len(word) > 1 and word.startswith("-"):
                self._read_option(word, rest)
            elif interspersed:
                placed.append(word)
            else:
                rest.insert(0, word)
                break
        self.extra = self._place([*placed, *rest])
        return self

    def _place(self, args: list[str]) -> list[str]:
        """Give the arguments their words; returns those left over."""
        for parameter in self.parameters:
            if parameter.option.argument:
                taken = len(args) if parameter.repeats else 1
                self.values[parameter.name], args = args[:taken], args[taken:]
        return args

    def _read_option(self, word: str, rest: list[str]) -> None:
        """Read an option, whose value may be the next of the words in `rest`."""
        name, sign, value = word.partition("=")
        option = self._long(name)
        if option is None and word.startswith("--"):
            self._refuse(name)
        if option is None:
            self._read_letters(word, rest)
        elif not option.switches:
            rest[:0] = [value] if sign else []
            self._take(option, name, rest)
        elif sign:
            raise usage_error(f"Option {name!r} does not take a value.")
        else:
            self._give(option, option.names[name])

    def _read_letters(self, word: str, rest: list[str]) -> None:
        """Read -vb8: letters without a value, and at the end one with its value."""
        for i, letter in enumerate(word[1:], 2):
            name = f"-{letter}"
            option = next((it for it in self.parameters if name in it.names), None)
            if option is None:
                self._refuse(name)
            if not option.switches:
                rest[:0] = [word[i:]] if i < len(word) else []
                self._take(option, name, rest)
                return
            self._give(option, option.names[name])

    def _long(self, name: str) -> LineParameter | None:
        known = (option for option in self.parameters if name in option.names and name.startswith("--"))
        return next(known, None)

    def _take(self, option: LineParameter, name: str, rest: list[str]) -> None:
        if not rest:
            raise usage_error(f"Option {name!r} requires an argument.")
        self._give(option, rest.pop(0))

    def _give(self, option: LineParameter, value: Any) -> None:
        self.values.setdefault(option.name, []).append(value)

    def _refuse(self, name: str) -> NoReturn:
        """Raise ArchError for an option that there is not."""
        known = [known for option in self.parameters if option is not HELP for known in option.names]
        known = [name for name in known if not any(name in it.option.also for it in self.parameters)]
        hint = near_option(name, known) or f"{self.path} -h describes the arguments"
        raise ArchError(f"{self.path} has no option {shorten(name)}", hint)
