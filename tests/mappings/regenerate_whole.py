"""What transformers says of every image-text type as a whole: regenerates `whole.json`, in a minute.

    python tests/mappings/regenerate_whole.py [MODEL_TYPE …]

For each image-text type of `figures.json` whose class builds: parameters by part, and size, rows and FLOPs of
one usual image (`tests/helpers/whole_model.py`). Where the class of the defaults reads no image, the reason.
"""

import json
import logging
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "helpers"))

from their_class import default_model  # noqa: E402
from whole_model import one_image, params_by_part  # noqa: E402

FIGURES, WHOLE = HERE / "figures.json", HERE / "whole.json"
MAPPING = "image-text/"


def configs() -> dict[str, dict[str, Any]]:
    """The entry of each image-text class that builds, by model_type."""
    classes = json.loads(FIGURES.read_text())["classes"]
    return {
        name.removeprefix(MAPPING): entry
        for name, entry in classes.items()
        if name.startswith(MAPPING) and "config" in entry
    }


def whole(kind: str, entry: dict[str, Any]) -> dict[str, Any]:
    """Parameters by part, and one image."""
    model = default_model(kind, entry["class"], entry["config"])
    return {"params": params_by_part(model), **one_image(model)}


def main(asked: list[str]) -> None:
    """Write the figures of these types, or of all, a line each."""
    logging.disable(logging.CRITICAL)
    known = json.loads(WHOLE.read_text()) if asked else {}
    entries = configs()
    for kind in asked or entries:
        known[kind] = whole(kind, entries[kind])
    lines = (f"{json.dumps(kind)}: {json.dumps(figures)}" for kind, figures in sorted(known.items()))
    WHOLE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
