"""Rows that say what they read, cache and stand for: `show --json` of every preset, and of hybrids."""

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from archcli.api.show import show
from archcli.errors import ArchError
from archcli.graph import StateKind, Tensor
from archcli.graph.count_tape import Abstract, ShapeTape
from archcli.graph.wired_tape import INPUT, CachingTape, WiredTape, source_row, wired
from archcli.load.source import load, load_text
from archcli.measure.kvcache.kvcache import count_kv_cache
from archcli.measure.passes import count_pass, shape_pass
from archcli.measure.survey.show import list_rows
from archcli.measure.survey.wired import wired_forward, wired_trace
from archcli.modules.models.stack import stacks
from archcli.modules.spec.request import Request
from archcli.ops import Causal, ExtendCache, Linear, Split
from combinations.hybrids import HYBRIDS, hybrid
from table import every_row

PRESETS = sorted(path.stem for path in (Path(__file__).parents[3] / "presets").glob("*.yaml"))
BATCH, TOKENS = 2, 96
LAYER = re.compile(r"(\w+\.)?layers\.\d+")


HEADS = "kind: gqa, n_heads: 4, n_kv_heads: 2"
NETWORK = "ffn: {kind: glu, d_ff: 20}"
PLAIN = "name: small\nvocab_size: 29\nd_model: 16\nnorm: rmsnorm\n"
# by name, the layers of a pattern: two that lend keys and values, each to the next; values that are the keys
STATED = {
    "lent-in-pairs": [
        f"{{kind: pre_norm, attention: {{{HEADS}, position: rope{reads}}}, {NETWORK}}}"
        for reads in ("", ", kv_from: 0", "", ", kv_from: 2")
    ],
    "values-are-keys": [
        f"{{kind: pre_norm, attention: {{{HEADS}, position: none, values: keys}}, {NETWORK}}}"
    ],
}


@cache
def named(name):
    if name in STATED:
        pattern = "".join(f"  - {layer}\n" for layer in STATED[name])
        text = f"{PLAIN}groups:\n- n_layers: {len(STATED[name])}\n  pattern:\n{pattern}"
        return load_text(text, name).model
    return load_text(hybrid(name), name).model if name in HYBRIDS else load(name).model


@cache
def rows_of(name):
    return list_rows(named(name), BATCH, TOKENS).rows


@cache
def cache_of(name):
    return count_kv_cache(named(name), TOKENS, BATCH)


def failing(check, names=(*PRESETS, *HYBRIDS, *STATED)):
    """The names for which a check yields something, with the first of it."""
    return {name: found[0] for name in names if (found := list(check(name)))}


@pytest.mark.long
def test_an_id_is_there_once():
    assert not failing(lambda name: [i for i, n in Counter(r["id"] for r in rows_of(name)).items() if n > 1])


def read_of(made, read):
    """The shape of what a read names."""
    row, _, which = read.partition(":")
    shapes = made[row]
    return shapes["weights"][which] if which.isidentifier() else shapes["outputs"][int(which or 0)]


def misread(name):
    made = {}
    for row in rows_of(name):
        for read, shape in zip(row["reads"] or (), row["inputs"], strict=row["reads"] is not None):
            if read != INPUT and (source_row(read) not in made or read_of(made, read) != shape):
                yield row["id"], read
        made[row["id"]] = row


@pytest.mark.long
def test_a_row_reads_earlier_rows_whose_shapes_are_those_of_its_inputs():
    assert not failing(misread)


@pytest.mark.long
def test_what_every_forward_reads_from_outside_is_its_input():
    table = {name: [row["id"] for row in rows_of(name) if INPUT in (row["reads"] or ())] for name in PRESETS}
    assert not [name for name, ids in table.items() if not ids]
    assert table["gpt2"] == ["positions", "embedding.tokens"]


def unlike_the_cache(name):
    cached = Counter()
    for row in rows_of(name):
        if row["cached"] is not None:
            kind = "source" if row["cached"]["kind"] == StateKind.SOURCE else "own"
            cached.update({(kind, key): row["cached"][key] for key in ("elements", "bytes")})
    totals = cache_of(name).totals
    if cached["own", "elements"] != totals["elements"] or cached["own", "bytes"] != totals["bytes"]:
        yield cached, totals["elements"], totals["bytes"]
    if cached["source", "elements"] != totals["cross_elements"]:
        yield cached, totals["cross_elements"]


