"""The family of a config.json: by its model_type, by its class, by the keys of the first files."""

import json

import pytest

from archcli.load.huggingface.importer import weight_map
from archcli.load.source import load, load_text
from archcli.load.yaml.text import MOST_BYTES, MOST_JSON
from archcli.measure.params import count_params
from table import every_row

LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 1000,
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "intermediate_size": 128,
}
LIST = "`archcli families` lists all"
BY_CLASS = f"{LIST}; params, flops, memory, show and summary count transformers' class, if any"
CLASS = "1:19: no model_type, and architecture '{}' is of no known family; state model_type; {}".format
UNSUPPORTED = "model_type '{}' is not supported; nearest known: ".format
FAMILY = "it names the family, such as llama; `archcli families` lists all"

# id: (model_type, the answer)
WRONG = {
    "near": ("lama", "1:16: model_type 'lama' is not supported; nearest known: llama, mllama, llama4; "),
    "version": (
        "deepseek_v5",
        f"1:16: {UNSUPPORTED('deepseek_v5')}deepseek_v4, deepseek_v3, deepseek_v2; ",
    ),
    "halves": (
        "vision-encoder-decoder",
        (
            "1:16: model_type 'vision-encoder-decoder' is not supported; nearest known: encoder-decoder, "
            "modernbert-decoder; "
        ),
    ),
    "number": (7, f"1:16: model_type must be a string, not 7; {FAMILY}"),
    "list": (["llama"], f"1:16: model_type must be a string, not ['llama']; {FAMILY}"),
    "far": ("x" * 253, f"1:16: model_type '{'x' * 59}… is not supported; "),
}


@every_row(("kind", "said"), WRONG.values(), ids=WRONG)
def test_a_model_type_that_names_no_family_is_answered_once(kind, said, refused):
    more = BY_CLASS if said.endswith("; ") else ""
    assert refused(json.dumps({**LLAMA, "model_type": kind})) == [said + more]


LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "decoder_layers")
GPT2 = {"n_embd": 24, "n_head": 3, "n_layer": 2, "n_positions": 40, "vocab_size": 61, "n_ctx": 40}


@pytest.mark.long
@every_row(
    ("architecture", "kind"),
    [
        ("LlamaForCausalLM", "llama"),
        ("GPT2LMHeadModel", "gpt2"),
        ("GPTNeoXForCausalLM", "gpt_neox"),
        ("BertForMaskedLM", "bert"),
        ("MarianMTModel", "marian"),
        ("T5EncoderModel", "t5"),
        ("Qwen3MoeForCausalLM", "qwen3_moe"),
        ("Gemma3ForCausalLM", "gemma3"),
        ("LlavaForConditionalGeneration", "llava"),
        ("ChatGLMModel", "chatglm"),
        ("XLMWithLMHeadModel", "xlm"),
        ("Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl"),
    ],
)
def test_without_model_type_the_class_tells_the_family(architecture, kind):
    stated = {"architectures": [architecture], **dict.fromkeys(LAYERS, 2), "text_config": {}}
    loaded = load_text(json.dumps(stated), "f.json")
    named = load_text(json.dumps({"model_type": kind, **stated}), "f.json")
    assert loaded.model == named.model
    assert loaded.notes == (f"no model_type: read as {kind}, the family of {architecture}", *named.notes)
    assert weight_map(stated).rules == weight_map({"model_type": kind, **stated}).rules


def test_the_first_files_of_gpt2_are_told_by_their_keys():
    loaded = load_text(json.dumps(GPT2), "f.json")
    assert loaded.model == load_text(json.dumps({**GPT2, "model_type": "gpt2"}), "f.json").model
    assert loaded.notes[0] == "no model_type: read as gpt2, whose first files have these keys"


def test_files_of_mamba_ssm_are_told_by_their_keys():
    stated = {"d_model": 64, "n_layer": 2, "vocab_size": 50277, "ssm_cfg": {"layer": "Mamba2"}}
    loaded = load_text(json.dumps(stated), "f.json")
    assert loaded.model == load_text(json.dumps({**stated, "model_type": "mamba_ssm"}), "f.json").model
    assert loaded.notes == ("no model_type: read as mamba_ssm, whose files have these keys",)
    assert loaded.model.head is not None


MISSING = f"f: key 'model_type' is missing; {FAMILY}"
NEITHER = (
    "f: neither an architecture nor a config.json of a model; "
    "an architecture has vocab_size, d_model, norm and groups, a config.json model_type"
)
UNKNOWN = {
    "gpt-1": ({**GPT2, "afn": "gelu"}, MISSING),
    "ctrl": ({**GPT2, "dff": 8192}, MISSING),
    "sizes-alone": ({"hidden_size": 64, "num_hidden_layers": 2}, MISSING),
    "first-distilbert": ({"dim": 768, "n_layers": 6, "n_heads": 12, "tie_weights_": True}, MISSING),
    "unknown-class": ({"architectures": ["QuuxForCausalLM"]}, CLASS("QuuxForCausalLM", BY_CLASS)),
    "class-of-a-later-version": (
        {"architectures": ["MiniCPM9ForCausalLM"], "hidden_size": 64},
        CLASS("MiniCPM9ForCausalLM", f"nearest known: minicpm, minicpm4, minicpm3; {BY_CLASS}"),
    ),
    "null": ({**LLAMA, "model_type": None, "architectures": None}, MISSING),
    "another-json": ({"a": 1, "b": {"c": [2]}}, NEITHER),
}


