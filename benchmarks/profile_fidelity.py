"""How far `archcli profile` can be trusted on this machine: each check beside what it requires.

    python benchmarks/profile_fidelity.py            all checks, some ten minutes on a quiet machine
    python benchmarks/profile_fidelity.py --quick    fewer processes

Every profile runs in a process of its own, as a user runs it. Nothing here is asserted: a busy machine misses
what a quiet one meets, and says so in the last column. The figures are printed as Markdown, to be put into
docs/benchmarks.md with the machine's name.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from typing import NamedTuple

from archcli.wings.running.commands.profile.processes import SETTINGS

TINY_MOE = "{kind: moe, n_experts: 8, top_k: 2, expert: {kind: glu, d_ff: 1024}}"
MLA = (
    "{kind: mla, n_heads: 16, q_lora_rank: 384, kv_lora_rank: 128, qk_nope_head_dim: 64, "
    "qk_rope_head_dim: 32, v_head_dim: 64, "
    "position: rope}"
)


def small(attention, ffn):
    """A decoder of four layers, 1,024 wide, whose step takes some tens of milliseconds."""
    layer = f"{{kind: pre_norm, attention: {attention}, ffn: {ffn}}}"
    return (
        f"vocab_size: 8192\nd_model: 1024\nnorm: rmsnorm\nembedding: {{tied: true}}\ngroups: "
        f"[{{n_layers: 4, layer: {layer}}}]\n"
    )


GQA = "{kind: gqa, n_heads: 16, n_kv_heads: 4, position: rope}"
DENSE = "{kind: glu, d_ff: 4096}"
MODELS = {
    "gpt2": ("gpt2", None),
    "dense": ("-", small(GQA, DENSE)),
    "experts": ("-", small(GQA, TINY_MOE)),
    "latent": ("-", small(MLA, DENSE)),
    "latent + experts": ("-", small(MLA, TINY_MOE)),
}


class Check(NamedTuple):
    """One line of the table."""

    what: str
    required: str
    seen: str
    ok: bool


def profile(model, *options, text=None):
    """(the JSON document, seconds of the whole command)."""
    command = [sys.executable, "-m", "archcli", "profile", model, *map(str, options), "--json"]
    start = time.perf_counter()
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout), time.perf_counter() - start


def between(value, least, most):
    """Whether it lies in the range, ends included."""
    return least <= value <= most


def one_process(name, model, text, *options):
    """What a single profile says of itself."""
    totals = profile(model, "--no-ceilings", *options, text=text)[0]["totals"]
    wall = totals["wall_s"] * 1e3
    overhead, attributed = totals["overhead_ratio"] - 1, totals["attributed_share"]
    told = attributed + totals["framework_share"]
    where = f"{name} {' '.join(map(str, options))}: {wall:.0f} ms"
    most = 0.03 if wall >= 20 else 0.06
    yield Check(f"overhead, {where}", f"<= {most:.0%}", f"{overhead:+.1%}", overhead <= most)
    if wall >= 20:
        yield Check(
            f"operations / plain wall, {where}",
            "95 to 101%",
            f"{attributed:.1%}",
            between(attributed, 0.95, 1.01),
        )
    yield Check(f"operations + framework, {where}", "97 to 103%", f"{told:.1%}", between(told, 0.97, 1.03))
    unlabelled = totals["unlabelled_share"]
    yield Check(f"outside of any row, {where}", "<= 0.5%", f"{unlabelled:.2%}", unlabelled <= 0.005)
    executed, differing = totals["operations_executed"], len(totals["operations_differing"])
    yield Check(f"trace = census, {where}", "100%", f"{executed - differing} of {executed}", not differing)


def across_processes(runs):
    """How far the classes' shares differ between processes."""
    for name, figures in profile("gpt2", "--no-ceilings", "--repeat-process", runs)[0]["totals"][
        "by_class"
    ].items():
        least, most = (100 * share for share in figures["time_share_range"])
        if most > 0.5:
            deviation, spread = 100 * figures["time_share_sd"], most - least
            seen = f"sd {deviation:.2f}, range {spread:.2f} points"
            yield Check(
                f"share of {name}, gpt2, {runs} processes",
                "sd <= 1.0, range <= 3",
                seen,
                deviation <= 1.0 and spread <= 3.0,
            )


def region_timer(name):
    """How far a clock around each row disagrees about what the classes share.

    In a process of its own, with the allocator a profile has.
    """
    command = [sys.executable, __file__, "--regions", name]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | SETTINGS)
    for classes, (operations, ranges, clock) in json.loads(done.stdout).items():
        if operations > 0.005:
            for what, share in (("rows", ranges), ("operations", operations)):
                apart = 100 * (clock - share)
                seen = f"{share:.1%}, {clock:.1%} by the clock: {apart:+.2f}"
                yield Check(
                    f"share of {classes} among {what}, by region timer, {name}",
                    "<= 1.5 points apart",
                    seen,
                    abs(apart) <= 1.5,
                )


def print_regions(name):
    """The shares of one model's forward by the profile and by the clock, measured in this process.

    Brings torch.
    """
    from archcli.load.source import load, load_text
    from archcli.modules.spec.request import Request
    from archcli.render.screen import progress
    from archcli.wings.running.runtime.profile.cross_check import cross_check, shares
    from archcli.wings.running.runtime.profile.work import prepare

    model, text = MODELS[name]
    work = prepare((load(model) if text is None else load_text(text, name)).model, Request("forward", 1, 128))
    with progress(name) as tick:
        print(json.dumps(shares(*cross_check(work, None, tick))))


def whole_command():
    """From the shell's prompt to the report, ceilings measured anew."""
    seconds = profile("gpt2", "--refresh")[1]
    return Check(
        "whole command, gpt2 at 128 tokens, ceilings measured", "<= 15 s", f"{seconds:.1f} s", seconds <= 15
    )


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer phases and processes")
    parser.add_argument("--regions", choices=MODELS, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    quick = asked.quick
    if asked.regions:
        print_regions(asked.regions)
        return
    print("| check | required | seen | |\n|---|---|---|---|")
    for name, (model, text) in MODELS.items():
        for phase in ("forward",) if quick else ("forward", "train"):
            for check in one_process(name, model, text, "--phase", phase, "-s", 128):
                show(check)
        for check in region_timer(name):
            show(check)
    for check in [*across_processes(3 if quick else 10), whole_command()]:
        show(check)


def show(check):
    """One line, at once."""
    print(f"| {check.what} | {check.required} | {check.seen} | {'yes' if check.ok else 'NO'} |", flush=True)


if __name__ == "__main__":
    main()
