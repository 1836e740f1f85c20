"""Random variations of each family's config.json: exact or refused by name wherever the class builds.

    python tests/mappings/mutate.py [--n 60] [--seed 0] [MODEL_TYPE …]

Of the default config of each type that archcli imports, cut to a few layers: one to three keys altered, left
out or set to null, of a wrapper those of its text part too. Prints what is wrong, with the changes.
"""

import argparse
import json
import logging
import random
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "helpers"))

from archcli.load.huggingface.registry import families  # noqa: E402
from archcli.load.huggingface.wrappers.table import WRAPPERS  # noqa: E402
from mapped import Answer, answer  # noqa: E402
from their_class import built, one_pass, params  # noqa: E402
from their_images import MAPPINGS, figures_of_images  # noqa: E402

TOKENS, MOST_SECONDS, FEW = 16, 60, 4
DEPTHS = (
    "num_hidden_layers",
    "n_layer",
    "num_layers",
    "n_layers",
    "encoder_layers",
    "decoder_layers",
    "num_decoder_layers",
)
Changes = dict[tuple[str, str], Any]
MISSING, LEFT_OUT = "(left out)", 0.3
KEPT = ("architectures", "model_type", "transformers_version")
TEXT = "text_config"
ACTS = ("silu", "gelu", "relu", "gelu_new", "gelu_pytorch_tanh", "relu2")


def small(config: dict[str, Any]) -> dict[str, Any]:
    """The config with a few layers; lists with an entry for each layer are left to the class."""
    parts = {key: small(value) if key == TEXT and value else value for key, value in config.items()}
    cut = {key: FEW if key in DEPTHS and isinstance(value, int) else value for key, value in parts.items()}
    depth = next((config[key] for key in DEPTHS if key in config), None)
    kept = {key: value for key, value in cut.items() if not (isinstance(value, list) and len(value) == depth)}
    return {key: _of_first(value) if key == "per_layer_config" else value for key, value in kept.items()}


def _of_first(by_number: dict[str, Any]) -> dict[str, Any]:
    """What is stated of the layers that are left."""
    return {number: own for number, own in by_number.items() if int(number) < FEW}


def changes(config: dict[str, Any], rng: random.Random) -> Changes:
    """One to three keys and their new values, by (part, key); a missing value leaves the key out."""
    parts = {"": config, **({TEXT: config[TEXT]} if isinstance(config.get(TEXT), dict) else {})}
    keys = [(part, key) for part, stated in parts.items() for key in stated if key not in (*KEPT, TEXT)]
    return {
        (part, key): altered(key, parts[part][key], rng) for part, key in rng.sample(keys, rng.randint(1, 3))
    }


def altered(key: str, value: Any, rng: random.Random) -> Any:
    """Another value for a key."""
    if rng.random() < LEFT_OUT:
        return rng.choice((MISSING, None))
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return rng.choice(ACTS) if "act" in key else value
    return rng.choice(others(value))


def others(value: Any) -> tuple[Any, ...]:
    """What may stand in place of a number, of null, of a list or a mapping."""
    if isinstance(value, int):
        return (value * 2, max(1, value // 2), value + 1, 0, 1) if value else (1, 2)
    if isinstance(value, float):
        return (value * 2, 0.0, 1.0, 0.5)
    return (True, 1, 2, 64) if value is None else (MISSING, None)


def mutated(config: dict[str, Any], changed: Changes) -> dict[str, Any]:
    """The config with these changes."""
    stated = {
        part: {key: new for (where, key), new in changed.items() if where == part} for part in ("", TEXT)
    }
    inner = {TEXT: {**config[TEXT], **stated[TEXT]}} if stated[TEXT] else {}
    return without_missing({**config, **inner, **stated[""]})


def without_missing(config: dict[str, Any]) -> dict[str, Any]:
    """The config without the keys that are left out, in its text part either."""
    kept = {key: value for key, value in config.items() if value != MISSING}
    return {**kept, TEXT: without_missing(kept[TEXT])} if isinstance(kept.get(TEXT), dict) else kept


def theirs(config: dict[str, Any], *, of_images: bool = False) -> dict[str, Any] | None:
    """The class's figures, or None where it does not build, or does not run over its usual image."""
    signal.alarm(MOST_SECONDS)
    try:
        model = built(config)
        if of_images:
            return figures_of_images(model)
        return {"params": params(model), **one_pass(model, TOKENS)}
    except Exception:  # noqa: BLE001 what any class may raise
        return None
    finally:
        signal.alarm(0)


def verdicts(
    config: dict[str, Any], seed: str, n: int, *, of_images: bool = False
) -> Iterator[tuple[Changes, Answer]]:
    """(changes, answer) of n variations whose class builds."""
    rng, base = random.Random(seed), small(config)  # noqa: S311 no secret hangs on it
    for changed in (changes(base, rng) for _ in range(n)):
        variation = mutated(base, changed)
        known = theirs(variation, of_images=of_images)
        if known is not None:
            yield changed, answer(variation, known, TOKENS)


def is_of_images(name: str) -> bool:
    """Whether the class of `mapping/model_type` reads images."""
    return name.split("/", maxsplit=1)[0] in MAPPINGS


def known_classes() -> dict[str, Any]:
    """The classes that build and whose type archcli imports, by `mapping/model_type`."""
    classes = json.loads((HERE / "figures.json").read_text())["classes"]
    imported = {**families(), **WRAPPERS}
    return {
        name: known for name, known in classes.items() if "config" in known and name.split("/")[1] in imported
    }


def main() -> None:
    """Print what is wrong, and a line for each type."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*")
    parser.add_argument("--n", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    logging.disable(logging.CRITICAL)
    for name, known in known_classes().items():
        if asked.kinds and name.split("/")[1] not in asked.kinds:
            continue
        counts: Counter[str] = Counter()
        for changed, (verdict, what) in verdicts(
            known["config"], f"{asked.seed} {name}", asked.n, of_images=is_of_images(name)
        ):
            counts[verdict] += 1
            if verdict in ("wrong", "traceback"):
                said = {".".join(filter(None, place)): value for place, value in changed.items()}
                print(f"{name} {json.dumps(said)}: {verdict}: {what}")
        print(f"{name}: {dict(counts)}", flush=True)


if __name__ == "__main__":
    main()
