"""A config.json that archcli does not describe: the class of transformers answers, or a line says so."""

import json
from importlib.util import find_spec

import pytest

import archcli as library
from archcli.errors import ArchError

TINY_CVT = {
    "model_type": "cvt",
    "image_size": 32,
    "embed_dim": [8, 16, 32],
    "num_heads": [1, 2, 4],
}
TINY_NYSTROM = {
    "model_type": "nystromformer",
    "architectures": ["NystromformerForMaskedLM"],
    "vocab_size": 64,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 128,
    "segment_means_seq_len": 128,
    "num_landmarks": 16,
}
TINY_LILT = {
    "model_type": "lilt",
    "vocab_size": 64,
    "hidden_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 66,
    "channel_shrink_ratio": 2,
    "pad_token_id": 1,
}
TINY_VILT = {
    "model_type": "vilt",
    "vocab_size": 64,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 40,
    "image_size": 32,
    "patch_size": 16,
}
"""Looks at values."""
TINY = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
TINY_LXMERT = {"model_type": "lxmert", **TINY, "vocab_size": 64, "visual_feat_dim": 24}
TINY_LXMERT |= {"l_layers": 1, "x_layers": 1, "r_layers": 1, "max_position_embeddings": 32}
TINY_KYUTAI = {"model_type": "kyutai_speech_to_text", **TINY, "vocab_size": 64, "num_codebooks": 3}
TINY_KYUTAI |= {"codebook_vocab_size": 17, "max_position_embeddings": 16, "audio_pad_token_id": 5}
TINY_KYUTAI |= {"num_key_value_heads": 4, "head_dim": 8, "ffn_dim": 48, "audio_bos_token_id": 4}
TINY_SPEECH = {"model_type": "speecht5", "hidden_size": 32, "vocab_size": 16, "encoder_layers": 1}
TINY_SPEECH |= {"decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
TINY_SPEECH |= {"encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_source_positions": 40}
TINY_SAMPLES = {"model_type": "muse_spark_audio", "patch_sizes": [16, 6, 5, 4], "depths": [1, 1, 1, 1]}
TINY_SAMPLES |= {"hidden_sizes": [4, 8, 16, 32], "out_hidden_size": 16}
TINY_LOOP = {"model_type": "dory", **TINY, "vocab_size": 64, "num_key_value_heads": 4, "head_dim": 8}
TINY_LOOP |= {"max_position_embeddings": 16}
QWEN = {
    "model_type": "qwen3",
    "architectures": ["Qwen3ForCausalLM"],
    "vocab_size": 1000,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 96,
    "max_position_embeddings": 128,
}
UNDESCRIBED = {
    "cvt": (TINY_CVT, "CvtModel", {"pixel_values": (1, 3, 32, 32)}),
    "nystromformer": (TINY_NYSTROM, "NystromformerForMaskedLM", {"input_ids": (1, 128)}),
    "lilt": (TINY_LILT, "LiltModel", {"input_ids": (1, 64), "bbox": (1, 64, 4)}),
    "vilt": (TINY_VILT, "ViltModel", {"input_ids": (1, 32), "pixel_values": (1, 3, 32, 32)}),
    # by names of their own: sizes are at keys of the config
    "lxmert": (
        TINY_LXMERT,
        "LxmertModel",
        {"input_ids": (1, 32), "visual_feats": (1, 64, 24), "visual_pos": (1, 64, 4)},
    ),
    # a stream of text and three of sound
    "kyutai": (TINY_KYUTAI, "KyutaiSpeechToTextModel", {"input_ids": (1, 16, 4)}),
    # the first layer is 32 wide
    "speecht5": (
        TINY_SPEECH,
        "SpeechT5Model",
        {"input_values": (1, 80, 32), "decoder_input_values": (1, 80, 32)},
    ),
    # 16,000 samples up to a multiple of 16 x 6 x 5 x 4, which the error names
    "muse_spark_audio": (TINY_SAMPLES, "MuseSparkAudioModel", {"input_values": (1, 17_280)}),
    # fake tensors cannot fill its cache
    "dory": (TINY_LOOP, "DoryModel", {"input_ids": (1, 16)}),
}
WHOLE = {"input_ids", "bbox"}
COUNTED = ("params", "flops", "memory", "show", "summary")
REFUSED = ("kvcache", "explain", "check", "draw", "predict --device h100-sxm", "fit h100-sxm")


@pytest.fixture
def config(tmp_path):
    """Write a config.json; its path."""

    def write(data):
        path = tmp_path / "config.json"
        path.write_text(json.dumps(data), "utf-8")
        return str(path)

    return write


@pytest.fixture
def run(cli):
    """Run a command in this process: (exit code, output, errors)."""

    def run(*words):
        done = cli(*words)
        return done.code, done.out, done.err

    return run


def their_class(name, data):
    """The class of transformers, built with values."""
    import transformers

    made = getattr(transformers, name)
    return made(made.config_class.from_dict(data)).eval()


@pytest.mark.long
@pytest.mark.parametrize("kind", UNDESCRIBED)
def test_the_class_is_counted(kind, run, config):
    """Parameters are those of the class, FLOPs those of torch's counter."""
    import torch
    import transformers
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    data, name, shapes = UNDESCRIBED[kind]
    theirs, path = their_class(name, data), config(data)
    counted = json.loads(run("params", path, "--json")[1])
    assert counted["totals"]["params"] == params_of(theirs)
    by = f"Counted by the class {name} of transformers {transformers.__version__}"
    assert counted["notes"][0].startswith(by)
    assert library.count_params(data).totals["params"] == params_of(theirs)
    inputs = {
        of: torch.zeros(shape, dtype=torch.int64 if of in WHOLE else torch.float32)
        for of, shape in shapes.items()
    }
    # torch has no formula for a CPU's attention in one kernel, and has those of its products
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter, torch.no_grad():
        theirs(**inputs)
    found = json.loads(run("flops", path, "--json")[1])
    assert found["inputs"]["run_on"] == ("cpu" if kind == "vilt" else "meta")
    assert found["totals"]["executed_flops"] == counter.get_total_flops()


def params_of(module):
    return sum(weight.numel() for weight in module.parameters())


@pytest.mark.long
@pytest.mark.parametrize("command", COUNTED)
def test_commands_that_count_a_class(command, run, config):
    code, printed, _ = run(command, config(TINY_NYSTROM))
    assert code == 0
    assert printed.startswith("NystromformerForMaskedLM of transformers ")
    assert "not by archcli's description" in printed


@pytest.mark.parametrize("command", REFUSED)
def test_commands_that_need_a_description(command, run, config):
    """All refuse with the same line."""
    name, *more = command.split()
    code, _, errors = run(name, config(TINY_CVT), *more)
    assert code == 2
    assert "model_type 'cvt' is not supported" in errors
    assert "params, flops, memory, show and summary count transformers' class, if any" in errors


def test_without_transformers_it_says_what_to_install(run, config, monkeypatch):
    monkeypatch.setattr(
        "archcli.wings.running.api.by_class.find_spec",
        lambda name: None if name == "transformers" else find_spec(name),
    )
    code, _, errors = run("params", config(TINY_CVT))
    assert code == 2
    assert "pip install torch transformers" in errors


@pytest.mark.long
def test_a_type_of_nobody_is_refused(run, config):
    code, _, errors = run("params", config({"model_type": "nobody", "hidden_size": 8}))
    assert code == 2
    assert "model_type 'nobody' is not supported" in errors


@pytest.mark.long
def test_a_class_beside_the_description(run, config):
    """The description of Qwen3 has what its class has."""
    _, printed, _ = run("summary", config(QWEN), "--by-class")
    params = params_of(their_class("Qwen3ForCausalLM", QWEN))
    assert f"archcli's description has {params:,} parameters: equal." in printed
    assert "matmul FLOPs: equal." in printed


@pytest.mark.long
def test_code_of_a_repository_is_not_run(run, tmp_path, monkeypatch):
    """auto_map names a file beside the config.json; importing it would leave a mark."""
    mark = tmp_path / "mark"
    (tmp_path / "modeling.py").write_text(f"open({str(mark)!r}, 'w')", "utf-8")
    data = {**TINY_CVT, "auto_map": {"AutoModel": "modeling.CvtModel", "AutoConfig": "modeling.CvtConfig"}}
    (tmp_path / "config.json").write_text(json.dumps(data), "utf-8")
    monkeypatch.chdir(tmp_path)
    assert run("params", str(tmp_path))[0] == 0
    assert not mark.exists()


@pytest.mark.long
def test_keys_that_ask_for_kernels_are_dropped(run, config):
    """transformers would fetch and run them; a file cannot ask for that."""
    kernels = {"attn_implementation": "somebody/kernels", "_attn_implementation": "somebody/kernels"}
    path = config(
        {**TINY_NYSTROM, **kernels, "kernel_config": {"a": "somebody/kernels"}, "dtype": "bfloat16"}
    )
    code, printed, _ = run("params", path)
    assert code == 0
    assert "not in the dtype or form of the file" in printed
    assert "not in the dtype or form of the file" not in run("flops", path)[1]  # which has no bytes


HOSTILE = [0, -1, 2**70, [], [0], [-3, 4], {}, {"height": None}, "x", 1.5, None, True]


@pytest.mark.long
@pytest.mark.parametrize("key", ["image_size", "patch_size", "num_channels", "max_position_embeddings"])
def test_sizes_that_no_tensor_has_are_answered(run, config, key):
    """By a count or one error, never by a traceback."""
    for value in HOSTILE:
        for data in (TINY_CVT, TINY_VILT, TINY_LILT):
            assert run("flops", config({**data, key: value}))[0] in {0, 2}, (key, value)


def test_options_of_architectures_are_refused(run, config):
    code, _, errors = run("flops", config(TINY_CVT), "--seq-len", "8")
    assert code == 2
    assert "--seq-len is for an architecture that archcli describes" in errors


@pytest.mark.long
def test_inputs_that_no_config_tells_are_asked_for(run, config):
    """A forward without known inputs: what it takes, and --input answers it."""
    code, _, errors = run("flops", config({"model_type": "sam2_video"}))
    assert code == 2
    errors = errors.replace("\n  = help:", ";")
    assert "no inputs are known for the forward of Sam2VideoModel; it takes inference_session" in errors


@pytest.mark.long
def test_a_class_without_a_forward_says_so(run, config):
    """Its parameters are counted."""
    path = config({"model_type": "bark"})
    code, _, errors = run("flops", path)
    assert code == 2
    assert "BarkModel has no forward" in errors
    assert run("params", path)[0] == 0


@pytest.mark.long
def test_a_function_of_python_takes_the_inputs_of_the_class():
    made, stated = library.flops(TINY_CVT), library.flops(TINY_CVT, (2, 3, 32, 32))
    assert stated.totals["matmul_flops"] == 2 * made.totals["matmul_flops"] > 0
    on_cpu = library.flops(TINY_CVT, run_on="cpu")
    assert on_cpu.totals["matmul_flops"] == made.totals["matmul_flops"]
    with pytest.raises(ArchError, match="request must be a Request, not a tuple"):
        library.flops(QWEN, (1, 3))
