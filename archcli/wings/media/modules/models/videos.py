"""Videos: which pieces a processor makes of their frames, and how many tokens these become.

T frames, which are those that the processor samples, H and W height and width in pixels.
"""

from __future__ import annotations

from math import ceil, floor, sqrt
from typing import ClassVar, Literal

from archcli.errors import ArchError
from archcli.modules.spec.base import Count, Size, Spec
from archcli.wings.media.modules.ends.projectors import Pieces
from archcli.wings.media.modules.images.sizings import MOST_STRETCHED, Sides


class VideoSizing(Spec):
    """What becomes of a video: a tower reads its pieces one by one, none sees the others."""

    family: ClassVar[str] = "video_sizing"
    default_kind: ClassVar[str] = "frames"

    def pieces(self, frames: int, height: int, width: int) -> Pieces:
        """The pieces of T frames of H x W pixels."""
        raise NotImplementedError

    def tokens(self, pieces: Pieces, places: tuple[int, int], piece_tokens: int) -> int:
        """Tokens in the prompt of `pieces`, with `piece_tokens` in each, in so many `places`."""
        return pieces.number * piece_tokens


class EachFrame(VideoSizing):
    """Each frame is resized to one `size` (InternVL, SmolVLM).

    With `pooled` so many rows and columns of vectors behind the projector become one, the last ones fewer
    (LLaVA-OneVision, arXiv:2408.03326 section 3.2: bilinear, 2). `ends` are vectors behind all frames.
    """

    kind: Literal["frames"] = "frames"
    size: Sides
    pooled: Size = 1
    ends: Count = 0

    def pieces(self, frames: int, height: int, width: int) -> Pieces:
        """A piece for each frame."""
        return Pieces(frames, (self.size[0], self.size[1]))

    def tokens(self, pieces: Pieces, places: tuple[int, int], piece_tokens: int) -> int:
        """Those of every frame, pooled, and the ends."""
        rows, columns = (-(-side // self.pooled) for side in places)
        return pieces.number * (piece_tokens if self.pooled == 1 else rows * columns) + self.ends


class PatchedFrames(VideoSizing):
    """Patches reach through `frames` frames, which are a piece (Qwen2-VL, arXiv:2409.12191 section 2.1).

    The last frame is repeated where some are left. Sides become the nearest multiples of `factor`, with the
    area of a frame, or with `of_all` of all frames, between `least` and `most` pixels.
    """

    kind: Literal["patched"] = "patched"
    frames: Size = 2
    factor: Size
    least: Size
    most: Size
    of_all: bool = False

    def pieces(self, frames: int, height: int, width: int) -> Pieces:
        """A piece for every `frames` frames; ArchError for too few of them, and for thin strips."""
        if self.of_all and frames < self.frames:
            what = f"a video of {frames} frames is not read: a patch reaches through {self.frames}"
            raise ArchError(what, f"give {self.frames} frames or more")
        if self.of_all and min(height, width) < self.factor:
            scale = max(self.factor / height, self.factor / width)
            height, width = int(height * scale), int(width * scale)
        if max(height, width) > MOST_STRETCHED * min(height, width):
            stretch = f"one side is over {MOST_STRETCHED} times the other"
            what = f"a video of {height} x {width} is not read: {stretch}"
            raise ArchError(what, "give one that is less stretched")
        return Pieces(-(-frames // self.frames), self._sides(frames, height, width))

    def _sides(self, frames: int, height: int, width: int) -> tuple[int, int]:
        n, h, w = self.factor, *(round(side / self.factor) * self.factor for side in (height, width))
        # the area is bounded with whole patches of frames, the ratio is taken with the frames that are there
        bounded = round(frames / self.frames) * self.frames if self.of_all else 1
        area = (frames if self.of_all else 1) * height * width
        if bounded * h * w > self.most:
            ratio = sqrt(area / self.most)
            h, w = (max(n, floor(side / ratio / n) * n) for side in (height, width))
        elif bounded * h * w < self.least:
            ratio = sqrt(self.least / area)
            h, w = (ceil(side * ratio / n) * n for side in (height, width))
        return h, w
