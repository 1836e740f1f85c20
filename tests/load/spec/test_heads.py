"""Heads, losses and multi-token prediction in YAML.

What is short for what, and each mistake with the words it is answered with.
"""

import pytest

from archcli.load.source import load_text
from archcli.load.spec.written import to_mapping, to_yaml
from archcli.modules import (
    AdaptiveHead,
    CrossEntropy,
    Head,
    HierarchicalHead,
    MultiTokenPrediction,
    PreNorm,
    RMSNorm,
    SampledHead,
)
from table import every_row

ADAPTIVE = "head: {kind: adaptive, cutoffs: [100, 400], cluster_shares: [0.7, 0.2, 0.1]}"
LAYER = "{kind: pre_norm, attention: {kind: mha, n_heads: 8}, ffn: {kind: glu, d_ff: 7}}"
NO_MTP = "mtp: null leaves multi-token prediction out"
READ = {
    "head: {softcap: 30}": ("head", Head(softcap=30.0)),
    "head: {kind: linear, bias: true}": ("head", Head(bias=True)),
    "head: linear": ("head", Head()),
    "head: null": ("head", None),
    ADAPTIVE: ("head", AdaptiveHead(cutoffs=(100, 400), cluster_shares=(0.7, 0.2, 0.1))),
    "head: {kind: hierarchical, n_classes: 20}": ("head", HierarchicalHead(n_classes=20)),
    "head: {kind: sampled, n_samples: 64}": ("head", SampledHead(n_samples=64)),
    "loss: cross_entropy": ("loss", CrossEntropy()),
    "loss: {kind: cross_entropy, z_loss: 1e-4}": ("loss", CrossEntropy(z_loss=1e-4)),
    "mtp: {}": ("mtp", MultiTokenPrediction(norm=RMSNorm(eps=1e-5))),
    "mtp: {depth: 2, loss_weight: 0.1, norm: {kind: rmsnorm, eps: 0.5}}": (
        "mtp",
        MultiTokenPrediction(depth=2, loss_weight=0.1, norm=RMSNorm(eps=0.5)),
    ),
}


@every_row("text", READ)
def test_what_is_written_is_meant(text, tiny):
    field, meant = READ[text]
    model = load_text(f"{tiny}{text}\n", "f").model
    assert getattr(model, field) == meant
    assert load_text(to_yaml(model), "f").model == model


def test_a_layer_of_its_own_takes_the_models_norm(tiny):
    made = load_text(f"{tiny}mtp: {{layer: {LAYER}}}\n", "f").model.mtp
    assert isinstance(made.layer, PreNorm)
    assert made.layer.norm == RMSNorm(eps=1e-5)


def test_the_usual_kind_is_not_written_down(tiny):
    assert to_mapping(load_text(f"{tiny}head: {{kind: linear, softcap: 30}}\n", "f").model)["head"] == {
        "softcap": 30
    }


