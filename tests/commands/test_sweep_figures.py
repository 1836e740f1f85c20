"""Figures of a sweep are those that other commands print of the written YAML; what is dropped is refused."""

import json
import random
from itertools import product

import pytest

import archcli
from archcli.load.presets import presets_index
from archcli.wings.shapes.symbolic.symbols import fields_named, sizes
from covering import COVERING

CONTEXT, TOKENS, NEW = 5000, 37, 11
SHOWN = {
    "active_params": lambda model: archcli.count_params(model).totals["active_params"],
    "non_embedding_params": lambda model: archcli.count_params(model).totals["non_embedding_params"],
    f"flops(seq_len={TOKENS})": lambda model: flops(model, seq_len=TOKENS)["matmul_flops"],
    f"other_flops(phase=train, seq_len={TOKENS})": lambda model: flops(model, phase="train", seq_len=TOKENS)[
        "other_flops"
    ],
    f"flops(mask=dense, seq_len={TOKENS})": lambda model: flops(model, mask="dense", seq_len=TOKENS)[
        "matmul_flops"
    ],
    f"flops_per_token(batch_size=2, seq_len={TOKENS})": lambda model: flops(
        model, batch_size=2, seq_len=TOKENS
    )["matmul_flops_per_token"],
    f"kv_bytes(context={CONTEXT}, dtype=fp8)": lambda model: cache(model, CONTEXT, dtype="fp8")["kv_bytes"],
    f"cache_bytes(context={CONTEXT})": lambda model: cache(model, CONTEXT)["bytes"],
    **{
        key: lambda model, key=key: archcli.survey(model).rows[0][key]
        for key in (
            *("aspect_ratio", "d_ff_ratio", "active_d_ff_ratio", "head_ratio", "expert_ratio"),
            *("active_share", "attention_share", "kv_bytes_per_token", "n_layers", "n_kv_heads", "head_dim"),
        )
    },
}
GENERATING = {
    f"flops(past={TOKENS}, phase=decode)": lambda model: flops(model, phase="decode", past=TOKENS)[
        "matmul_flops"
    ],
}
SLOW = {
    "peak_bytes(phase=prefill, seq_len=11)": lambda model: archcli.count_memory(
        model, "prefill", seq_len=NEW
    ).totals["peak_bytes"],
    "time(device=h100-sxm, phase=prefill, seq_len=11)": lambda model: archcli.predict(
        model, "h100-sxm", "prefill", seq_len=NEW
    ).totals["time_s"]["expected"],
}


def flops(model, **asked):
    return archcli.count_flops(model, **asked).totals


def cache(model, context, **asked):
    return archcli.count_kv_cache(model, context, **asked).totals


