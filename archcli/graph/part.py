"""Parts and states: what an operation costs, by class of arithmetic, and what it caches."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from archcli.arith import Number


class OpClass(StrEnum):
    """Classes of operations: three of arithmetic, two that only move data.

    Ivanov et al. 2021, arXiv:2007.00072, Table 1.
    """

    CONTRACTION = "contraction"
    NORMALIZATION = "normalization"
    ELEMENTWISE = "elementwise"
    MOVEMENT = "movement"
    ROUTING = "routing"

    @property
    def label(self) -> str:
        """The name of the class in a table or a drawing."""
        return LABELS.get(self, self.value)


LABELS = {
    OpClass.CONTRACTION: "matrix products",
    OpClass.ELEMENTWISE: "element-wise",
    OpClass.MOVEMENT: "data movement",
}


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an operation's cost, in one class of arithmetic.

    op_class: the class of arithmetic. flops: 2 per multiply-add, by the architecture (exact masks).
    executed: FLOPs of an eager run (full S x S attention), where they differ.
    read, written: elements. weights: those of them in a weight of the operation or its gradient; of several
        copies of the weight, as in routed experts, each is moved.
    backward: the parts that its backward adds. wrt: of such a part the gradient that it yields: the index of
        an input, several indices where any of them needs it, or the name of a weight.
    training: spent in training alone.
    scans: goes from token to token (a running sum, a substitution), in one kernel of torch.
    """

    name: str
    op_class: OpClass
    flops: Number
    read: Number
    written: Number
    backward: tuple[Part, ...] = ()
    executed: Number | None = None
    wrt: int | str | tuple[int, ...] | None = None
    training: bool = False
    scans: bool = False
    weights: Number = 0

    @property
    def unmasked_flops(self) -> Number:
        """FLOPs of a run that computes masked scores too."""
        return self.flops if self.executed is None else self.executed

    def moved_bytes(self, bytes_per_element: Number) -> Number:
        """Bytes read and written at the given width of an element."""
        return (self.read + self.written) * bytes_per_element


class Workspace(NamedTuple):
    """Bytes of the tensors that an operation makes besides its outputs.

    `running` live at once while it runs, None where that is read off its `run`; `backward` while its backward
    runs. One that `lets_go` no longer has the gradient of its output by then.
    """

    running: Number = 0
    backward: Number = 0
    lets_go: bool = False


NO_WORKSPACE = Workspace()
READ_OFF_RUN = Workspace(None)


class StateKind(StrEnum):
    """How the size of a state depends on the number of tokens seen."""

    TOKENS = "tokens"
    """An entry for every token."""
    WINDOW = "window"
    """An entry for every token, up to a bound."""
    FIXED = "fixed"
    """Constant: running sums, the state of a recurrence, the last inputs of a convolution."""
    SOURCE = "source"
    """An entry for every position of an encoder's output, made once."""


class StateContent(StrEnum):
    """What a state holds."""

    KEYS_VALUES = "keys and values"
    LATENT = "latent"
    """What keys and values are rebuilt from, and the rotary key beside it."""
    INDEX_KEYS = "index keys"
    """Keys by which sparse attention chooses the tokens it reads."""
    CONVOLUTION = "convolution"
    """The last inputs of a convolution or of a token shift."""
    OPEN_BLOCK = "open block"
    """Tokens of a block that is not compressed yet, and what the next block reads of the one before."""
    IDS = "token ids"
    """The last ids, of which n-grams are made; numbers of 8 bytes, whatever the cache's dtype."""
    RECURRENT = "recurrent state"
    """Sums that every token updates; transformers keeps them in fp32."""


@dataclass(frozen=True, slots=True)
class State:
    """What one execution of an operation leaves in the cache.

    `elements` are those of the whole batch. `tokens` is for how many tokens there is an entry, None for a
    fixed state; where `shared_by` of them have one together, `entry` are the elements of one. `content` left
    out is the recurrent state of a fixed size, else keys and values. `in_engines` are the elements that
    engines keep, where these are fewer.
    """

    elements: Number
    kind: StateKind
    tokens: Number = None
    content: StateContent | None = None
    in_engines: Number | None = None
    shared_by: Number = 1
    entry: Number = None

    def per_token(self, batch_size: Number = 1) -> Number:
        """Elements for each token of a sequence, rounded down."""
        if self.entry is not None:
            return self.entry // self.shared_by
        return self.elements // (batch_size * self.tokens)

    @property
    def holds(self) -> StateContent:
        """What it holds: the stated content, or that of its kind."""
        # most ops leave `content` out: these are the usual ones
        of_kind = StateContent.RECURRENT if self.kind is StateKind.FIXED else StateContent.KEYS_VALUES
        return self.content or of_kind
