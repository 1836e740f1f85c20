"""`archcli profile -- python train.py`: programs as people write them, unchanged, and how they end."""

import json
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from archcli.wings.serving.recorded.schema import first_violation
from launching import TORCHRUN, environment, installed

PROGRAMS = Path(__file__).parents[1] / "helpers" / "programs"
ARCHCLI = (sys.executable, "-m", "archcli", "profile")
STEPS = 13
"""Two are left out, one is counted, five pairs follow."""


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, env=environment(), check=False, **options)


def python(*words, **options):
    return run("python", *words, **options)


def profiled(*words, options=(), **more):
    return run(*ARCHCLI, "--no-ceilings", *options, "--", "python", *words, **more)


def both(name, *arguments, folder, options=()):
    """A program run by itself and profiled: its output is the same; returns the report."""
    file = folder / "report.json"
    script = str(PROGRAMS / f"{name}.py")
    alone = python(script, *arguments)
    watched = profiled(script, *arguments, options=(*options, "-o", str(file)))
    assert (watched.stdout, watched.returncode) == (alone.stdout, alone.returncode), watched.stderr
    assert watched.stderr.startswith(alone.stderr)
    document = json.loads(file.read_text())
    assert first_violation(document) is None
    return document


def is_whole(totals, steps=STEPS):
    """What holds of the report of any program: every step found, kernels placed, shares of the whole step."""
    assert (totals["steps"], totals["steps_watched"]) == (steps, 5)
    assert totals["attributed_share"] >= 0.97
    for shares in (totals["by_class"], totals["by_path"], totals["by_phase"]):
        assert sum(shares.values()) == pytest.approx(1)
    assert totals["kernel_share"] + totals["waiting_share"] + totals["framework_share"] == pytest.approx(1)


@pytest.mark.long
def test_a_loop_is_watched_and_stays_what_it_is(tmp_path):
    document = both("plain_loop", str(STEPS), folder=tmp_path)
    totals, rows = document["totals"], document["rows"]
    is_whole(totals)
    # forward, and backward of both operands but for the images: 16 images, 8 filters of 3 x 3 x 3 at 30 x 30
    convolution = 2 * 16 * 8 * (3 * 3 * 3) * (30 * 30)
    linear = 2 * 16 * (8 * 15 * 15) * 10
    assert totals["matmul_flops"] == 2 * convolution + 3 * linear
    assert {"features.0", "features.1", "head", "CrossEntropyLoss", "(optimizer)"} <= totals["by_path"].keys()
    assert {row["module"] for row in rows if row["path"] == "features.0"} == {"Conv2d"}
    assert "normalization" in {row["class"] for row in rows if row["path"] == "features.1"}
    assert {row["class"] for row in rows if row["path"] == "features.3"} == {"elementwise"}


FORMS = {
    "hf_trainer": {"model.layers.*.self_attn.q_proj", "lm_head", "(optimizer)", "(data loader)"},
    "lightning_loop": {"encoder.0", "head", "(optimizer)", "(data loader)"},
    "accelerate_loop": {"layers.layers.*.self_attn", "classifier", "CrossEntropyLoss", "(optimizer)"},
    "nano_gpt": {"transformer.h.*.attn.c_attn", "lm_head", "(optimizer)", "(outside of modules)"},
    "no_trainer": {"transformer.h.*.mlp.c_fc", "lm_head", "(optimizer)", "(data loader)"},
    "loader_workers": {"0", "3", "(optimizer)", "(outside of modules)"},
    "mixed_precision": {"encoder.layers.*.self_attn", "lstm", "tags"},
    "checkpointing": {"layers.*.1", "layers.*.3", "out"},
    "closures": {"encoder.0", "decoder.2", "(optimizer)", "(outside of modules)"},
    "adversarial": {"Generator.net.0", "Discriminator.net.0", "BCEWithLogitsLoss"},
}
"""Programs, and places that their kernels have."""


@pytest.mark.long
@pytest.mark.parametrize("name", FORMS)
def test_the_forms_in_which_people_train(name, tmp_path):
    totals = both(name, str(STEPS), folder=tmp_path)["totals"]
    is_whole(totals)
    assert totals["by_path"].keys() >= FORMS[name]


TEN = (
    *("plain_loop", "nano_gpt", "hf_trainer", "lightning_loop", "accelerate_loop"),
    *("loader_workers", "data_parallel", "compiled", "mixed_precision", "checkpointing"),
)
"""A loop, nanoGPT's, three trainers, workers, torchrun, a compiled one, bf16, sums of gradients."""
NO_WORK = {
    *("alias", "_reshape_alias", "as_strided", "detach", "expand", "view", "reshape", "t", "transpose"),
    *("permute", "select", "slice", "split", "squeeze", "unsqueeze", "unbind", "unfold", "flatten"),
    *("to", "contiguous", "dropout", "resolve_conj", "resolve_neg", "result_type", "lift_fresh"),
    *("broadcast_tensors", "is_floating_point", "cudnn_is_acceptable"),
}
"""Operations without anything in them that change no number: views, and those that find nothing to do."""


