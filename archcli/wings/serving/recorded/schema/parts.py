"""Records of a multimodal model: its parts, and the images and sounds in its prompt."""

from __future__ import annotations

from typing import Annotated, NotRequired

from archcli.modules.spec.values import Meaning
from archcli.wings.serving.recorded.schema.records import Amount, Figures, Record


class PartFigures(Figures):
    """The figures of a part."""

    matmul_flops: Annotated[Amount, Meaning("FLOPs of its matrix products, counted.")]


class MediumFigures(Record):
    """An image or a sound."""

    kind: Annotated[str, Meaning("image, video or audio.")]
    size: Annotated[list[Amount], Meaning("Its size: (frames,) height and width in pixels, or its length.")]
    tokens: Annotated[Amount, Meaning("Tokens of the prompt that it becomes.")]


class PartTotals(Record):
    """Totals that only multimodal models have."""

    by_part: NotRequired[
        Annotated[
            dict[str, PartFigures],
            Meaning(
                "Of a multimodal model by part, in the order of the pass: towers, projector, placing (what "
                "puts vectors among those of the text), language_model."
            ),
        ]
    ]
