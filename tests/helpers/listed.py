"""listing.json of the families: what their files say of each model_type, and how it is written."""

import json
from importlib import import_module

from archcli.load.huggingface.registry import FOLDER, LISTING


def rows():
    """The file and the description of each model_type, by the files themselves, all of which are imported."""
    found = {}
    for path in sorted(FOLDER.glob("[a-z]*.py")):
        for kind, family in import_module(f"archcli.load.huggingface.families.{path.stem}").FAMILIES.items():
            assert kind not in found, f"{kind} is in {found[kind]['file']}.py and in {path.name}"
            found[kind] = {"file": path.stem, "what": family.about}
    return found


def write(entries):
    """Write the listing, a line a model_type."""
    kinds = sorted(entries, key=str.lower)
    lines = ",\n".join(f'"{kind}": {json.dumps(entries[kind], ensure_ascii=False)}' for kind in kinds)
    LISTING.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
