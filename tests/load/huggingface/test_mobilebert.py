"""MobileBERT: every switch of its config is the class's, and what its class cannot run is refused."""

import pytest

import archcli
from archcli.errors import ArchError
from mapped import Answer, answer
from table import every_row
from their_class import built, one_pass, params

SMALL = {
    "model_type": "mobilebert",
    "vocab_size": 97,
    "hidden_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 30,
    "max_position_embeddings": 32,
    "embedding_size": 14,
    "intra_bottleneck_size": 24,
}
TOKENS = 16
PLAIN, ON_BOTTLENECK = {"use_bottleneck": False}, {"use_bottleneck_attention": True}
UNSHARED = {"key_query_shared_bottleneck": False}
SWITCHES = {
    "default": {},
    "plain": PLAIN,
    "plain-one-network": {**PLAIN, "num_feedforward_networks": 1},
    "on-bottleneck": ON_BOTTLENECK,
    "on-bottleneck-unshared": {**ON_BOTTLENECK, **UNSHARED},
    "as-wide-unshared": {**UNSHARED, "intra_bottleneck_size": 40},
    "seven-networks": {"num_feedforward_networks": 7},
    "layer-norm": {"normalization_type": "layer_norm"},
    "no-trigram": {"trigram_input": False},
    "no-trigram-as-wide": {"trigram_input": False, "embedding_size": 40},
    "trigram-as-wide": {"embedding_size": 40},
    "no-activation": {"classifier_activation": False},
    "untied": {"tie_word_embeddings": False},
    "untied-as-wide": {"tie_word_embeddings": False, "embedding_size": 40},
    "saved-width": {"true_hidden_size": 24},
    "three-segments": {"type_vocab_size": 3},
}
CLASSES = [
    "MobileBertModel",
    "MobileBertForMaskedLM",
    "MobileBertForPreTraining",
    "MobileBertForNextSentencePrediction",
    "MobileBertForSequenceClassification",
    "MobileBertForTokenClassification",
    "MobileBertForQuestionAnswering",
    "MobileBertForMultipleChoice",
]


def told(config):
    """archcli's answer for a config, and whether the class shows its FLOPs."""
    theirs = built(config)
    known = {"params": params(theirs), **one_pass(theirs, TOKENS)}
    return answer(config, known, TOKENS), known["flops"] is not None


@pytest.mark.long
@every_row("switches", SWITCHES.values(), ids=SWITCHES)
def test_every_switch_is_counted_as_the_class_has_it(switches):
    of_class = told({**SMALL, **switches, "architectures": ["MobileBertForPreTraining"]})
    assert of_class == (Answer("exact"), True)


UNSEEN = {"MobileBertForMultipleChoice", "MobileBertForQuestionAnswering"}
"""Classes without FLOPs here: ids have an axis of choices, two scores are asked for where there are three."""


@pytest.mark.long
@pytest.mark.parametrize("name", CLASSES)
def test_every_class_is_counted_as_it_is(name):
    labels = {"id2label": {str(i): f"label {i}" for i in range(3)}}
    for activation in (True, False):
        config = {**SMALL, **labels, "classifier_activation": activation, "architectures": [name]}
        assert told(config) == (Answer("exact"), name not in UNSEEN)


def test_published_parameters_worked_out():
    embedding = 30522 * 128 + (3 * 128 * 512 + 512) + 512 * 512 + 2 * 512 + 2 * 512
    narrow, network = 512 * 128 + 128, 2 * 128 * 512 + 512 + 128
    attention = narrow + 2 * (128 * 128 + 128) + (512 * 128 + 128) + (128 * 128 + 128)
    # around the bottlenecks of the layer and of queries and keys, attention, and four networks
    norms = 7 * 2 * 128 + 2 * 512
    layer = narrow + attention + 4 * network + (128 * 512 + 512) + norms
    head = 512 * 512 + 512 + 2 * 512 + 30522 * (512 - 128) + 30522
    file = {"hidden_size": 512, "model_type": "mobilebert", "architectures": ["MobileBertForMaskedLM"]}
    assert archcli.count_params(archcli.load(file)).totals["params"] == embedding + 24 * layer + head


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"normalization_type": "rms"}, "normalization_type 'rms' is not supported"),
        ({"num_attention_heads": 5}, "does not divide the width of the layers, 24"),
        ({"true_hidden_size": 40}, "true_hidden_size 40 is not supported"),
        (UNSHARED, "neither shares nor reads"),
        ({"num_feedforward_networks": 0}, "must be a whole number above 0"),
        ({"is_decoder": True}, "is_decoder True is not supported"),
        ({"embedding_size": 48, "architectures": ["MobileBertForMaskedLM"]}, "leaves nothing beside 48"),
    ],
    ids=["norm", "heads", "width", "unshared", "networks", "decoder", "wide-table"],
)
def test_what_the_class_cannot_run_is_refused(given, message):
    with pytest.raises(ArchError) as refused:
        archcli.load({**SMALL, **given})
    assert message in refused.value.problems[0].what
