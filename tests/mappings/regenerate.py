"""What transformers says of the default model of every type in its mappings.

Regenerates `figures.json`. None of our code takes part.

    python tests/mappings/regenerate.py [MODEL_TYPE or ID …]

For each model_type of the causal, masked, sequence-to-sequence and image-text mappings: the config.json that
its class saves by default, its parameters, the matmul FLOPs of a pass of 128 tokens and the elements that
pass leaves in the cache (`tests/helpers/their_class.py`). Of the classes that read images, base models and
classifiers, the parameters and the FLOPs of the usual image (`tests/helpers/their_images.py`). The same of
the published models whose config.json stands in `published.json`, with the class that is made of it. A class
that does not build, or whose FLOPs it does not show on the meta device, stands there with its reason.
"""

import json
import logging
import signal
import sys
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "helpers"))

from transformers.models.auto import modeling_auto  # noqa: E402

from their_class import built, default_config, default_model, one_pass, params  # noqa: E402
from their_images import MAPPINGS as OF_IMAGES  # noqa: E402
from their_images import figures_of_images  # noqa: E402

FIGURES, PUBLISHED = HERE / "figures.json", HERE / "published.json"
MAPPINGS = {
    "causal": modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    "masked": modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    "sequence-to-sequence": modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    "image-text": modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
    "image": modeling_auto.MODEL_FOR_IMAGE_MAPPING_NAMES,
    "image-classification": modeling_auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES,
}
TOKENS, MOST_SECONDS, SHOWN = 128, 180, 160


def figures(mapping: str, kind: str, name: str) -> dict[str, Any]:
    """The config.json and the figures of one class."""
    try:
        signal.alarm(MOST_SECONDS)
        config = default_config(kind, name)
        model = default_model(kind, name, config)
    except Exception as error:  # noqa: BLE001 what any class may raise
        return {"class": name, "does_not_build": f"{type(error).__name__}: {error}".splitlines()[0][:SHOWN]}
    else:
        shown = figures_of_images(model) if mapping in OF_IMAGES else _figures_of_text(model)
        return {"class": name, "config": config, **shown}
    finally:
        signal.alarm(0)


def _figures_of_text(model: Any) -> dict[str, Any]:
    """Parameters, and what a pass over tokens shows."""
    return {"params": params(model), **one_pass(model, TOKENS)}


def published(entry: dict[str, Any]) -> dict[str, Any]:
    """The config.json of a published model, and the figures of its class, or of one that stands in for it."""
    config = entry.get("stand_in", entry["config"])
    try:
        model = built({**config, "architectures": [entry["class"]]})
    except Exception as error:  # noqa: BLE001 what any class may raise
        return {
            "class": entry["class"],
            "does_not_build": f"{type(error).__name__}: {error}".splitlines()[0][:SHOWN],
        }
    return {**entry, **_figures_of_text(model)}


def classes() -> list[tuple[str, str, str]]:
    """(mapping, model_type, class) of every entry; of several classes the first."""
    return [
        (mapping, kind, name if isinstance(name, str) else name[0])
        for mapping, names in MAPPINGS.items()
        for kind, name in names.items()
    ]


def main(asked: list[str]) -> None:
    """Write the figures of these types and models, or of all that are new, among those that stand already."""
    logging.disable(logging.CRITICAL)
    kept = json.loads(FIGURES.read_text())["classes"] if FIGURES.exists() else {}
    makers = {
        f"published/{name}": partial(published, entry)
        for name, entry in json.loads(PUBLISHED.read_text()).items()
    }
    makers |= {
        f"{mapping}/{kind}": partial(figures, mapping, kind, name) for mapping, kind, name in classes()
    }
    for name, make in makers.items():
        if name.split("/")[1] in asked or (not asked and name not in kept):
            kept[name] = make()
            sys.stderr.write(f"{name}\n")
            software = {package: version(package) for package in ("torch", "transformers")}
            written = {"software": software, "classes": dict(sorted(kept.items()))}
            FIGURES.write_text(json.dumps(written, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
