"""What `import archcli` offers."""

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import archcli
from archcli.api.asking.question import option_of
from archcli.commands.line.names import COMMANDS
from archcli.load.presets import preset_text
from archcli.load.spec.written import to_mapping
from archcli.modules.spec.request import Request
from archcli.modules.spec.values import hints
from archcli.wings.serving.api.fitting.question import FitOptions
from table import every_row


def test_a_name_a_path_and_a_loaded_model_count_the_same(tmp_path):
    model = archcli.load("gpt2")
    path = tmp_path / "own.yaml"
    layer = "{kind: pre_norm, attention: {kind: mha, n_heads: 2}, ffn: {kind: mlp, d_ff: 16}}"
    path.write_text(f"vocab_size: 8\nd_model: 4\nnorm: rmsnorm\ngroups: [{{n_layers: 1, layer: {layer}}}]\n")
    assert archcli.count_params("gpt2").totals == archcli.count_params(model).totals
    assert archcli.count_params(str(path)).totals["params"] == 2 * 8 * 4 + 4 * 4 * 4 + 2 * 4 * 16 + 3 * 4


def test_overrides_are_those_of_the_command():
    assert archcli.load("gpt2", ["d_ff=1024"]).groups[0].layer.ffn.d_ff == 1024


def test_flops_take_the_options_of_the_command():
    asked = archcli.count_flops("gpt2", phase="decode", past=9)
    assert asked.totals == archcli.count_flops("gpt2", Request(phase="decode", past=9)).totals
    assert asked.inputs["past"] == 9


def test_the_cache():
    assert archcli.count_kv_cache("gpt2", 10, 2).totals["elements"] == 12 * 2 * 10 * 2 * 768


def test_a_path_object_and_a_mapping_are_models(tmp_path):
    path, count = tmp_path / "own.yaml", archcli.count_params("gpt2").totals
    path.write_text(preset_text("gpt2"))
    mapping = to_mapping(archcli.load("gpt2"))
    assert archcli.count_params(path).totals == count
    assert archcli.count_params(mapping).totals == count
    assert archcli.count_params({**mapping, "d_model": np.int64(768)}).totals == count
    assert archcli.count_params({"model_type": "gpt2", "n_embd": 768}).totals["params"] == count["params"]


def test_a_report_of_a_file_has_its_name_and_the_notes_of_its_import(tmp_path):
    path = tmp_path / "own" / "config.json"
    path.parent.mkdir()
    path.write_text('{"model_type": "gpt2", "n_embd": 768, "an_unknown_key": 3}')
    report = archcli.count_params(path)
    assert report.model["name"] == "own"
    assert any("an_unknown_key" in note for note in report.notes)
    assert any("an_unknown_key" in note for note in archcli.compare(path, "gpt2").notes)


def test_a_loaded_model_stays_what_it_is_or_takes_overrides():
    model = archcli.load("gpt2")
    assert archcli.load(model) is model
    assert archcli.load(model, ["d_ff=1024"]).groups[0].layer.ffn.d_ff == 1024


@every_row(
    ("model", "message"),
    [
        ("-", "'-' is standard input"),
        (None, "a NoneType is no architecture; give a path, a preset's name, a dict, or a Model"),
        (b"gpt2", "a bytes is no architecture"),
        ({}, "<mapping>"),
        ({"vocab_size": 8}, "<mapping>:1:1: missing key d_model"),
        ({"vocab_size": object()}, "<mapping>: no plain data"),
        ({"vocab_size": 10**5000}, "<mapping>: no plain data"),
        ({"vocab_size": float("nan")}, "<mapping>"),
        ({(1, 2): 3}, "<mapping>: no plain data"),
        ({"model_type": "lama"}, "<mapping>:2:16: model_type 'lama'"),
        (Path("no.yaml"), "no file 'no.yaml'"),
        ("a\0b", "no file or preset"),
        ("x" * 10_000, "no file or preset"),
    ],
)
def test_what_is_no_model_is_refused(model, message):
    with pytest.raises(archcli.ArchError) as refused:
        archcli.count_params(model)
    assert message in str(refused.value)


