"""Tower: an encoder of images or sounds beside a language model, and the projector between the two.

B batch, T tokens, D width.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from archcli.errors import ArchError
from archcli.graph import Row, Tensor
from archcli.graph.count_tape import Abstract, ShapeTape
from archcli.modules.ends.patches import FrontEnd
from archcli.modules.ends.projectors import GROUP, Places, ProjectorStep, run_steps
from archcli.modules.ends.sizings import ImageSizing, Pieces
from archcli.modules.spec.base import Conflict, Count, Module
from archcli.modules.spec.request import SOUNDS, InputSpec, Medium, Request
from archcli.modules.spec.trace import run_on
from archcli.ops import Parameter


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

    def inputs(self, request: Request) -> dict[str, InputSpec]:
        """The tensor that is read."""
        raise NotImplementedError


class Tower(Module):
    """An encoder, and the steps from its vectors to those that the language model reads.

    `part` is what it is called in `by_part`. `sizing` says what becomes of an image before the encoder reads
    it; left out, the image stays as it is. `taps` are layers whose vectors are also projected, each by
    `tap_projector` with weights of its own (deepstack, arXiv:2406.04334; Qwen3-VL). `newline` is a trained
    vector as wide as the language model, which ends rows of patches (LLaVA-1.6). Its figures are counted; the
    language model alone is built and run.
    """

    part: Literal["vision_tower", "audio_tower"] = "vision_tower"
    model: TowerModel
    sizing: ImageSizing | None = None
    projector: tuple[ProjectorStep, ...] = ()
    taps: tuple[Count, ...] = ()
    tap_projector: tuple[ProjectorStep, ...] = ()
    newline: bool = False

    @property
    def media(self) -> tuple[str, ...]:
        """The kinds of media that it reads."""
        return self.model.media

    def part_of(self, row: Row) -> str:
        """The part that a row is in: this tower, or the projector."""
        return GROUP if row.path.startswith((GROUP, "tap")) or row.group == GROUP else self.part

    @property
    def usual(self) -> Medium:
        """The medium that the encoder reads where none is named."""
        return self.model.front_end.usual

    def pieces(self, medium: Medium) -> Pieces:
        """What the encoder reads of a medium."""
        if self.sizing is None or medium.kind != "image":
            return Pieces(1, medium.size)  # type: ignore[arg-type]  # a sound has one size
        return self.sizing.pieces(*medium.size)

    def reading(self, request: Request, medium: Medium) -> Request:
        """The pass of the encoder over a medium: a forward over all of its pieces."""
        if medium.kind not in self.media:
            raise ArchError(f"{self.part} reads no {medium.kind}", f"it reads {' or '.join(self.media)}")
        number, size = self.pieces(medium)[:2]
        phase: Any = "train" if request.phase == "train" else "forward"
        read = Medium(medium.kind, tuple(size))
        return self.model.fitted(Request(phase, number * request.batch_size, media=(read,)))

    def places(self, medium: Medium) -> Places:
        """Rows and columns of the vectors of one piece; a sequence is one column."""
        grid = self.model.front_end.grid_read(self.model.front_end.input(1, medium).shape)
        return grid if grid is not None else (self.model.tokens_of(medium), 1)

    def tokens_of(self, medium: Medium) -> int:
        """Tokens in the prompt for a medium."""
        pieces = self.pieces(medium)
        read = self.model.front_end.medium(Request(media=(Medium(medium.kind, tuple(pieces.size)),)))
        places, each = self.places(read), self.model.tokens_of(read)
        for step in self.projector:
            places = step.places_after(places)
            each = step.tokens_after(each, places)
        if self.sizing is None or medium.kind in SOUNDS:
            return each
        return self.sizing.tokens(medium.size, pieces, places, each)

    @property
    def width(self) -> int:
        """The width of the vectors that the language model reads."""
        request = self.reading(Request(), self.usual)
        inputs = {name: Abstract(spec.shape) for name, spec in self.inputs(request).items()}
        out, _ = run_on(ShapeTape([]), self, request, inputs, None)
        width: int = out.shape[-1]
        return width

    def inputs(self, request: Request) -> dict[str, InputSpec]:
        """What the encoder reads."""
        return self.model.inputs(request)

    def forward(self, tokens: Tensor, **_: Any) -> tuple[Tensor, None]:
        """Pixels or a spectrogram to the vectors that the language model reads."""
        x, _cache = self.model(tokens, "hidden", name="tower")
        places = self.model.front_end.grid_read(tokens.shape) or (x.shape[1], 1)
        for tap in self.taps:
            run_steps(self.tap_projector, x, places, f"tap{tap}")
        y = run_steps(self.projector, x, places, GROUP)
        if self.newline:
            Parameter("newline", (y.shape[-1],))(y, group=GROUP)
        return y, None

    def check(self) -> Iterator[Conflict]:
        """Conflicts: taps without steps, or of layers that are not there."""
        yield from super().check()
        if bool(self.taps) != bool(self.tap_projector):
            yield Conflict("taps-steps", "taps", "taps and tap_projector go together", "state both or none")


__all__ = ["Tower", "TowerModel"]
