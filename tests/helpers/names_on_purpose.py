"""Names by which files are counted otherwise than the class's matrices, each with the reason."""

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
    "qwen4-exp-mlx": {"ple": "its list names slices of a table, which are one module here and in the class"},
}
"""Names that mean more matrices than those of the class, by family, or by family and method."""

REFUSED_TABLES: dict[str, str] = {
    "shared": "no pass reads this module: encoder and decoder have tables tied to it",
    **dict.fromkeys(("conv1", "conv2"), "adapters of convolutions are not counted"),
    **dict.fromkeys(
        ("relative_attention_bias", "global_relative_attention_bias", "rel_embeddings"),
        "adapters of a table of distances are not counted",
    ),
    "embed_positions": "sinusoids are computed, which classes hold as a frozen table",
    **dict.fromkeys(("lang_embeddings", "shape_embed"), "a table that no pass over text reads"),
}
"""Targets that are refused where peft adapts them, each with the reason."""

OF_ALL_USES = "each use of a block holds the adapters of all uses, and reads its own"
OF_IMAGES = "a table has the rows of images, which are a tower's"
OF_TRANSFORM = "peft leaves out the class's output embeddings, which are its head's transform here"
UNREAD_TARGETS: dict[str, dict[str, str]] = {
    "deberta-new-head": {"all-linear": OF_TRANSFORM},
    "deberta-v3-new-head": {"all-linear": OF_TRANSFORM},
    "zamba2": {"all-linear": OF_ALL_USES},
    "zamba2-adapted": {"all-linear": OF_ALL_USES},
    "zamba2-one-block": {"all-linear": OF_ALL_USES},
    "molmo2": {"embed_tokens": OF_IMAGES},
    "molmo2_olmo": {"embed_tokens": OF_IMAGES},
}
"""Targets by family that are counted otherwise than peft adapts them, or refused."""

UNREAD = "adapters of modules that no pass over text reads are not counted"
HEADS = "a head of two tables, or of another table than the class's"
NOT_ADAPTED: dict[str, str] = {
    **dict.fromkeys(("luke", "luke-untied", "luke-base", "luke-classifier"), UNREAD),
    **dict.fromkeys(("blip", "blip-untied", "evolla", "evolla-biased", "xmod"), UNREAD),
    **dict.fromkeys(("esm", "esm-rotary", "esm-classifier"), UNREAD),
    **dict.fromkeys(("bert2bert", "roberta2bert", "bert2roberta"), UNREAD),
    **dict.fromkeys(("mobilebert", "mobilebert-bottlenecked", "mobilebert-wide"), HEADS),
    **dict.fromkeys(("fsmt", "ultrabert"), HEADS),
    **dict.fromkeys(
        ("longcat-flash", "longcat-flash-uneven"), "routers have columns for experts that compute nothing"
    ),
}
"""Families whose adapters are counted otherwise than peft makes them by one of their names."""