def test_a_config_of_transformers_is_told_to_give_its_dict():
    with pytest.raises(archcli.ArchError, match=r"give its to_dict\(\)"):
        archcli.count_params(SimpleNamespace(to_dict=dict))


def test_a_survey_and_a_comparison():
    gpt2 = archcli.load("gpt2")
    assert [row["d_ff_ratio"] for row in archcli.survey(gpt2, "gemma-2b", sort="d_ff_ratio:desc").rows] == [
        8.0,
        4.0,
    ]
    assert "gpt2" in [row["name"] for row in archcli.survey().rows]
    params = {row["key"]: row for row in archcli.compare("gpt2", gpt2, seq_len=16).rows}["params"]
    assert params["value_1"] == params["value_2"] == archcli.count_params("gpt2").totals["params"]


def test_formula_and_sweep_agree_with_the_count():
    params = archcli.count_params("llama-3.2-1b").totals["params"]
    found = archcli.formula("llama-3.2-1b")
    assert found.params.subs(found.values) == params
    assert archcli.sweep("llama-3.2-1b", {"d_ff": np.array([8192, 1])}).params[0] == params


def test_build_gives_a_module_of_torch():
    model = archcli.build("gpt2", device="meta")
    assert (
        sum(weight.numel() for weight in model.parameters()) == archcli.count_params("gpt2").totals["params"]
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "nowhere"}, "device 'nowhere' cannot be used"),
        ({"device": "hpu"}, "device 'hpu' cannot be used"),
        ({"device": 3}, "device must be text, not 3"),
        ({"dtype": "int4"}, "a module cannot be built in int4; give fp32, bf16, fp16 or fp64"),
    ],
)
def test_what_torch_cannot_build_is_refused(options, message):
    with pytest.raises(archcli.ArchError, match=message):
        archcli.build("gpt2", **options)


@pytest.mark.long
def test_weights_larger_than_the_memory_are_not_allocated():
    with pytest.raises(archcli.ArchError, match=r'GiB of weights; .*"meta" allocates'):
        archcli.build("llama-3.1-405b", dtype="fp64")


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["bf16", "bfloat16", torch.bfloat16])
def test_a_module_is_built_in_a_dtype(dtype):
    model = archcli.build("gpt2", device="meta", dtype=dtype)
    assert {weight.dtype for weight in model.parameters()} == {torch.bfloat16}


def test_an_encoder_decoder_is_built_trained_and_run(tmp_path):
    path = tmp_path / "pair.yaml"
    ffn = "ffn: {kind: mlp, d_ff: 16}"
    path.write_text(
        "kind: encoder_decoder\nvocab_size: 8\nd_model: 4\nnorm: rmsnorm\n"
        f"encoder: {{groups: [{{n_layers: 1, layer: {{kind: pre_norm, attention: {{kind: mha, "
        f"n_heads: 2, causal: false}}, {ffn}}}}}]}}\n"
        "decoder:\n  groups:\n  - n_layers: 2\n"
        f"    layer: {{kind: pre_norm, attention: {{kind: mha, n_heads: 2}}, cross_attention: "
        f"{{n_heads: 1}}, {ffn}}}\n"
    )
    model = archcli.build(str(path))
    source, target = torch.arange(6).view(1, 6), torch.arange(3).view(1, 3)
    logits = model(target, source)
    logits.logsumexp(-1).sum().backward()
    assert all(weight.grad is not None for weight in model.parameters())
    with torch.no_grad():
        last, cache = model.prefill(target[:, :2], source)
        assert torch.allclose(model.decode(target[:, 2:], cache)[0], logits[:, 2:], atol=1e-6)
        assert torch.allclose(last, logits[:, 1:2], atol=1e-6)
    assert archcli.count_kv_cache(str(path), 3, source_len=6).totals["cross_elements"] == 2 * 2 * 6 * 4
    assert "(cross_attention): CrossAttention(" in str(model)


