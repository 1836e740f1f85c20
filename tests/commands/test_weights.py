"""`params --against` and `verify --weights` on real files of tiny models: what they print, their exit codes, and mistakes they must see."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from archcli.load.hf import deepseek_v3, gpt2, llama, mixtral
from archcli.load.hf.weights import Take
from parity.witness import witness

torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("default")  # those of transformers are not ours to mend

ENDS = ["gpt2", "falcon-40b", "mixtral", "qwen2-moe", "deepseek-v3", "gpt-oss", "bert-masked", "t5-v1.1", "marian-two-tables", "whisper"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """folder("gpt2"): the parity table's model as Hugging Face saves it."""

    def save(name, **options):
        path = tmp_path_factory.mktemp(name)
        witness(name).model.save_pretrained(path, **options)
        return path

    return save


def edited(path, change):
    """The same folder, its tensors changed."""
    tensors = load_file(path / "model.safetensors")
    change(tensors)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path / "model.safetensors")
    return path


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
    assert report["totals"] == {"comparisons": 2 if encoder else 3, "failed": 0}
    assert [row["what"] for row in report["rows"][1:]] == [
        "logits of one pass, fp32",
        *([] if encoder else ["logits of prefill and 4 decoded, fp32"]),
    ]


def test_the_table_and_its_counts(folder, cli):
    path = folder("deepseek-v3")
    done = cli("params", path, "--against", path)
    assert done.code == 0
    model = witness("deepseek-v3").model
    unique = sum(tensor.numel() for tensor in model.parameters())
    stored = sum(tensor.numel() for tensor in load_file(path / "model.safetensors").values())
    assert stored == unique + 8  # the correction of 8 experts' scores
    lines = [line.split() for line in done.out.splitlines()]
    for what, value in (("unique", unique), ("stored", stored)):
        assert next(line for line in lines if line[:1] == [what])[1] == f"{value:,}"
    assert "all tensors have their name and shape" in done.out
    assert any(line[:4] == ["buffer:", "stored,", "not", "trained"] for line in lines)


def test_rows_of_json_fold_layers_and_keep_the_first_name(folder, cli):
    path = folder("gpt2")
    rows = json.loads(cli("params", path, "--against", path, "--json").out)["rows"]
    (row,) = [row for row in rows if row["name"].endswith("attn.c_attn.weight")]
    assert row == {
        "status": "same",
        "name": "transformer.h.*.attn.c_attn.weight",
        "ours": ", ".join(f"layers.*.attention.{which}_proj.weight" for which in "qkv"),
        "shape": [32, 96],
        "needed": None,
        "reason": "",
        "holder": "",
        "ok": True,
        "times": 2,
        "elements": 2 * 32 * 96,
        "first": "transformer.h.0.attn.c_attn.weight",
    }


def test_shards_are_read_through_their_index(folder, cli):
    path = folder("llama", max_shard_size="30KB")
    assert (path / "model.safetensors.index.json").is_file()
    assert cli("verify", path, "--weights", path, "-s", "9").code == 0
    assert cli("params", path, "--against", path / "model.safetensors.index.json").code == 0


def test_a_yaml_finds_the_names_in_the_config_beside_the_weights(folder, cli, tmp_path):
    path = folder("llama")
    yaml = tmp_path / "mine.yaml"
    yaml.write_text(cli("show", path, "--format", "yaml").out)
    assert cli("verify", yaml, "--weights", path, "-s", "9").code == 0
    done = cli("params", yaml, "--against", path)
    assert (done.code, "all tensors have their name and shape" in done.out) == (0, True)
    (path / "config.json").unlink()
    done = cli("params", yaml, "--against", path)
    assert (done.code, "names were not compared" in done.out) == (0, True)
    done = cli("params", yaml, "--set", "d_ff=41", "--against", path)
    assert done.code == 1
    assert "elements, and the architecture has" in done.out
    done = cli("verify", yaml, "--weights", path)
    assert (done.code, done.out) == (2, "")
    assert "no config.json beside the weights" in done.err


def drop(tensors):
    del tensors["transformer.h.1.ln_2.bias"]


def rename(tensors):
    tensors["transformer.h.1.ln_3.bias"] = tensors.pop("transformer.h.1.ln_2.bias")


