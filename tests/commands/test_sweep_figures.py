"""Figures of a sweep are those that other commands print of the written YAML; what is dropped is refused."""

import json
import random
from itertools import product

import pytest

import archcli
from archcli.load.presets import presets, presets_index
from archcli.measure.symbolic.sizes import fields_named, sizes

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


@pytest.mark.sample(3, second=80)
@pytest.mark.parametrize("name", presets())
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


@pytest.mark.sample(1, second=30)
@pytest.mark.parametrize("name", [one["name"] for one in presets_index() if one["kind"] != "encoder"])
def test_memory_and_time_are_those_of_the_model_that_is_written(name, tmp_path):
    model = archcli.load(name)
    vary = f"d_model={model.d_model},{2 * model.d_model}"
    report = archcli.sweep(name, vary=vary, show=[*SLOW], write_yaml=tmp_path / "best")
    for row, file in zip(report.rows, sorted((tmp_path / "best").iterdir()), strict=True):
        assert {key: row[key] for key in SLOW} == {key: read(file) for key, read in SLOW.items()}


@pytest.mark.long
def test_thirty_candidates_by_the_command_line(archcli, tmp_path):
    """Of dense, mixed, latent, windowed, recurrent and encoder-decoder models five each."""
    names = ("llama-3.1-8b", "mixtral-8x7b", "deepseek-v3", "gemma-2-9b", "jamba-1.5-mini", "t5-small")
    for name in names:
        folder = tmp_path / name
        vary = ("--vary", "d_model=1024:5120:1024", "--show", "flops(seq_len=99)", "--top", "5")
        done = archcli("sweep", name, *vary, "--write-yaml", folder, "--json")
        rows = json.loads(done.stdout)["rows"]
        files = sorted(folder.iterdir())
        assert len(files) == len(rows) == 5
        for row, file in zip(rows, files, strict=True):
            params = json.loads(archcli("params", file, "--json").stdout)["totals"]["params"]
            matmul = json.loads(archcli("flops", file, "-s", "99", "--json").stdout)["totals"]["matmul_flops"]
            assert (row["params"], row["flops(seq_len=99)"]) == (params, matmul)


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
