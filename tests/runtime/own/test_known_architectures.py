"""archcli's own models, and those of transformers, run as anybody's modules: what archcli counts of them."""

import pytest
import torch
import transformers

import archcli
from archcli.measure.passes import checked_pass
from archcli.modules.spec.request import Request
from archcli.wings.running.runtime.memory.models import WitnessSetting, built, loss_of
from archcli.wings.running.runtime.model.build import build_model, empty_inputs, set_expert_form
from archcli.wings.serving.memory.traced import highest
from archcli.wings.serving.memory.training.step import training_step
from covering import COVERING
from peaks_compared import settings_of
from short_presets import shortened

TOKENS = 12
WINDOW = 8
ON_CPU = WitnessSetting(backend="cpu")


def inputs_of(model, request):
    """The inputs of a pass by name, features as wide as the weights."""
    inputs = empty_inputs(model, request)
    return {name: x.bfloat16() if x.is_floating_point() else x for name, x in inputs.items()}


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", COVERING)
def test_a_built_preset_counts_as_any_module(name):
    model = shortened(name, WINDOW)
    train = Request("train", 1, TOKENS).resolved()
    module = build_model(model, device="meta", dtype=torch.bfloat16, attention="eager")
    set_expert_form(module, "grouped")
    inputs = inputs_of(model, Request("forward", 1, TOKENS).resolved())
    # a model with heads that train alone has their weights as well
    assert archcli.count_params(module, inputs).totals["params"] == checked_pass(model, train).params()
    forward = checked_pass(model, Request("forward", 1, TOKENS).resolved())
    assert archcli.count_flops(module, inputs).totals["executed_flops"] == forward.flops(unmasked=True)[0]
    of_training = archcli.count_flops(module, inputs_of(model, train), phase="train").totals
    assert of_training["executed_flops"] == checked_pass(model, train).flops(unmasked=True)[0]


LABELLED_WHOLE = {"bert-base-uncased", "bert-large-uncased", "longformer-base-4096"}
"""Presets that say one thing of a sequence: their loss is not of tokens."""
QUANTIZED = {"llama-3.2-3b-lora-3.7bit"}
"""Presets whose weights archcli counts in fewer bits than the built model holds."""
WITH_A_SCALAR = {"nllb-200-600m", "pegasus-large", "transformer-base", "transformer-big"}
"""Presets whose forward makes a tensor of one number, which archcli's account leaves out."""


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", sorted({*COVERING} - LABELLED_WHOLE - QUANTIZED))
def test_the_memory_of_a_built_preset_is_that_of_its_step(name):
    model = shortened(name, WINDOW)
    asked = settings_of("train", 2, TOKENS, ON_CPU, optimizer="sgd")
    step = highest(it for it in training_step(model, asked).moments if it.stage != "optimizer step")
    inputs = inputs_of(model, asked.request(model))
    targets = torch.zeros(2, TOKENS, dtype=torch.int64)
    inside = "targets" in inputs  # of models with heads that train alone
    report = archcli.count_memory(
        built(model, asked.request(model), ON_CPU, "meta"),
        inputs,
        loss=(lambda loss: loss) if inside else (lambda logits: loss_of(logits, targets)),
    )
    held = sum(report.totals["parts"][name] for name in ("weights", "buffers", "inputs"))
    # the targets that the loss brings are there in both, and beside the pass in archcli's own account
    beside = 0 if inside else targets.nbytes
    difference = report.totals["peak_bytes"] - held - beside - (step.bytes - step.weights)
    assert difference == (2 if name in WITH_A_SCALAR else 0)


SMALL = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 96,
    "max_position_embeddings": 64,
}
WINDOWED = {**SMALL, "head_dim": 16, "sliding_window": 8}
THEIRS = {
    "llama": SMALL,
    "mistral": {**SMALL, "sliding_window": 8},
    "qwen2": SMALL,
    "qwen3": {**SMALL, "head_dim": 16},
    "gemma3_text": WINDOWED,
    "gpt2": {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 96, "n_positions": 64},
    "gpt_neox": SMALL,
    "phi3": {**SMALL, "pad_token_id": 0},
    "olmo2": SMALL,
    "mixtral": {**SMALL, "num_local_experts": 4},
    "stablelm": SMALL,
    "bert": SMALL,
    "gemma2": WINDOWED,
    "bloom": {"hidden_size": 64, "n_layer": 2, "n_head": 4, "vocab_size": 96},
}
STEP_BY_STEP = {
    "gpt2": {"train"},  # it drops probabilities, and no kernel of a CPU does
    "gemma2": {"forward", "train"},  # it caps scores
    "bloom": {"forward", "train"},  # it adds distances to scores
}
"""Classes and phases whose attention runs step by step: all pairs, whatever the mask."""


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", THEIRS)
def test_a_class_of_transformers_counts_as_its_config(name):
    config = transformers.AutoConfig.for_model(name, **THEIRS[name])
    auto = transformers.AutoModelForMaskedLM if name == "bert" else transformers.AutoModelForCausalLM
    module = auto.from_config(config)
    config.architectures = [type(module).__name__]
    stated, inputs = config.to_dict(), {"input_ids": torch.zeros(1, 16, dtype=torch.int64)}
    assert (
        archcli.count_params(module, inputs).totals["params"] == archcli.count_params(stated).totals["params"]
    )
    for phase in ("forward", "train"):
        ours = archcli.count_flops(stated, seq_len=16, phase=phase).totals["matmul_flops"]
        whole = archcli.count_flops(stated, seq_len=16, phase=phase, mask="dense").totals["matmul_flops"]
        theirs = archcli.count_flops(module, inputs, phase=phase).totals
        if phase in STEP_BY_STEP.get(name, set()):
            assert theirs["executed_flops"] == whole
        else:
            assert theirs["matmul_flops"] == ours
        assert theirs["executed_flops"] >= whole


@pytest.mark.long
def test_a_mamba_of_transformers_differs_by_two_things_of_its_code():
    layers, tokens, width, state, kernel = 2, 16, 2 * 64, 16, 4
    sizes = {"hidden_size": 64, "num_hidden_layers": layers, "vocab_size": 96, "state_size": state}
    config = transformers.AutoConfig.for_model("mamba", **sizes, conv_kernel=kernel)
    module = transformers.AutoModelForCausalLM.from_config(config)
    config.architectures = [type(module).__name__]
    theirs = archcli.count_flops(module, {"input_ids": torch.zeros(1, tokens, dtype=torch.int64)})
    ours = archcli.count_flops(config.to_dict(), seq_len=tokens)
    # what enters the state is multiplied element by element, where archcli counts a product
    elementwise = 2 * tokens * width * state
    # the convolution goes on past the last token, and what it finds there is cut off
    past_the_end = 2 * (kernel - 1) * width * kernel
    difference = layers * (past_the_end - elementwise)
    assert theirs.totals["matmul_flops"] == ours.totals["matmul_flops"] + difference
