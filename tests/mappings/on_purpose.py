"""Keys by whose variation archcli differs from the class on purpose, each with the reason."""

UNTIED = "checkpoints of T5's kind hold an untied head, which the class ties; a note gives its count"

ON_PURPOSE: dict[str, dict[str, str]] = {
    f"sequence-to-sequence/{kind}": {"tie_word_embeddings": UNTIED, "scale_decoder_outputs": UNTIED}
    for kind in ("t5", "mt5", "umt5", "longt5")
}
"""By `mapping/model_type`: the key, and why."""
