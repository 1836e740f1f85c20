"""Headers of GGUF files: what is read of them, and which model it makes."""

from math import prod

import pytest

from archcli.errors import ArchError
from archcli.load.gguf import header as reader
from archcli.load.gguf.header import Skipped
from archcli.load.source import load
from gguf_files.file import BOOL, F32, STRING, U32, array, gguf
from gguf_files.tiny import ARCH, COUNTED, LLAMA, TENSORS, WHOLE, layer
from table import every_row


@pytest.fixture
def read(tmp_path):
    def header(data):
        path = tmp_path / "f.gguf"
        path.write_bytes(data)
        return reader.read(path)

    return header


def total(model):
    from archcli.measure.params import count_params

    return count_params(model).totals["params"]


def test_every_type_of_value_is_read(read):
    values = {
        "a": (0, 255),
        "b": (1, -3),
        "c": (2, 65535),
        "d": (3, -300),
        "e": (4, 1 << 31),
        "f": (5, -(1 << 31)),
        "g": (6, 0.5),
    }
    values |= {"h": (7, True), "i": (8, "naïve"), "j": (10, 1 << 63), "k": (11, -(1 << 63)), "l": (12, 0.1)}
    arrays = {
        "m": array(U32, [1, 2]),
        "n": array(STRING, ["a", "bc"]),
        "o": array(F32, [0.25] * 5000),
        "p": array(BOOL, [True, False]),
    }
    found = read(gguf({**values, **arrays}, {}))
    assert found.metadata == {
        **{key: value for key, (_, value) in values.items()},
        "m": [1, 2],
        "n": Skipped(2),
        "o": Skipped(5000),
        "p": [True, False],
    }
    assert found.tensors == {}


@pytest.mark.parametrize("version", [2, 3])
def test_tensors_have_their_shapes_as_torch_has_them(read, version):
    found = read(gguf({}, {"a": (3, 5), "b": (7,), "c": (2, 3, 5)}, version, types={"b": 12}))
    assert {name: (tensor.shape, tensor.type) for name, tensor in found.tensors.items()} == {
        "a": ((3, 5), 1),
        "b": ((7,), 12),
        "c": ((2, 3, 5), 1),
    }


def test_a_vocabulary_is_counted_and_not_kept(read):
    tokens = array(STRING, [f"token {i}" for i in range(128_256)])
    assert read(gguf({"before": 1, "tokens": tokens, "after": 2}, {})).metadata == {
        "before": 1,
        "tokens": Skipped(128_256),
        "after": 2,
    }


def test_a_file_is_the_model_that_its_tensors_make(asked):
    loaded = asked(WHOLE, name="tiny-Q8.gguf")
    assert total(loaded.model) == COUNTED == sum(prod(shape) for shape in TENSORS.values())
    assert loaded.name == "tiny-Q8"
    assert loaded.source.endswith("/tiny-Q8.gguf")
    assert loaded.model.norm.eps == 1e-5
    assert loaded.notes == ("all 30 weights that the file lists were compared in name and shape",)


def test_a_file_without_the_suffix_is_known_by_its_first_bytes(asked):
    assert total(asked(WHOLE, name="sha256-0123").model) == COUNTED


def test_a_file_can_be_overridden(asked):
    assert total(asked(WHOLE, overrides=["n_layers=1"]).model) == COUNTED - 2 * sum(
        prod(shape) for shape in layer(0).values()
    )


# our path: the metadata key it comes from, which stands for the line of a text
PLACES = {
    "vocab_size": "llama.vocab_size",
    "d_model": "llama.embedding_length",
    "groups.0.layer.ffn.d_ff": "llama.feed_forward_length",
    "groups.0.layer.attention.n_kv_heads": "llama.attention.head_count_kv",
    "groups.0.n_layers": "llama.block_count",
    "groups.0.layer.ffn.activation": "",
}


@every_row(("path", "key"), PLACES.items())
def test_a_setting_has_the_place_of_its_metadata_key(asked, path, key):
    mark = asked(LLAMA).mark(path)
    assert (mark.text, mark.column, mark.width) == (key, 1, max(1, len(key)))
    assert mark.file.endswith("/f.gguf")


def test_an_absent_output_is_tied(asked):
    tied = {name: shape for name, shape in TENSORS.items() if name != "output.weight"}
    assert total(asked(LLAMA, tied).model) == COUNTED - 50 * 16


def test_the_table_says_how_many_tokens_there_are(asked):
    larger = {**TENSORS, "token_embd.weight": (64, 16), "output.weight": (64, 16)}
    assert asked(LLAMA, larger).model.vocab_size == 64


@pytest.mark.parametrize(
    ("metadata", "size"),
    [
        ({}, 50),
        ({"llama.vocab_size": None, "tokenizer.ggml.tokens": array(STRING, ["a"] * 37)}, 37),
        ({"tokenizer.ggml.tokens": array(STRING, ["a"] * 37)}, 50),
    ],
    ids=["stated", "listed", "both"],
)
def test_without_tensors_the_metadata_say_it(asked, metadata, size):
    stated = {key: value for key, value in {**LLAMA, **metadata}.items() if value is not None}
    loaded = asked(stated, {})
    assert loaded.model.vocab_size == size
    assert "no tensors" in loaded.notes[0]


def test_a_value_for_each_layer_that_is_the_same_for_all_is_one(asked):
    assert total(asked({**LLAMA, "llama.attention.head_count_kv": [2, 2, 2]}).model) == COUNTED


def test_what_the_file_has_besides_is_said(asked):
    notes = asked({**LLAMA, "llama.extra": 1}, {**TENSORS, "rope_freqs.weight": (2,)}).notes
    assert notes == (
        "rotary frequencies are stretched by factors that are not read: no count depends on them, logits do",
        "metadata key 'llama.extra' was not understood and may change the count",
        "all 30 weights that the file lists were compared in name and shape",
        "no parameters: rope_freqs (factors of the rotary frequencies)",
    )