def varied(model, chosen):
    """--vary of some sizes of a model, by a name or a full path, of values around its own."""
    values = {path: value for path, _, value in sizes(model) if value is not None}
    axes = {}
    for path in chosen.sample(sorted(values), min(len(values), 3)):
        name = path.rsplit(".", 1)[-1]
        try:
            fields_named(model, name)
        except archcli.ArchError:
            name = path
        value = values[path]
        near = {value, value + 1, value - 1, 2 * value, value // 2, 3 * value, value + 2}
        axes[name] = chosen.sample(sorted(n for n in near if n > 0), 3)
    return axes


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", COVERING)
def test_each_candidate_is_the_model_that_is_written(name, tmp_path):
    chosen = random.Random(name)  # noqa: S311
    model = archcli.load(name)
    axes = varied(model, chosen)
    figures = {"params": lambda model: archcli.count_params(model).totals["params"], **SHOWN}
    figures |= GENERATING if model.caches else {}
    vary = [f"{field}={','.join(map(str, values))}" for field, values in axes.items()]
    grid = [dict(zip(axes, row, strict=True)) for row in product(*axes.values())]
    report = archcli.sweep(name, vary=vary, show=[*figures][1:], top=len(grid), write_yaml=tmp_path / "best")
    files = sorted((tmp_path / "best").iterdir())
    assert report.totals["candidates"] == len(grid)
    assert len(files) == len(report.rows) == report.totals["matching"]
    for i in chosen.sample(range(len(files)), min(len(files), 5)):
        row = report.rows[i]
        asked = {key: read for key, read in figures.items() if key not in axes}  # a field comes first
        assert {key: row[key] for key in asked} == {key: read(files[i]) for key, read in asked.items()}
    rows = [{field: row[field] for field in axes} for row in report.rows]
    dropped = [row for row in grid if row not in rows]
    for row in chosen.sample(dropped, min(len(dropped), 3)):
        with pytest.raises(archcli.ArchError):
            archcli.load(name, [f"{field}={value}" for field, value in row.items()])


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", [one["name"] for one in presets_index() if one["kind"] != "encoder"])
def test_memory_and_time_are_those_of_the_model_that_is_written(name, tmp_path):
    model = archcli.load(name)
    vary = f"d_model={model.d_model},{2 * model.d_model}"
    report = archcli.sweep(name, vary=vary, show=[*SLOW], write_yaml=tmp_path / "best")
    for row, file in zip(report.rows, sorted((tmp_path / "best").iterdir()), strict=True):
        assert {key: row[key] for key in SLOW} == {key: read(file) for key, read in SLOW.items()}


@pytest.mark.long
def test_twelve_candidates_by_the_command_line(archcli, tmp_path):
    """Of dense, mixed, latent, windowed, recurrent and encoder-decoder models two each."""
    names = ("llama-3.1-8b", "mixtral-8x7b", "deepseek-v3", "gemma-2-9b", "jamba-1.5-mini", "t5-small")
    for name in names:
        folder = tmp_path / name
        vary = ("--vary", "d_model=1024,2048", "--show", "flops(seq_len=99)", "--top", "2")
        done = archcli("sweep", name, *vary, "--write-yaml", folder, "--json")
        rows = json.loads(done.stdout)["rows"]
        files = sorted(folder.iterdir())
        assert len(files) == len(rows) == 2
        for row, file in zip(rows, files, strict=True):
            params = json.loads(archcli("params", file, "--json").stdout)["totals"]["params"]
            matmul = json.loads(archcli("flops", file, "-s", "99", "--json").stdout)["totals"]["matmul_flops"]
            assert (row["params"], row["flops(seq_len=99)"]) == (params, matmul)


@pytest.mark.sample(2, whole=True)
@pytest.mark.parametrize(
    ("name", "field", "values"),
    [
        ("whisper-small", "max_seq_len", (224, 896)),  # that of the decoder, and not that of the encoder
        ("gpt2", "max_seq_len", (512, 2048)),
        ("deepseek-v3", "d_model", (2048, 4096)),
        ("deepseek-v3", "expert.d_ff", (512, 1024)),
        ("gemma-2-9b", "layer.ffn.d_ff", (9216, 12288)),
        ("t5-small", "attention.n_heads", (2, 4)),
        ("zamba2-1.2b", "adapter_rank", (64, 256)),
    ],
)
def test_a_name_means_what_it_means_to_set(name, field, values):
    report = archcli.sweep(name, vary=f"{field}={','.join(map(str, values))}")
    assert [row["params"] for row in report.rows] == [
        archcli.count_params(archcli.load(name, [f"{field}={value}"])).totals["params"] for value in values
    ]


def test_a_module_is_no_size():
    with pytest.raises(archcli.ArchError, match="groups must be a list, not 2"):
        archcli.sweep("zamba2-1.2b", vary="groups=2,3")


def test_the_table_says_how_many_match(cli, llama):
    axes = ("sweep", llama, "--vary", "d_ff=8:64:8", "--vary", "n_kv_heads=1,2,4")
    shapes = [*product(range(8, 65, 8), (1, 2, 4))]
    of_two = sum(kv_heads == 2 for _, kv_heads in shapes)
    where = ("--where", "n_kv_heads = 2")
    said = {
        (): f"{len(shapes)} of {len(shapes)} candidates match; the first 20",
        where: f"{of_two} of {len(shapes)} candidates match",
        (
            *where,
            "--minimize",
            "params",
            "--top",
            "3",
        ): f"{of_two} of {len(shapes)} candidates match; the best 3",
    }
    for asked, title in said.items():
        assert cli(*axes, *asked).out.splitlines()[0].startswith(f"llama: {title}; ")
    front = json.loads(cli(*axes, "--minimize", "params", "--maximize", "d_ff", "--json").out)["totals"][
        "front"
    ]
    title = cli(*axes, "--minimize", "params", "--maximize", "d_ff", "--top", "1").out.splitlines()[0]
    on_front = f"{front} on the Pareto front; the first 1"
    assert title.startswith(
        f"llama: {len(shapes)} of {len(shapes)} candidates match, {on_front}; first: d_ff "
    )


def test_a_figure_has_one_column_however_its_settings_are_written(llama):
    report = archcli.sweep(
        llama,
        vary="d_ff=8,16",
        where=["kv_bytes(context=1K, batch_size=2) > 1", "kv_bytes( batch_size=2,context=1_024 ) < 1GiB"],
        minimize="(kv_bytes(context=1Ki,batch_size=2))",
        show=["kv_bytes(context=1024, batch_size=2, dtype=bf16)", "kv_bytes(dtype=BF16,context=9)"],
    )
    [cache] = {row["kv_bytes(batch_size=2, context=1024)"] for row in report.rows}
    assert cache == 2 * 1024 * 2 * 2 * 2 * 8 * 2  # sequences, tokens, layers, K and V, heads, width, bytes
    assert list(report.rows[0]) == [
        "d_ff",
        "kv_bytes(batch_size=2, context=1024)",
        "params",
        "kv_bytes(batch_size=2, context=1024, dtype=bf16)",
        "kv_bytes(context=9, dtype=bf16)",
    ]


def test_slow_figures_are_one_column_too_and_may_be_conditions(llama):
    where = "peak_bytes(tp=1, seq_len=1K) > 1"
    report = archcli.sweep(llama, vary="d_ff=8,16", where=where, minimize="peak_bytes(seq_len=1024,tp=1)")
    assert list(report.rows[0]) == ["d_ff", "params", "peak_bytes(seq_len=1024, tp=1)"]
    peaks = [
        archcli.count_memory(archcli.load(llama, [f"d_ff={row['d_ff']}"]), seq_len=1024)
        for row in report.rows
    ]
    assert [row["peak_bytes(seq_len=1024, tp=1)"] for row in report.rows] == [
        peak.totals["peak_bytes"] for peak in peaks
    ]


def default_lengths(model, **asked):
    notes = archcli.sweep(model, **asked).notes
    return [note.removeprefix("default lengths: ") for note in notes if note.startswith("default lengths")]


def test_lengths_that_are_left_out_are_told(llama):
    asked = {"vary": "d_ff=8,16", "minimize": "flops_per_token"}
    own = archcli.load(llama).max_seq_len
    assert default_lengths(llama, **asked) == [f"flops_per_token at seq_len={min(own, 2048)}."]
    asked["show"] = ["kv_bytes", "flops(phase=decode)", "peak_bytes", "time(device=h100-sxm)"]
    asked["show"] += ["flops(seq_len=3)", "flops(phase=decode, past=3)", "kv_bytes(context=3)", "params"]
    [lengths] = default_lengths(llama, **asked)
    assert lengths.removesuffix(".").split(", ") == [
        f"flops_per_token at seq_len={min(own, 2048)}",
        f"kv_bytes at context={own}",
        f"flops(phase=decode) at past={min(own - 1, 2048)}",
        f"peak_bytes at seq_len={min(own, 2048)}",
        f"time(device=h100-sxm) at past={min(own, 2048)}",
    ]
    # each candidate has a context of its own
    assert default_lengths(llama, vary="max_seq_len=512,1024", show=["kv_bytes", "peak_bytes"]) == []


def test_a_tie_may_round_up():
    tie = "d_ff=-(-8/3*d_model//128)*128"
    report = archcli.sweep("gpt2", vary="d_model=768:1536:96", tie=tie)
    assert [row["d_ff"] for row in report.rows] == [
        128 * -(-8 * row["d_model"] // (3 * 128)) for row in report.rows
    ]
    assert len(report.rows) > 5
