"""`archcli params` of a checkpoint without a config, and what other commands say of it."""

import json

import pytest

from safetensors_files import ENTRIES, write


@pytest.fixture
def weights(tmp_path):
    """A folder with a .safetensors file alone."""
    path = tmp_path / "weights"
    path.mkdir()
    write(path / "model.safetensors", ENTRIES)
    return path


@pytest.mark.sample(4, whole=True)
@pytest.mark.parametrize("command", ["flops", "kvcache", "memory", "show", "check", "explain"])
def test_other_commands_say_that_it_is_no_architecture(command, weights, cli):
    for model in (weights, weights / "model.safetensors"):
        done = cli(command, model)
        assert done.code == 2
        assert "names and shapes of stored tensors are no architecture" in done.err
        assert "`archcli params` lists them" in done.err


@pytest.mark.parametrize(
    ("options", "named"),
    [(["--dtype", "fp32"], "--dtype"), (["--against", "x"], "--against"), (["--set", "a=1"], "--set")],
)
def test_options_about_an_architecture_are_refused(options, named, weights, cli):
    done = cli("params", weights, *options)
    assert (done.code, f"{named} is for an architecture" in done.err) == (2, True)


def test_the_printed_report_says_that_it_is_no_architecture(weights, cli):
    done = cli("params", weights)
    assert done.code == 0
    assert "Stored tensors, no architecture" in done.out
    assert "no config.json is beside it" in done.out + done.err


def test_json_has_the_figures_in_full(weights, cli):
    totals = json.loads(cli("params", weights, "--json").out)["totals"]
    assert (totals["stored_elements"], totals["bytes"], totals["tensors"]) == (500, 1800, 5)