@every_row(("config", "said"), UNKNOWN.values(), ids=UNKNOWN)
def test_a_json_of_no_known_family_is_refused_in_a_line(config, said, refused):
    assert refused(json.dumps(config)) == [said]


NO_SIZE = "f: no size of the model is stated, such as its width or its number of layers; its keys are "
SIZELESS = {
    "kind-alone": ({"model_type": "llama"}, "model_type"),
    "class-alone": ({"architectures": ["LlamaForCausalLM"]}, "architectures"),
    "of-a-tokenizer": (
        {"model_type": "gpt2", "vocab_size": 9, "n_positions": 8},
        "model_type, vocab_size, n_positions",
    ),
    "null": ({"model_type": "qwen2", "hidden_size": None}, "model_type, hidden_size"),
    "wrapper": ({"model_type": "llava", "image_token_id": 3}, "model_type, image_token_id"),
    "of-another-program": (
        {"model_type": "mistral", **{f"setting_{i}": {"hidden_size": 64} for i in range(30)}},
        ", ".join(["model_type", *(f"setting_{i}" for i in range(11))]) + " and 19 more",
    ),
}


@every_row(("config", "keys"), SIZELESS.values(), ids=SIZELESS)
def test_a_file_without_sizes_is_not_answered_with_those_of_a_class(config, keys, refused):
    assert refused(json.dumps(config)) == [NO_SIZE + keys]


def test_a_text_part_may_leave_its_sizes_to_its_class():
    sizes = {"hidden_size": 4096, "num_hidden_layers": 32}
    assert load_text('{"model_type": "llava", "text_config": {}}', "f").model == (
        load_text(json.dumps({"model_type": "llava", "text_config": sizes}), "f").model
    )


QWEN2 = {"hidden_size": 896, "intermediate_size": 4864, "num_attention_heads": 14, "num_hidden_layers": 24}
QWEN2 |= {"num_key_value_heads": 2, "vocab_size": 151936, "tie_word_embeddings": True, "rms_norm_eps": 1e-6}
MLC = {
    "model_type": "qwen2",
    "quantization": "q4f16_1",
    "vocab_size": 151936,
    "context_window_size": 32768,
    "sliding_window_size": -1,
    "conv_template": {"name": "chatml"},
}
ENGINE = {"context_window_size": 32768, "prefill_chunk_size": 2048, "max_batch_size": 80, "head_dim": 64}


def test_an_mlc_chat_config_is_read_from_its_model_config():
    loaded = load_text(json.dumps({**MLC, "model_config": {**QWEN2, **ENGINE}}), "mlc-chat-config.json")
    assert count_params(loaded.model).totals["params"] == 494_032_768  # of the safetensors file on the hub
    assert loaded.model.max_seq_len == ENGINE["context_window_size"]
    assert loaded.notes == (
        "only model_config is read: the rest of the file says how an engine runs the model",
        "quantization_config: MLC, q4f16_1; other weights take the bytes of --dtype",
    )
    assert (
        weight_map({**MLC, "model_config": QWEN2}).rules == weight_map(QWEN2 | {"model_type": "qwen2"}).rules
    )


@pytest.mark.parametrize(("stated", "window"), [(-1, None), (64, 64)])
def test_the_window_of_mlc_is_that_of_the_model(stated, window):
    inner = {"num_hidden_layers": 2, "sliding_window_size": stated, "position_embedding_base": 0}
    loaded = load_text(json.dumps({"model_type": "mistral", "model_config": inner}), "f")
    assert loaded.model.groups[0].layer.attention.window == window


def test_a_mistake_within_a_model_config_has_its_place(refused):
    text = json.dumps({**MLC, "model_config": {**QWEN2, "hidden_size": "x"}})
    place = text.index('"x"') + 1
    assert refused(text) == [f"1:{place}: hidden_size must be a whole number above 0, not 'x'"]


def test_a_json_of_ours_is_read_as_ours(refused):
    assert refused('{"vocab_size": 10, "d_model": 8, "norm": "rmsnorm"}') == ["1:1: missing key groups"]


@pytest.mark.long
def test_a_config_with_a_setting_for_each_matrix_is_read(tmp_path, refused):
    names = [f"model.layers.{i}.mlp.experts.{j}.up_proj" for i in range(60) for j in range(700)]
    config = {
        **LLAMA,
        "quantization_config": {"quant": {name: {"bits": 4, "group_size": 128} for name in names}},
    }
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    assert 2 * MOST_BYTES < path.stat().st_size < MOST_JSON
    model = load(str(path)).model
    assert model.unknown_form == "a quant_method without a name"
    plain = model.replace(quantization=None, published_in=None)
    assert plain == load_text(json.dumps(LLAMA), str(path)).model
    large = json.dumps({**LLAMA, "x": "x" * MOST_JSON})
    assert refused(large) == ["f: larger than 8 MiB; an architecture is a few lines of text"]
    assert refused("{a: " + "x" * MOST_BYTES + "}") == [
        "f: larger than 1 MiB; an architecture is a few lines of text"
    ]