@pytest.mark.long
@pytest.mark.parametrize("name", TEN)
def test_shares_are_those_of_torch_profiler(name, tmp_path):
    file, program = tmp_path / "shares.json", str(PROGRAMS / f"{name}.py")
    launcher = (*TORCHRUN, "--no-python", "--nproc-per-node", "1") if name == "data_parallel" else ()
    beside = str(PROGRAMS.parent / "beside_profiler.py")
    done = run(*launcher, sys.executable, beside, str(file), program, str(STEPS))
    assert done.returncode == 0, done.stderr
    ours, theirs, left = (json.loads(file.read_text())[key] for key in ("ours", "theirs", "left"))
    assert ours.keys() == theirs.keys()
    assert {name: share - theirs[name] for name, share in ours.items()} == pytest.approx(
        dict.fromkeys(ours, 0), abs=0.01
    )
    assert sum(ours.values()) == pytest.approx(sum(theirs.values()), abs=0.01)
    assert {name.rpartition("::")[2] for name in left} <= NO_WORK


@pytest.mark.long
def test_workers_that_are_spawned_find_the_program(tmp_path):
    is_whole(both("loader_workers", str(STEPS), "spawn", folder=tmp_path)["totals"])


@pytest.mark.long
def test_a_compiled_program_is_placed_by_its_graphs(tmp_path):
    document = both("compiled", str(STEPS), folder=tmp_path)
    totals = document["totals"]
    is_whole(totals)
    assert totals["compiled_graphs"] == 2  # forward and backward
    assert {"blocks.*.up", "blocks.*.down", "head", "(optimizer)"} <= totals["by_path"].keys()
    fused = [row for row in document["rows"] if row["class"] == "fused_kernels"]
    assert {row["phase"] for row in fused} == {"forward", "backward"}
    tokens, width, vocabulary = 4 * 32, 64, 96
    up_and_down, head = 2 * 2 * tokens * width * (2 * width), 2 * tokens * width * vocabulary
    assert totals["matmul_flops"] == 3 * (2 * up_and_down + head)


@pytest.mark.long
def test_a_pass_of_the_outermost_module_is_a_step_too(tmp_path):
    totals = both("inference", folder=tmp_path, options=("--step-on", "forward"))["totals"]
    is_whole(totals, 14)
    assert totals["matmul_flops"] == 2 * (2 * 32 * 64 * 256)


@pytest.mark.long
@pytest.mark.parametrize("ranks", [1, 2])
def test_the_first_of_torchruns_ranks_reports(ranks, tmp_path):
    archcli, file = installed(tmp_path), tmp_path / "report.json"
    launcher = (*TORCHRUN, "--no-python", "--nproc-per-node", str(ranks))
    script = str(PROGRAMS / "data_parallel.py")
    alone = run(*launcher, "python", script, str(STEPS))
    watched = run(
        *launcher, archcli, "profile", "--no-ceilings", "-o", str(file), "--", "python", script, str(STEPS)
    )
    assert watched.returncode == alone.returncode == 0, watched.stderr
    assert sorted(watched.stdout.splitlines()) == sorted(alone.stdout.splitlines())
    assert watched.stderr.count("Where the time of a step goes") == 1
    totals = json.loads(file.read_text())["totals"]
    is_whole(totals)
    assert totals["by_class"]["communication"] > 0


ENDS = {"exit": {3}, "raise": {1}, "interrupt": {-signal.SIGINT, 1}, "end": {0}}
"""How a program ends, and its exit code; that of an interrupt is also the system's to choose."""


@pytest.mark.long
@pytest.mark.parametrize("how", ENDS)
def test_a_program_ends_as_it_would(how, tmp_path):
    script = str(PROGRAMS / "ends.py")
    alone, watched = python(script, how, "9"), profiled(script, how, "9")
    assert watched.returncode == alone.returncode
    assert watched.returncode in ENDS[how]
    assert watched.stdout == alone.stdout
    assert watched.stderr.startswith(alone.stderr)
    assert re.search(r"steps of the program +9\nsteps traced, each beside a plain one +3\n", watched.stderr)
    ended_by = {"raise": "ValueError", "interrupt": "KeyboardInterrupt"}.get(how)
    assert (f"PARTIAL: the program ended by {ended_by}." in watched.stderr) == (ended_by is not None)