@pytest.mark.long
def test_what_rows_leave_in_the_cache_is_what_kvcache_counts():
    assert not failing(unlike_the_cache)


def unlike_the_layers(name):
    """Elements a token adds and constant ones of one layer, beside those that kvcache says of it."""
    by_layer = {}
    for row in rows_of(name):
        if row["cached"] is not None and row["cached"]["kind"] != StateKind.SOURCE:
            sums = by_layer.setdefault(LAYER.match(row["path"]).group(), Counter())
            sums.update({key: row["cached"][key] for key in ("elements_per_token", "constant_elements")})
    for kind in cache_of(name).rows:
        of_layer = by_layer[kind["first"]]
        if any(of_layer[key] != kind[key] for key in ("elements_per_token", "constant_elements")):
            yield kind["first"], of_layer, kind


@pytest.mark.long
def test_a_layer_caches_what_kvcache_says_of_its_kind():
    assert not failing(unlike_the_layers)


@pytest.mark.long
def test_folded_layers_have_all_parameters():
    def moved(name):
        plain = shape_pass(named(name), Request("forward", BATCH, TOKENS))
        folded = sum(row["params"] for row in rows_of(name))
        if folded != plain.params():
            yield folded, plain.params()

    assert not failing(moved)


@pytest.mark.long
def test_the_layers_of_a_stack_are_each_in_one_row_of_a_kind():
    def apart(name):
        for prefix, stack in stacks(named(name)):
            start = f"{prefix}layers."
            kinds = {
                row["path"].removeprefix(start).partition(".")[0]: row["layers"]
                for row in rows_of(name)
                if row["path"].startswith(start)
            }
            numbers = sorted(number for layers in kinds.values() for number in layers)
            if numbers != list(range(sum(group.n_layers for group in stack.groups))):
                yield kinds
        yield from (row["id"] for row in rows_of(name) if row["times"] != len(row["layers"] or "1"))

    # the tables of equal layers are one row as well, and as often there as a pattern has places
    tables = {"rotary"}
    found = failing(apart)
    assert not {name: what for name, what in found.items() if str(what).partition(".")[0] not in tables}


def kinds(name):
    """The first and the number of the layers of each kind, in the order of the model."""
    layers = {
        row["path"].partition("layers.")[2].partition(".")[0]: len(row["layers"])
        for row in rows_of(name)
        if row["layers"] is not None
    }
    return {int(first): number for first, number in layers.items()}


@every_row(
    ("name", "expected"),
    [
        ("llama-3.1-8b", {0: 32}),
        ("deepseek-v3", {0: 3, 3: 58}),
        ("qwen3-next-80b-a3b", {0: 36, 3: 12}),
        ("gemma-3-4b", {0: 34 - 5, 5: 5}),
        ("nemotron-h-8b", {0: 24, 1: 24, 7: 4}),
        # sparse activations in the first ten layers; the last ten read keys and values of earlier ones
        ("gemma-3n-e2b", {0: 8, 4: 2, 10: 8, 14: 2, 20: 8, 24: 2}),
        # two blocks whose weights are shared: layers that use one are not like those that use the other
        ("zamba2-7b", {0: 81 - 7 - 6, 6: 7, 11: 6}),
        ("albert-base-v2", {0: 12}),
        # groups of one and of several layers between attention
        ("lfm2-8b-a1b", {0: 2, 2: 6, 3: 24 - 2 - 6}),
        # the second pair is wired as the first is
        ("lent-in-pairs", {0: 2, 1: 2}),
        ("jamba", {0: 2, 1: 2, 2: 2}),
        ("bamba", {0: 4, 2: 2}),
    ],
)
def test_layers_that_are_alike_stand_once(name, expected):
    assert kinds(name) == expected


def row_of(name, path):
    return next(row for row in rows_of(name) if row["path"] == path)


def test_the_layers_of_a_kind_are_listed():
    assert row_of("qwen3-next-80b-a3b", "layers.3.attention.attend")["layers"] == list(range(3, 48, 4))
    mixers = row_of("qwen3-next-80b-a3b", "layers.0.mixer.scan")
    assert mixers["layers"] == [number for number in range(48) if number % 4 != 3]
    assert row_of("qwen3-next-80b-a3b", "lm_head")["layers"] is None


