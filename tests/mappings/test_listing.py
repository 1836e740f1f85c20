"""`archcli families` says of each model_type by which class it is held, and in what: as these tests do."""

import pytest

from archcli.load.huggingface.registry import families, listing
from archcli.load.huggingface.wrappers.table import WRAPPERS
from listed import rows, write
from mappings.test_mappings import CLASSES, verdict
from parity.families import FAMILIES

WORDS = {"params": "parameters", "flops": "FLOPs", "cached": "cache"}
LOGITS = {family.config["model_type"] for family in FAMILIES.values()}


def held(kind):
    """The classes of a model_type, and what of theirs archcli's answer equals."""
    known = {
        name: theirs
        for name, theirs in CLASSES.items()
        if kind in (name.split("/")[1], name.startswith("published/") and theirs["config"]["model_type"])
    }
    exact = [
        theirs for name, theirs in known.items() if "config" in theirs and verdict(name).verdict == "exact"
    ]
    shown = [word for key, word in WORDS.items() if any(theirs.get(key) is not None for theirs in exact)]
    classes = dict.fromkeys(theirs["class"] for theirs in exact)
    return {"classes": [*classes], "held": [*shown, *(["logits"] if kind in LOGITS else [])]}


@pytest.mark.long
def test_the_listing_is_what_these_tests_hold(renew):
    made = {kind: {**rows().get(kind, {}), **held(kind)} for kind in {*families(), *WRAPPERS}}
    if renew:
        write(made)
    assert listing() == made
