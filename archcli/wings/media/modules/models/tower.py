"""Tower: an encoder of images or sounds beside a language model, and the projector between the two.

B batch, T tokens, D width.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple

from archcli.arith import Number, Shape
from archcli.errors import ArchError
from archcli.graph import Row, Tensor
from archcli.graph.count_tape import Abstract, ShapeTape
from archcli.modules.models.stack import ended_behind
from archcli.modules.spec.arguments import TowerPart
from archcli.modules.spec.base import Conflict, Count, Module
from archcli.modules.spec.request import SOUNDS, InputSpec, Media, Medium, Request
from archcli.modules.spec.trace import run_on
from archcli.modules.spec.unread import Holder
from archcli.ops import Parameter
from archcli.wings.media.modules.ends.patches import FrontEnd
from archcli.wings.media.modules.ends.projectors import (
    GROUP,
    Pieces,
    Places,
    ProjectorStep,
    run_steps,
    side_by_side,
)
from archcli.wings.media.modules.images.sizings import ImageSizing
from archcli.wings.media.modules.models.videos import VideoSizing

AXES = 3
"""Axes of positions in three dimensions: time, rows and columns."""
VIDEO = "video"
FRAMES_PER_SECOND = 100
"""Of a spectrogram: one every 10 milliseconds (Whisper, arXiv:2212.04356 section 2.2)."""


class TowerModel(Module):
    """What a tower asks of its encoder, which is a model by itself."""

    family: ClassVar[str] = "model"
    front_end: FrontEnd

    @property
    def media(self) -> tuple[str, ...]:
        """The kinds of media that it reads."""
        return self.front_end.media

    def fitted(self, request: Request) -> Request:
        """The request with the medium that is read."""
        raise NotImplementedError

    def tokens_of(self, medium: Medium) -> int:
        """How many hidden states a medium has."""
        raise NotImplementedError

    def grid_made(self, shape: Shape) -> Any:
        """Rows and columns of the hidden states of what is read; None of a sequence."""
        raise NotImplementedError

    def inputs(self, request: Request) -> dict[str, InputSpec]:
        """The tensor that is read."""
        raise NotImplementedError


class GivenMedium(NamedTuple):
    """An image or a sound of each of B sequences: its size before it is cut, and its n pieces [B n, ...]."""

    medium: Medium
    values: Any


class Tower(Holder):
    """An encoder, and the steps from its vectors to those that the language model reads.

    `part` is what it is called in `by_part`. `sizing` says what becomes of an image before the encoder reads
    it; left out, the image stays as it is. `video` says the same of a video; left out, none is read.
    `sound` says it of seconds of sound: one window, padded or cut, whole in the prompt; cut, which of shorter
    sounds has their own vectors alone (Qwen2-Audio); or as many windows as they fill (Voxtral). `taps`
    are layers whose vectors are also projected, each by `tap_projector` with weights of its own (deepstack,
    arXiv:2406.04334; Qwen3-VL). `newline` is a trained vector as wide as the language model, which ends rows
    of patches (LLaVA-1.6). With `crosses` layers of cross attention read its vectors, and one token stands in
    the prompt for them (Llama 3.2 Vision). The states behind so many layers as `beside` says join the last
    ones before the first step, side by side (Llama 3.2 Vision). With `added` its vectors are added to those
    of the prompt's tokens, one to each, and take no place of their own (Voxtral Realtime). Of the steps the
    first `within` belong to the tower itself (Qwen2.5-Omni); `unread` are parameters beside them that no pass
    reads. With `pooled` it gives the one vector of its encoder (CLIP).

    `token` is the id that the prompt has where a vector of the tower stands; a tower without it is counted
    and not run. `after` is the number of layers behind which vectors are taken, before the final norm; left
    out, those behind it. `sections` are the pairs of the language model's rotary heads that turn by time, by
    row and by column (M-RoPE, arXiv:2409.12191 section 2.1), one after the other or, `interleaved`, in turn.
    `both_ways` says which tokens see each other in both directions: those of each medium (Gemma 3), or all of
    a prompt with media (PaliGemma); pairs are counted without.
    """

    caches: ClassVar[bool] = False
    trains_on_targets: ClassVar[bool] = False
    mtp_depth: ClassVar[int] = 0
    token_multiple: ClassVar[int] = 1
    lora: ClassVar[None] = None
    max_seq_len: ClassVar[None] = None
    name: ClassVar[str] = ""
    source: ClassVar[str] = ""
    part: TowerPart = "vision_tower"
    model: TowerModel
    sizing: ImageSizing | None = None
    video: VideoSizing | None = None
    sound: Literal["padded", "cut", "windows"] = "padded"
    projector: tuple[ProjectorStep, ...] = ()
    taps: tuple[Count, ...] = ()
    tap_projector: tuple[ProjectorStep, ...] = ()
    newline: bool = False
    crosses: bool = False
    beside: tuple[Count, ...] = ()
    added: bool = False
    pooled: bool = False
    within: Count = 0
    token: Count | None = None
    after: Count | None = None
    sections: tuple[Count, ...] = ()
    interleaved: bool = False
    both_ways: Literal["none", "medium", "prompt"] = "none"

    @property
    def adapted(self) -> Tower:
        """The module to trace: adapters are those of the language model."""
        return self

    def fitted(self, request: Request) -> Request:
        """The request, which `reading` has made of a medium."""
        return request

    def with_media(self, media: Media) -> Tower:
        """Itself, which reads what a request says."""
        return self

    def source_length(self, source_len: Number) -> None:
        """None: no source is read."""

    def require_tokens(self, seq_len: Number) -> None:
        """Any number of tokens will do."""

    @property
    def media(self) -> tuple[str, ...]:
        """The kinds of media that it reads."""
        return self.model.media if self.video is None else (*self.model.media, VIDEO)

    @cached_property
    def encoder(self) -> TowerModel:
        """The model, of which a group of layers ends where vectors are taken: nothing reads those behind."""
        if self.after is None:
            return self.model
        model: Any = self.model  # a TowerModel is a stack of layers
        ended: TowerModel = model.replace(groups=tuple(ended_behind(self.after, model.groups)))
        return ended

    @property
    def encoders(self) -> tuple[tuple[str, TowerModel], ...]:
        """(beginning of its paths, encoder) of the encoder that it runs."""
        return (("tower.", self.encoder),)

    def part_of(self, row: Row) -> str:
        """The part that a row is in: this tower, or the projector."""
        head, _, rest = row.path.partition(".")
        if head == "tower":
            # steps of the projector may stand between layers
            joins = row.group == GROUP or GROUP in rest.split(".")
            return GROUP if joins else self.part
        step = rest.partition(".")[0]
        return self.part if head == GROUP and int(step) < self.within else GROUP

    @property
    def usual(self) -> Medium:
        """The medium that the encoder reads where none is named."""
        return self.model.front_end.usual

    def pieces(self, medium: Medium) -> Pieces:
        """What the encoder reads of a medium."""
        if self.video is not None and medium.kind == VIDEO:
            return self.video.pieces(*medium.size)
        if self.sound == "windows" and medium.kind == "seconds":
            return Pieces(-(-medium.size[0] // self.window_seconds), medium.size)  # type: ignore[arg-type]
        if self.sizing is None or medium.kind != "image":
            return Pieces(1, medium.size)  # type: ignore[arg-type]  # a sound has one size
        return self.sizing.pieces(*medium.size)

    def reading(self, request: Request, medium: Medium) -> Request:
        """The pass of the encoder over a medium: a forward over all of its pieces of the first size."""
        return self.readings(request, medium)[0]

    def readings(self, request: Request, medium: Medium) -> tuple[Request, ...]:
        """The passes of the encoder over a medium, one for each size of its pieces."""
        if medium.kind not in self.media:
            raise ArchError(f"{self.part} reads no {medium.kind}", f"it reads {' or '.join(self.media)}")
        pieces = self.pieces(medium)
        phase: Any = "train" if request.phase == "train" else "forward"
        return tuple(
            self.model.fitted(Request(phase, number * request.batch_size, media=(_piece(medium, size),)))
            for number, size in (pieces[:2], *pieces.others)
        )

    def one_reading(self, request: Request, medium: Medium) -> Request:
        """The pass over a medium; ArchError where it takes several, as pieces differ in size."""
        readings = self.readings(request, medium)
        if len(readings) > 1:
            what = f"this {medium.kind} is cut into pieces of several sizes, which are counted and not run"
            raise ArchError(what, "name another size")
        return readings[0]

    def check_runs(self, medium: Medium) -> None:
        """Raise ArchError for a medium that a tower which runs counts alone."""
        if medium.kind == VIDEO and self.sections:
            what = "a video is counted and not run where positions go by rows and columns"
            raise ArchError(f"{what}, as in {self.part}", "give its frames as images")

    def placed_spec(self, request: Request, medium: Medium) -> GivenMedium:
        """A medium of a request, with the `InputSpec` of the tensor that the encoder reads."""
        self.check_runs(medium)
        return GivenMedium(medium, self.inputs(self.one_reading(request, medium))["tokens"])

    def sized(self, medium: Medium) -> Tower:
        """The tower whose steps know how the pieces of this medium lie."""
        if self.sizing is None or medium.kind != "image":
            return self
        pieces, kept = self.pieces(medium), self.sizing.kept(*medium.size)
        return self.replace(projector=tuple(step.sized(pieces, kept) for step in self.projector))

    @property
    def behind(self) -> tuple[int, ...]:
        """The numbers of layers behind which states are taken: of `after`, of taps, and those beside."""
        after = () if self.after is None else (self.after,)
        return *after, *(tap + 1 for tap in self.taps), *self.beside

    def places(self, medium: Medium) -> Places:
        """Rows and columns of the vectors of one piece; a sequence is one column."""
        grid = self.model.grid_made(self.model.front_end.input(1, medium).shape)
        return grid if grid is not None else (self.model.tokens_of(medium), 1)

    def prompt_tokens(self, medium: Medium) -> int:
        """Tokens in the prompt for a medium."""
        if self.added:
            return 0
        return 1 if self.crosses else self.tokens_of(medium)

    def tokens_of(self, medium: Medium) -> int:
        """What stands for a medium: vectors that the language model reads, and words such as ends of rows."""
        pieces, places, piece_tokens = self._projected(medium)
        if self.video is not None and medium.kind == VIDEO:
            return self.video.tokens(pieces, places, piece_tokens)
        if medium.kind in SOUNDS:
            return self._tokens_of_sound(medium, pieces, piece_tokens)
        if self.sizing is None:
            return piece_tokens
        return self.sizing.tokens(medium.size, pieces, places, piece_tokens) + self._smaller(medium, pieces)

    def vectors_of(self, medium: Medium) -> int:
        """Vectors that the language model reads of a medium."""
        pieces, places, piece_tokens = self._projected(medium)
        if self.sizing is None or medium.kind != "image":
            return self.tokens_of(medium)
        return self.sizing.vectors(medium.size, pieces, places, piece_tokens) + self._smaller(medium, pieces)

    def placed(self, medium: Medium) -> int:
        """How often the prompt has `token` for a medium: for each vector that stands in its place."""
        return self.prompt_tokens(medium) if self.crosses or self.added else self.vectors_of(medium)

    def grid_of(self, medium: Medium) -> Places:
        """Rows and columns of the vectors of one piece, behind the projector."""
        return self._projected(medium)[1]

    def _projected(self, medium: Medium) -> tuple[Pieces, Places, int]:
        """The pieces of a medium, and of one piece the places and the number of its vectors."""
        pieces = self.pieces(medium)
        return pieces, *self._behind(medium, pieces.size)

    def _smaller(self, medium: Medium, pieces: Pieces) -> int:
        """Vectors of the pieces that have another size than the first."""
        return sum(number * self._behind(medium, size)[1] for number, size in pieces.others)

    def _behind(self, medium: Medium, size: tuple[int, ...]) -> tuple[Places, int]:
        """Rows, columns and number of the vectors of a piece of this size, behind all steps."""
        read = self.model.front_end.medium(Request(media=(_piece(medium, size),)))
        if self.pooled:
            return (1, 1), 1
        places, tokens = self.places(read), self.model.tokens_of(read)
        for step in self.projector:
            places = step.places_after(places)
            tokens = step.tokens_after(tokens, places)
        return places, tokens

    @property
    def axes(self) -> tuple[int, ...]:
        """Of each pair of a rotary head the axis it turns by: 0 time, 1 row, 2 column."""
        if not self.interleaved:
            return tuple(axis for axis, pairs in enumerate(self.sections) for _ in range(pairs))
        turns = range(sum(self.sections))
        return tuple(pair % AXES if pair < AXES * self.sections[pair % AXES] else 0 for pair in turns)

    @property
    def width(self) -> int:
        """The width of the vectors that the language model reads."""
        request = self.reading(Request(), self.usual)
        inputs = {name: Abstract(spec.shape) for name, spec in self.inputs(request).items()}
        out, _ = run_on(ShapeTape([]), self, request, inputs, None)
        vectors: Any = out  # with taps several
        width: int = (vectors[0] if self.taps else vectors).shape[-1]
        return width

    @property
    def window_seconds(self) -> int:
        """Seconds of sound that the encoder reads at once; ArchError for less than one."""
        seconds = self.usual.size[0] // FRAMES_PER_SECOND
        if not seconds:
            raise ArchError(
                f"{self.part} reads {self.usual.size[0]} frames, no whole second", "give --audio-frames"
            )
        return seconds

    def _tokens_of_sound(self, medium: Medium, pieces: Pieces, piece_tokens: int) -> int:
        """Tokens of all windows, or of as much of one as the sound fills."""
        if self.sound != "cut" or medium.kind != "seconds":
            return pieces.number * piece_tokens
        return piece_tokens * min(medium.size[0], self.window_seconds) // self.window_seconds

    def inputs(self, request: Request) -> dict[str, InputSpec]:
        """What the encoder reads."""
        return self.model.inputs(request)

    def reads(self, request: Request) -> dict[str, InputSpec]:
        """The tensors of a pass: those of `inputs`, as no medium stands in a prompt here."""
        return self.inputs(request)

    def forward(
        self, tokens: Tensor, medium: Medium | None = None, **_: Any
    ) -> tuple[Any, tuple[Tensor, ...] | None]:
        """Pixels or a spectrogram to the vectors that the language model reads.

        With taps it is a tuple, of the projected vectors and those of the taps. Given the `medium` of the
        pieces [B n, ...], vectors are joined to [B, N, D], and those of the taps are in the place of a cache.
        """
        self.hold(tokens)
        wanted = "answer" if self.pooled else "hidden" if self.after is None else "states"
        x, states = self.encoder(tokens, wanted, self.behind, name="tower")
        places = self.model.grid_made(tokens.shape) or (x.shape[1], 1)
        first = 0 if self.after is None else 1
        tapped = states[first : first + len(self.taps)] if self.taps else ()
        deep = [
            run_steps(self.tap_projector, state, places, f"tap{tap}")
            for tap, state in zip(self.taps, tapped, strict=True)
        ]
        x = x if self.after is None else states[0]
        x = side_by_side(x, states[-len(self.beside) :]) if self.beside else x
        y = run_steps(self.projector, x, places, GROUP)
        newline = Parameter("newline", (y.shape[-1],))(y, group=GROUP) if self.newline else None
        if medium is None:
            return (y, *deep) if deep else y, None
        return self._joined(y, medium, newline), tuple(self._joined(z, medium) for z in deep)

    def _joined(self, x: Tensor, medium: Medium, newline: Tensor | None = None) -> Tensor:
        """The vectors [B n, T, D] of pieces as those [B, N, D] of their medium."""
        if self.sizing is None or medium.kind in SOUNDS:
            return x
        pieces, places, _ = self._projected(medium)
        return self.sizing.joined(x, medium.size, pieces, places, newline)

    def check(self) -> Iterator[Conflict]:
        """Conflicts: taps without steps, added vectors with a place, sections that are not three."""
        yield from super().check()
        if bool(self.taps) != bool(self.tap_projector):
            yield Conflict("taps-steps", "taps", "taps and tap_projector go together", "state both or none")
        if self.added and (self.token is not None or self.crosses or self.taps):
            what = "vectors that are added to those of the text stand in the place of no token"
            yield Conflict("tower-added", "added", what, "leave token, crosses and taps out")
        if self.sections and len(self.sections) != AXES:
            what = f"sections are those of time, rows and columns, not {len(self.sections)} numbers"
            yield Conflict("tower-sections", "sections", what, "state three numbers, or leave them out")


def _piece(medium: Medium, size: tuple[int, ...]) -> Medium:
    """A piece of a medium as an encoder reads it: frames of a video are images."""
    return Medium("image" if medium.kind == VIDEO else medium.kind, tuple(size))
