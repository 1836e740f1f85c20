"""config.json files as people commit them, written after real ones: each with its answer or its refusal.

Old forms, keys of other software, quantized weights, wrappers. Totals are those of the safetensors files on
the hub, of READMEs and papers, or of a class on meta where only the language model is counted.
"""

import json
import time
from pathlib import Path

import pytest

from archcli.errors import ArchError
from archcli.load.source import load, load_text
from archcli.load.yaml.text import MOST_JSON
from archcli.measure.params import count_params
from table import sampled_rows

FILES = Path(__file__).parent / "real_files"
CODE = "the file points to code of its own (auto_map), which is not run"
BESIDE = "figures are those of the language model (text_config); those of vision_config stand beside them"
RESIZED = "no preprocessor_config.json says what becomes of an image: images are resized to {0} x {0}"
AS_GIVEN = (
    "no preprocessor_config.json says to which size images are resized: an image is read as it is given"
)
OF_2019 = "no model_type: read as gpt2, whose first files have these keys"
FIRST = "ChatGLM of the first generation is not supported; ChatGLM 2 and 3 and GLM-4 are"
NO_HEAD = "no architectures: the base model has no output head: its parameters and FLOPs are not counted"
STORED = "quantization_config: {}; other weights take the bytes of --dtype"
NF4 = STORED.format("bitsandbytes, nf4 in blocks of 64, scales quantized again")
FP8 = STORED.format("FP8 in blocks of 128 x 128 with a scale of fp32")

SSM = "no model_type: read as mamba_ssm, whose files have these keys"

# by file: parameters and notes
ANSWERS = {
    "qwen2.5-0.5b-instruct": (494_032_768, ()),
    "qwen2.5-7b-instruct-1m": (7_615_616_512, ()),
    "llama-3.2-1b": (1_235_814_400, ()),
    "llama-7b-of-march-2023": (6_738_415_616, ()),
    "vicuna-7b-v1.5-16k": (6_738_415_616, ()),
    "llama-2-7b-gptq": (6_738_415_616, (STORED.format("GPTQ, 4 bits in groups of 128"),)),
    "llama-3.1-8b-instruct-awq-int4": (8_030_261_248, (STORED.format("AWQ, 4 bits in groups of 128"),)),
    "llama-3.2-1b-bnb-4bit": (1_235_814_400, (NF4,)),
    "llama-3.2-1b-mlx-4bit": (1_235_814_400, (STORED.format("MLX, 4 bits in groups of 64"),)),
    "qwen3-8b-fp8": (8_190_735_360, (FP8,)),
    "mistral-7b-v0.1": (7_241_732_096, ()),
    "mixtral-8x7b-instruct": (46_702_792_704, ()),
    "phi-3-mini-128k": (3_821_079_552, (CODE,)),
    "phi-3-small-8k": (7_392_272_384, (CODE,)),
    "gemma-2-9b-it": (9_241_705_984, ()),
    "gemma-3-4b-it": (3_880_263_168, (BESIDE, RESIZED.format(896))),
    "llava-1.5-7b": (6_738_939_904, (BESIDE, RESIZED.format(336))),
    "falcon-7b-instruct": (6_921_720_704, (CODE,)),
    "falcon-40b-of-may-2023": (41_303_293_952, (CODE,)),
    "bloom-560m": (559_214_592, ()),
    "mpt-7b": (6_649_286_656, (CODE,)),
    "gpt2-of-2019": (
        124_439_808,
        (OF_2019, NO_HEAD),
    ),
    "gpt2-medium": (354_823_168, ()),
    "pythia-70m-by-its-class": (
        70_426_624,
        ("no model_type: read as gpt_neox, the family of GPTNeoXForCausalLM",),
    ),
    "opt-350m": (331_196_416, ()),
    "bert-base-uncased": (109_514_298, ()),
    "t5-small": (60_506_624, ()),
    "vit-base": (86_389_248, (AS_GIVEN,)),
    "chatglm3-6b": (6_243_584_000, (CODE,)),
    "gpt-oss-20b": (20_914_757_184, (STORED.format("MXFP4, experts in blocks of 32"),)),
    "deepseek-v3": (671_026_404_352, (CODE, FP8)),
    "qwen-7b-chat": (7_721_324_544, (CODE,)),
    "baichuan2-13b-chat": (13_896_668_160, (CODE,)),
    "internlm2_5-7b-chat": (7_737_708_544, (CODE,)),
    "minicpm-2b-sft": (2_724_880_896, (CODE,)),
    "nemotron-nano-9b-v2": (8_888_227_328, (CODE,)),
    "granite-4.0-h-small": (32_207_337_984, ()),
    "mamba-codestral-7b": (7_285_403_648, ()),
    "jamba-1.5-large": (398_555_145_696, ()),
    "qwen3-next-80b-a3b-instruct": (79_674_391_296, ()),
    "kimi-linear-48b-a3b": (49_122_675_072, (CODE,)),
    "lfm2-1.2b": (1_170_340_608, ()),
    "falcon-h1-34b": (33_642_516_224, ()),
    "zamba2-7b": (7_356_749_648, ()),
    "recurrentgemma-9b": (8_579_977_216, ()),
    "falcon-mamba-7b": (7_272_665_088, ()),
    "xlstm-7b": (6_865_424_896, ()),
    "bamba-9b": (9_780_235_392, ()),
    "rwkv-4-1b5-pile": (1_515_106_304, ()),
    "mamba-2.8b-of-state-spaces": (2_768_345_600, (SSM,)),
    "mamba2-2.7b-of-state-spaces": (2_702_599_680, (SSM,)),
    "deepseek-v3.2": (671_877_929_216, (FP8,)),
    # Llama 2 7B with 32 layers of adapters of rank 16 at q and v, each 4096 by 4096
    "adapter_config": (
        6_738_415_616 + 32 * 2 * 16 * (4096 + 4096),
        (
            "the base model is preset llama-2-7b",
            "meta-llama/Llama-2-7b-hf is taken as the preset llama-2-7b",
        ),
    ),
}

