"""Random variations of encoders by themselves: counted as their class does, or refused with the reason.

    python tests/mappings/mutate_encoders.py [--n 20] [--seed 0] [NAME …]

Of the small config of each encoder in `tests/parity`: one to three keys of its class are altered or set to
null, numbers in lists among them. Wherever the class builds, its parameters on torch's meta device are
compared, and FLOPs of the first input that the parity tests have, where the class runs it. Prints what is
wrong, with the changes.
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

import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "helpers"))
sys.path.insert(0, str(HERE.parent))

import archcli  # noqa: E402
from archcli.errors import ArchError  # noqa: E402
from archcli.modules.spec.request import Request  # noqa: E402
from mapped import Answer  # noqa: E402
from mappings.mutate import ACTS  # noqa: E402
from parity.image_towers import IMAGES  # noqa: E402
from parity.towers import TOWERS, Tower  # noqa: E402

ENCODERS: dict[str, Tower] = {
    name: tower
    for name, tower in {**TOWERS, **IMAGES}.items()
    if tower.given is None and tower.config["model_type"] != "siglip2_vision_model"
}
"""By name; those that read one plain tensor."""
MOST_SECONDS = 60
KEPT = (
    "model_type",
    "architectures",
    "initializer_range",
    "id2label",
    "label2id",
    "num_channels",
    "num_labels",
    "dtype",
    "stage_names",
    "chunk_size_feed_forward",
    "problem_type",
    "is_encoder_decoder",
)
"""Keys that no encoder goes by, or without which its input is another."""
NULLS = 0.08
Changes = dict[str, Any]


def stated(tower: Tower) -> dict[str, Any]:
    """All keys of the config, those of transformers' pre-trained configs left out."""
    plain = {*transformers.PreTrainedConfig().to_dict(), *KEPT}
    full = transformers.AutoConfig.for_model(**tower.config).to_dict()
    return {
        key: value
        for key, value in full.items()
        if key not in plain and not key.startswith("_") and not isinstance(value, dict)
    }


def altered(value: Any, rng: random.Random) -> Any:
    """Another value for a key."""
    if rng.random() < NULLS:
        return None
    if isinstance(value, list | tuple) and value:
        at = rng.randrange(len(value))
        return [*value[:at], altered(value[at], rng), *value[at + 1 :]]
    if isinstance(value, bool):
        return not value
    return rng.choice(others(value))


def others(value: Any) -> tuple[Any, ...]:
    """Values like this one."""
    if isinstance(value, str):
        return tuple(ACTS)
    if isinstance(value, int):
        return (max(1, value - 1), value + 1, 2 * value, max(1, value // 2), 3 * value, 1)
    if isinstance(value, float):
        return (0.5 * value, 2 * value, 1.0, value + 1)
    return (1, 2, True)


def changes(keys: dict[str, Any], rng: random.Random) -> Changes:
    """One to three keys and their new values."""
    chosen = rng.sample(sorted(keys), rng.choice((1, 1, 2, 3)))
    return {key: altered(keys[key], rng) for key in chosen}


def overtime(*_: Any) -> None:
    """Raise TimeoutError: the class takes too long."""
    raise TimeoutError


def theirs(config: dict[str, Any], tower: Tower) -> tuple[int, int | None] | None:
    """The class's parameters and FLOPs, None for what it does not run; None where it does not build."""
    signal.signal(signal.SIGALRM, overtime)
    signal.alarm(MOST_SECONDS)
    try:
        made = transformers.AutoConfig.for_model(**config)
        with torch.device("meta"):
            model = getattr(transformers, tower.cls)._from_config(made, attn_implementation="eager").eval()
        model.requires_grad_(False)
        return sum(weight.numel() for weight in model.parameters()), _flops(model, tower)
    except Exception:  # noqa: BLE001 what any class may raise
        return None
    finally:
        signal.alarm(0)


def _flops(model: Any, tower: Tower) -> int | None:
    features = torch.empty((1, *tower.shape(tower.sizes[0])), device="meta")
    try:
        with torch.device("meta"), FlopCounterMode(display=False) as counter, torch.no_grad():
            model(features)
    except Exception:  # noqa: BLE001 what any class may raise
        return None
    return int(counter.get_total_flops())


def ours(config: dict[str, Any], tower: Tower, known: tuple[int, int | None]) -> Answer:
    """archcli's answer beside the class's."""
    try:
        model = archcli.load({"architectures": [tower.cls], **config})
        found = {"params": (archcli.count_params(model).totals["params"], known[0])}
        if known[1] is not None:
            request = Request(media=(tower.medium(tower.sizes[0]),))
            found["flops"] = (archcli.count_flops(model, request).totals["matmul_flops"], known[1])
    except ArchError as error:
        return Answer("refused", error.problems[0].what)
    except Exception as error:  # noqa: BLE001 it is what a user would see
        return Answer("traceback", f"{type(error).__name__}: {error}")
    differ = [f"{key} {mine} for {other}" for key, (mine, other) in found.items() if mine != other]
    return Answer("wrong", "; ".join(differ)) if differ else Answer("exact")


def verdicts(name: str, seed: str, n: int) -> Iterator[tuple[Changes, Answer]]:
    """(changes, answer) of n variations whose class builds."""
    tower, rng, made = ENCODERS[name], random.Random(seed), 0  # noqa: S311 no secret hangs on it
    start = stated(tower)
    for _ in range(6 * n):
        changed = changes(start, rng)
        config = {**tower.config, **changed}
        known = theirs(config, tower) if made < n else None
        if known is not None:
            made += 1
            yield changed, ours(config, tower, known)


def main() -> None:
    """Print what is wrong, and a line for each encoder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--n", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    logging.disable(logging.CRITICAL)
    for name in asked.names or ENCODERS:
        counts: Counter[str] = Counter()
        for changed, (verdict, what) in verdicts(name, f"{asked.seed} {name}", asked.n):
            counts[verdict] += 1
            if verdict in ("wrong", "traceback"):
                print(f"{name} {json.dumps(changed)}: {verdict}: {what}")
        print(f"{name}: {dict(sorted(counts.items()))}", flush=True)


if __name__ == "__main__":
    main()
