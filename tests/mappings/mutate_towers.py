"""Random variations of towers: counted as their class does, or left out or refused with the reason.

    python tests/mappings/mutate_towers.py [--n 20] [--seed 0] [--write] [MODEL_TYPE …]

Of the default config of each type whose tower archcli reads, with few layers: one to three keys of the tower
or of what joins it to the language model are altered, left out or set to null. Wherever the class builds, its
parameters by part, and tokens and FLOPs of an image or a sound where it reads one, are compared. Prints what
is wrong, with the changes; `--write` keeps how many of each type were exact in `mutated_towers.json`.
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
sys.path.insert(0, str(HERE.parent))

from mapped_whole import Whole, whole_answer  # noqa: E402
from mappings.mutate import (  # noqa: E402
    ACTS,
    DEPTHS,
    FEW,
    KEPT,
    LEFT_OUT,
    MISSING,
    TEXT,
    Changes,
    others,
    small,
    without_missing,
)
from their_class import built  # noqa: E402
from tower_defaults import TOWERS  # noqa: E402
from whole_model import figures  # noqa: E402

TABLE = HERE / "mutated_towers.json"
MOST_SECONDS = 60
CHOICES: dict[str, tuple[Any, ...]] = {
    "image_size": (112, 224, 448, [224, 224], [224, 448]),
    "patch_size": (7, 8, 14, 16, 28, [14, 14]),
    "window_size": (28, 56, 100, 112, 224),
    "fullatt_block_indexes": ([], [0], [1, 3], [0, 1, 2, 3], [3, 9]),
    "deepstack_visual_indexes": ([], [0], [1, 3], [2, 1], [3, 9]),
    "merge_kernel_size": ([1, 1], [2, 2], [4, 4], [2, 1], 2),
    "vision_feature_layer": (-1, -2, 0, 1, 3, [-1, -2], 9),
    "vision_feature_select_strategy": ("full", "default"),
    "vision_aspect_ratio": ("anyres_max_9", "anyres_max_4", "anyres"),
    "norm_type": ("layer_norm", "rms_norm"),
    "image_grid_pinpoints": ([[336, 336]], [[336, 672], [672, 336]], [[768, 768], [384, 384]]),
    "downsample_ratio": (0.5, 0.25, 1.0, 0.4),
    "pixel_shuffle_ratio": (0.5, 0.25, 1.0),
    "spatial_merge_size": (1, 2, 4),
    "scale_factor": (1, 2, 4),
    "num_attention_heads": (4, 8, 16, 3),
    "num_heads": (4, 8, 16, 3),
    "rope_parameters": ({"rope_theta": 100.0, "rope_type": "axial"}, None),
}
"""Values of keys that are no plain number, or whose other numbers no class builds."""
RUNS: dict[tuple[str, str], dict[str, Any]] = {
    ("aria", "vision_config"): {"image_size": 1120},
    ("dots3_note", "vision_config"): {
        "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
        "per_layer_config": {"1": {"num_local_experts": 4}, "2": {"num_local_experts": 6}},
    },
    ("gemma3", "vision_config"): {"image_size": 256},
    ("granite_docling", "vision_config"): {"deepstack_visual_indexes": [0, 1, 3]},
    ("idefics3", "vision_config"): {"image_size": 256},
    ("llama4", "vision_config"): {"intermediate_size": 3072, "vision_output_dim": 4096},
    ("mllama", "vision_config"): {"intermediate_layers_indices": [0, 1, 2, 3, 3]},
    ("minicpmv4_6", ""): {"insert_layer_id": 1},
    ("minicpmv4_7", ""): {"insert_layer_id": 1},
    ("molmo2", "adapter_config"): {"vision_feature_layer": [3, 1]},
    ("qwen2_5_vl", "vision_config"): {"fullatt_block_indexes": [1, 3]},
    ("qwen3_vl", "vision_config"): {"deepstack_visual_indexes": [1, 2, 3]},
    ("qwen3_vl_moe", "vision_config"): {"deepstack_visual_indexes": [1, 2, 3]},
    ("smolvlm", "vision_config"): {"image_size": 256},
}
"""Keys of a tower, or of the file, with few layers, or whose default reads no image."""
NAMES_OF_TOKENS = ("_token_id", "_token_index", "vocab_size", "image_seq_length")


OF_SOUNDS = ("glmasr", "qwen3_asr")
"""Types of whose sounds no usual length is known; `tests/oracle/hearing.json` has figures of theirs."""


def classes() -> dict[str, dict[str, Any]]:
    """The default config of each type whose towers are read, and whose class builds."""
    known = json.loads((HERE / "figures.json").read_text())["classes"]
    kinds = dict.fromkeys(kind for kind, _ in TOWERS if kind not in OF_SOUNDS)
    places = (f"{mapping}/{kind}" for kind in kinds for mapping in ("image-text", "sequence-to-sequence"))
    return {
        place.split("/")[1]: known[place]["config"] for place in places if "config" in known.get(place, {})
    }


def base(kind: str, config: dict[str, Any]) -> dict[str, Any]:
    """The default config with few layers in each part."""
    cut = small(config) | RUNS.get((kind, ""), {})
    # an infinite number of a saved file is the class's default; it reads no such file
    text = {key: value for key, value in (cut.get(TEXT) or {}).items() if "__float__" not in str(value)}
    cut = {**cut, **({TEXT: text} if cut.get(TEXT) else {})}
    for part in towers(config):
        few = {key: FEW if key in (*DEPTHS, "depth") else value for key, value in config[part].items()}
        cut[part] = {**few, **RUNS.get((kind, part), {})}
    return cut


def towers(config: dict[str, Any]) -> list[str]:
    """Keys of the towers."""
    return [key for key in config if key.endswith("_config") and key != "text_config" and config[key]]


def changes(config: dict[str, Any], rng: random.Random) -> Changes:
    """One to three keys and their new values, by (part, key)."""
    parts = {"": config, **{part: config[part] for part in towers(config)}}
    keys = [
        (part, key)
        for part, stated in parts.items()
        for key in stated
        if key not in KEPT and not key.endswith(("_config", *NAMES_OF_TOKENS))
    ]
    # a class without towers by default has few keys
    chosen = rng.sample(keys, min(rng.randint(1, 3), len(keys)))
    return {(part, key): altered(key, parts[part][key], rng) for part, key in chosen}


def altered(key: str, value: Any, rng: random.Random) -> Any:
    """Another value for a key."""
    if rng.random() < LEFT_OUT:
        return rng.choice((MISSING, None))
    if key in CHOICES:
        return rng.choice(CHOICES[key])
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return rng.choice(ACTS)
    return rng.choice(others(value))


def mutated(config: dict[str, Any], changed: Changes) -> dict[str, Any]:
    """The config with these changes."""
    stated: dict[str, dict[str, Any]] = {}
    for (part, key), new in changed.items():
        stated.setdefault(part, {})[key] = new
    inner = {part: without_missing({**config[part], **new}) for part, new in stated.items() if part}
    return without_missing({**config, **inner, **stated.get("", {})})


def theirs(config: dict[str, Any]) -> dict[str, Any] | None:
    """The class's figures, or None where it does not build."""
    signal.alarm(MOST_SECONDS)
    try:
        return figures(built(config))
    except Exception:  # noqa: BLE001 what any class may raise
        return None
    finally:
        signal.alarm(0)


