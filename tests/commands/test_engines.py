"""`archcli engines`: a line for each engine, and the facts of one."""

import json

import pytest

import archcli
from archcli.wings.serving.devices.engines import NEAREST, RUN_BY, engine_named, engines
from table import every_row


def test_engines_are_listed(cli):
    found = json.loads(cli("engines", "--json").out)
    assert [row["name"] for row in found["rows"]] == engines()
    assert all(row["version"] and row["source"] for row in found["rows"])
    lines = cli("engines").out.splitlines()
    assert [line.split()[0] for line in lines[3 : 3 + len(engines())]] == engines()


def test_one_engine_shows_its_facts_with_sources(cli):
    rows = {row["fact"]: row for row in archcli.engines("llamacpp").rows}
    assert rows["cache_block"]["value"] == 256
    assert rows["cache_block"]["source"]
    assert "token embedding" in rows["in_ram"]["value"]
    out = cli("engines", "vllm").out
    assert "kernels measured on" in out
    assert "fuses attention" in out


def test_an_engine_that_is_not_known_names_the_nearest(cli):
    done = cli("engines", "vlm")
    assert (done.code, done.err) == (2, "error: no engine 'vlm'\n  = help: did you mean vllm?\n")


# a word, the engine that it means, and whether a note says so
WORDS = [
    *((name, name, False) for name in engines()),
    *((name, "vllm", False) for name in ("vLLM", "VLLM")),
    *((name, "llamacpp", False) for name in ("llama.cpp", "llama-cpp", "Llama.cpp")),
    *((name, "llamacpp", True) for name in ("ollama", "Ollama", "LM Studio", "lmstudio", "lm-studio")),
    *((name, "llamacpp", True) for name in ("ik_llama.cpp", "koboldcpp", "llamafile", "llama-server")),
    *((name, "mlx", True) for name in ("mlx-lm", "mlx_lm", "vllm-mlx", "oMLX")),
    *((name, "trtllm", True) for name in ("tensorrt-llm", "TensorRT-LLM", "TensorRT LLM")),
    *((name, "trtllm", False) for name in ("trt-llm", "TRT-LLM")),
    *((name, "transformers", True) for name in ("hf", "Hugging Face")),
    *((name, "none", True) for name in ("torch", "PyTorch", "eager")),
]


@every_row("word, engine, is_noted", WORDS)
def test_an_engine_is_known_by_the_programs_that_run_it(word, engine, is_noted):
    taken = engine_named(word)
    note = f"{word} is taken as the engine {engine}" if is_noted else ""
    assert (taken, getattr(taken, "note", "")) == (engine, note)


def test_the_tables_of_engines_name_engines():
    assert {*RUN_BY, *NEAREST.values()} <= {*engines()}
    words = [*(word for words in RUN_BY.values() for word in words), *NEAREST]
    assert len(words) == len({*words})


@pytest.mark.sample(4, whole=True)
@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--engine", "vllm", "--dtype", "q4_k_m"), "vLLM does not read weights in q4_k_m"),
        (("--engine", "llamacpp", "--dtype", "fp8"), "llama.cpp does not read weights in fp8"),
        (("--engine", "trtllm", "--dtype", "fp8", "--device", "rtx-3090"), "rtx-3090 states no peak of fp8"),
        (("--engine", "trtllm", "--dtype", "nvfp4", "--device", "h100-sxm"), "does not unpack nvfp4"),
        (("--engine", "vllm", "--kv-dtype", "q8_0"), "vLLM keeps no cache in q8_0"),
        (("--engine", "none", "--kv-dtype", "fp8"), "--kv-dtype is of an engine's cache"),
        (("--engine", "transformers", "--kv-dtype", "fp8"), "transformers grows one of the type"),
        (("--engine", "vllm", "--attention", "eager"), "--attention eager is of eager torch"),
        (("--phase", "train", "--engine", "vllm"), "--engine applies to inference"),
        (("--engine", "vlm"), "no engine 'vlm'; did you mean vllm?"),
        (("--engine", "tgi"), "no engine 'tgi'; the nearest is vllm"),
        (("--engine", "ktransformers"), "no engine 'ktransformers'; the nearest is llamacpp"),
        (("--utilization", "0.9"), "--utilization is a share of a device"),
        (("--new", "9"), "--new applies to serving only"),
    ],
)
def test_what_is_refused_in_a_line(cli, args, words):
    done = cli("memory", "llama-3.2-1b", "--phase", "decode", *args)
    assert (done.code, words in done.err, done.err.count("= help:")) == (2, True, 1), done.err


def test_a_model_without_a_cache_is_refused_for_its_phase_whatever_the_engine(cli):
    done = cli("memory", "bert-large-uncased", "--phase", "decode", "--engine", "vllm")
    assert (done.code, done.err.count("\n")) == (2, 2)
    assert "an encoder has no cache to fill" in done.err


def test_the_share_that_an_engine_takes_is_the_same_in_both_tables(cli):
    for name in ("vllm", "sglang"):
        row = next(row for row in archcli.engines(name).rows if row["fact"] == "utilization")
        share = f"{row['value']:.1%}"
        listed = next(line for line in cli("engines").out.splitlines() if line.startswith(f"{name} "))
        alone = next(line for line in cli("engines", name).out.splitlines() if line.startswith("utilization"))
        assert share in listed
        assert alone.split()[1] == share
