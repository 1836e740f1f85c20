"""Losses outside of a model, and recomputation: what a training step computes besides its passes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

from archcli.arith import Number, ceil_div, minimum
from archcli.errors import ArchError, quote
from archcli.graph.kept import FP32
from archcli.measure.passes import shape_pass
from archcli.modules import Model
from archcli.wings.serving.launches.memory.storage import Recomputed

LAYER = re.compile(r"(.*\.)?layers\.[^.]+")
CORE = re.compile(r"(.*\.)?layers\.[^.]+\..*attend[^.]*")


KEEP = "keep:"


def recomputed(setting: str) -> Recomputed | None:
    """What the backward computes again, by the setting; None where nothing is.

    layer: every layer, so that its input alone is kept (arXiv:1604.06174). attention: the scores, softmax and
    mix (selective recomputation, arXiv:2205.05198). Anything else is a pattern of paths of modules or
    operations, such as `layers.*.ffn`, in which * stands for any text. Several are joined by commas.
    keep:PATTERN names operations in them that keep their results, as torch's selective checkpointing does.
    """
    parts = [part.strip() for part in setting.split(",") if part.strip()]
    rules = tuple(_rule(part) for part in parts if part != "none" and not part.startswith(KEEP))
    kept = tuple(_rule(part.removeprefix(KEEP)) for part in parts if part.startswith(KEEP))
    return Recomputed(rules, kept) if rules else None


def _rule(part: str) -> Callable[[str], bool]:
    """Whether a path is meant by one part of a setting."""
    if part == "layer":
        return lambda path: LAYER.fullmatch(path) is not None
    if part == "attention":
        return lambda path: CORE.fullmatch(path) is not None
    return lambda path: fnmatchcase(path, part)


PIECES = re.compile(r"(chunked|sliced|tiled):([1-9]\d{0,8})", re.ASCII)
SCALARS = 2 * FP32
"""Bytes of the loss and its gradient, or of the loss and the number of targets: alive until the end."""


class LossForm(NamedTuple):
    """How the loss is computed: plain, of all logits at once; in `pieces` of the tokens; or fused.

    In chunks, head and loss are recomputed for one chunk of tokens after the other: the logits of only one
    are alive. In slices of so many tokens of a sequence, the logits of all are there in fp32, and the loss
    is computed slice by slice. A kernel reads logits and writes their gradient, as torch.compile makes it. A
    fused one makes no logits at all (cut cross-entropy, arXiv:2411.09009): it keeps the log of each row's
    sum. In tiles of so many words it makes those of one tile, in 16 bits.
    """

    kind: str = "plain"
    pieces: int = 1

    @property
    def has_head(self) -> bool:
        """Whether the loss runs the model's head, which the model then leaves out."""
        return self.kind not in OF_LOGITS

    @property
    def has_logits(self) -> bool:
        """Whether the logits of all tokens are there at once."""
        return self.kind in {*OF_LOGITS, SLICED}


SLICED = "sliced"
OF_LOGITS = ("plain", "kernel")
"""Losses of the logits that a model returns."""


class HeadSizes(NamedTuple):
    """Sizes of a loss: tokens B T, words V, width D of hidden states, bytes of an element.

    `tied` says that the head's matrix is the token table, `trained` that it gets a gradient, `split` that V
    words are those of one of several devices.
    """

    tokens: Number
    vocabulary: Number
    d_model: Number
    width: Number
    tied: bool
    trained: bool = True
    split: bool = False

    @property
    def gradient(self) -> Number:
        """Bytes of the gradient of the head's matrix."""
        return self.vocabulary * self.d_model * self.width if self.trained else 0

    @property
    def hidden(self) -> Number:
        """Bytes of the hidden states."""
        return self.tokens * self.d_model * self.width


class LossBytes(NamedTuple):
    """Bytes of one moment of the loss: its tensors, and gradients of the head's matrix.

    `are_added`: the gradients are added to those of earlier micro batches; else both are alive.
    """

    stage: str
    bytes: Number
    gradients: Number = 0
    are_added: bool = False

    @property
    def accumulating(self) -> Number:
        """Bytes beside the gradients of earlier micro batches."""
        return self.bytes + (0 if self.are_added else self.gradients)


def parse_loss(text: str) -> LossForm:
    """The loss that `--loss` names, such as chunked:8. ArchError for anything else."""
    if text in {*OF_LOGITS, "fused"}:
        return LossForm(text)
    pieces = PIECES.fullmatch(text)
    if pieces is None:
        hint = "plain, kernel, fused, chunked:N in N chunks, sliced:N of N tokens or tiled:N of N words"
        raise ArchError(f"no loss {quote(text)}", hint)
    return LossForm(pieces[1], int(pieces[2]))


