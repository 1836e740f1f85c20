"""`verify --weights` on real files of tiny models.

The same logits, exit codes, and mistakes in a table of names that it must see.
"""

import importlib
import json
import subprocess
import sys
from copy import deepcopy
from dataclasses import replace

import pytest
import torch
import transformers
from safetensors.torch import load_file

from archcli.load.huggingface.registry import families, family_of
from archcli.load.huggingface.weights.map import Parts
from parity.families import FAMILIES
from saved import edited, stated

torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("default")  # those of transformers are not ours to mend

ENDS = [
    "gpt2",
    "falcon-40b",
    "mixtral",
    "qwen2-moe",
    "deepseek-v3",
    "gpt-oss",
    "bert-masked",
    "t5-v1.1",
    "marian-two-tables",
    "whisper",
]


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ENDS)
def test_a_saved_model_is_explained_and_gives_the_same_logits(name, folder, cli):
    path = folder(name)
    done = cli("params", path, "--against", path, "--json")
    report = json.loads(done.out)
    assert (done.code, done.err, report["totals"]["ok"]) == (0, "", True)
    held = load_file(path / "model.safetensors")
    assert report["totals"]["stored_elements"] == sum(tensor.numel() for tensor in held.values())
    assert report["totals"]["tensors"] == len(held) == sum(row["times"] for row in report["rows"])
    done = cli("verify", path, "--weights", path, "-s", "16", "--json")
    report = json.loads(done.out)
    assert (done.code, done.err) == (0, "")
    encoder = name == "bert-masked"
    assert report["totals"] == {"comparisons": 2 if encoder else 3, "failed": 0, "uncounted": {}}
    assert [row["what"] for row in report["rows"][1:]] == [
        "logits of one pass, fp32",
        *([] if encoder else ["logits of prefill and 4 decoded, fp32"]),
    ]


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["t5gemma2", "t5gemma2-unlike"])
def test_an_encoder_decoder_beside_a_tower_gives_the_same_logits(name, tmp_path, cli):
    config = deepcopy(dict(FAMILIES[name].config))
    for part in (config["decoder"], config["encoder"]["text_config"]):
        part["pad_token_id"] = 0
    torch.manual_seed(0)
    with torch.inference_mode(mode=False), torch.no_grad():
        theirs = transformers.AutoConfig.for_model(**config)
        model = transformers.T5Gemma2ForConditionalGeneration(theirs)
        for tensor in model.parameters():
            tensor.add_(0.2 * torch.randn_like(tensor))
    model.save_pretrained(tmp_path)
    done = cli("verify", tmp_path, "--weights", tmp_path, "-s", "12", "--json")
    report = json.loads(done.out)
    assert (done.code, report["totals"]) == (0, {"comparisons": 3, "failed": 0, "uncounted": {}})
    assert any("images and sounds stand in the prompt of a decoder alone" in note for note in report["notes"])


@pytest.mark.long
def test_shards_are_read_through_their_index(folder, cli):
    path = folder("llama", max_shard_size="30KB")
    assert (path / "model.safetensors.index.json").is_file()
    assert cli("verify", path, "--weights", path, "-s", "9").code == 0
    assert cli("params", path, "--against", path / "model.safetensors.index.json").code == 0


@pytest.mark.long
def test_copies_of_a_tied_weight_that_differ_are_told(folder, cli):
    def untie(tensors):
        tensors["lm_head.weight"] = tensors["transformer.wte.weight"] + 1

    path = edited(folder("gpt2"), untie)
    assert cli("params", path, "--against", path).code == 0
    done = cli("verify", path, "--weights", path)
    assert done.code == 1
    assert any("copies of tied weights" in line and line.startswith("✗") for line in done.out.splitlines())


def swapped_gate_and_up(rules):
    one, two = (f"[model.]layers.*.block_sparse_moe.experts.#.{name}.weight" for name in ("w1", "w3"))
    return {**rules, one: rules[two], two: rules[one]}


