"""listing.json of the families: what their files say of each model_type, and how it is written."""

import json
from importlib import import_module

from archcli.load.huggingface import family as one_family
from archcli.load.huggingface.registry import FOLDER, LISTING


def all_families():
    """(its file, the Family) of each model_type, by the files themselves, all of which are imported."""
    found = {}
    for path in sorted(FOLDER.glob("[a-z]*.py")):
        for kind, family in import_module(f"archcli.load.huggingface.families.{path.stem}").FAMILIES.items():
            assert kind not in found, f"{kind} is in {found[kind][0]}.py and in {path.name}"
            found[kind] = (path.stem, family)
    return found


def rows():
    """The file and the description of each model_type."""
    return {kind: {"file": file, "what": family.about} for kind, (file, family) in all_families().items()}


def write(entries):
    """Write the listing, a line a model_type."""
    kinds = sorted(entries, key=str.lower)
    lines = ",\n".join(f'"{kind}": {json.dumps(entries[kind], ensure_ascii=False)}' for kind in kinds)
    LISTING.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
    one_family._text.cache_clear()
