"""`archcli families` says of each model_type by which class it is held, and in what: as these tests do."""

import json
from pathlib import Path

import pytest

from archcli.load.huggingface import importer
from archcli.load.huggingface.importer import families
from archcli.load.huggingface.wrappers.table import WRAPPERS
from mappings.test_mappings import CLASSES, verdict
from parity.families import FAMILIES

LISTING = Path(importer.__file__).parent / "families" / "listing.json"
WORDS = {"params": "parameters", "flops": "FLOPs", "cached": "cache"}
LOGITS = {family.config["model_type"] for family in FAMILIES.values()}


def held(kind):
    """The classes of a model_type, and what of theirs archcli's answer equals."""
    known = {name: theirs for name, theirs in CLASSES.items() if name.split("/")[1] == kind}
    exact = [
        theirs for name, theirs in known.items() if "config" in theirs and verdict(name).verdict == "exact"
    ]
    shown = [word for key, word in WORDS.items() if any(theirs.get(key) is not None for theirs in exact)]
    classes = dict.fromkeys(theirs["class"] for theirs in exact)
    return {"classes": [*classes], "held": [*shown, *(["logits"] if kind in LOGITS else [])]}


@pytest.mark.long
def test_the_listing_is_what_these_tests_hold(renew):
    made = {kind: held(kind) for kind in sorted({*families(), *WRAPPERS}, key=str.lower)}
    if renew:
        lines = ",\n".join(f'"{kind}": {json.dumps(entry)}' for kind, entry in made.items())
        LISTING.write_text(f"{{\n{lines}\n}}\n")
    assert json.loads(LISTING.read_text()) == made
