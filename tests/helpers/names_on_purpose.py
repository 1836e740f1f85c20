"""Names by which files are counted otherwise than the class's matrices, each with the reason."""

WHOLE: dict[str, str] = {"ibert": "its layers are of a class of its own, which tools pass over"}
"""Families that differ by every name."""

KEPT: dict[str, tuple[tuple[str, ...], str]] = dict.fromkeys(
    ("mobilebert", "mobilebert-bottlenecked"),
    (
        ("cls.predictions.dense", "cls.predictions.decoder"),
        "the head joins both matrices as they are, and cannot read them packed",
    ),
)
"""Matrices by the end of their names that are left as they are, by family."""

NAMES: dict[str, dict[str, str]] = {
    "switch": {f"expert_{i}": "experts of a layer count alike, with a note" for i in range(8)},
}
"""Names that mean more matrices than those of the class, by family."""
