"""What processors of transformers make of images: tiles, overviews, and patches that padding fills."""

import pytest

from archcli.errors import ArchError
from archcli.modules import (
    CanvasTiles,
    CroppedTiles,
    GridBudget,
    NearestMultiple,
    PatchBudget,
    PatchRange,
    SlicedSquares,
    SplitLongest,
    TilesBeyond,
    WindowTiles,
    WithinBounds,
)
from table import every_row

LFM2 = TilesBeyond(
    factor=32,
    least=64 * 32**2,
    most=256 * 32**2,
    largest=2 * 256 * 32**2,
    tile=512,
    least_tiles=2,
    most_tiles=10,
)
STEP = WindowTiles(size=(728, 728), tile=504, longest=3024)
PHI = CroppedTiles(tile=448, patch=14)
SIGLIP = PatchBudget(patch=16, most=256)
NEMOTRON = PatchRange(patch=16, block=2, least=1024, most=13312)
MUSE = GridBudget(cell=28, most=4096)
PADDLE = NearestMultiple(factor=28, least=384**2, most=1536**2, grown="round")
FUYU = WithinBounds(bounds=(1080, 1920), patch=30)
MINICPM = SlicedSquares(side=448, factor=56)
PAGES = CanvasTiles(tile=(512, 512), most=32, most_side=16)
ULTRA = SplitLongest(longest=3072, tile=512, most=27)


def made(sizing, image):
    pieces = sizing.pieces(*image)
    return [(pieces.number, pieces.size), *pieces.others]


@every_row(
    ("sizing", "image", "pieces"),
    [
        # within 524,288 pixels one piece; 1000 x 1600 is nearest to 2 x 3 tiles, and 384 x 640 the overview
        (LFM2, (480, 640), [(1, (416, 576))]),
        (LFM2, (1000, 1600), [(6, (512, 512)), (1, (384, 640))]),
        # 1000 / 504 leaves 496, over a fifth: 2 rows; 1600 / 504 leaves 88, under a fifth: 3 columns
        (STEP, (728, 728), [(1, (728, 728))]),
        (STEP, (1000, 1600), [(1, (728, 728)), (6, (504, 504))]),
        # one and a half times as long as wide: windows as wide as the image
        (STEP, (700, 400), [(1, (728, 728)), (2, (504, 504))]),
        (PHI, (448, 448), [(2, (448, 448))]),
        (PHI, (700, 1000), [(7, (448, 448))]),
        (SIGLIP, (512, 512), [(1, (256, 256))]),
        (SIGLIP, (200, 100), [(1, (352, 176))]),
        # 62.5 x 100 patches are 63 x 100, and 64 x 100; 4 x 7 grow 36 times, to 25 x 43 and 26 x 44;
        # of 188 x 250 a share of 0.53 is left
        (NEMOTRON, (1000, 1600), [(1, (1024, 1600))]),
        (NEMOTRON, (61, 100), [(1, (416, 704))]),
        (NEMOTRON, (3000, 4000), [(1, (1600, 2112))]),
        (MUSE, (100, 100), [(1, (112, 112))]),
        (PADDLE, (20, 100), [(1, (196, 868))]),
        (ULTRA, (3000, 4000), [(21, (512, 512))]),
        # half the square's area: one that grows to it, 448 / sqrt(2) high and twice as wide
        (MINICPM, (200, 400), [(1, (336, 616))]),
        # 3.5 squares are 3 to 5 slices: 2 x 2 are nearer to 10:7 than 1 x 3; each has 10:7 as well
        (MINICPM, (700, 1000), [(1, (392, 560)), (4, (392, 560))]),
        # a strip of 40 tiles' shape has 16 in a row, and the overview
        (PAGES, (512, 20480), [(17, (512, 512))]),
        # smaller ones stay, but for whole patches; 1080 / 2000 is 0.54, and 0.54 * 3001 is 1620.5
        (FUYU, (100, 61), [(1, (120, 90))]),
        (FUYU, (2000, 3001), [(1, (1080, 1620))]),
        (FUYU, (1000, 3840), [(1, (510, 1920))]),
    ],
)
def test_pieces_are_those_of_the_processor(sizing, image, pieces):
    assert made(sizing, image) == pieces


def test_tokens_of_phi_4_by_hand():
    """700 x 1000 fills the height of 2 x 3 tiles, and 1,280 of 1,344 pixels across: 4 patches are padding."""
    pieces = PHI.pieces(700, 1000)
    assert PHI.kept(700, 1000) == (64, 92)
    rows, columns = 64 // 2, 92 // 2
    assert PHI.tokens((700, 1000), pieces, (16, 16), 256) == rows * (columns + 1) + 1 + 16 * (16 + 1)


@pytest.mark.parametrize(("sizing", "image"), [(LFM2, (14, 2000)), (PADDLE, (1, 6000))])
def test_a_strip_is_refused_in_a_line(sizing, image):
    with pytest.raises(ArchError, match="is not read"):
        sizing.pieces(*image)