def swapped_norms(rules):
    one, two = "[model.]layers.*.input_layernorm.*", "[model.]layers.*.post_attention_layernorm.*"
    return {**rules, one: rules[two], two: rules[one]}


def order_of_qkv(rules):
    name = "[transformer.]h.*.attn.c_attn.*"
    return {**rules, name: replace(rules[name], ours=rules[name].ours[::-1])}


def not_transposed(rules):
    name = "[transformer.]h.*.attn.c_proj.*"
    return {**rules, name: replace(rules[name], transposed=False)}


def grouped(rules):
    name = "[transformer.]h.*.attn.c_attn.*"
    return {**rules, name: replace(rules[name], groups=4)}


def without_a_rule(rules):
    return {name: rule for name, rule in rules.items() if ".ln_1." not in name}


MUTANTS = {
    "gate and up are swapped": ("mixtral", swapped_gate_and_up, "logits"),
    "norms are swapped": ("llama", swapped_norms, "logits"),
    "q, k, v in the opposite order": ("gpt2", order_of_qkv, "logits"),
    "not transposed": ("gpt2", not_transposed, "logits"),
    "q, k, v by heads": ("gpt2", grouped, "logits"),
    "a name forgotten": ("gpt2", without_a_rule, "missing"),
}


def patch_weights(monkeypatch, kind, weights):
    """Give the family of a model_type other names of weights."""
    rows = importlib.import_module(f"archcli.load.huggingface.families.{families()[kind]}").FAMILIES
    monkeypatch.setitem(rows, kind, rows[kind]._replace(weights=weights))


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_wrong_table_of_names_is_seen(mutant, folder, cli, monkeypatch):
    kind, change, seen = MUTANTS[mutant]
    path = folder(kind)
    patch_weights(monkeypatch, kind, change(family_of(kind).weights))
    done = cli("verify", path, "--weights", path, "-s", "9")
    assert done.code == 1
    assert any(line.startswith("✗") and seen in line for line in done.out.splitlines())


@pytest.mark.long
def test_the_correction_of_scores_is_felt(folder, cli, monkeypatch):
    path = folder("deepseek-v3")
    full = family_of("deepseek_v3").weights

    def without(config):
        return {
            **full(config),
            "[model.]layers.*.mlp.gate.e_score_correction_bias": Parts(("layers.*.ffn.router.weight",)),
        }

    patch_weights(monkeypatch, "deepseek_v3", without)
    assert cli("verify", path, "--weights", path, "-s", "9").code == 1


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("dtype", ["bf16", "keep"])
def test_half_precision_is_compared_coarsely(dtype, folder, cli):
    path = edited(
        folder("llama"),
        lambda tensors: tensors.update({name: tensor.bfloat16() for name, tensor in tensors.items()}),
    )
    done = cli("verify", path, "--weights", path, "-s", "9", "--dtype", dtype, "--json")
    report = json.loads(done.out)
    assert (done.code, report["inputs"]["dtype"]) == (0, dtype)
    assert report["rows"][1]["what"] == "logits of one pass, bf16"
    assert report["rows"][1]["theirs"] == "at most 0.05"


def test_what_is_quantized_is_not_run(folder, cli):
    def scaled(tensors):
        tensors["model.layers.0.mlp.up_proj.weight_scale_inv"] = torch.ones(1, 1)

    path = edited(folder("llama"), scaled)
    assert cli("params", path, "--against", path).code == 0
    done = cli("verify", path, "--weights", path)
    assert (done.code, done.out) == (2, "")
    assert "quantized, as 'model.layers.0.mlp.up_proj.weight_scale_inv' says" in done.err


@pytest.mark.sample(3, whole=True)
@pytest.mark.parametrize(
    "name", ["LlamaForCausalLMThatIsNot", "pipeline", "__builtins__", "LlamaConfig", "a b"]
)
def test_a_class_that_transformers_does_not_have_is_told(name, folder, cli):
    path = folder("llama")
    stated(path, architectures=[name], auto_map={"AutoModel": "evil.Evil"})
    done = cli("verify", path, "--weights", path)
    assert (done.code, done.out) == (2, "")
    assert f"transformers has no class {name!r}" in done.err