def test_tables_of_layers_that_are_alike_stand_once():
    tables = [row for row in rows_of("gemma-3-4b") if row["op"] == "RotaryTable"]
    # a pattern of six has a table for each place, five of which are alike
    assert [(row["id"], row["times"]) for row in tables] == [("rotary.0", 5), ("rotary.5", 1)]


def test_weights_that_layers_share_are_stored_once():
    rows = wired_forward(named("zamba2-7b")).rows
    shared = next(row for row in rows if row.path == "layers.6.shared.attention.q_proj")
    assert (shared.times, shared.stored, shared.params) == (7, 1, shared.unit_params)


@pytest.mark.parametrize(
    ("name", "path", "reads"),
    [
        ("gpt2", "lm_head", ["final_norm", "embedding.tokens:weight"]),
        ("llama-3.1-8b", "layers.0.attention_norm", ["embedding.tokens"]),
        (
            "llama-3.1-8b",
            "layers.0.attention.q_rotate",
            ["layers.0.attention.q_heads", "rotary.0", "rotary.0:1"],
        ),
        # the layer before is the third of three alike: the first stands for it
        ("qwen3-next-80b-a3b", "layers.3.attention_norm", ["layers.0.ffn_residual"]),
        ("deepseek-v3", "layers.0.attention.k_pe_head", ["layers.0.attention.kv_a_split:1"]),
        (
            "deepseek-v3",
            "layers.3.ffn.combine",
            ["layers.3.ffn.experts.down_proj", "layers.3.ffn.route", "layers.3.ffn.dispatch:2"],
        ),
        (
            "gemma-3n-e2b",
            "layers.20.attention.attend",
            [
                "layers.20.attention.q_rotate",
                "layers.10.attention.k_rotate",
                "layers.10.attention.v_norm",
                "positions",
            ],
        ),
        ("whisper-small", "decoder.layers.0.cross_attention.k_proj", ["encoder.final_norm"]),
    ],
)
def test_what_a_row_reads(name, path, reads):
    assert row_of(name, path)["reads"] == reads


WORDS = ("mask", "activation", "norm", "rotary_share", "router_scores")


@every_row(
    ("name", "path", "words"),
    [
        ("gemma-3-4b", "layers.0.attention.attend", {"mask": {"kind": "window", "window": 1024}}),
        ("gemma-3-4b", "layers.5.attention.attend", {"mask": {"kind": "causal", "window": None}}),
        ("llama-4-scout", "layers.0.attention.attend", {"mask": {"kind": "chunk", "window": 8192}}),
        ("deepseek-v3.2", "layers.0.attention.attend", {"mask": {"kind": "top_k", "window": 2048}}),
        (
            "longformer-base-4096",
            "layers.0.attention.attend",
            {"mask": {"kind": "longformer", "window": 512}},
        ),
        (
            "bert-base-uncased",
            "layers.0.attention.attend",
            {"mask": {"kind": "bidirectional", "window": None}},
        ),
        ("performer", "layers.0.attention.attend", {"mask": {"kind": "causal", "window": None}}),
        ("llama-3.1-8b", "layers.0.ffn.activation", {"activation": "silu"}),
        ("apertus-8b", "layers.0.ffn.activation", {"activation": "xielu"}),
        ("llama-3.1-8b", "layers.0.ffn_norm", {"norm": "rmsnorm"}),
        ("gpt2", "final_norm", {"norm": "layernorm"}),
        ("qwen3-next-80b-a3b", "layers.0.mixer.q_norm", {"norm": "l2norm"}),
        ("qwen3-next-80b-a3b", "layers.3.attention.q_rotate", {"rotary_share": 64 / 256}),
        ("llama-3.1-8b", "layers.0.attention.k_rotate", {"rotary_share": 1.0}),
        ("deepseek-v3", "layers.3.ffn.route", {"router_scores": "sigmoid"}),
        ("gpt-oss-20b", "layers.0.ffn.route", {"router_scores": "softmax_after"}),
        ("llama-3.1-8b", "layers.0.attention.q_proj", {}),
    ],
)
def test_what_an_operation_is(name, path, words):
    assert {word: row_of(name, path)[word] for word in WORDS} == {**dict.fromkeys(WORDS), **words}


