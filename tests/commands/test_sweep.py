"""`archcli sweep`: which shapes meet conditions, in which order, and what is refused."""

import json
import re
import signal
import subprocess
import sys
from itertools import product

import pytest

import archcli
from archcli.rules.base import Case, Severity
from archcli.rules.lint import Selection, lint
from archcli.wings.shapes.api import sweep_question
from archcli.wings.shapes.api.sweep_question import SLOW

TRUE = {"d_model": 4096, "n_layers": 32, "n_kv_heads": 8, "d_ff": 14336, "vocab_size": 128256}


def swept(cli, *args):
    done = cli("sweep", *args, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def llama_params(d_model, n_layers, d_ff, kv_heads=2, vocab=61):
    """Of the small Llama with four heads of 8: table, head, layers and the last norm."""
    attention = 2 * d_model * 4 * 8 + 2 * d_model * kv_heads * 8
    return 2 * vocab * d_model + n_layers * (attention + 3 * d_model * d_ff + 2 * d_model) + d_model


def test_conditions_ties_and_an_objective_worked_out(cli, llama):
    axes = ("--vary", "d_model=16:64:16", "--vary", "n_layers=1:4", "--tie", "d_ff=8/3*d_model@8")
    done = swept(cli, llama, *axes, "--where", "params in 60k±50%", "--maximize", "n_layers", "--top", "3")
    tied = {16: 40, 32: 88, 48: 128, 64: 168}  # 42.7, 85.3, 128 and 170.7
    params = {(d, n): llama_params(d, n, tied[d]) for d, n in product(tied, (1, 2, 3, 4))}
    matching = [(d, n) for (d, n), count in params.items() if 30_000 <= count <= 90_000]
    best = sorted(matching, key=lambda shape: -shape[1])[:3]
    assert done["totals"]["candidates"] == 16
    assert done["totals"]["matching"] == len(matching)
    assert done["rows"] == [
        {"d_model": d, "n_layers": n, "d_ff": tied[d], "params": params[d, n]} for d, n in best
    ]
    assert done["totals"]["failed"] == {"params in 60k±50%": 16 - len(matching)}
    again = swept(cli, llama, *axes, "--where", "params in 60k+-50%", "--maximize", "n_layers", "--top", "3")
    assert again["rows"] == done["rows"]


def test_several_objectives_give_the_front(cli, llama):
    axes = ("--vary", "d_ff=8:64:8", "--vary", "n_kv_heads=1,2,4")
    done = swept(cli, llama, *axes, "--minimize", "params", "--maximize", "d_ff*n_kv_heads")
    shapes = [*product(range(8, 65, 8), (1, 2, 4))]
    keys = {(f, k): (llama_params(32, 2, f, k), -f * k) for f, k in shapes}
    front = {
        shape
        for shape in shapes
        if not any(
            all(a <= b for a, b in zip(keys[other], keys[shape], strict=True)) and keys[other] != keys[shape]
            for other in shapes
        )
    }
    assert {(row["d_ff"], row["n_kv_heads"]) for row in done["rows"]} == front
    assert done["totals"]["front"] == len(front) < len(shapes)


def test_kinds_are_traced_once_each(cli, llama):
    axes = ("--vary", "attention.kind=gqa,mqa,lstm", "--vary", "d_ff=8,16")
    done = swept(cli, llama, *axes, "--minimize", "params")
    of_mqa = [llama_params(32, 2, f, kv_heads=1) for f in (8, 16)]
    of_gqa = [llama_params(32, 2, f) for f in (8, 16)]
    rows = [(row["attention.kind"], row["d_ff"], row["params"]) for row in done["rows"]]
    expected = [("mqa", 8, of_mqa[0]), ("gqa", 8, of_gqa[0]), ("mqa", 16, of_mqa[1]), ("gqa", 16, of_gqa[1])]
    assert rows == sorted(expected, key=lambda row: row[2])
    [refused] = [note for note in done["notes"] if "lstm" in note]
    assert refused == "--vary attention.kind=lstm is left out: unknown kind 'lstm' of attention."


def test_candidates_without_a_figure_come_last(llama):
    vary = ["attention.position.kind=none,rope", "d_ff=8,16"]
    for order in ({"minimize": "rope_theta"}, {"maximize": "rope_theta"}):
        report = archcli.sweep(llama, vary=vary, **order)
        kinds = [(row["attention.position.kind"], row["rope_theta"]) for row in report.rows]
        assert kinds == [("rope", 10_000), ("rope", 10_000), ("none", None), ("none", None)]
    path = "groups.0.layer.attention"
    own = ["kv_lora_rank=4,8", "qk_nope_head_dim=8", "qk_rope_head_dim=4", "v_head_dim=8"]
    vary = [f"{path}.kind=gqa,mla", *(f"{path}.{text}" for text in own)]
    report = archcli.sweep(llama, vary=vary, maximize=f"{path}.kv_lora_rank")
    assert [row[f"{path}.kv_lora_rank"] for row in report.rows] == [8, 4, None]
    assert archcli.sweep(llama, vary=vary, where=f"{path}.kv_lora_rank > 4").totals["matching"] == 1


def test_a_tie_is_exact_and_what_is_no_size_is_dropped(llama):
    large = 2**58
    vary = f"d_ff=12,13,{4 * large + 2},{4 * large + 4}"
    report = archcli.sweep(llama, vary=vary, tie="vocab_size=d_ff/4")
    assert [row["vocab_size"] for row in report.rows] == [3, large + 1]
    assert report.totals["dropped"] == {"tied to no whole number above 0": 2}


def test_an_objective_without_a_figure_keeps_the_order_of_the_grid(llama):
    rows = archcli.sweep(llama, vary="d_ff=8,16,24", minimize="3").rows
    assert [(row["d_ff"], row["3"]) for row in rows] == [(8, 3), (16, 3), (24, 3)]


def test_check_drops_what_breaks_a_rule():
    axes = {"n_layers": (2, 12, 200), "d_ff": (1408, 1409, 20_000)}
    vary = [f"{name}={','.join(map(str, values))}" for name, values in axes.items()]
    checked = archcli.sweep("gpt2", vary=vary, check=True)
    sound = []
    for n_layers, d_ff in product(*axes.values()):
        model = archcli.load("gpt2", [f"n_layers={n_layers}", f"d_ff={d_ff}"])
        model = model.replace(published={}, released=None, series="", source="")  # those of GPT-2 itself
        findings = lint(Case(model), Selection(), model.ignore)
        if all(finding.rule.severity is Severity.INFO for finding in findings):
            sound.append((n_layers, d_ff))
    assert [(row["n_layers"], row["d_ff"]) for row in checked.rows] == sound
    assert checked.totals["broken"] == 9 - len(sound) > 0


@pytest.mark.long
def test_the_true_shape_of_llama_by_its_size_cache_and_ratios():
    """Constraints of five percent, and the distance to their midpoints as the objective."""
    asked = {"params": 8.03e9, "kv_bytes_per_token": 131_072, "aspect_ratio": 128, "d_ff_ratio": 3.5}
    where = [f"{name} in {value:.10g}±5%" for name, value in asked.items()]
    away = " + ".join(f"({name}/{value:.10g} - 1)*({name}/{value:.10g} - 1)" for name, value in asked.items())
    vary = ["d_model=2048:8192:64", "n_layers=16:96", "n_kv_heads=4,8,16", "d_ff=8192:20480:256"]
    report = archcli.sweep("llama-3.1-8b", vary=vary, where=where, minimize=away)
    assert report.totals["candidates"] == 97 * 81 * 3 * 49 > 10**6
    assert report.totals["matching"] > 20
    assert any(all(row[name] == TRUE[name] for name in row if name in TRUE) for row in report.rows[:20])


REFUSED = [
    (("--vary", "d_modl=8,16"), "no field is called 'd_modl'", "did you mean d_model?"),
    (("--vary", "d_modl=1:99999"), "no field is called 'd_modl'", "did you mean d_model?"),
    (("--vary", "d_ff=8", "--tie", "d_fff=8"), "no size of this name", "did you mean d_ff?"),
    (
        ("--vary", "d_ff=8", "--where", "parms > 3"),
        "no figure or size is called 'parms'",
        "did you mean params",
    ),
    (("--vary", "d_ff=8", "--minimize", "flop"), "no figure or size is called 'flop'", "did you mean flops"),
    (("--vary", "d_ff=8", "--where", "flops(sq_len=3) > 3"), "flops has no setting 'sq_len'", "seq_len"),
    (("--vary", "d_ff=8", "--show", "flops(seq_len=x)"), "seq_len must be a whole number above 0", ""),
    (("--vary", "d_ff=8", "--show", "time"), "a time is that of a device", "time(device=h100-sxm)"),
    (("--vary", "d_ff=8", "--show", "time(device=h10)"), "no device 'h10'", ""),
    (("--vary", "d_ff=8", "--show", "peak_bytes(tp=0)"), "tp must be a whole number above 0", ""),
    (("--vary", "d_ff=8,16", "--where", "params/(d_ff-8) > 1"), "divides by zero", ""),
    (("--vary", "d_ff=8", "--where", "__import__('os') > 1"), "", "^"),
    (("--vary", "d_ff=8", "--minimize", "params.__class__"), "is no name of a figure", ""),
    (("--vary", "norm.kind=rmsnorm", "--where", "norm.kind=rmsnorm"), "is called 'norm.kind'", ""),
    (("--vary", "norm.kind=rmsnorm", "--tie", "d_ff=norm.kind"), "'norm.kind' is no size", ""),
    (("--vary", "d_ff=8", "--vary", "d_ff=9"), "d_ff: error: varied or tied twice", ""),
    (("--vary", "d_ff=8", "--vary", "groups.0.layer.ffn.d_ff=9"), "varied or tied twice", ""),
    (
        ("--vary", "d_ff=8", "--tie", "d_model=params"),
        "'params' is no size",
        "a field is tied to other sizes",
    ),
    (("--vary", "n_layers=2", "--tie", "d_ff=4*d_ff"), "'d_ff' is tied to itself", "tied to other sizes"),
    (
        ("--tie", "d_ff=d_model*4", "--tie", "d_model=d_ff/4"),
        "'d_ff' and 'd_model' are tied to each other",
        "leave one of the two out",
    ),
    (("--vary", "groups.n_layers=2:4"), "no entry 'n_layers'", "did you mean groups.0.n_layers?"),
    (("--vary", "groups.0.d_ff=8:16:8"), "unknown key 'd_ff'", "did you mean groups.0.layer.ffn.d_ff?"),
    (("--vary", "d_ff=8", "--tie", "groups.n_layers=2"), "no size of", "did you mean groups.0.n_layers?"),
    (("--vary", "d_ff=8", "--where", "groups.n_layers>2"), "no figure", "did you mean groups.0.n_layers?"),
    (("--vary", "n_layers=12..14"), "'12..14' is no range", "write 12:14"),
    (("--vary", "d_ff=8", "--where", "params in 1e9±5e6%"), "'5e6%' is more than 100%", "write 5e6"),
    (("--tie", "d_model=d_ff*4", "--tie", "d_ff=8"), "'d_ff' is not known yet", "tie it before"),
    (("--vary", "d_ff=8", "--tie", "d_model"), "NAME=EXPRESSION is needed", ""),
    (("--vary", "d_ff=1:1e12", "--vary", "d_model=1:1e6"), "1e+18 candidates are more than a day counts", ""),
    (("--vary", "norm.kind=foo,bar"), "norm.kind=foo: error: unknown kind 'foo' of norm", ""),
    ((), "nothing varies", "--vary d_model=1024:8192:128"),
    (("--vary", "d_ff=8", "--top", "0"), "top must be a whole number above 0, not 0", ""),
]


@pytest.mark.sample(6, whole=True)
@pytest.mark.parametrize(("args", "what", "hint"), REFUSED, ids=lambda value: str(value)[:40])
def test_bad_input_is_a_line(cli, llama, args, what, hint):
    done = cli("sweep", llama, *args)
    assert (done.code, done.out) == (2, "")
    assert what in done.err
    assert hint in done.err
    assert "Traceback" not in done.err


def test_an_empty_result_names_the_condition_that_rules_out_most(cli, llama):
    where = ("--where", "params < 29k", "--where", "d_ff > 99", "--where", "d_model > 16")
    done = swept(cli, llama, "--vary", "d_ff=10:100:10", "--vary", "d_model=16,32", *where)
    assert done["rows"] == []
    assert done["totals"]["failed"]["d_ff > 99"] == 18
    assert done["notes"] == ["no candidate is left: 'd_ff > 99' alone rules out 18 of 20, 90%."]


def test_shapes_that_do_not_fit_together_are_dropped_and_counted(cli, llama):
    done = swept(cli, llama, "--vary", "n_kv_heads=1:4", "--vary", "head_dim=7,8")
    assert [(row["n_kv_heads"], row["head_dim"]) for row in done["rows"]] == [(1, 8), (2, 8), (4, 8)]
    assert done["totals"]["dropped"] == {"rotary-dims-even": 3, "kv-heads-divide-heads": 2}
    assert sum("no model: 5 of 8 candidates" in note for note in done["notes"]) == 1


def test_counts_beyond_64_bits_are_exact(cli, llama):
    done = swept(cli, llama, "--vary", "d_model=32,4000000000", "--vary", "d_ff=8,9000000000000")
    shapes = product((32, 4_000_000_000), (8, 9_000_000_000_000))
    assert [row["params"] for row in done["rows"]] == [llama_params(d, 2, f) for d, f in shapes]


def test_as_many_files_as_candidates_at_most(cli, llama, tmp_path):
    args = ("sweep", llama, "--vary", "d_ff=8,16,24", "--top", 10**12, "--write-yaml", tmp_path / "all")
    done = cli(*args)
    assert done.code == 0
    assert f"archcli export {tmp_path / 'all' / 'llama-1.yaml'}" in "".join(done.out.split("\n"))
    assert sorted(file.name for file in (tmp_path / "all").iterdir()) == [
        f"llama-{i}.yaml" for i in (1, 2, 3)
    ]


def test_files_that_are_there_stay_as_they_are(cli, llama, tmp_path):
    folder = tmp_path / "best"
    args = ("sweep", llama, "--vary", "d_ff=8,16,24", "--top", "2", "--write-yaml", folder)
    assert cli(*args).code == 0
    files = {file.name: file.read_text() for file in folder.iterdir()}
    assert sorted(files) == ["llama-1.yaml", "llama-2.yaml"]
    (folder / "llama-2.yaml").unlink()
    done = cli(*args)
    assert (done.code, "llama-1.yaml exists" in done.err) == (2, True)
    assert {file.name: file.read_text() for file in folder.iterdir()} == {
        "llama-1.yaml": files["llama-1.yaml"]
    }
    missing = cli(*args[:-1], tmp_path / "no" / "such")
    assert (missing.code, missing.out) == (2, "")
    assert not (tmp_path / "no").exists()


def test_formats(cli, llama):
    args = ("sweep", llama, "--vary", "d_ff=8,16")
    assert cli(*args, "--format", "csv").out.splitlines()[0] == "d_ff,params"
    assert "| 16 |" in cli(*args, "--format", "md").out.replace("  ", " ")
    assert f"{llama_params(32, 2, 16):,}" in cli(*args).out


def test_an_interrupt_keeps_what_was_read_one_by_one(monkeypatch, llama):
    reads = iter(range(4))

    def read(reading, settings):
        if next(reads) == 3:
            raise KeyboardInterrupt
        return 7

    slow = SLOW[0]._replace(name="peak_bytes", read=read, slow=True)
    monkeypatch.setattr(sweep_question, "SLOW", (slow,))
    report = archcli.sweep(llama, vary="d_ff=8:80:8", where="d_ff > 16", show="peak_bytes", minimize="d_ff")
    assert [row["d_ff"] for row in report.rows] == [24, 32, 40]
    assert [row["peak_bytes"] for row in report.rows] == [7, 7, 7]
    assert (report.totals["seen"], report.totals["matching"]) == (10 - 5, 3)
    assert "interrupted after 5 of 10 candidates." in report.notes


def _interrupted_after(seconds: float, model) -> dict:
    """The JSON of a sweep of 9 billion candidates that Ctrl-C ends `seconds` after its start."""
    grid = ("--vary", "d_ff=1:100000", "--vary", "vocab_size=1:90000")
    command = [sys.executable, "-m", "archcli", "sweep", str(model), *grid, "--minimize", "params", "--json"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with pytest.raises(subprocess.TimeoutExpired):
        child.communicate(timeout=seconds)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert err == "" or re.fullmatch(r"9,000,000,000 candidates, for about [\d,]+ minutes: Ctrl-C .*\n", err)
    # a signal during start-up ends without an answer
    return json.loads(out) if out else {"totals": {"seen": 0}}


@pytest.mark.long
@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_with_what_was_found(llama):
    # slow machines start late
    answers = (_interrupted_after(seconds, llama) for seconds in (2.5, 5, 10, 20, 40))
    done = next(answer for answer in answers if answer["totals"]["seen"])
    assert 0 < done["totals"]["seen"] < done["totals"]["candidates"] == 9 * 10**9
    assert done["rows"][0]["params"] == llama_params(32, 2, 1, vocab=1)
    assert done["notes"][0].startswith("interrupted after")


def test_without_numpy_a_line_says_how_to_add_it(cli, llama, monkeypatch):
    monkeypatch.setitem(sys.modules, "numpy", None)
    done = cli("sweep", llama, "--vary", "d_ff=8")
    assert (done.code, done.out) == (2, "")
    assert "this needs numpy, which is not installed" in done.err
    assert f"pip install sympy numpy, then: archcli sweep {llama} --vary d_ff=8\n" in done.err


def test_in_python_as_on_the_command_line(cli, llama):
    args = {"vary": ["d_ff=8,16"], "where": ["params > 1"], "minimize": ["params"], "show": ["flops"]}
    report = archcli.sweep(llama, **args).to_dict()
    options = [word for name, texts in args.items() for word in (f"--{name}", *texts)]
    printed = swept(cli, llama, *options)
    for document in (report, printed):
        document["totals"].pop("elapsed_s")
    assert report == printed
    with pytest.raises(archcli.ArchError, match="values and vary are two sweeps"):
        archcli.sweep(llama, {"d_ff": [8]}, vary=["d_ff=8"])


def test_very_many_candidates_are_announced(cli, llama, monkeypatch):
    monkeypatch.setattr("archcli.wings.shapes.commands.sweep.MANY", 99)
    line = ("sweep", str(llama), "--vary", "vocab_size=1000:1099")
    assert "100 candidates" in (err := cli(*line).err)
    assert "Ctrl-C stops and shows the best so far" in err
    monkeypatch.setattr("archcli.wings.shapes.commands.sweep.MANY", 100)
    assert cli(*line).err == ""
