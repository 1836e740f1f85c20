"""Names by which files are counted otherwise than the class's matrices, each with the reason."""

SHARED_SINKS = "shared experts are parameters, and files hold a text model's as its wrapper's does"
UNREAD = "matrices that no pass over words reads are counted as they are in bf16"
OF_OTHERS = "the table of names is that of several classes: the head goes by lm_head in one of them"

WHOLE: dict[str, str] = {
    **dict.fromkeys(
        ("longcat-flash", "longcat-flash-uneven"), "experts that compute nothing are not counted"
    ),
    **dict.fromkeys(("inkling", "inkling-alike", "inkling_mm_model"), SHARED_SINKS),
    **dict.fromkeys(("luke", "luke-untied", "luke-base", "luke-classifier"), UNREAD),
    "xmod": "of the adapters of several languages a pass runs one",
    **dict.fromkeys(("esm", "esm-rotary", "esm-classifier"), "the head of contacts is read by no pass"),
    **dict.fromkeys(("mobilebert", "mobilebert-bottlenecked", "mobilebert-wide"), "a head of two tables"),
    **dict.fromkeys(("ultrabert", "modernbert-biased"), OF_OTHERS),
    **dict.fromkeys(("bert2bert", "roberta2bert", "bert2roberta"), UNREAD),
    **dict.fromkeys(("blip", "blip-untied", "evolla", "evolla-biased"), UNREAD),
    "ibert": "its layers are of a class of its own, which tools pass over",
    "fsmt": "files tie the head that the class holds apart",
}
"""Families by name that differ by every name."""

POOLER = "the base class's pooler is in the table of names, and goes by the base's name"
BASES = {
    "roberta-classifier": "roberta",
    "xmod-one-language": "roberta",
    "electra-discriminator": "electra",
    "electra-classifier": "electra",
    "deberta-v2": "deberta",
}
OLDER = "experts go by the names of Granite's older files, too"

NAMES: dict[str, dict[str, str]] = {
    **{family: {base: POOLER} for family, base in BASES.items()},
    "switch": {f"expert_{i}": "experts of a layer count alike, with a note" for i in range(8)},
    "granitemoe-swa": dict.fromkeys(("input_linear", "output_linear"), OLDER),
}
"""Names that mean more matrices than those of the class, by family."""

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
OF_SEQUENCES = "the table of names has the classifier of sequences too, a module of two layers: refused"
UNREAD_TARGETS: dict[str, dict[str, str]] = {
    "deberta-new-head": {"all-linear": OF_TRANSFORM},
    "deberta-v3-new-head": {"all-linear": OF_TRANSFORM},
    "camembert": {"classifier": OF_SEQUENCES},
    "zamba2": {"all-linear": OF_ALL_USES},
    "zamba2-adapted": {"all-linear": OF_ALL_USES},
    "zamba2-one-block": {"all-linear": OF_ALL_USES},
    "molmo2": {"embed_tokens": OF_IMAGES},
    "molmo2_olmo": {"embed_tokens": OF_IMAGES},
}
"""Targets by family that are counted otherwise than peft adapts them, or refused."""
