"""Every figure of a drawing is the number that a command prints, at the address that the figure has."""

import json
from dataclasses import fields, is_dataclass, replace
from functools import cache

import pytest

from archcli.errors import ArchError
from archcli.load.source import load, load_text
from archcli.measure.flops import count_flops
from archcli.measure.kvcache.kvcache import count_kv_cache
from archcli.measure.params import count_params
from archcli.measure.survey.show import list_rows
from archcli.measure.survey.wired import wired_forward
from archcli.modules.models.layers import folded_path
from archcli.wings.drawing.anatomy.anatomy import anatomy
from archcli.wings.drawing.drawn import Figure, NumberedLine
from combinations.hybrids import HYBRIDS, hybrid
from covering import COVERING
from drawn.counted import Addresses, seen_by_layers
from table import every_row

COMMANDS = {
    "show": lambda model: list_rows(model.with_media(seen_by_layers(model))),
    "params": count_params,
    "flops": count_flops,
    "kvcache": count_kv_cache,
}
NAMES = [*COVERING, *HYBRIDS]


def model_of(name):
    return (load_text(hybrid(name), name) if name in HYBRIDS else load(name)).model


def figures(record):
    """All figures of an anatomy, those of its lines included."""
    if type(record) is Figure:
        yield record
    elif type(record) is NumberedLine:
        yield from (part for part in record.parts if type(part) is Figure)
    elif is_dataclass(record):
        for field in fields(record):
            yield from figures(getattr(record, field.name))
    elif isinstance(record, tuple):
        for item in record:
            yield from figures(item)


def is_at(figure, document):
    """Whether a document has the number of a figure at its address."""
    return Addresses(document).value(figure.path, figure.key) == figure.value


def uncounted(name, shown="params"):
    """The figures of a model's drawing that are not what their command prints."""
    model = model_of(name)
    drawn = anatomy(model, shown)
    # a tower is a drawing of its own, whose figures are those of its encoder
    towers = zip(drawn.towers, model.towers, strict=True)
    drawings = [(replace(drawn, towers=()), model), *((column, tower.model) for column, tower in towers)]
    return [figure for one, drawn_model in drawings for figure in uncounted_of(one, drawn_model)]


def uncounted_of(drawn, model):
    """The figures of a drawing that are not what the commands print of a model."""

    @cache
    def document(command):
        report = COMMANDS[command](model)
        return Addresses(json.loads(json.dumps({"totals": report.totals, "rows": report.rows})))

    told = list(figures(drawn))
    assert told
    return [
        figure for figure in told if document(figure.command).value(figure.path, figure.key) != figure.value
    ]


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", NAMES)
def test_every_figure_is_that_of_its_command(name):
    assert uncounted(name) == []


@pytest.mark.sample(1)
@pytest.mark.parametrize("shown", ["flops", "bytes", "kv"])
@pytest.mark.parametrize("name", NAMES)
def test_the_shares_of_other_quantities_are_those_of_their_commands(name, shown):
    assert uncounted(name, shown) == []


@pytest.mark.long
@every_row("shown", ["params", "bytes", "flops", "kv"])
@every_row("name", ["deepseek-v3", "zamba2-7b", "whisper-small", "llama-3.2-3b-lora-3.7bit"])
def test_shares_add_up_to_the_total(name, shown):
    model = model_of(name)
    totals = {"params": count_params, "bytes": count_params, "flops": count_flops, "kv": count_kv_cache}
    total = totals[shown](model).totals[{"flops": "matmul_flops", "kv": "bytes"}.get(shown, shown)]
    shares = anatomy(model, shown).shares
    assert sum(share.stored.value for share in shares) == total
    assert len(shares) <= 8


