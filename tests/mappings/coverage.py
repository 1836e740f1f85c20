"""Which types of transformers' mappings archcli answers exactly, by the figures in `figures.json`.

    python tests/mappings/coverage.py [MAPPING or MODEL_TYPE …]

Exact is equal in parameters, in matmul FLOPs of 128 tokens with every pair of a mask counted, and in cached
elements, each where the class shows it. FLOPs of models with recurrent layers, which torch's counter sees in
part, are not compared. Of image-text types the whole model is asked as well, by the figures in `whole.json`:
parameters of each part, and tokens and FLOPs of one image, where the class of the defaults reads one.
"""

import json
import sys
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "helpers"))

from mapped import Answer, answer  # noqa: E402
from mapped_whole import Whole, whole_answer  # noqa: E402

TOKENS = 128


def answers(asked: list[str]) -> dict[str, Answer]:
    """The answer for every class that builds, by `mapping/model_type`."""
    classes = json.loads((HERE / "figures.json").read_text())["classes"]
    return {
        name: answer(theirs["config"], theirs, TOKENS)
        for name, theirs in classes.items()
        if "config" in theirs and (not asked or {*asked} & {*name.split("/")})
    }


def whole_answers(asked: list[str]) -> dict[str, Whole]:
    """The answer for the whole of every image-text class that builds, by model_type."""
    classes = json.loads((HERE / "figures.json").read_text())["classes"]
    return {
        kind: whole_answer(classes[f"image-text/{kind}"]["config"], theirs)
        for kind, theirs in json.loads((HERE / "whole.json").read_text()).items()
        if not asked or {*asked} & {"image-text", kind}
    }


def main(asked: list[str]) -> None:
    """Print a line for each class that is not answered exactly, and how many of each mapping are."""
    found = answers(asked)
    for name, (verdict, what) in found.items():
        if verdict != "exact":
            print(f"{name}: {verdict}: {what}")
    counts = Counter((name.split("/")[0], verdict) for name, (verdict, _) in found.items())
    for (mapping, verdict), count in sorted(counts.items()):
        print(f"{mapping}: {count} {verdict}")
    whole = whole_answers(asked)
    for kind, (verdict, what) in whole.items():
        if verdict != "exact" or what:
            print(f"image-text/{kind}, whole: {verdict}{', parameters alone' * (verdict == 'exact')}: {what}")
    for verdict, count in sorted(Counter(verdict for verdict, _ in whole.values()).items()):
        print(f"image-text, whole model: {count} {verdict} of {len(whole)}")


if __name__ == "__main__":
    main(sys.argv[1:])
