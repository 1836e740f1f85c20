"""Every hybrid with every command, through the cache, and counted by all references."""

import json

import pytest
import torch

from archcli.load.source import load_text
from archcli.modules.attention.mixer import mixers
from archcli.modules.spec.request import SCAN
from asking import ask, failures
from combinations.asked import ASKED, TORCH
from combinations.hybrids import HYBRIDS, hybrid
from combinations.steps import stepwise
from commands.conftest import cli
from zoo import assert_close, built, tokens

__all__ = ["cli"]
torch.set_num_threads(1)
every_hybrid = pytest.mark.parametrize("name", HYBRIDS)


def loaded(name, **fields):
    return load_text(hybrid(name, **fields), f"{name}.yaml").model


@pytest.fixture
def answered(cli, tmp_path):
    """The JSON that a command line prints of a hybrid."""

    def run(name, asked, *more):
        path = tmp_path / f"{name}.yaml"
        path.write_text(hybrid(name))
        verb, *options = asked
        done = cli(verb, path, *options, *more, "--json")
        assert (done.code, done.err) == (0, "")
        return json.loads(done.out)

    return run


@pytest.mark.sample(1)
@every_hybrid
@pytest.mark.parametrize("asked", ASKED)
def test_every_command_answers(answered, name, asked):
    assert answered(name, ASKED[asked])["command"] == ASKED[asked][0]


@pytest.mark.long
@pytest.mark.sample(1)
@every_hybrid
@pytest.mark.parametrize("asked", TORCH)
def test_every_command_that_runs_it_answers(answered, name, asked):
    assert answered(name, TORCH[asked])["command"] == TORCH[asked][0]


@pytest.mark.sample(6, whole=True)
@every_hybrid
def test_what_is_written_as_yaml_is_the_same_model(cli, tmp_path, name):
    path, again = tmp_path / "model.yaml", tmp_path / "again.yaml"
    path.write_text(hybrid(name))
    again.write_text(cli("show", path, "--format", "yaml").out)
    written = load_text(again.read_text(), "again.yaml").model
    assert written == loaded(name).replace(source=written.source)


@pytest.mark.sample(5)
@every_hybrid
@pytest.mark.parametrize("form", ["auto", "chunked", "recurrent"])
def test_each_form_of_a_scan_is_counted(answered, name, form):
    given = answered(name, ("flops", "-s", "7"), "--scan", form)
    scans = any(mixer.forms == SCAN for _, mixer in mixers(loaded(name)))
    assert given["inputs"]["scan"] == ({"auto": "chunked"}.get(form, form) if scans else None)
    idle = any("--scan has no effect" in note for note in given["notes"])
    assert idle is (not scans and form != "auto")


@pytest.mark.long
@pytest.mark.sample(1)
@every_hybrid
def test_a_cut_pattern_is_counted_and_built_alike(name):
    assert failures(ask(loaded(name, n_layers=len(HYBRIDS[name]) + 1))) == []


@pytest.mark.sample(1)
@every_hybrid
def test_it_decodes_like_its_full_pass(name):
    made, ids = built(loaded(name), attention="eager"), tokens()
    with torch.no_grad():
        assert_close(stepwise(made, ids, 5), made(ids)[:, 4:])