def reshape(tensors):
    tensors["transformer.h.1.mlp.c_fc.weight"] = tensors["transformer.h.1.mlp.c_fc.weight"].T


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (drop, ["missing", "transformer.h.1.ln_2.bias", "32"]),
        (rename, ["unexpected", "transformer.h.1.ln_3.bias", "32"]),
        (reshape, ["shape", "transformer.h.1.mlp.c_fc.weight", "40×32", "32×40"]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_changed_file_is_told_by_name(change, told, folder, cli):
    path = edited(folder("gpt2"), change)
    done = cli("params", path, "--against", path)
    assert (done.code, done.err) == (1, "")
    assert any(set(told) <= set(line.split()) for line in done.out.splitlines())
    done = cli("verify", path, "--weights", path)
    assert done.code == 1
    assert "logits were not compared" in done.out
    assert told[1] in done.out


def test_weights_of_another_model_are_told(folder, cli):
    done = cli("params", "gpt2", "--against", folder("llama"))
    assert done.code == 1
    assert "not all tensors have their name and shape" in done.out


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
    "gate and up are swapped": (mixtral, "mixtral", swapped_gate_and_up, "logits"),
    "norms are swapped": (llama, "llama", swapped_norms, "logits"),
    "q, k, v in the opposite order": (gpt2, "gpt2", order_of_qkv, "logits"),
    "not transposed": (gpt2, "gpt2", not_transposed, "logits"),
    "q, k, v by heads": (gpt2, "gpt2", grouped, "logits"),
    "a name forgotten": (gpt2, "gpt2", without_a_rule, "missing"),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_wrong_table_of_names_is_seen(mutant, folder, cli, monkeypatch):
    family, name, change, seen = MUTANTS[mutant]
    path = folder(name)
    monkeypatch.setattr(family, "WEIGHTS", change(family.WEIGHTS))
    done = cli("verify", path, "--weights", path, "-s", "9")
    assert done.code == 1
    assert any(line.startswith("✗") and seen in line for line in done.out.splitlines())


def test_the_correction_of_scores_is_felt(folder, cli, monkeypatch):
    path = folder("deepseek-v3")
    full = deepseek_v3.weights

    def without(config):
        return {**full(config), "[model.]layers.*.mlp.gate.e_score_correction_bias": Take(("layers.*.ffn.router.weight",))}

    monkeypatch.setattr(deepseek_v3, "weights", without)
    assert cli("verify", path, "--weights", path, "-s", "9").code == 1


@pytest.mark.parametrize("dtype", ["bf16", "keep"])
def test_half_precision_is_compared_coarsely(dtype, folder, cli):
    path = edited(folder("llama"), lambda tensors: tensors.update({name: tensor.bfloat16() for name, tensor in tensors.items()}))
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


@pytest.mark.parametrize("name", ["LlamaForCausalLMThatIsNot", "pipeline", "__builtins__", "LlamaConfig", "a b"])
def test_a_class_that_transformers_does_not_have_is_told(name, folder, cli):
    path = folder("llama")
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**config, "architectures": [name], "auto_map": {"AutoModel": "evil.Evil"}}))
    done = cli("verify", path, "--weights", path)
    assert (done.code, done.out) == (2, "")
    assert f"transformers has no class {name!r}" in done.err


def test_names_of_a_file_are_never_escape_sequences(folder, cli):
    path = edited(folder("llama"), lambda tensors: tensors.update({"\x1b[31mred\n.7": torch.ones(1)}))
    done = cli("params", path, "--against", path)
    assert done.code == 1
    assert "\x1b" not in done.out


def test_no_tensor_is_read_by_params(folder, cli, monkeypatch):
    path = folder("llama")
    monkeypatch.setattr("archcli.load.safetensors.read_tensor", None)
    assert cli("params", path, "--against", path).code == 0
    code = f"import sys; sys.argv = ['archcli', 'params', {str(path)!r}, '--against', {str(path)!r}]; from archcli.cli import main\n"
    code += "try: main()\nexcept SystemExit: pass\n"
    code += "print([name for name in ('torch', 'transformers', 'safetensors', 'numpy', 'huggingface_hub') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_missing_transformers_is_one_line_and_2(folder):
    path = str(folder("llama"))
    code = f"import sys; sys.modules['transformers'] = None; sys.argv = ['archcli', 'verify', {path!r}, '--weights', {path!r}]; "
    done = subprocess.run(
        [sys.executable, "-c", code + "from archcli.cli import main; main()"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[0] == "error: logits are compared with those of transformers, which is not installed"


def test_too_little_memory_is_told_before_anything_is_loaded(folder, cli, monkeypatch):
    path = folder("llama")
    monkeypatch.setattr("archcli.commands._weights.available_memory", lambda: 1000)
    done = cli("verify", path, "--weights", path)
    assert (done.code, done.out) == (2, "")
    assert "of weights in fp32" in done.err