def timed(seconds):
    """A profile whose operators take three quarters of the pass."""
    inputs = {"phase": "forward", "batch_size": 1, "seq_len": 32, "dtype": "fp32", "device": "cpu"}
    shares = {"framework_share": 0.125, "unattributed_share": 0.125}
    return {
        "inputs": inputs,
        "totals": {"wall_s": sum(seconds.values()) * 4 / 3, **shares},
        "rows": [{"path": path, "seconds": of} for path, of in seconds.items()],
        "notes": [],
    }


def test_time_is_that_of_a_saved_profile():
    model = model_of("deepseek-v3")
    paths = dict.fromkeys(folded_path(row.path) for row in wired_forward(model).rows)
    profile = timed(dict.fromkeys(paths, 0.25))
    drawn = anatomy(model, "time", profile)
    shares, parts = drawn.shares, drawn.parts
    assert all(part.share and is_at(part.share, profile) for part in parts)
    assert {share.name for share in shares} >= {
        "routed experts",
        "attention",
        "attention scores",
        "dense FFN",
    }
    # a quarter of the pass is outside of its operators, half of that unattributed: 3/4 + 1/8 + 1/8
    seconds = {share.name: share.stored.value for share in shares}
    assert sum(seconds.values()) == profile["totals"]["wall_s"] == 0.25 * len(paths) * 4 / 3
    assert seconds["framework"] == seconds["unattributed"] == 0.25 * len(paths) / 6
    assert all(is_at(share.stored, profile) for share in shares)


@pytest.mark.long
@every_row("shown", ["params", "bytes", "flops", "kv"])
@every_row("name", ["deepseek-v3", "zamba2-7b", "falcon-h1-0.5b", "llama-3.2-3b-lora-3.7bit"])
def test_parts_have_no_more_than_the_whole(name, shown):
    drawn = anatomy(model_of(name), shown)
    total = sum(share.stored.value for share in drawn.shares)
    parts = sum(part.share.value for part in drawn.parts if part.share is not None)
    # what no part has are tables, norms and the head, which leave nothing in the cache
    assert total == parts if shown == "kv" else total / 2 < parts < total
    if shown == "kv":
        assert {part.hue for part in drawn.parts if part.share is not None} <= {"attention", "recurrent"}


def test_parts_that_a_profile_has_as_one_have_no_time():
    model = model_of("gemma-3-1b")
    paths = dict.fromkeys(folded_path(row.path) for row in wired_forward(model).rows)
    drawn = anatomy(model, "time", timed(dict.fromkeys(paths, 0.5)))
    # attention with a window and without one have one name there
    assert [(part.hue, part.share is None) for part in drawn.parts] == [
        ("attention", True),
        ("dense", False),
        ("attention", True),
    ]


@pytest.mark.sample(3, whole=True)
@pytest.mark.parametrize("name", ["llama-3.2-3b-lora-3.7bit", "deepseek-v3", "gpt-oss-20b", "gemma-3-1b"])
def test_rows_of_show_have_the_bytes_and_flops_of_all(name):
    model = model_of(name)
    rows = list_rows(model).rows
    assert sum(row["bytes"] for row in rows) == count_params(model).totals["bytes"]
    flops = sum(row["layer_flops"] * row["times"] for row in rows)
    assert flops == count_flops(model).totals["matmul_flops"]


def test_time_without_a_profile_is_refused():
    with pytest.raises(ArchError, match="time is that of a saved profile"):
        anatomy(model_of("gpt2"), "time")


def test_a_figure_that_is_changed_is_seen():
    document = {"totals": {}, "rows": [{"id": "a.b", "path": "a.b", "outputs": [[1, 8]]}]}
    assert is_at(Figure(8, "show", "a.b", "outputs.0.1"), document)
    assert is_at(Figure(8, "show", "a", "outputs.0.1"), document)
    assert is_at(Figure(9, "show", "a.b", "outputs.0.0+outputs.0.1"), document)
    assert is_at(Figure(8, "show", "a.b", "outputs.0.0*outputs.0.1"), document)
    assert not is_at(Figure(7, "show", "a.b", "outputs.0.1"), document)