def verdicts(kind: str, config: dict[str, Any], seed: str, n: int) -> Iterator[tuple[Changes, Whole]]:
    """(changes, answer) of n variations whose class builds."""
    rng, start = random.Random(seed), base(kind, config)  # noqa: S311 no secret hangs on it
    made = 0
    for _ in range(4 * n):
        changed = changes(start, rng)
        variation = mutated(start, changed)
        known = theirs(variation)
        if known is not None and made < n:
            made += 1
            yield changed, whole_answer(variation, known)


def said(changed: Changes) -> str:
    """The changes in one line."""
    return json.dumps({".".join(filter(None, place)): value for place, value in changed.items()})


def main() -> None:
    """Print what is wrong, and a line for each type."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*")
    parser.add_argument("--n", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("-v", action="store_true", dest="every", help="print every variation")
    asked = parser.parse_args()
    logging.disable(logging.CRITICAL)
    table = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    for kind, config in classes().items():
        if asked.kinds and kind not in asked.kinds:
            continue
        counts: Counter[str] = Counter()
        for changed, (verdict, what) in verdicts(kind, config, f"{asked.seed} {kind}", asked.n):
            name = "exact, parameters alone" if verdict == "exact" and what else verdict
            counts[name] += 1
            if asked.every or verdict in ("wrong", "traceback"):
                print(f"{kind} {said(changed)}: {name}: {what}")
        table[kind] = dict(sorted(counts.items()))
        print(f"{kind}: {table[kind]}", flush=True)
    if asked.write:
        lines = (f"{json.dumps(kind)}: {json.dumps(counts)}" for kind, counts in sorted(table.items()))
        TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
