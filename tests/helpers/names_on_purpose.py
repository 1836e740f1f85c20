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

HEAD_ALONE = "the head that is listed by itself is not that of the file's architecture, or is not read so yet"
BLOCKS = "matrices that share a stored tensor begin a block of 64 values each"
BY_METHOD: dict[tuple[str, str], str] = {
    **{
        (family, "modelopt-mixed"): HEAD_ALONE
        for family in ("jina-embeddings-v3", "xlm-roberta", "qwen3_vl_moe", "molmo2", "mllama")
    },
    **{(family, "bitsandbytes-4"): BLOCKS for family in ("zamba2", "zamba2-one-block", "zamba2-adapted")},
}
"""Families that differ in one method alone."""
