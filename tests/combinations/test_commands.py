"""Every kind of mixer with every command: none raises, whatever is asked of it."""

import json

import pytest

from archcli.commands.line.names import COMMANDS
from archcli.modules.spec.kinds import kinds
from combinations.asked import ASKED, GENERATES, OF_NO_MODEL, PICTURES, TORCH
from combinations.mixers import (
    ENCODING,
    MERGED,
    MIXERS,
    OF_IMAGES,
    OF_SOUNDS,
    OF_SUMS,
    encoder,
    image_encoder,
    long_encoder,
    model,
    pair,
    sound_encoder,
)
from commands.conftest import cli

__all__ = ["cli"]


EVERY = MIXERS | ENCODING | OF_IMAGES | OF_SOUNDS | OF_SUMS | MERGED
FILES = {
    **dict.fromkeys(MIXERS, model),
    **dict.fromkeys(ENCODING, encoder),
    **dict.fromkeys(OF_IMAGES, image_encoder),
    **dict.fromkeys(OF_SOUNDS, sound_encoder),
    **dict.fromkeys(OF_SUMS, long_encoder),
    **dict.fromkeys(MERGED, pair),
}
"""What makes a file of a mixer."""


def of_all(asked):
    """Every way of asking with every mixer, and its name."""
    return pytest.mark.parametrize(
        ("mixer", "asked"),
        [
            pytest.param(mixer, words, id=f"{mixer}-{name}")
            for mixer in EVERY
            for name, words in asked.items()
            if mixer in MIXERS | MERGED or name not in GENERATES
        ],
    )


def yaml(mixer):
    """A model of this mixer alone, of the kind that has such layers."""
    of_layers = FILES[mixer]
    return of_layers(mixer)


@pytest.fixture
def answered(cli, tmp_path):
    """The JSON that a command line prints of a model of this mixer."""

    def run(asked, mixer):
        path = tmp_path / "model.yaml"
        path.write_text(yaml(mixer))
        verb, *options = asked
        done = cli(verb, path, *options, "--json")
        assert (done.code, done.err) == (0, "")
        return json.loads(done.out)

    return run


def test_every_kind_and_every_command_is_here():
    assert {text.strip("{}").split(",")[0].removeprefix("kind: ").strip() for text in EVERY.values()} == set(
        kinds("attention")
    )
    assert {asked[0] for asked in (ASKED | PICTURES | TORCH).values()} | OF_NO_MODEL == set(COMMANDS)


@pytest.mark.long
@pytest.mark.sample(1)
@of_all(ASKED)
def test_every_command_answers(answered, mixer, asked):
    assert answered(asked, mixer)["command"] == asked[0]


@pytest.mark.sample(1)
@of_all(PICTURES)
def test_every_picture_is_drawn(cli, tmp_path, mixer, asked):
    path = tmp_path / "model.yaml"
    path.write_text(yaml(mixer))
    verb, *options = asked
    done = cli(verb, path, *options)
    assert (done.code, done.err) == (0, "")
    assert "<svg" in done.out


@pytest.mark.sample(4)
@pytest.mark.parametrize("mixer", ENCODING | OF_IMAGES | OF_SOUNDS | OF_SUMS)
@pytest.mark.parametrize("name", sorted(GENERATES & set(ASKED)))
def test_an_encoder_says_that_it_generates_nothing(cli, tmp_path, mixer, name):
    path = tmp_path / "model.yaml"
    path.write_text(yaml(mixer))
    verb, *options = ASKED[name]
    done = cli(verb, path, *options)
    assert done.code == 2
    assert "an encoder has no cache to fill and generates nothing" in done.err


@pytest.mark.sample(3)
@pytest.mark.parametrize("mixer", EVERY)
def test_what_is_written_as_yaml_is_the_same_model(cli, tmp_path, mixer):
    path, again = tmp_path / "model.yaml", tmp_path / "again.yaml"
    path.write_text(yaml(mixer))
    again.write_text(cli("show", path, "--format", "yaml").out)
    assert cli("params", again, "--json").out == cli("params", path, "--json").out.replace(
        "model.yaml", "again.yaml"
    )


@pytest.mark.long
@pytest.mark.torch
@pytest.mark.sample(1)
@of_all(TORCH)
def test_every_command_that_runs_it_answers(answered, mixer, asked):
    assert answered(asked, mixer)["command"] == asked[0]