@pytest.mark.long
@pytest.mark.parametrize(
    ("at", "what"),
    [
        ("0", "no step was found"),
        ("2", "the program ended after 2 of them"),
    ],
)
def test_a_program_that_ends_too_early_is_told_so(at, what):
    done = profiled(str(PROGRAMS / "ends.py"), "end", at)
    assert (done.returncode, done.stdout) == (0, "begins end\nends\n")
    assert what in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("how", "at", "traced"),
    # two steps are left out and one is counted; then a plain one goes before each that is traced
    [("alone", 4, 0), ("alone", 12, 4), ("pool", 6, 1), ("epochs", 4, 0), ("outlives", 6, 1)],
)
def test_a_thread_may_end_within_a_traced_step(how, at, traced, tmp_path):
    file = tmp_path / "report.json"
    watched = profiled(str(PROGRAMS / "in_threads.py"), how, str(at), options=("-o", str(file)))
    assert (watched.stdout, watched.returncode) == ("done\n", 0), watched.stderr
    assert (json.loads(file.read_text())["totals"]["steps_watched"] if file.exists() else 0) == traced


@pytest.mark.long
def test_stop_ends_the_program_with_success(tmp_path):
    done = profiled(str(PROGRAMS / "ends.py"), "raise", "19", options=("--stop", "--steps", "2"))
    assert (done.returncode, done.stdout) == (0, "begins raise\n")
    assert re.search(r"steps of the program +7\nsteps traced, each beside a plain one +2\n", done.stderr)


@pytest.mark.long
@pytest.mark.parametrize(("at", "traced"), [("3", 0), ("4", 0), ("5", 1), ("6", 1), ("7", 2)])
def test_a_profiler_of_the_programs_own_goes_first(at, traced):
    script = str(PROGRAMS / "profiles_itself.py")
    alone, watched = python(script, str(STEPS), at), profiled(script, str(STEPS), at)
    assert (watched.stdout, watched.returncode) == (alone.stdout, alone.returncode), watched.stderr
    assert "the program runs a profiler of its own" in watched.stderr
    counted = re.search(r"each beside a plain one +(\d+)\n", watched.stderr)
    assert (0 if counted is None else int(counted[1])) == traced


SEEN = """\
import os, sys
print(sys.argv, __name__, __file__, sys.path[0], sys.flags.optimize, os.environ.get("PYTHONPATH"))
print(sys.orig_argv[1:], "ARCHCLI_PROGRAM" in os.environ, [place for place in sys.path if "archcli" in place])
print([name for name in sys.modules if name.startswith("archcli")])
"""


@pytest.mark.long
def test_a_program_sees_what_it_would_under_python(tmp_path):
    (tmp_path / "seen.py").write_text(SEEN)
    for words in (("-O", "seen.py", "--lr", "3e-4", "--"), ("-m", "seen", "-h")):
        alone, watched = python(*words, cwd=tmp_path), profiled(*words, cwd=tmp_path)
        assert watched.stdout == alone.stdout
        assert watched.stderr == UNWATCHED


@pytest.mark.long
def test_a_summary_has_forty_lines(tmp_path):
    file = tmp_path / "summary.md"
    done = profiled(
        str(PROGRAMS / "nano_gpt.py"),
        options=("--md", "-o", str(file), "--against-prediction", "gpt2", "--device", "h100-sxm"),
    )
    text = file.read_text()
    assert text in done.stderr
    assert len(text.splitlines()) <= 40
    for part in (
        "# Where the time of",
        "## What takes the time",
        "## What is unusual",
        "Predicted for gpt2 on",
    ):
        assert part in text


REFUSED = {
    "no_program": (("--",), "no program follows --"),
    "no_separator": (("python", "train.py", "--lr", "3"), "a program stands behind `--`"),
    "no_python": (("--", "bash", "train.sh"), "'bash' is no Python"),
    "script_alone": (("--steps", "3", "train.py"), "archcli profile --steps 3 -- python train.py"),
    "script": (("--", "train.py"), "archcli profile -- python train.py"),
    "runner": (("--", "uv", "run", "train.py"), "uv run archcli profile -- python train.py"),
    "variable": (("--", "A=0", "python", "x.py"), "A=0 archcli profile -- python x.py"),
    "model": (("gpt2", "--", "python", "train.py"), "--against-prediction gpt2, if it is a MODEL"),
    "torchrun": (("--", "torchrun", "train.py"), "torchrun --no-python"),
    "isolated": (("--", "python", "-I", "train.py"), "ignores PYTHONPATH with -I"),
    "no_site": (("--", "python", "-uS", "train.py"), "imports no site with -S"),
    "no_site_after_a_long_option": (
        ("--", "python", "--check-hash-based-pycs", "always", "-S", "train.py"),
        "imports no site with -S",
    ),
    "json_alone": (("--json", "--", "python", "train.py"), "--json needs a file"),
    "format_alone": (("--format", "md", "--", "python", "train.py"), "--format md needs a file"),
    "standard_output": (("-o", "-", "--", "python", "train.py"), "standard output is the program's own"),
    "no_folder": (("-o", "/no/folder/x.json", "--", "python", "train.py"), "cannot write /no/folder/x.json"),
    "no_steps": (("--steps", "0", "--", "python", "train.py"), "--steps"),
    "no_such_python": (("--", "python0.1", "train.py"), "there is no program 'python0.1'"),
    "device_alone": (("--device", "h100-sxm", "--", "python", "train.py"), "--against-prediction MODEL"),
    "no_device": (
        ("--against-prediction", "gpt2", "--device", "h101", "--", "python", "x"),
        "no device 'h101'",
    ),
    "no_model": (("--against-prediction", "gpt3", "--", "python", "train.py"), "no file or preset 'gpt3'"),
}


