"""Print the faults of drawings. Usage: check.py FILE.svg …"""

import sys
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parents[1]))

from drawn.faults import faults
from drawn.measuring import chromium, measured

if __name__ == "__main__":
    any_fault = False
    with chromium() as browser:
        for name in sys.argv[1:]:
            began = perf_counter()
            layout = measured(browser, Path(name).read_text(encoding="utf-8"))
            laid_out = perf_counter()
            found = faults(layout)
            done = perf_counter()
            any_fault |= bool(found)
            counts = {kind: len(whats) for kind, whats in found.items()}
            sys.stdout.write(
                f"{name} {laid_out - began:.2f} + {done - laid_out:.2f} s {counts or 'no fault'}\n"
            )
            for kind, whats in found.items():
                for what in whats:
                    sys.stdout.write(f"    {kind}: {what}\n")
    sys.exit(any_fault)
