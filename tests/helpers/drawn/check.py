"""Print the faults of drawings by kind. Usage: check.py [PRESET|PRESET+PRESET|FILE.svg …]

Without names, those of all presets and of the pairs that are tested, a few of each kind.
"""

import sys
import traceback
from collections import defaultdict
from pathlib import Path
from time import process_time

sys.path.insert(0, str(Path(__file__).parents[1]))

from archcli.load.presets import presets
from drawn.drawings import counted_faults, drawing, pairs, seen_faults
from drawn.measuring import chromium

SHOWN = 3


def checked(browser, models):
    """All faults of one drawing, {kind: [what]}; an exception is a fault too."""
    try:
        began = process_time()
        svg = drawing(*models)
        seconds = process_time() - began
        found = seen_faults(browser, svg)
        if not models[0].endswith(".svg"):
            found |= counted_faults(svg, *models)
    except Exception as error:  # noqa: BLE001 - whatever it is, the other drawings are tried
        last = traceback.extract_tb(error.__traceback__)[-1]
        return {"no drawing": [f"{type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})"]}
    return found | ({"slow": [f"{seconds:.2f} s"]} if seconds > 0.5 else {})


def main(asked):
    drawings = [tuple(name.split("+")) for name in asked] or [*((name,) for name in presets()), *pairs()]
    kinds = defaultdict(dict)
    with chromium() as browser:
        for models in drawings:
            for kind, whats in checked(browser, models).items():
                kinds[kind]["+".join(models)] = whats
    faulty = {name for found in kinds.values() for name in found}
    sys.stdout.write(f"{len(drawings)} drawings, {len(faulty)} with faults\n")
    for kind, found in sorted(kinds.items(), key=lambda it: -len(it[1])):
        count = sum(map(len, found.values()))
        sys.stdout.write(f"\n## {kind}: {count} in {len(found)} drawings: {', '.join([*found][:12])}\n")
        for name, whats in (
            found.items() if len(drawings) < 4 * SHOWN else [*found.items()][:: max(1, len(found) // 8)]
        ):
            sys.stdout.writelines(f"- {name}: {what}\n" for what in (whats if asked else whats[:SHOWN]))
    return bool(kinds)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
