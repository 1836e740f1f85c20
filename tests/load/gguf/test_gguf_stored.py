"""A GGUF file's own bytes: those of its tensors by their types, as memory and predict begin with them."""

import pytest

import archcli
from archcli.load.source import load
from gguf_files.file import gguf
from gguf_files.tiny import LLAMA
from gguf_files.tiny import TENSORS as NARROW

V, D, KV, F, L = 512, 256, 128, 768, 3
METADATA = LLAMA | {
    "llama.embedding_length": D,
    "llama.feed_forward_length": F,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
    "llama.vocab_size": V,
}
LAYER = {
    "attn_norm": (D,),
    "attn_q": (D, D),
    "attn_k": (KV, D),
    "attn_v": (KV, D),
    "attn_output": (D, D),
    "ffn_norm": (D,),
    "ffn_gate": (F, D),
    "ffn_up": (F, D),
    "ffn_down": (D, F),
}
TENSORS = {"token_embd.weight": (V, D), "output_norm.weight": (D,), "output.weight": (V, D)}
TENSORS |= {f"blk.{i}.{name}.weight": shape for i in range(L) for name, shape in LAYER.items()}

F32, F16, BF16 = 0, 1, 30
# type: (its number in ggml.h, weights of a block, bytes of a block in ggml-common.h)
BLOCKS = {
    "Q4_0": (2, 32, 18),
    "Q5_1": (7, 32, 24),
    "Q8_0": (8, 32, 34),
    "Q2_K": (10, 256, 84),
    "Q3_K": (11, 256, 110),
    "Q4_K": (12, 256, 144),
    "Q5_K": (13, 256, 176),
    "Q6_K": (14, 256, 210),
    "Q8_K": (15, 256, 292),
    "IQ2_XXS": (16, 256, 66),
    "IQ2_XS": (17, 256, 74),
    "IQ3_XXS": (18, 256, 98),
    "IQ1_S": (19, 256, 50),
    "IQ4_NL": (20, 32, 18),
    "IQ3_S": (21, 256, 110),
    "IQ2_S": (22, 256, 82),
    "IQ4_XS": (23, 256, 136),
    "IQ1_M": (29, 256, 56),
    "TQ1_0": (34, 256, 54),
    "TQ2_0": (35, 256, 66),
    "MXFP4": (39, 32, 17),
    "F32": (F32, 1, 4),
    "F16": (F16, 1, 2),
    "BF16": (BF16, 1, 2),
}
BY_NUMBER = {number: (weights, size) for number, weights, size in BLOCKS.values()}


def write(path, types, tensors=TENSORS, metadata=METADATA):
    path.write_bytes(gguf(metadata, tensors, types=types))
    return path


def size(types, tensors=TENSORS):
    """Bytes of all tensors, each made of whole blocks of its type."""
    total = 0
    for name, shape in tensors.items():
        weights, block = BY_NUMBER[types[name]]
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        assert count % weights == 0
        total += count // weights * block
    return total


def of_type(kind):
    return {name: BLOCKS[kind][0] if len(shape) > 1 else F32 for name, shape in TENSORS.items()}


@pytest.mark.sample(3, whole=True)
@pytest.mark.parametrize("kind", [kind for kind in BLOCKS if kind not in {"F16", "BF16"}])
def test_a_file_of_one_type_takes_its_bytes(kind, tmp_path):
    path = write(tmp_path / "a.gguf", of_type(kind))
    memory = archcli.count_memory(path, "serve", seq_len=32)
    assert memory.totals["parts"]["weights"] == size(of_type(kind))
    assert "as published, computed in bf16" in memory.title
    totals = archcli.count_params(path).totals
    assert totals["published_bytes"] == size(of_type(kind))
    assert totals["plain_bytes"] == totals["bytes"] == 2 * totals["params"]


def test_a_mixed_file_takes_the_bytes_of_each_tensor(tmp_path):
    types = of_type("Q4_K")
    types |= {"output.weight": BLOCKS["Q6_K"][0], "token_embd.weight": F16}
    types |= {f"blk.{i}.attn_v.weight": BLOCKS["Q6_K"][0] for i in (0, 2)}
    types |= {"blk.1.ffn_down.weight": BLOCKS["Q5_K"][0]}
    path = write(tmp_path / "a.gguf", types)
    asked = {"phase": "decode", "batch_size": 1, "seq_len": 32}
    assert archcli.count_memory(path, **asked).totals["parts"]["weights"] == size(types)
    inputs = archcli.predict(path, "h100-sxm", **asked).inputs
    assert inputs["as_published"]
    predicted = archcli.predict(path, "h100-sxm", **asked).totals
    needed = archcli.count_memory(path, **asked, device="h100-sxm").totals
    assert predicted["needed_bytes"] == needed["peak_bytes"] + needed["beyond_bytes"]
    plain = archcli.count_memory(path, **asked, dtype="bf16").totals["parts"]["weights"]
    assert plain == 2 * archcli.count_params(path).totals["params"]


def test_a_file_of_16_bits_has_no_form_of_its_own(tmp_path):
    path = write(tmp_path / "a.gguf", {}, NARROW, LLAMA)
    assert "published_bytes" not in archcli.count_params(path).totals
    assert "as_published" not in archcli.count_memory(path, "decode").inputs


def test_a_type_that_is_not_known_leaves_bf16(tmp_path):
    path = write(tmp_path / "a.gguf", {**of_type("Q4_K"), "blk.0.attn_q.weight": 99})
    totals = archcli.count_memory(path, "decode").totals
    assert totals["parts"]["weights"] == 2 * archcli.count_params(path).totals["params"]


def test_another_shape_keeps_the_form_of_the_matrices_that_it_has(tmp_path):
    path = write(tmp_path / "a.gguf", of_type("Q8_0"))
    narrower = load(str(path), ["max_seq_len=32"]).model
    assert archcli.count_memory(narrower, "decode").totals["parts"]["weights"] == size(of_type("Q8_0"))
    # the rule of the third layer matches none of a model that has one
    types = {**of_type("Q8_0"), "blk.2.attn_q.weight": BLOCKS["Q6_K"][0]}
    shorter = load(str(write(tmp_path / "b.gguf", types)), ["groups.0.n_layers=1"]).model
    one = {name: shape for name, shape in TENSORS.items() if not name.startswith(("blk.1", "blk.2"))}
    assert archcli.count_memory(shorter, "decode").totals["parts"]["weights"] == size(types, one)
