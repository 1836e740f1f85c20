"""Values of a config.json with their places in the user's file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from archcli.load.yaml.nodes import Node, Place

T = TypeVar("T")
S = TypeVar("S")

Mapped = dict[str, Any]
"""What an importer makes: the keys of our YAML, and plain values or `ConfigValue`s."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ConfigValue(Generic[T]):
    """A value of a config.json, with its place there.

    It compares, hashes and tests as the value does; for arithmetic there is `.value`.
    """

    value: T
    place: Place

    def derive(self, value: S) -> ConfigValue[S]:
        """A value computed from this one, with the same place."""
        return ConfigValue(value, self.place)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __eq__(self, value: object) -> bool:
        return bool(self.value == bare(value))

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return repr(self.value)


def bare(value: Any) -> Any:
    """The value without its place."""
    return value.value if isinstance(value, ConfigValue) else value


def tree_of(mapping: Mapped, start: Place) -> Node:
    """The mapping as a tree of nodes; values without a place of their own are at `start`.

    A mapping that occurs many times, as a layer does, becomes one node.
    """
    made: dict[int, Node] = {}

    def node(value: Any, place: Place) -> Node:
        if isinstance(value, ConfigValue):
            return node(value.value, value.place)
        if isinstance(value, list):
            return Node([node(item, place) for item in value], place)
        if not isinstance(value, dict):
            return Node(value, place)
        if id(value) not in made:
            made[id(value)] = Node({key: node(item, place) for key, item in value.items()}, place)
        return made[id(value)]

    return node(mapping, start)


def without_none(mapping: Mapped) -> Mapped:
    """The mapping without keys whose value is None."""
    return {key: value for key, value in mapping.items() if value is not None}