# the line added below tiny.yaml, and the answers
MISTAKES = {
    "kind-misspelt": (
        "head: {kind: adaptiv}",
        ["19:14: unknown kind 'adaptiv' of head; did you mean adaptive?"],
    ),
    "head-of-nothing": ("head: 3", ["19:7: head must be a mapping, not 3; such as {kind: linear, …}"]),
    "a-key-of-another-kind": (
        "head: {n_samples: 3}",
        ["19:8: unknown key 'n_samples'; a key of sampled, not of linear"],
    ),
    "no-shares": ("head: {kind: adaptive, cutoffs: [100]}", ["19:1: missing key cluster_shares"]),
    "no-cutoffs": ("head: {kind: adaptive, cluster_shares: [1]}", ["19:1: missing key cutoffs"]),
    "cutoffs-empty": (
        "head: {kind: adaptive, cutoffs: [], cluster_shares: [1.0]}",
        ["19:24: an adaptive head needs a cutoff; the ids below the first are its most frequent words"],
    ),
    "shares-above-1": (
        "head: {kind: adaptive, cutoffs: [100], cluster_shares: [0.7, 0.4]}",
        ["19:40: the shares of all clusters sum to 1.1, not 1; they are counted as they are written"],
    ),
    "shares-nearly-1": (
        "head: {kind: adaptive, cutoffs: [100, 200], cluster_shares: [0.333, 0.333, 0.333]}",
        ["19:45: the shares of all clusters sum to 0.999, not 1; they are counted as they are written"],
    ),
    "shares-so-nearly-1-that-a-float-is": (
        "head: {kind: adaptive, cutoffs: [100], cluster_shares: [1, 1e-20]}",
        [
            (
                f"19:40: the shares of all clusters sum to {10**20 + 1}/{10**20}, not 1; they are "
                "counted as they are written"
            )
        ],
    ),
    "a-share-too-few": (
        "head: {kind: adaptive, cutoffs: [100, 400], cluster_shares: [0.7, 0.3]}",
        ["19:45: 2 cutoffs make 3 clusters, not 2; write 3 shares"],
    ),
    "a-share-below-0": (
        "head: {kind: adaptive, cutoffs: [100], cluster_shares: [1.5, -0.5]}",
        ["19:57: cluster_shares.0 must be a number of at least 0 and of at most 1, not 1.5"],
    ),
    "a-share-in-percent": (
        "head: {kind: adaptive, cutoffs: [100], cluster_shares: [70%, 0.3]}",
        ['19:57: cluster_shares.0 must be a number of at least 0 and of at most 1, not "70%"'],
    ),
    "cutoffs-fall": (
        "head: {kind: adaptive, cutoffs: [400, 100], cluster_shares: [0.7, 0.2, 0.1]}",
        ["19:24: cutoffs must rise; write them from the smallest to the largest, each once"],
    ),
    "cutoffs-twice": (
        "head: {kind: adaptive, cutoffs: [100, 100], cluster_shares: [0.7, 0.2, 0.1]}",
        ["19:24: cutoffs must rise; write them from the smallest to the largest, each once"],
    ),
    "cutoffs-beyond-the-words": (
        "head: {kind: adaptive, cutoffs: [100, 1000], cluster_shares: [0.7, 0.2, 0.1]}",
        ["19:24: the last cutoff 1000 leaves no words of vocab_size 1000 behind it; lower it"],
    ),
    "several-at-once": (
        "head: {kind: adaptive, cutoffs: [400, 100], cluster_shares: [0.7, 0.2]}",
        [
            "19:24: cutoffs must rise; write them from the smallest to the largest, each once",
            "19:45: 2 cutoffs make 3 clusters, not 2; write 3 shares",
            "19:45: the shares of all clusters sum to 0.9, not 1; they are counted as they are written",
        ],
    ),
    "a-cluster-of-width-0": (
        "head: {kind: adaptive, cutoffs: [100], cluster_shares: [0.7, 0.3], div_value: 65}",
        ["19:79: the last of 1 clusters would have 64 // 65^1 = 0 dimensions; lower div_value"],
    ),
    "div-value-real": (
        "head: {kind: adaptive, cutoffs: [100], cluster_shares: [0.7, 0.3], div_value: 4.0}",
        ["19:79: div_value must be a whole number above 0, not 4.0; write 4"],
    ),
    "classes-without-words": (
        "head: {kind: hierarchical, n_classes: 600}",
        ["19:39: 1000 words, 2 to a class, fill 500 classes, not 600; 500 classes take as many"],
    ),
    "more-samples-than-words": (
        "head: {kind: sampled, n_samples: 1001}",
        ["19:34: n_samples 1001 is more than vocab_size 1000; a word is drawn once"],
    ),
    "z-loss-of-several-softmaxes": (
        f"{ADAPTIVE}\nloss: {{z_loss: 1e-4}}".replace("{z", "{kind: cross_entropy, z"),
        [
            (
                "20:37: z-loss is defined for one softmax over all words; use a head of kind linear, or "
                "leave z_loss out"
            )
        ],
    ),
    "z-loss-negative": (
        "loss: {kind: cross_entropy, z_loss: -1}",
        ["19:37: z_loss must be a number above 0, not -1"],
    ),
    "loss-without-kind": ("loss: {z_loss: 1e-4}", ["19:1: missing key kind; one of cross_entropy"]),
    "loss-without-a-head": (
        "head: null\nloss: cross_entropy",
        ["20:7: a loss needs a head; add head, or leave loss out"],
    ),
    "mtp-depth-0": (
        "mtp: {depth: 0}",
        ["19:14: depth must be a whole number of at least 1, not 0; " + NO_MTP],
    ),
    "mtp-with-an-adaptive-head": (
        f"{ADAPTIVE}\nmtp: {{}}",
        [
            (
                "20:1: multi-token prediction shares a head, which must be of kind linear, without a "
                "bias; change head, or leave mtp out"
            )
        ],
    ),
    "mtp-with-a-biased-head": (
        "head: {bias: true}\nmtp: {}",
        [
            (
                "20:1: multi-token prediction shares a head, which must be of kind linear, without a "
                "bias; change head, or leave mtp out"
            )
        ],
    ),
    "mtp-layer-that-does-not-fit": (
        "mtp: {layer: {kind: pre_norm, attention: {kind: mha, n_heads: 5}, ffn: {kind: glu, d_ff: 7}}}",
        ["19:63: n_heads 5 does not divide d_model 64; use 4 or 8, or state head_dim"],
    ),
}


@every_row(("text", "said"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_answered(text, said, tiny, refused):
    assert refused(f"{tiny}{text}\n") == said


def test_a_table_cannot_be_tied_to_clusters(tiny, refused):
    text = tiny.replace("tied: false", "tied: true") + ADAPTIVE
    assert refused(text) == [
        "7:19: a head of kind adaptive has matrices of other shapes than the table; write tied: false"
    ]


@pytest.mark.parametrize(
    "extra",
    [
        "position: {kind: learned, max_seq_len: 8}",
        "norm: layernorm",
        "token_types: 2",
        "boxes: 4",
        "width: 16",
    ],
)
def test_multi_token_prediction_wants_a_table_alone(extra, tiny, refused):
    text = tiny.replace("tied: false", f"tied: false, {extra}") + "mtp: {}"
    (said,) = refused(text)
    assert said.endswith(
        "shares the embedding, which must be a table alone; take positions into attention, or leave mtp out"
    )