# by file: what its one line says after the file's name
REFUSED = {
    "chatglm-6b-of-march-2023": f":22:27: {FIRST}",
    "minicpm-moe-8x2b": ":14:18: num_experts 8 is not supported; supported: None or 0",
}

# by file: billions of bytes of its weights on the hub, to the digits that are shown there
SIZES = {
    "gpt-oss-20b": "13.76",
    "llama-3.2-1b-bnb-4bit": "1.03",
    "llama-3.2-1b-mlx-4bit": "0.70",
    "llama-3.1-8b-instruct-awq-int4": "5.73",
}


def answer(name):
    return load(str(FILES / f"{name}.json"))


@sampled_rows("name", ANSWERS, 4)
def test_a_file_is_answered_with_the_known_total(name):
    total, notes = ANSWERS[name]
    loaded = answer(name)
    assert count_params(loaded.model).totals["params"] == total
    assert loaded.notes == notes


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_is_refused_in_a_line(name):
    with pytest.raises(ArchError) as caught:
        answer(name)
    [problem] = caught.value.problems
    assert f"{name}.json{REFUSED[name]}" in str(problem)
    assert "\n" not in str(problem)


def test_every_file_has_its_answer():
    assert {path.stem for path in FILES.iterdir()} == {*ANSWERS, *REFUSED}


@pytest.mark.parametrize("name", SIZES)
def test_a_quantized_file_is_as_large_as_the_hub_shows(name):
    assert f"{count_params(answer(name).model).totals['bytes'] / 10**9:.2f}" == SIZES[name]


@pytest.mark.long
def test_three_megabytes_of_quantization_config_are_read_at_once():
    """As a mixture states it whose modules are left out one by one."""
    config = json.loads((FILES / "deepseek-v3.json").read_text())
    names = [f"model.layers.{i}.mlp.experts.{j}.down_proj" for i in range(3, 61) for j in range(1200)]
    config["quantization_config"]["modules_to_not_convert"] = names
    text = json.dumps(config)
    assert 3 * 10**6 < len(text) < MOST_JSON
    start = time.process_time()
    loaded = load_text(text, "f")
    assert time.process_time() - start < 3
    plain = answer("deepseek-v3").model
    kept = 58 * 256 * 7168 * 2048
    scales = 58 * 256 * 4 * (7168 // 128) * (2048 // 128)
    found, whole = (count_params(model).totals["bytes"] for model in (loaded.model, plain))
    assert found - whole == kept - scales
