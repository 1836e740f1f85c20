"""Every model_type is found by listing.json; one that archcli lacks, by an installed distribution."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from archcli.errors import ArchError
from archcli.load.huggingface import registry
from archcli.load.huggingface.importer import import_config
from archcli.load.huggingface.registry import families, family_of, listing
from archcli.load.huggingface.wrappers.table import WRAPPERS
from archcli.load.yaml.nodes import plain
from distribution import forget_outsiders, installed
from listed import files, rows, write

RENEWAL = "pytest -n0 --renew tests/load/huggingface/test_registry.py"
UNHELD = {"classes": [], "held": []}
"""What is said of a new type until `tests/mappings/test_listing.py` is renewed, in the second stage."""


def test_the_listing_has_what_the_files_say(renew):
    made, before = rows(), listing()
    if renew:
        known = {kind: before.get(kind, UNHELD) for kind in {*made, *WRAPPERS}}
        write({kind: {**made.get(kind, {}), **held_of(entry)} for kind, entry in known.items()})
    told = {
        kind: {key: entry[key] for key in ("file", "what")}
        for kind, entry in listing().items()
        if "file" in entry
    }
    assert told == made, RENEWAL
    assert listing().keys() == {*made, *WRAPPERS}, RENEWAL


def held_of(entry):
    """What an entry says of tests, which this file does not run."""
    return {key: entry[key] for key in UNHELD}


def test_every_file_has_a_type():
    assert set(families().values()) == {file for _, file in files()}, RENEWAL


@pytest.mark.long
def test_only_the_family_asked_for_is_imported():
    code = (
        "import sys; from archcli.load.huggingface.importer import import_config; "
        "import_config({'model_type': 'arcee'}); "
        "print([name for name in sys.modules if '.families.' in name])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout.strip() == "['archcli.load.huggingface.families.llama']"


SHOWN = (Path(__file__).parents[3] / "docs" / "extending.md").read_text()
OUTSIDER = re.search(r"```py\n([^`]*FAMILY = Family.*?)```", SHOWN, re.DOTALL)[1] + "NONE = 1\n"
SEEING = re.search(r"```py\n([^`]*SEEING = Family.*?)```", SHOWN, re.DOTALL)[1]


@pytest.fixture
def _outsiders(tmp_path, monkeypatch):
    places = {"own_family": "own:FAMILY", "odd_family": "own:NONE", "lost_family": "own:NOTHING"}
    places |= {"seeing": "my_package:SEEING", "blind": "my_package:BLIND"}
    lost = 'BLIND = SEEING._replace(towers=(TowerRow("my_package:nothing"),))\n'
    installed(tmp_path, "own", {"own": OUTSIDER, "my_package": SEEING + lost}, places, group=registry.GROUP)
    monkeypatch.syspath_prepend(tmp_path)
    forget_outsiders(monkeypatch)


@pytest.mark.usefixtures("_outsiders")
def test_an_installed_distribution_has_families_of_its_own():
    tree = import_config({"model_type": "own_family", "architectures": ["OwnForCausalLM"]}).tree
    assert plain(tree)["d_model"] == 1024
    assert family_of("own_family").about == "A model of ours."


@pytest.mark.usefixtures("_outsiders")
@pytest.mark.parametrize(("kind", "reason"), [("odd_family", "it is no Family"), ("lost_family", "NOTHING")])
def test_what_is_no_family_is_refused(kind, reason):
    with pytest.raises(ArchError, match=reason):
        import_config({"model_type": kind})


SEEN = {"hidden_size": 64, "vision_config": {"hidden_size": 48, "num_attention_heads": 4}}


@pytest.mark.usefixtures("_outsiders")
def test_an_outsiders_family_has_a_tower():
    read = import_config({"model_type": "seeing", "architectures": ["OwnForCausalLM"], **SEEN})
    [tower] = plain(read.tree)["towers"]
    assert tower["model"]["d_model"] == 48
    assert tower["projector"] == [{"kind": "linear", "width": 64, "bias": True}]


@pytest.mark.usefixtures("_outsiders")
def test_a_tower_whose_reader_is_not_there_is_not_counted():
    read = import_config({"model_type": "blind", "architectures": ["OwnForCausalLM"], **SEEN})
    assert "towers" not in plain(read.tree)
    assert any("its reader my_package:nothing cannot be used" in note for note in read.notes)
