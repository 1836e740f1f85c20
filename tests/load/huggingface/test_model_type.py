"""The family of a config.json: by its model_type, by its class, by the keys of the first files."""

import json

import pytest

LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 1000,
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "intermediate_size": 128,
}
FAMILY = "it names the family, such as llama"

# id: (model_type, the answer)
WRONG = {
    "near": ("lama", "1:16: model_type 'lama' is not supported; nearest known: llama, llama4, llava; "),
    "halves": ("encoder-decoder", "1:16: model_type 'encoder-decoder' is not supported; "),
    "number": (7, f"1:16: model_type must be a string, not 7; {FAMILY}"),
    "list": (["llama"], f"1:16: model_type must be a string, not ['llama']; {FAMILY}"),
    "far": ("x" * 253, f"1:16: model_type '{'x' * 59}… is not supported; "),
}


@pytest.mark.parametrize(("kind", "said"), WRONG.values(), ids=WRONG)
def test_a_model_type_that_names_no_family_is_answered_once(kind, said, refused):
    list_of_all = "`archcli families` lists all" if said.endswith("; ") else ""
    assert refused(json.dumps({**LLAMA, "model_type": kind})) == [said + list_of_all]
