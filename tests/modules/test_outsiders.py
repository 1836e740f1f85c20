"""The two doors by which other people's kinds enter, and what is refused at them."""

import sys

import pytest

import archcli
from archcli.errors import ArchError
from archcli.load.source import load_text
from archcli.modules import RMSNorm
from archcli.modules.spec import kinds
from distribution import forget_outsiders, installed

NORM = """
from typing import Literal
from archcli.modules import RMSNorm

class Halved(RMSNorm):
    \"\"\"Half of an RMSNorm.\"\"\"

    kind: Literal["halved"] = "halved"
    share: float = 0.5
"""
MODEL = (
    "{vocab_size: 8, d_model: 8, norm: KIND, groups: [{n_layers: 1, layer: {kind: pre_norm, ffn: {kind: "
    "glu, d_ff: 8}}}]}"
)


@pytest.fixture(autouse=True)
def site(monkeypatch, tmp_path):
    forget_outsiders(monkeypatch)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("halved_")]:
        del sys.modules[name]


def model(kind):
    return load_text(MODEL.replace("KIND", kind), "f").model


def test_a_registered_kind_is_loaded_when_a_file_names_it(site):
    (site / "halved_a.py").write_text(NORM)
    archcli.register("halved", "halved_a:Halved")
    model("rmsnorm")
    assert "halved_a" not in sys.modules
    norm = model("{kind: halved, share: 0.25}").norm
    assert (type(norm).__module__, norm.share, isinstance(norm, RMSNorm)) == ("halved_a", 0.25, True)


def test_a_kind_of_a_distribution_is_loaded_when_a_file_names_it(site):
    installed(site, "halves", {"halved_b": NORM}, {"halved": "halved_b:Halved"})
    model("rmsnorm")
    assert "halved_b" not in sys.modules
    assert type(model("halved").norm).__module__ == "halved_b"


def test_a_kind_stands_where_its_family_may(site):
    installed(site, "halves", {"halved_c": NORM}, {"halved": "halved_c:Halved"})
    with pytest.raises(ArchError, match="unknown kind 'halved' of ffn"):
        load_text(MODEL.replace("KIND", "halved").replace("glu", "halved"), "f")


def test_lists_and_suggestions_know_it(site):
    installed(site, "halves", {"halved_d": NORM}, {"halved": "halved_d:Halved"})
    with pytest.raises(ArchError, match=r"did you mean halved\?"):
        model("halve")
    assert list(kinds.kinds("norm")) == [
        "rmsnorm",
        "layernorm",
        "batchnorm",
        "self_gated",
        "prescaled_rmsnorm",
        "affine",
        "halved",
    ]


REFUSED = {
    "no module": ("halved", "halved_none:Halved", "ModuleNotFoundError: No module named 'halved_none'"),
    "no class": ("halved", "halved_e:Third", "AttributeError: module 'halved_e' has no attribute 'Third'"),
    "no spec": ("halved", "halved_e:Literal", "it is no module that belongs to a family"),
    "another kind": ("third", "halved_e:Halved", "the class says kind 'halved'"),
    "taken": ("rmsnorm", "halved_e:RMSNorm", "norm has that kind already"),
    "an annotation nobody reads": (
        "odd",
        "halved_e:Odd",
        "TypeError: <class 'complex'> is no annotation of a field",
    ),
    "a name nobody knows": ("lost", "halved_e:Lost", "NameError: name 'Nowhere' is not defined"),
}
ODD = """
class Odd(RMSNorm):
    kind: Literal["odd"] = "odd"
    angle: "complex" = 1j

class Lost(RMSNorm):
    kind: Literal["lost"] = "lost"
    where: "Nowhere" = 1
"""


@pytest.mark.parametrize(("kind", "place", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_bad_entry_point_is_one_clear_error(site, kind, place, reason):
    installed(site, "halves", {"halved_e": NORM + ODD}, {kind: place})
    with pytest.raises(ArchError) as caught:
        kinds.kinds("norm")
    (problem,) = caught.value.problems
    assert str(problem).startswith(
        f"kind '{kind}' of the distribution halves ({place}) cannot be used: {reason}"
    )
    model("rmsnorm")  # which asks nobody


def test_two_that_claim_one_kind_are_refused(site):
    installed(site, "halves", {"halved_f": NORM}, {"halved": "halved_f:Halved"})
    installed(site, "quarters", {}, {"halved": "halved_f:Halved"})
    with pytest.raises(
        ArchError, match="'halved' is claimed by the distribution halves and by the distribution quarters"
    ):
        model("halved")


def test_a_kind_is_registered_once(site):
    (site / "halved_g.py").write_text(NORM)
    archcli.register("halved", "halved_g:Halved")
    archcli.register("halved", "halved_g:Halved")
    with pytest.raises(ArchError, match="'halved' is registered as halved_g:Halved already"):
        archcli.register("halved", "elsewhere:Halved")


def test_a_kind_of_the_library_is_not_to_be_had(site):
    (site / "halved_h.py").write_text(NORM)
    with pytest.raises(ArchError, match="norm has that kind already"):
        archcli.register("rmsnorm", "halved_h:RMSNorm")
    assert type(model("rmsnorm").norm) is RMSNorm
    assert kinds.registered == {}
