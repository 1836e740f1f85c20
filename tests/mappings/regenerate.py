"""What transformers says of the default model of every type in its mappings.

Regenerates `figures.json`. None of our code takes part.

    python tests/mappings/regenerate.py [MODEL_TYPE …]

For each model_type of the causal, masked, sequence-to-sequence and image-text mappings: the config.json that
its class saves by default, its parameters, the matmul FLOPs of a pass of 128 tokens and the elements that
pass leaves in the cache (`tests/helpers/their_class.py`). A class that does not build, or whose FLOPs it
does not show on the meta device, stands there with its reason.
"""

import json
import logging
import signal
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "helpers"))

from transformers.models.auto import modeling_auto  # noqa: E402

from their_class import default_config, default_model, one_pass, params  # noqa: E402

FIGURES = HERE / "figures.json"
MAPPINGS = {
    "causal": modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    "masked": modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    "sequence-to-sequence": modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    "image-text": modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
}
TOKENS, MOST_SECONDS, SHOWN = 128, 180, 160


def figures(kind: str, name: str) -> dict[str, Any]:
    """The config.json and the figures of one class."""
    try:
        signal.alarm(MOST_SECONDS)
        config = default_config(kind, name)
        model = default_model(kind, name, config)
    except Exception as error:  # noqa: BLE001 what any class may raise
        return {"class": name, "does_not_build": f"{type(error).__name__}: {error}".splitlines()[0][:SHOWN]}
    else:
        return {"class": name, "config": config, "params": params(model), **one_pass(model, TOKENS)}
    finally:
        signal.alarm(0)


def classes() -> list[tuple[str, str, str]]:
    """(mapping, model_type, class) of every entry; of several classes the first."""
    return [
        (mapping, kind, name if isinstance(name, str) else name[0])
        for mapping, names in MAPPINGS.items()
        for kind, name in names.items()
    ]


def main(kinds: list[str]) -> None:
    """Write the figures of these types, or of all, among those that stand already."""
    logging.disable(logging.CRITICAL)
    kept = json.loads(FIGURES.read_text())["classes"] if FIGURES.exists() else {}
    for mapping, kind, name in classes():
        if kind in kinds or (not kinds and f"{mapping}/{kind}" not in kept):
            kept[f"{mapping}/{kind}"] = figures(kind, name)
            sys.stderr.write(f"{mapping}/{kind}\n")
            software = {package: version(package) for package in ("torch", "transformers")}
            FIGURES.write_text(
                json.dumps({"software": software, "classes": dict(sorted(kept.items()))}, indent=1) + "\n"
            )


if __name__ == "__main__":
    main(sys.argv[1:])
