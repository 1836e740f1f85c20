"""The bits of Unsloth's mixtures: medians of the sizes of published files, written into formats.json.

    python benchmarks/unsloth_sizes.py

Their recipes are not public, and differ from model to model: measured/unsloth_sizes.csv has what files take,
of models that are published in bf16 or fp8. Those published in 4 bits keep them in all of these files.
"""

import csv
import json
import re
from collections import defaultdict
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
SIZES = ROOT / "benchmarks/measured/unsloth_sizes.csv"
FORMATS = ROOT / "archcli/modules/stored/formats.json"


def averages():
    """{format: [median of bits a weight, least, most, number of files]}, all rounded to a hundredth."""
    bits = defaultdict(list)
    with SIZES.open() as file:
        for row in csv.DictReader(file):
            bits[row["format"]].append(8 * float(row["bytes"]) / float(row["params"]))
    return {
        name: [*(round(of(each), 2) for of in (median, min, max)), len(each)] for name, each in bits.items()
    }


def main():
    """Replace the figures of Unsloth's mixtures in formats.json."""
    lines = ",\n".join(f"    {json.dumps(name)}: {json.dumps(row)}" for name, row in averages().items())
    text = FORMATS.read_text()
    FORMATS.write_text(re.sub(r'"unsloth": \{[^}]*\}', f'"unsloth": {{\n{lines}\n  }}', text))


if __name__ == "__main__":
    main()
