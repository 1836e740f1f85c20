"""Words that people say for formats of weights and caches: each has one meaning, or near names."""

import pytest

import archcli
from archcli.errors import ArchError
from archcli.modules.stored.formats import is_format, parse_cache_dtype, parse_format, parse_weights
from archcli.modules.stored.words import in_engine
from table import every_row

UNKNOWN = {
    "q9": "such as bf16, fp8, q8_0, q4_k_m, awq-int4 or nf4",
    "UD-Q4_K_XXL": "did you mean q4_k_m, q4_k_l or q4_k_s?",
    # bits that MLX's format has not
    "mlx-7bit": "such as bf16, ",
    "exl2": "its bits name it: exl2-4.0, exl3-3.5",
    "exl2-9.0": "exl2 has 2 to 8 bits a weight: exl2-4.0",
    "iq4_ks": "of ik_llama.cpp; did you mean q4_k_s, iq4_xs",
    "turbo3": "TurboQuant's, of forks of llama.cpp; its own nearest cache is q4_0",
    "hqq": "a checkpoint's quantization_config has its bits",
}


@every_row("word", UNKNOWN)
def test_an_unknown_format_is_answered_with_near_names(word):
    with pytest.raises(ArchError) as error:
        parse_format(word)
    assert error.value.problems[0].what == f"unknown dtype '{word}'"
    assert error.value.problems[0].hint.startswith(UNKNOWN[word])


# a word, the weights that it means, and with which engine
WORDS = [
    ("4bit", None, "q4_k_m", "4bit is taken as q4_k_m, llama.cpp's usual"),
    ("4-bit", "llamacpp", "q4_k_m", "4-bit is taken as q4_k_m, llama.cpp's usual"),
    ("q4", None, "q4_k_m", "q4 is taken as q4_k_m, llama.cpp's usual"),
    ("int4", None, "q4_k_m", "int4 is taken as q4_k_m, llama.cpp's usual"),
    ("4bit", "mlx", "mlx-4bit", "4bit is taken as mlx-4bit, the usual of mlx"),
    ("4bit", "vllm", "awq-int4", "4bit is taken as awq-int4, the usual of vllm"),
    ("4bit", "transformers", "nf4", "4bit is taken as nf4, the usual of transformers"),
    ("8bit", None, "q8_0", "8bit is taken as q8_0, llama.cpp's usual"),
    ("8bit", "vllm", "int8", "8bit is taken as int8, the usual of vllm"),
    ("awq", "vllm", "awq-int4", "awq is taken as awq-int4"),
    ("gptq", None, "gptq-int4", "gptq is taken as gptq-int4"),
    ("w4a16", None, "gptq-int4", "w4a16 is taken as gptq-int4"),
    ("w8a8", None, "int8", "w8a8 is taken as int8"),
    ("bnb-4bit", None, "nf4", "bnb-4bit is taken as nf4"),
    ("fp8_e4m3", None, "fp8", "fp8_e4m3 is taken as fp8"),
    ("e5m2", None, "fp8", "e5m2 is taken as fp8"),
    ("torch.bfloat16", None, "bf16", "torch.bfloat16 is taken as bf16"),
    ("16-bit", None, "fp16", "16-bit is taken as fp16"),
    ("UD-Q4_K_XL", None, "ud-q4_k_xl", ""),
    ("Q8_K_XL", None, "ud-q8_k_xl", "Q8_K_XL is taken as ud-q8_k_xl"),
    ("UD-IQ1_S", None, "ud-iq1_s", ""),
    ("MXFP4_MOE", "llamacpp", "mxfp4-moe", ""),
    ("IQ1_M", None, "iq1_m", ""),
    ("IQ2_XXS", None, "iq2_xxs", ""),
    ("IQ3_S", None, "iq3_s", ""),
    ("TQ1_0", None, "tq1_0", ""),
    ("Q4_K_L", None, "q4_k_l", ""),
    ("6bit-mlx", None, "mlx-6bit", "6bit-mlx is taken as mlx-6bit"),
    ("8bit", "mlx", "mlx-8bit", "8bit is taken as mlx-8bit, the usual of mlx"),
    ("mxfp4", "mlx", "mlx-mxfp4", "mxfp4 is taken as mlx-mxfp4: mlx packs every matrix"),
    ("autoround", None, "gptq-int4", "autoround is taken as gptq-int4"),
    ("exl3_3.5bpw", None, "exl3-3.5", ""),
    ("4.25bpw-exl2", None, "exl2-4.25", ""),
    ("w8a16", None, "int8", "w8a16 is taken as int8"),
    ("bnb-8bit", None, "int8", "bnb-8bit is taken as int8"),
    ("bfloat16", None, "bf16", ""),
    ("float16", None, "fp16", ""),
    ("Q4-K-M", None, "q4_k_m", ""),
    ("mxfp4", "vllm", "mxfp4", ""),
    ("fp8", None, "fp8", ""),
    ("BF16", None, "bf16", ""),
]


@every_row("word, engine, name, note", WORDS)
def test_a_common_word_is_a_format_with_a_note(word, engine, name, note):
    taken = in_engine(parse_weights(word), engine)
    assert (taken, getattr(taken, "note", "")) == (name, note)
    assert is_format(name) or name in {"bf16", "fp16"}


CACHES = {"q4": "q4_0", "4bit": "q4_0", "q8": "q8_0", "fp8_e5m2": "fp8", "f16": "fp16", "int4": "int4"}


@every_row("word", CACHES)
def test_a_word_of_a_cache_is_no_mixture(word):
    assert parse_cache_dtype(word) == CACHES[word]


@pytest.mark.parametrize(
    ("dtype", "mixtures"),
    [("q3_k", "q3_k_s, q3_k_m or q3_k_l"), ("q4_k", "q4_k_s or q4_k_m"), ("q4_k_m", ""), ("q2_k", "")],
)
def test_a_type_that_no_file_has_alone_is_noted(dtype, mixtures):
    """BERT's large table makes the mixture q2_k larger than q3_k in every matrix."""
    notes = archcli.params("bert-base-uncased", dtype=dtype).notes
    assert [note.partition("mixtures: ")[2] for note in notes if "files are mixtures" in note] == [
        *filter(None, [mixtures])
    ]
