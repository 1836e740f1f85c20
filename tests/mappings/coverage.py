"""Which types of transformers' mappings archcli answers exactly, by the figures in `figures.json`.

    python tests/mappings/coverage.py [MAPPING or MODEL_TYPE …]

Exact is equal in parameters, in matmul FLOPs of 128 tokens with every pair of a mask counted, and in cached
elements, each where the class shows it. FLOPs of models with recurrent layers, which torch's counter sees in
part, are not compared.
"""

import json
import sys
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "helpers"))

from mapped import Answer, answer  # noqa: E402

TOKENS = 128


def answers(asked: list[str]) -> dict[str, Answer]:
    """The answer for every class that builds, by `mapping/model_type`."""
    classes = json.loads((HERE / "figures.json").read_text())["classes"]
    return {
        name: answer(theirs["config"], theirs, TOKENS)
        for name, theirs in classes.items()
        if "config" in theirs and (not asked or {*asked} & {*name.split("/")})
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


if __name__ == "__main__":
    main(sys.argv[1:])
