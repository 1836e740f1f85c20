"""Every kind of mixer with every command: none raises, whatever is asked of it."""

import json

import pytest

from archcli.commands._application import COMMANDS
from archcli.modules.kinds import kinds
from combinations.mixers import MIXERS, model
from commands.conftest import cli

__all__ = ["cli"]
PHASES = ("forward", "train", "prefill", "decode")
ASKED = {
    "params": ("params",),
    **{f"flops {phase}": ("flops", "--phase", phase, "-s", "7") for phase in PHASES},
    "flops past a window": ("flops", "--phase", "decode", "--past", "30"),
    "kvcache": ("kvcache", "--context", "30"),
    "check": ("check", "--exit-zero"),
    "survey": ("survey", "--no-presets"),
    "compare": ("compare", "gpt2"),
    "show": ("show",),
}
OF_NO_MODEL = {"list", "families", "rule", "rules", "schema", "plot"}
TORCH = {
    "verify": ("verify", "-s", "5"),
    "profile": ("profile", "-s", "5", "--pairs", "1", "--threads", "1", "--no-ceilings"),
    "profile decode": (
        *("profile", "--phase", "decode", "--past", "9", "--attention", "eager"),
        *("--pairs", "1", "--threads", "1", "--no-ceilings"),
    ),
}


@pytest.fixture
def answered(cli, tmp_path):
    """The JSON that a command line prints of a model of these mixers."""

    def run(asked, *mixers):
        path = tmp_path / "model.yaml"
        path.write_text(model(*mixers))
        verb, *options = asked
        done = cli(verb, path, *options, "--json")
        assert (done.code, done.err) == (0, "")
        return json.loads(done.out)

    return run


def test_every_kind_and_every_command_is_here():
    assert {text.split(",")[0].removeprefix("{kind: ").strip() for text in MIXERS.values()} == set(
        kinds("attention")
    )
    assert {asked[0] for asked in (ASKED | TORCH).values()} | OF_NO_MODEL == set(COMMANDS)


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
@pytest.mark.parametrize("mixer", MIXERS)
def test_every_command_answers(answered, mixer, asked):
    assert answered(asked, mixer)["command"] == asked[0]


@pytest.mark.parametrize("mixer", MIXERS)
def test_what_is_written_as_yaml_is_the_same_model(cli, tmp_path, mixer):
    path, again = tmp_path / "model.yaml", tmp_path / "again.yaml"
    path.write_text(model(mixer))
    again.write_text(cli("show", path, "--format", "yaml").out)
    assert cli("params", again, "--json").out == cli("params", path, "--json").out.replace(
        "model.yaml", "again.yaml"
    )


@pytest.mark.torch
@pytest.mark.sample(1, per=lambda asked, **_: asked)
@pytest.mark.parametrize("asked", TORCH.values(), ids=TORCH)
@pytest.mark.parametrize("mixer", MIXERS)
def test_every_command_that_runs_it_answers(answered, mixer, asked):
    assert answered(asked, mixer)["command"] == asked[0]