def test_errors_and_version():
    with pytest.raises(archcli.ArchError, match="gpt2"):
        archcli.load("gpt2x")
    for name, near in {"lode": "load", "count_kvcache": "count_kv_cache", "parms": "params"}.items():
        with pytest.raises(AttributeError, match=f"no attribute '{name}'; did you mean {near}[ ,?]"):
            getattr(archcli, name)
    with pytest.raises(AttributeError, match=r"no attribute 'xyz'; it has ArchError, .*yaml_schema$"):
        archcli.xyz  # noqa: B018
    assert archcli.__version__[0].isdigit()
    assert all(hasattr(archcli, name) for name in archcli.__all__)


def test_functions_have_the_names_of_their_commands():
    assert (archcli.params, archcli.flops) == (archcli.count_params, archcli.count_flops)
    assert (archcli.kvcache, archcli.memory) == (archcli.count_kv_cache, archcli.count_memory)
    packages = {path.stem for path in Path(archcli.__file__).parent.iterdir() if path.stem.islower()}
    assert {*archcli.__all__} & packages == {"load"}  # an import of any other would replace the function


PUBLIC = [name for name in archcli.__all__ if name.islower() and name not in {"register", "plot"}]
EXAMPLE = re.compile(r"Example: `(.+)` is (.+)\.")


RUNS = {"profile", "verify"}
"""Functions that run a model, and so wait for the second stage."""
OF_A_SERVER = {"bench"}
"""Functions that ask a running server: their example is in tests/commands/test_bench.py."""
COUNTED = [name for name in PUBLIC if name not in RUNS | OF_A_SERVER]
ON_A_MODEL = [pytest.param(name, marks=pytest.mark.long) for name in PUBLIC if name in RUNS]


@pytest.mark.sample(2, whole=True)
@pytest.mark.parametrize("name", ["Report", "Request", *COUNTED, *ON_A_MODEL])
def test_every_docstring_has_an_example_that_holds(name):
    value = archcli.load.load if name == "load" else getattr(archcli, name)
    [(expression, result)] = EXAMPLE.findall(value.__doc__)
    answer = eval(expression, {each: getattr(archcli, each) for each in archcli.__all__})  # noqa: S307
    assert result in {str(answer), f"{answer:,}" if isinstance(answer, int | np.integer) else ""}


OF_QUESTIONS = [name for name in PUBLIC if name in COMMANDS and name not in {"summary", "schema", "families"}]


@every_row("name", OF_QUESTIONS)
def test_help_says_what_each_argument_means(name):
    """In the words of the options, without a second text: that of `archcli fit -h`, of kv_dtype."""
    function = getattr(archcli, name)
    text = " ".join(inspect.getdoc(function).partition("Arguments:")[2].split())
    missing = [argument for argument in inspect.signature(function).parameters if f"{argument}: " not in text]
    assert missing == []


def test_help_has_the_words_of_the_command_line():
    shown = option_of(hints(FitOptions)["min_speed"]).help
    assert f"min_speed: {shown}" in archcli.fit.__doc__


USER = """
import archcli
from archcli.api.asking.question import option_of
from archcli.wings.serving.api.fitting.question import FitOptions
from archcli.commands.line.names import COMMANDS
from pathlib import Path

model = archcli.load(Path("own.yaml"), ["d_ff=4"])
report = archcli.count_flops(model, phase="decode", past=9)
archcli.count_flops({"model_type": "gpt2", "n_embd": 768}, archcli.Request(seq_len=4))
table: archcli.Report = archcli.compare(model, "gpt2", dtype="fp8")
values = archcli.sweep(model, {"d_ff": [1, 2]}).params
try:
    archcli.build(model, device="meta")
except archcli.ArchError as error:
    print([problem.what for problem in error.problems], f"{report:md}", report.to_dict())
"""
WRONG = {
    'archcli.memory("gpt2", phaze="train")': 'Unexpected keyword argument "phaze"',
    'archcli.predict("gpt2")': 'Missing positional argument "device"',
    'archcli.scale("gpt2", keep=3)': 'Argument "keep" to "scale" has incompatible type "int"',
    'archcli.count_flops("gpt2", phase="warp")': "incompatible type \"Literal['warp']\"",
    'archcli.count_flops("gpt2", seqlen=4)': 'did you mean "seq_len"?',
    "archcli.load(3)": 'has incompatible type "int"',
    'archcli.count_params("gpt2").total': 'has no attribute "total"; maybe "totals"?',
}


