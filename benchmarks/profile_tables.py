"""The tables of docs/benchmarks.md that `archcli profile` measures, printed as Markdown.

    python benchmarks/profile_tables.py norms       shares of three models, at two lengths, phases and dtypes
    python benchmarks/profile_tables.py variants    one choice against another, passes in turn
    python benchmarks/profile_tables.py kinds       models that do not fit, by kinds of layer; one that does
    python benchmarks/profile_tables.py norms --only gpt2

Every profile runs in a process of its own, as a user runs it; a line is printed when it is measured.
"""

import argparse
import json
import subprocess
import sys

MODELS = ("gpt2", "llama-3.2-1b", "qwen3-0.6b")
CLASSES = ("contraction", "fused_attention", "normalization", "elementwise", "movement", "framework")
LLAMA = ("llama-3.2-1b", "--layers", 4, "--dtype", "bf16")
VARIANTS = {
    "RMSNorm against LayerNorm": ((*LLAMA, "-s", 1024), "norm.kind=layernorm"),
    "SwiGLU against GELU, of as many parameters": (
        (*LLAMA, "-s", 1024),
        "ffn={kind: mlp, d_ff: 12288, activation: gelu}",
    ),
    "GQA (8 of 32) against MHA, decoding after 8,192": (
        (*LLAMA, "--phase", "decode", "--past", 8192),
        "attention.kind=mha",
    ),
    "serial against parallel block": ((*LLAMA, "-s", 1024), "layer.kind=parallel"),
    "fused against eager attention": ((*LLAMA, "-s", 1024), "attention=eager"),
    "operation by operation against compiled": ((*LLAMA, "-s", 1024), "compile=true"),
    "operation by operation against compiled, training": (
        (*LLAMA, "-s", 256, "--phase", "train"),
        "compile=true",
    ),
}
BIG = ("llama-3.1-70b", "mixtral-8x7b", "deepseek-v3")
KINDS = [(model, ("-s", 128)) for model in BIG] + [
    (model, ("--phase", "decode", "--past", 1024)) for model in BIG
]


def profile(*options):
    """The JSON document; None where the command fails, which says why."""
    command = [sys.executable, "-m", "archcli", "profile", *map(str, options), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{' '.join(command[3:])}: exit {done.returncode}\n{done.stderr}", file=sys.stderr)
        return None
    return json.loads(done.stdout)


def percent(share):
    """As a cell."""
    return f"{100 * share:.1f}"


def norms(only):
    """Shares of FLOPs, bytes and time by class, and the time of normalization over contraction's."""
    print(
        "| model | tokens | phase | dtype | wall | norm FLOP % | norm byte % | "
        + " | ".join(f"{each} %" for each in CLASSES),
        end="",
    )
    print(
        " | norm : matmul time | overhead |\n|---|---:|---|---|---:|---:|---:|"
        + "---:|" * len(CLASSES)
        + "---:|---:|"
    )
    for model in MODELS:
        for tokens in (128, 1024):
            for phase in ("forward", "train"):
                for dtype in ("bf16", "fp32"):
                    if not only or only == model:
                        norms_line(model, tokens, phase, dtype)


def norms_line(model, tokens, phase, dtype):
    """One profile, attention taken apart so that its softmax is seen."""
    found = profile(
        model, "-s", tokens, "--phase", phase, "--dtype", dtype, "--attention", "eager", "--no-ceilings"
    )
    if found is None:
        return
    totals = found["totals"]
    classes = totals["by_class"]
    norm, products = classes["normalization"], classes["contraction"]
    cells = [
        model,
        f"{tokens:,}",
        phase,
        dtype,
        f"{totals['wall_s'] * 1e3:,.0f} ms",
        f"{100 * norm['flop_share']:.2f}",
    ]
    cells += [percent(norm["byte_share"]), *(percent(classes[name]["time_share"]) for name in CLASSES)]
    cells += [
        f"1 : {products['seconds'] / norm['seconds']:.1f}",
        f"{100 * (totals['overhead_ratio'] - 1):+.1f}%",
    ]
    print("| " + " | ".join(cells) + (" |" if totals["reliable"] else " | NOT RELIABLE"), flush=True)


def variants(only):
    """The ratio of the whole and of the class that changes most."""
    print(
        "| variant | options | wall, A | wall, B | B / A | quartiles | where it differs most |\n"
        "|---|---|---:|---:|---:|---|---|"
    )
    for name, (options, change) in VARIANTS.items():
        found = profile(*options, "--vs", change) if not only or only in name else None
        if found is None:
            continue
        base, other = found["totals"]["variants"]
        rows = sorted(found["rows"], key=lambda row: -abs(row["difference_s"]))
        told = ", ".join(
            f"{row['class']} {row['base_seconds'] * 1e3:.1f} to {row['seconds'] * 1e3:.1f} ms"
            for row in rows[:2]
        )
        walls = [f"{each['wall_s'] * 1e3:.1f} ms" for each in (base, other)]
        asked = " ".join(map(str, options))
        spread = f"{other['ratio_q1']:.3f} to {other['ratio_q3']:.3f}"
        print(
            f"| {name} | `{asked} --vs '{change}'` | {walls[0]} | {walls[1]} | {other['ratio']:.3f} "
            f"| {spread} | {told} |",
            flush=True,
        )


def kinds(only):
    """Both estimates of the whole, and its shares; then a model that fits, both ways."""
    print(
        "| model | options | wall | operations + framework | they part by | contraction % | "
        "normalization % | framework % | memory |"
    )
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|")
    for model, options in [*KINDS, ("qwen3-0.6b", ("-s", 128, "--per-kind")), ("qwen3-0.6b", ("-s", 128))]:
        found = (
            profile(model, "--dtype", "bf16", "--no-ceilings", *options)
            if not only or only == model
            else None
        )
        if found is None:
            continue
        totals = found["totals"]
        shares = [
            percent(totals["by_class"][name]["time_share"])
            for name in ("contraction", "normalization", "framework")
        ]
        explained = totals["wall_s"] * (1 - totals["unattributed_share"])
        cells = [model, " ".join(map(str, options)), f"{totals['wall_s']:,.3f} s", f"{explained:,.3f} s"]
        cells += [
            f"{100 * totals['unattributed_share']:.1f}%",
            *shares,
            f"{totals['memory']['needed_bytes'] / 2**30:,.0f} GiB",
        ]
        print("| " + " | ".join(cells) + (" |" if totals["reliable"] else " | NOT RELIABLE"), flush=True)


def main():
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    tables = {"norms": norms, "variants": variants, "kinds": kinds}
    parser.add_argument("table", choices=tables)
    parser.add_argument("--only", default="", help="the model, or for variants part of the name")
    asked = parser.parse_args()
    tables[asked.table](asked.only)


if __name__ == "__main__":
    main()