@pytest.mark.long
def test_kimi_k2_is_run_by_the_class_of_deepseek_v3(folder, cli):
    path = stated(folder("deepseek-v3"), model_type="kimi_k2")
    assert cli("verify", path, "--weights", path, "-s", "9").code == 0


@pytest.mark.long
def test_layers_that_only_training_runs_are_explained_and_left_out(folder, cli):
    def predict(tensors):
        layers = 1 + max(int(name.split(".")[2]) for name in tensors if name.startswith("model.layers."))
        tensors[f"model.layers.{layers}.eh_proj.weight"] = torch.ones(32, 64)

    path = stated(edited(folder("deepseek-v3"), predict), num_nextn_predict_layers=1)
    assert json.loads(cli("params", path, "--json").out)["totals"]["mtp_params"] > 0
    assert cli("params", path, "--against", path).code == 0
    assert cli("verify", path, "--weights", path, "-s", "9").code == 0


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("architectures", [None, ["LlamaModel"], ["LlamaForSequenceClassification"]], ids=str)
def test_a_class_without_logits_is_compared_by_its_hidden_states(architectures, folder, cli):
    def classify(tensors):
        del tensors["lm_head.weight"]
        if architectures and architectures[0].endswith("Classification"):
            tensors["score.weight"] = torch.ones(2, 32)

    path = stated(edited(folder("llama"), classify), architectures=architectures)
    done = cli("verify", path, "--weights", path, "-s", "9")
    assert (done.code, done.err) == (0, "")


@pytest.mark.long
def test_the_language_model_of_a_multimodal_folder_is_compared(cli, tmp_path):
    text = {key: value for key, value in FAMILIES["gemma3"].config.items() if key != "model_type"}
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
    vision = {**sizes, "image_size": 28, "patch_size": 14}
    config = transformers.Gemma3Config(text_config=text, vision_config=vision, mm_tokens_per_image=1)
    transformers.Gemma3ForConditionalGeneration(config).save_pretrained(tmp_path)
    done = cli("verify", tmp_path, "--weights", tmp_path, "-s", "9")
    assert (done.code, done.err) == (0, "")
    done = cli("params", tmp_path, "--against", tmp_path)
    # towers have names as well
    assert (done.code, "tower beside the language model" in done.out) == (0, False)


def test_weights_that_transformers_would_make_up_are_told(folder, cli):
    def shorten(tensors):
        for name in [name for name in tensors if ".layers.1." in name]:
            del tensors[name]

    path = edited(folder("llama"), shorten)
    assert cli("params", path, "--set", "n_layers=1", "--against", path).code == 0
    done = cli("verify", path, "--set", "n_layers=1", "--weights", path)
    assert (done.code, done.out) == (2, "")
    assert "transformers finds 9 weights of LlamaForCausalLM not in" in done.err


@pytest.mark.long
def test_a_missing_transformers_is_one_line_and_2(folder):
    path = str(folder("llama"))
    code = (
        f"import sys; sys.modules['transformers'] = None; sys.argv = ['archcli', 'verify', {path!r}, "
        f"'--weights', {path!r}]; "
    )
    done = subprocess.run(
        [sys.executable, "-c", code + "from archcli.cli import main; main()"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr == "error: logits are compared with those of transformers, which is not installed\n"
        f"  = help: pip install 'transformers>=5', then: archcli verify {path} --weights {path}\n"
    )


def test_too_little_memory_is_told_before_anything_is_loaded(folder, cli, monkeypatch):
    path = folder("llama")
    monkeypatch.setattr("archcli.wings.running.api.verify_weights.available_memory", lambda: 1000)
    done = cli("verify", path, "--weights", path)
    assert (done.code, done.out) == (2, "")
    assert "of weights in fp32" in done.err