def test_a_head_of_its_own_where_the_family_ties_it_is_said(asked):
    metadata = {
        "gpt2.context_length": 64,
        "gpt2.embedding_length": 16,
        "gpt2.feed_forward_length": 64,
        "gpt2.block_count": 1,
    }
    metadata |= {ARCH: "gpt2", "gpt2.attention.head_count": 4, "gpt2.attention.layer_norm_epsilon": 1e-5}
    shapes = {
        "attn_norm": (16,),
        "attn_qkv": (48, 16),
        "attn_output": (16, 16),
        "ffn_norm": (16,),
        "ffn_up": (64, 16),
        "ffn_down": (16, 64),
    }
    tensors = {f"blk.0.{name}.weight": shape for name, shape in shapes.items()} | {
        "output_norm.weight": (16,)
    }
    tensors |= {name.replace("weight", "bias"): shape[:1] for name, shape in tensors.items()}
    tensors |= {"token_embd.weight": (50, 16), "position_embd.weight": (64, 16), "output.weight": (50, 16)}
    loaded = asked(metadata, tensors)
    assert total(loaded.model) == sum(prod(shape) for shape in tensors.values())
    assert (
        "output.weight is a tensor of its own: the head is counted as untied, though this family's is not"
        in loaded.notes
    )


def test_how_weights_are_stored_is_said(asked):
    data = gguf(
        LLAMA,
        TENSORS,
        types={"blk.0.attn_q.weight": 12, "blk.1.attn_q.weight": 14, "blk.2.attn_q.weight": 99},
    )
    assert (
        asked(data).notes[1]
        == "the file is quantized (Q4_K, Q6_K, type 99): memory and predict begin with its types"
    )


def moe(metadata, *, stacked):
    """A mixture of 4 experts, each matrix of its own as in the first files, or stacked."""
    tensors = {name: shape for name, shape in TENSORS.items() if "ffn_norm" in name or "ffn" not in name}
    for i in range(3):
        tensors[f"blk.{i}.ffn_gate_inp.weight"] = (4, 16)
        for part, shape in (("gate", (24, 16)), ("up", (24, 16)), ("down", (16, 24))):
            one = {f"blk.{i}.ffn_{part}_exps.weight": (4, *shape)}
            tensors |= one if stacked else {f"blk.{i}.ffn_{part}.{e}.weight": shape for e in range(4)}
    return {**LLAMA, "llama.expert_count": 4, "llama.expert_used_count": 2, **metadata}, tensors


@pytest.mark.parametrize("stacked", [True, False])
def test_experts_are_stacked_or_apart(asked, stacked):
    model = asked(*moe({}, stacked=stacked)).model
    assert total(model) == COUNTED + 3 * (3 * 3 * 24 * 16 + 4 * 16)
    assert model.groups[0].layer.ffn.top_k == 2


def test_a_missing_expert_is_seen(answer_of):
    metadata, tensors = moe({}, stacked=False)
    del tensors["blk.1.ffn_up.3.weight"]
    assert "blk.1.ffn_up.0.weight [24, 16]… should be [4, 24, 16]" in answer_of(metadata, tensors)


def test_the_halves_of_a_latent_matrix_are_one(asked):
    metadata = {
        key.replace("llama", "minicpm3"): "minicpm3" if value == "llama" else value
        for key, value in LLAMA.items()
    }
    metadata |= {
        "minicpm3.attention.q_lora_rank": 5,
        "minicpm3.attention.kv_lora_rank": 6,
        "minicpm3.attention.key_length": 10,
    }
    metadata |= {"minicpm3.rope.dimension_count": 4, "minicpm3.attention.head_count_kv": 4}
    tensors = {name: shape for name, shape in TENSORS.items() if "attn_" not in name or "norm" in name}
    for i in range(3):
        tensors |= {
            f"blk.{i}.attn_q_a.weight": (5, 16),
            f"blk.{i}.attn_q_a_norm.weight": (5,),
            f"blk.{i}.attn_q_b.weight": (40, 5),
        }
        tensors |= {f"blk.{i}.attn_kv_a_mqa.weight": (10, 16), f"blk.{i}.attn_kv_a_norm.weight": (6,)}
        tensors |= {f"blk.{i}.attn_output.weight": (16, 16)}
        tensors |= {f"blk.{i}.attn_k_b.weight": (4, 6, 6), f"blk.{i}.attn_v_b.weight": (4, 4, 6)}
    assert total(asked(metadata, tensors).model) == sum(prod(shape) for shape in tensors.values())


PARTS = [dict(list(TENSORS.items())[:10]), dict(list(TENSORS.items())[10:])]


def test_a_model_in_parts_is_read_from_all_of_them(asked):
    asked_of = {"split.no": 1, "split.count": 2}
    with pytest.raises(
        ArchError,
        match=(
            r"one of 2 parts of a model, of which 1 are not beside it; the first that is missing is "
            r"m-00001-of"
        ),
    ):
        asked(gguf(asked_of, PARTS[1]), name="m-00002-of-00002.gguf")
    loaded = asked(gguf({**LLAMA, "split.no": 0, "split.count": 2}, PARTS[0]), name="m-00001-of-00002.gguf")
    for each in (loaded, load(loaded.source.replace("-00001", "-00002"))):
        assert (each.name, total(each.model)) == ("m", COUNTED)


def test_a_part_under_another_name_is_refused(answer_of):
    assert answer_of(gguf({**LLAMA, "split.count": 2}, PARTS[0])).startswith(
        "f.gguf: one of 2 parts of a model, under a name that does not say"
    )
