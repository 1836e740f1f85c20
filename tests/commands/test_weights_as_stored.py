"""Folders that transformers 5 saves of heads that it ties unasked, or not: judged by their tensors."""

import json

import pytest
import torch
import transformers

from wrapping import NAMES, TINY

pytestmark = pytest.mark.filterwarnings("default")  # those of transformers are not ours to mend

T5 = {"vocab_size": 61, "d_model": 24, "d_kv": 10, "d_ff": 52, "num_layers": 2, "num_heads": 4}
HALF = {"layers": 2, "ffn_dim": 52, "attention_heads": 4}
MARIAN = {
    "vocab_size": 61,
    "d_model": 24,
    "pad_token_id": 0,
    "decoder_start_token_id": 0,
    "max_position_embeddings": 40,
    **{f"{half}_{key}": value for half in ("encoder", "decoder") for key, value in HALF.items()},
}
BERT = {
    "vocab_size": 61,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 52,
}
GATED = {"feed_forward_proj": "gated-gelu"}
UNTIED = {"tie_word_embeddings": False}
TIED_UNASKED = "the checkpoint holds no head: it is tied, as the class ties it whatever the config says."

# name: (class, config, what of its parameters no pass reads, what is noted of the config)
SAVED = {
    "t5-v1.1": (transformers.T5ForConditionalGeneration, {**T5, **GATED, **UNTIED}, 0, "T5 v1.1"),
    "t5": (transformers.T5ForConditionalGeneration, T5, 0, ""),
    "marian": (transformers.MarianMTModel, {**MARIAN, **UNTIED}, 0, "model.shared"),
    "bert": (transformers.BertForMaskedLM, {**BERT, **UNTIED}, 0, "two biases"),
}


@pytest.mark.long
@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("name", SAVED)
def test_a_folder_is_its_own_model(name, tmp_path, cli):
    cls, config, unread, noted = SAVED[name]
    torch.manual_seed(0)
    model = cls(cls.config_class(**config))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape) * 0.1)
    model.save_pretrained(tmp_path)
    done = cli("params", tmp_path, "--against", tmp_path, "--json")
    report = json.loads(done.out)
    assert (done.code, report["totals"]["ok"]) == (0, True)
    computed = sum(p.numel() for key, p in model.named_parameters() if "embed_positions" in key)
    assert report["totals"]["params"] == model.num_parameters() - computed - unread
    assert (TIED_UNASKED in report["notes"]) == (name == "t5-v1.1")
    done = cli("verify", tmp_path, "--weights", tmp_path, "-s", "9", "--json")
    assert (done.code, json.loads(done.out)["totals"]["failed"]) == (0, 0)
    notes = json.loads(cli("params", tmp_path, "--json").out)["notes"]
    assert [noted in note for note in notes] == ([True] if noted else [])


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["llava", "qwen2_vl", "idefics3"])
def test_a_wrapper_gives_the_logits_of_its_class(kind, tmp_path, cli):
    torch.manual_seed(0)
    axes = {"mrope_section": [1, 1, 2]} if kind == "qwen2_vl" else {}
    rope = {"rope_type": "default", "rope_theta": 500.0, **axes}
    whole = transformers.CONFIG_MAPPING[kind](text_config={**TINY, "rope_parameters": rope})
    for depth in ("num_hidden_layers", "depth"):
        if hasattr(whole.vision_config, depth):
            setattr(whole.vision_config, depth, 1)
    getattr(transformers, NAMES[kind])(whole).save_pretrained(tmp_path)
    done = cli("params", tmp_path, "--against", tmp_path, "--json")
    assert (done.code, json.loads(done.out)["totals"]["ok"]) == (0, True)
    done = cli("verify", tmp_path, "--weights", tmp_path, "-s", "9", "--json")
    assert (done.code, json.loads(done.out)["totals"]["failed"]) == (0, 0)
