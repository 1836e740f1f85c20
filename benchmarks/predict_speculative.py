"""How far are speedups of speculative decoding from 37 reported ones, by the acceptance that they state?

Nothing is fitted on them. `measured/speculative.csv` has the reported tokens a round, of which the share
accepted at each position follows (1 + a + ... + a^N), and tokens a second without and with.
"""

import csv
import sys
from pathlib import Path
from statistics import median

import archcli

TABLE = Path(__file__).parent / "measured" / "speculative.csv"
INSIDE = (1 / 1.25, 1.25)
"""Ratios of predicted over reported that count as near."""


def share(tokens, per_round):
    """The share a with 1 + a + ... + a^N tokens a round, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(middle**i for i in range(tokens + 1)) < per_round else (low, middle)
    return (low + high) / 2


def asked(row):
    """The options of a row without and with its draft."""
    options = {name: row[name] for name in ("device", "engine", "dtype")}
    options |= {"batch_size": int(row["batch_size"]), "seq_len": int(row["context"])}
    if row["options"].startswith("tp="):
        options["tp"] = int(row["options"][3:])
    tokens = int(row["draft_tokens"])
    accept = round(share(tokens, float(row["per_round"])), 4)
    return options, {"draft": row["draft"], "draft_tokens": tokens, "accept": accept}


def loaded(row):
    """The model; with a layer of multi-token prediction that the checkpoint has and the preset leaves out."""
    from archcli.api.asking.subject import given

    return given(row["model"], ["mtp.depth=1"] if row["options"] == "mtp" else []).model


def compared(row):
    """Predicted tokens a second without and with the draft, the range of those with it."""
    options, draft = asked(row)
    model = loaded(row)
    without = archcli.predict(model, **options).totals["tokens_per_s"]
    with_it = archcli.predict(model, **options, **draft).totals["tokens_per_s"]
    return without, with_it


def line(row, without, with_it):
    """Predicted over reported speedup, whether the rate is in its range, and a line of text."""
    kind = "floor" if None in {without["expected"], with_it["expected"]} else "expected"
    before, after = float(row["without"]), float(row["with"])
    reported, speedup = after / before, with_it[kind] / without[kind]
    held = kind == "expected" and with_it["low"] <= after <= with_it["high"]
    widths = {"model": 13, "device": 18, "batch_size": 2, "draft": 12, "draft_tokens": 2}
    name = " ".join(f"{row[key]:{width}}" for key, width in widths.items())
    rates = " ".join(f"{rate:6.1f}" for rate in (before, without[kind], after, with_it[kind]))
    text = f"{name} {reported:5.2f} {speedup:5.2f} {speedup / reported:5.2f} {rates} {'in' if held else kind}"
    if kind == "floor":  # a limit alone is known
        return None, None, text
    # of a report without rates the speedup alone is known
    return speedup / reported, None if before == 1.0 else held, text


def main():
    """Print a line for each row, and how many are near."""
    lines = [line(row, *compared(row)) for row in csv.DictReader(TABLE.read_text().splitlines())]
    print("\n".join(text for *_, text in lines))
    ratios = [ratio for ratio, *_ in lines if ratio is not None]
    held = [inside for _, inside, _ in lines if inside is not None]
    near = sum(INSIDE[0] <= ratio <= INSIDE[1] for ratio in ratios)
    print(f"speedup within 25%: {near} of {len(ratios)}, median ratio {median(ratios):.2f}")
    print(f"tokens a second with a draft inside the range: {sum(held)} of {len(held)}")


if __name__ == "__main__":
    sys.exit(main())