@pytest.mark.long
def test_what_cannot_be_watched_is_told_before_it_starts(cli, subtests):
    for name, (words, what) in REFUSED.items():
        with subtests.test(name):
            done = cli("profile", *words)
            assert (done.code, done.out) == (2, "")
            assert what in done.err


def test_a_model_behind_the_separator_stays_a_model(cli):
    assert "no file or preset '-x'" in cli("profile", "--", "-x").err


def test_help_of_programs(cli):
    page = cli("profile", "-h", "--").out
    assert "Usage: archcli profile [OPTIONS]" in page
    assert "--step-on <optimizer|forward>" in page


@pytest.mark.long
def test_a_program_may_have_files_named_as_modules_of_pythons_own(tmp_path):
    for name in ("statistics", "difflib", "shlex", "yaml"):
        (tmp_path / f"{name}.py").write_text(f"print('{name} of the program')\n")
    loop = (PROGRAMS / "plain_loop.py").read_text()
    (tmp_path / "train.py").write_text(f"{loop}\nimport difflib, statistics\nprint(difflib, statistics)\n")
    alone, watched = python("train.py", cwd=tmp_path), profiled("train.py", cwd=tmp_path)
    assert "statistics of the program" in alone.stdout
    assert (watched.stdout, watched.returncode) == (alone.stdout, 0)
    assert "Where the time of a step goes" in watched.stderr


UNWATCHED = "archcli: nothing was watched: the program has not imported torch\n"


@pytest.mark.long
def test_a_script_that_names_python_is_a_program(cli, tmp_path):
    script = tmp_path / "train"
    script.write_text(f"#!/usr/bin/env -S {Path(sys.executable).name} -u\nimport sys\nprint(sys.argv)\n")
    script.chmod(0o755)
    alone, watched = run(str(script), "-x"), run(*ARCHCLI, "--", str(script), "-x")
    assert (watched.stdout, watched.stderr) == (alone.stdout, UNWATCHED)
    script.write_text(script.read_text().replace(" -u", " -I"))
    assert "ignores PYTHONPATH with -I" in cli("profile", "--", script).err
    script.write_text("#!/bin/sh\n")
    assert "is no Python" in cli("profile", "--", script, "-x").err


@pytest.mark.long
def test_a_failing_sitecustomize_of_the_users_does_not_stop_the_watch(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import no_such_module\n")
    (tmp_path / "train.py").write_text("print('trains')\n")
    within = f"PYTHONPATH={tmp_path}:{environment()['PYTHONPATH']}"
    done = run("env", within, *ARCHCLI, "--", "python", "train.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "trains\n")
    # of archcli's own start, and of the program's
    assert done.stderr.count("No module named 'no_such_module'") == 2
    assert done.stderr.endswith(UNWATCHED)


@pytest.mark.long
@pytest.mark.parametrize("closed", [">&-", pytest.param("2>&-", marks=pytest.mark.long)])
def test_a_stream_that_the_shell_has_closed_stays_closed(closed, tmp_path):
    (tmp_path / "train.py").write_text("print('trains')\n")
    done = run("sh", "-c", f"{shlex.join(ARCHCLI)} -- python train.py {closed}", cwd=tmp_path)
    assert done.returncode == 0
    assert (done.stdout, done.stderr) == (("", UNWATCHED) if closed == ">&-" else ("trains\n", ""))


@pytest.mark.long
def test_what_a_program_starts_is_not_watched(tmp_path):
    child = "import os; print(os.environ.get('PYTHONPATH'))"
    program = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {child!r}])\n"
    (tmp_path / "parent.py").write_text(program)
    done = profiled("parent.py", cwd=tmp_path)
    assert done.stdout == f"{environment()['PYTHONPATH']}\n"
    assert done.stderr.count("archcli:") == 1