@pytest.mark.long
def test_a_users_type_checker_reads_the_api(tmp_path):
    file = tmp_path / "user.py"
    file.write_text(USER + "\n".join(WRONG))
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--follow-imports=silent", str(file)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(Path(archcli.__file__).parents[1])},
        timeout=300,
    )
    errors = [line for line in checked.stdout.splitlines() if ": error: " in line]
    assert len(errors) == len(WRONG), checked.stdout
    assert all(message in error for message, error in zip(WRONG.values(), errors, strict=True)), errors


@pytest.mark.long
def test_every_command_but_mcp_has_a_function_of_its_name():
    from archcli import rules  # the package, whose import does not take the function away

    assert [name for name in COMMANDS if not callable(getattr(archcli, name, None))] == ["mcp"]
    assert archcli.rules().rows == rules().rows == archcli.design_rules().rows
    assert archcli.rule("ATT001").totals["code"] == "ATT001"
    assert archcli.list().rows == archcli.presets().rows
    assert archcli.schema() == archcli.yaml_schema()


def test_numbers_may_be_texts_as_on_the_command_line():
    cache = archcli.kvcache("llama-3.1-8b", context="32k")
    assert cache.totals["elements"] == 32 * 2 * 8 * 128 * 32_000
    with pytest.raises(archcli.ArchError, match="'zz' is not a whole number"):
        archcli.kvcache("gpt2", context="zz")


CALLED_ALIKE = {
    "kvcache": lambda **tokens: archcli.kvcache("gpt2", **tokens).totals["bytes"],
    "memory": lambda **tokens: archcli.memory("gpt2", "serve", **tokens).totals["peak_bytes"],
    "flops": lambda **tokens: archcli.flops("gpt2", **tokens).totals["matmul_flops"],
}


@every_row("name", CALLED_ALIKE)
def test_tokens_of_a_sequence_have_either_name(name):
    ask = CALLED_ALIKE[name]
    assert ask(seq_len=512) == ask(context=512) == ask(context="512") != ask(context=256)
    with pytest.raises(archcli.ArchError, match="unknown argument"):
        ask(seq_len=512, context=512)


@pytest.mark.parametrize("changes", [["n_kv_heads=4"], {"n_kv_heads": 4}], ids=["texts", "mapping"])
def test_functions_take_changes_of_a_model(changes):
    assert archcli.kvcache("llama-3.1-8b", context=1, set=changes).totals["elements"] == 32 * 2 * 4 * 128
    assert archcli.load("llama-3.1-8b", changes) == archcli.load("llama-3.1-8b", ["n_kv_heads=4"])
    with pytest.raises(archcli.ArchError, match="no field is called 'n_kv_head'; did you mean n_kv_heads"):
        archcli.kvcache("llama-3.1-8b", set={"n_kv_head": 4})
    with pytest.raises(archcli.ArchError, match="overrides must be a list"):
        archcli.kvcache("llama-3.1-8b", set=3)


def test_lists_and_mappings_stand_for_what_is_repeated():
    pair = archcli.compare(["gpt2", "llama-3.1-8b"])
    assert pair.to_dict() == archcli.compare("gpt2", "llama-3.1-8b").to_dict()
    swept = archcli.sweep("gpt2", vary={"d_ff": range(1024, 2049, 512), "n_layers": "6,12"})
    assert swept.totals["candidates"] == 3 * 2


def test_any_table_of_a_report_is_a_dataframe():
    report = archcli.predict("gpt2", "h100-sxm")
    table = report.tables[1]
    assert len(report.to_pandas(table.title)) == len(table.records)
    with pytest.raises(archcli.ArchError, match="no table 'x'"):
        report.to_pandas("x")
