"""Every figure of a drawing is the number that a command prints, at the address that the figure has."""

import json
from dataclasses import fields, is_dataclass
from functools import cache

import pytest

from archcli.errors import ArchError
from archcli.graph.anatomy import Figure, NumberedLine
from archcli.load.presets import presets
from archcli.load.source import load, load_text
from archcli.measure.flops import count_flops
from archcli.measure.kvcache.kvcache import count_kv_cache
from archcli.measure.params import count_params
from archcli.measure.survey.anatomy.anatomy import anatomy
from archcli.measure.survey.anatomy.figures import value_of
from archcli.measure.survey.show import list_rows
from archcli.measure.survey.wired import wired_rows
from archcli.modules.models.layers import folded_path
from combinations.hybrids import HYBRIDS, hybrid

COMMANDS = {"show": list_rows, "params": count_params, "flops": count_flops, "kvcache": count_kv_cache}
NAMES = [*presets(), *HYBRIDS]


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


def uncounted(name, shown="params"):
    """The figures of a model's drawing that are not what their command prints."""
    model = model_of(name)

    @cache
    def document(command):
        report = COMMANDS[command](model)
        return json.loads(json.dumps({"totals": report.totals, "rows": report.rows}))

    told = list(figures(anatomy(model, shown)))
    assert told
    return [figure for figure in told if value_of(figure, document(figure.command)) != figure.value]


@pytest.mark.sample(24)
@pytest.mark.parametrize("name", NAMES)
def test_every_figure_is_that_of_its_command(name):
    assert uncounted(name) == []


@pytest.mark.sample(12)
@pytest.mark.parametrize("shown", ["flops", "bytes", "kv"])
@pytest.mark.parametrize("name", NAMES)
def test_the_shares_of_other_quantities_are_those_of_their_commands(name, shown):
    assert uncounted(name, shown) == []


@pytest.mark.parametrize("shown", ["params", "bytes", "flops", "kv"])
@pytest.mark.parametrize("name", ["deepseek-v3", "zamba2-7b", "whisper-small", "llama-3.2-3b-lora-3.7bit"])
def test_shares_add_up_to_the_total(name, shown):
    model = model_of(name)
    totals = {"params": count_params, "bytes": count_params, "flops": count_flops, "kv": count_kv_cache}
    total = totals[shown](model).totals[{"flops": "matmul_flops", "kv": "bytes"}.get(shown, shown)]
    shares = anatomy(model, shown).shares
    assert sum(share.stored.value for share in shares) == total
    assert len(shares) <= 8


def test_time_is_that_of_a_saved_profile():
    model = model_of("deepseek-v3")
    paths = dict.fromkeys(folded_path(row.path) for row in wired_rows(model))
    profile = {"rows": [{"path": path, "seconds": 0.25} for path in paths]}
    shares = anatomy(model, "time", profile).shares
    assert {share.name for share in shares} >= {
        "routed experts",
        "attention",
        "attention scores",
        "dense FFN",
    }
    assert sum(share.stored.value for share in shares) == 0.25 * len(paths)
    assert all(value_of(share.stored, profile) == share.stored.value for share in shares)


def test_time_without_a_profile_is_refused():
    with pytest.raises(ArchError, match="time is that of a saved profile"):
        anatomy(model_of("gpt2"), "time")


def test_a_figure_that_is_changed_is_seen():
    document = {"totals": {}, "rows": [{"id": "a.b", "path": "a.b", "outputs": [[1, 8]]}]}
    assert value_of(Figure(8, "show", "a.b", "outputs.0.1"), document) == 8
    assert value_of(Figure(8, "show", "a", "outputs.0.1"), document) == 8
    assert value_of(Figure(9, "show", "a.b", "outputs.0.0+outputs.0.1"), document) == 9
    assert value_of(Figure(8, "show", "a.b", "outputs.0.0*outputs.0.1"), document) == 8
