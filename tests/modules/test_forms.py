"""Equal forms of a module: what a request asks for, what the YAML states, what the phase decides."""

from typing import ClassVar, Literal, get_args

import pytest

from archcli.errors import ArchError
from archcli.load.source import load
from archcli.measure.passes import count_pass
from archcli.modules import LinearAttention
from archcli.modules.models.stack import Group
from archcli.modules.spec.forms import forms_of, in_other_forms, unused_forms, with_forms
from archcli.modules.spec.request import Forms, Phase, Request
from small import decoder, layer

BY_PHASE = {"forward": "naive", "train": "naive", "prefill": "naive", "decode": "absorbed"}


class ScannedAttention(LinearAttention):
    """A mixer with forms of its own, under another key."""

    forms: ClassVar[Forms | None] = Forms(
        "scan", {"forward": "chunked", "train": "chunked", "prefill": "chunked", "decode": "recurrent"}
    )
    form: Literal["auto", "chunked", "recurrent"] = "auto"


SCANNED = decoder(Group(n_layers=3, layer=layer(ScannedAttention(n_heads=4))))


def stated(form):
    return load("deepseek-v3", [f"form={form}"]).model


@pytest.mark.parametrize("phase", get_args(Phase))
def test_auto_is_absorbed_where_a_token_is_decoded_and_naive_elsewhere(phase):
    request = Request(phase, seq_len=4)
    for asked in (request, Request(phase, seq_len=4, forms={"mla": "auto"})):
        formed = with_forms(load("deepseek-v3").model, asked)
        assert {group.layer.attention.form for group in formed.groups} == {BY_PHASE[phase]}
        assert forms_of(formed, asked) == {"mla": BY_PHASE[phase]}


@pytest.mark.sample(3, whole=True)
@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize("form", ["naive", "absorbed"])
def test_a_form_asked_for_is_that_of_every_phase(phase, form):
    request = Request(phase, seq_len=4, forms={"mla": form})
    for model in (load("deepseek-v3").model, stated("naive"), stated("absorbed")):
        assert forms_of(model, request) == {"mla": form}


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_a_stated_form_stays_unless_another_is_asked_for(phase):
    assert forms_of(stated("naive"), Request(phase)) == {"mla": "naive"}
    assert forms_of(stated("absorbed"), Request(phase, forms={"mla": "auto"})) == {"mla": "absorbed"}


def test_a_pass_is_counted_in_the_form_that_it_names():
    model, request = load("deepseek-v3").model, Request("decode", 1, 1, 100)
    auto, absorbed, naive = (
        count_pass(model, Request("decode", 1, 1, 100, forms=forms))
        for forms in ({}, {"mla": "absorbed"}, {"mla": "naive"})
    )
    assert (auto.forms, naive.forms) == ({"mla": "absorbed"}, {"mla": "naive"})
    assert [(row.path, row.inputs) for row in auto.rows] == [(row.path, row.inputs) for row in absorbed.rows]
    assert auto.flops() == absorbed.flops()
    assert auto.flops()[0] < naive.flops()[0]
    assert [key for key, _, _ in in_other_forms(model, request)] == ["mla"]
    assert [count_pass(model, other).flops() for _, _, other in in_other_forms(model, request)] == [
        naive.flops()
    ]


def test_layers_that_state_forms_of_their_own_are_told_together():
    model = load("deepseek-v3", ["groups.0.layer.attention.form=naive"]).model
    assert forms_of(model, Request("decode")) == {"mla": "naive + absorbed"}


def test_a_model_without_forms_is_left_as_it_is():
    model = load("gpt2").model
    request = Request("decode", forms={"mla": "absorbed", "scan": "auto"})
    assert with_forms(model, request) is model
    assert forms_of(model, request) == {}
    assert list(in_other_forms(model, request)) == []
    assert unused_forms(model, request.forms) == ["mla"]


def test_an_unknown_form_is_refused_with_those_there_are():
    with pytest.raises(ArchError, match="'folded'") as refused:
        count_pass(load("deepseek-v3").model, Request(forms={"mla": "folded"}))
    assert refused.value.problems[0].hint == "one of auto, naive, absorbed"


def test_another_key_is_a_class_with_other_forms():
    forward, decode = Request(seq_len=4), Request("decode", past=4)
    assert count_pass(SCANNED, forward).forms == {"scan": "chunked"}
    assert count_pass(SCANNED, decode).forms == {"scan": "recurrent"}
    assert forms_of(SCANNED, Request(forms={"scan": "recurrent", "mla": "naive"})) == {"scan": "recurrent"}
    assert unused_forms(SCANNED, {"scan": "recurrent", "mla": "naive"}) == ["mla"]