@pytest.mark.parametrize(
    ("name", "path", "cached"),
    [
        (
            "llama-3.1-8b",
            "layers.0.attention.k_rotate",
            {
                "elements": 32 * BATCH * TOKENS * 8 * 128,
                "elements_per_token": 8 * 128,
                "constant_elements": 0,
            },
        ),
        (
            "deepseek-v3",
            "layers.0.attention.kv_a_norm",
            {
                "elements": 3 * BATCH * TOKENS * 512,
                "elements_per_token": 512,
                "holds": "latent",
                "outputs": [0],
            },
        ),
        (
            "qwen3-next-80b-a3b",
            "layers.0.mixer.scan",
            {
                "elements": 36 * BATCH * 32 * 128 * 128,
                "elements_per_token": 0,
                "constant_elements": 32 * 128 * 128,
                "kind": "fixed",
                "holds": "recurrent state",
                "outputs": [],
            },
        ),
        ("mistral-7b-v0.1", "layers.0.attention.v_heads", {"kind": "window", "elements_per_token": 8 * 128}),
        ("whisper-small", "decoder.layers.0.cross_attention.v_heads", {"kind": "source"}),
    ],
)
def test_what_a_row_leaves_in_the_cache(name, path, cached):
    found = row_of(name, path)["cached"]
    assert {key: found[key] for key in cached} == cached
    assert found["bytes"] == 2 * found["elements"]


def test_values_that_are_the_keys_are_cached_with_them():
    found = row_of("values-are-keys", "layers.0.attention.k_heads")["cached"]
    assert (found["elements"], found["outputs"]) == (2 * BATCH * TOKENS * 2 * 4, [0, 0])


def test_a_piece_that_is_cached_is_named():
    tape = CachingTape([])
    fused = Linear("qkv", 12)(Tensor(tape, Abstract((1, 5, 8))))
    _, keys, _ = Split("pieces", (4, 4, 4))(fused)
    ExtendCache("k_cache", Causal())(keys)
    assert [(name, state.elements) for name, (state,) in tape.cached] == [("k_cache", 5 * 4)]
    assert tape.keeper("k_cache", {"qkv", "pieces"}) == ("pieces", (1,))
    assert tape.keeper("k_cache", {"k_cache"}) == ("k_cache", ())


def test_a_forward_alone_caches_nothing_of_an_encoder():
    assert {row["cached"] is None for row in rows_of("bert-base-uncased")} == {True}


def test_a_path_that_occurs_again_has_a_number():
    rows = list(shape_pass(named("gpt2")).rows[:1]) * 3
    ids = [row.id for row in wired(rows, WiredTape([]).wiring).rows]
    assert ids == ["positions", "positions#2", "positions#3"]


def test_weights_by_themselves_read_nothing():
    correction = "layers.1.ffn.correction"
    assert row_of("ernie-4.5-21b-a3b", correction)["reads"] is None
    assert row_of("ernie-4.5-21b-a3b", "layers.1.ffn.route")["reads"][1] == f"{correction}:weight"
    unread = load_text(f"{hybrid('mamba2')}unread: {{spare: 7}}", "spare").model
    spare = {row.path: (row.reads, row.params) for row in wired_forward(unread).rows if row.group == "unread"}
    assert spare == {"spare": (None, 7)}


def test_a_wired_row_is_the_row_that_others_count():
    request = Request("forward", BATCH, TOKENS)
    for name in ("qwen3-next-80b-a3b", "whisper-small", "llama-3.2-3b-lora-3.7bit"):
        pairs = zip(
            wired_trace(named(name), request).rows,
            count_pass(named(name), request, ShapeTape).rows,
            strict=True,
        )
        for ours, plain in pairs:
            for key in ("path", "group", "inputs", "outputs", "weights", "times", "experts", "stored"):
                assert getattr(ours, key) == getattr(plain, key)


def test_python_shows_the_same():
    assert show("gpt2", BATCH, TOKENS).rows == rows_of("gpt2")


def test_numbers_of_layers_beyond_any_list_are_refused():
    many = load("bloom-560m", ["n_layers=1000000000000000000"]).model
    with pytest.raises(ArchError, match="more than 30,000 layers, whose numbers are not listed"):
        list_rows(many)