def plain(sizes: HeadSizes) -> Iterator[LossBytes]:
    """The cross entropy of logits [tokens, V] in fp32, beside the model's own tensors.

    Forward: the logits in fp32 and their log-softmax. Backward, when the logits are gone: the log-softmax,
    its gradient, and that of what it was computed from. Where devices share the words, loss_parallel of torch
    makes one more of each: the logits less their maximum, and the exponentials.
    """
    wide, logits = sizes.tokens * sizes.vocabulary * FP32, sizes.tokens * sizes.vocabulary * sizes.width
    copy, more = (0 if sizes.width == FP32 else wide), wide if sizes.split else 0
    yield LossBytes("loss", copy + wide + more + SCALARS)
    yield LossBytes("loss", 3 * wide + more - logits + SCALARS)


def by_kernel(sizes: HeadSizes) -> Iterator[LossBytes]:
    """One kernel that reads logits and keeps each row's sum, and one that writes their gradient."""
    sums = sizes.tokens * FP32 + SCALARS
    yield LossBytes("loss", sums)
    yield LossBytes("loss", sums + sizes.tokens * sizes.vocabulary * sizes.width)


def sliced(sizes: HeadSizes, tokens: Number) -> Iterator[LossBytes]:
    """Logits of all tokens, a copy of them in fp32, and its log-softmax; gradients of a slice at a time.

    The copy is there to the end. Then the gradients of the slices' hidden states are joined.
    """
    row = sizes.vocabulary * FP32
    wide, logits = sizes.tokens * row, sizes.tokens * sizes.vocabulary * sizes.width
    earlier = sizes.hidden - tokens * sizes.d_model * sizes.width
    yield LossBytes("forward", wide + (logits if sizes.width < FP32 else 0))
    yield LossBytes("loss", 2 * wide + SCALARS)
    yield LossBytes("loss", 2 * wide + 2 * tokens * row + SCALARS)
    yield LossBytes("loss", wide + 3 * tokens * row + earlier + SCALARS, sizes.gradient)
    yield LossBytes("loss", wide + 2 * sizes.hidden + SCALARS, sizes.gradient, are_added=not sizes.tied)


def tiled(sizes: HeadSizes, width: Number) -> Iterator[LossBytes]:
    """Logits of one tile of tokens and words, and the tile's part of the matrix in 16 bits.

    Gradients of the hidden states and of the matrix are summed in fp32.
    """
    width = minimum(width, sizes.vocabulary)
    tile = HALF * width * minimum(sizes.tokens, TILE)
    cast = HALF * width * sizes.d_model if sizes.width > HALF else 0
    sums, wide = sizes.tokens * FP32, sizes.hidden // sizes.width * FP32
    yield LossBytes("loss", ROWS * sums + tile + cast + SCALARS)
    copy = sizes.gradient // sizes.width * FP32 if sizes.width < FP32 else 0
    yield LossBytes("loss", 2 * sums + wide + tile + cast + copy + SCALARS, sizes.gradient)


TILE, ROWS, HALF = 4096, 7, 2
"""Tokens of a tile, numbers of each token that its forward makes, and bytes of a number in 16 bits."""


def chunked(sizes: HeadSizes, chunks: Number) -> Iterator[LossBytes]:
    """Head and loss of one chunk after the other, each recomputed in the backward.

    The first chunk's gradient of the matrix is kept; a later one and the sum of both come beside it. In the
    end the gradients of the chunks' hidden states are joined.
    """
    rows = ceil_div(sizes.tokens, chunks)
    wide = rows * sizes.vocabulary * FP32
    several = 0 if chunks == 1 else 1
    yield LossBytes("loss", 2 * wide + SCALARS)
    # gradients of the hidden states of all chunks but the last
    earlier = sizes.hidden - rows * sizes.d_model * sizes.width
    yield LossBytes("loss", 3 * wide + earlier + SCALARS, several * sizes.gradient)
    yield LossBytes("loss", earlier + 2 * several * sizes.gradient + SCALARS, sizes.gradient)
    yield LossBytes("loss", 2 * sizes.hidden + SCALARS, sizes.gradient, are_added=not sizes.tied)


def fused(sizes: HeadSizes) -> Iterator[LossBytes]:
    """A kernel that makes no logits: the log of each token's sum, then both gradients."""
    yield LossBytes("loss", sizes.tokens * FP32 + SCALARS)
    yield LossBytes("loss", sizes.tokens * FP32 + sizes.hidden + SCALARS, sizes.gradient)


def module_paths(model: Model) -> list[str]:
    """The paths of operations that the model runs, and of the modules that they are in."""
    paths: dict[str, None] = {}
    for row in shape_pass(model).rows:
        steps = row.path.split(".")
        paths.update(dict.fromkeys(".".join(steps[:n]) for n in range(1, len(steps) + 1)))
    return list(paths)
