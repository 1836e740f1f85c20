"""Memory of towers: alive and kept bytes are torch's, and they add up with those of the language model."""

import pytest

import archcli
from archcli.errors import ArchError
from archcli.graph.kept import Execution
from archcli.modules.spec.request import Request
from archcli.wings.running.runtime.memory.models import WitnessSetting
from archcli.wings.running.runtime.profile.work import prepare
from archcli.wings.serving.memory.parts.towers import TowerPass, unseen_states
from archcli.wings.serving.memory.traced import trace_memory
from archcli.wings.serving.memory.training.backward import Backward
from small_towers import CONFIGS, RUN, running_model, small_model
from table import sampled_rows
from towers_run import inference_peak, kept_bytes, training_peak

KIB = 1024
SETTINGS = {
    "cuda": WitnessSetting(),
    "eager": WitnessSetting(attention="eager"),
    "cpu": WitnessSetting("fp32", backend="cpu"),
}
WIDTHS = {"bf16": 2, "fp32": 4}
QUICK_GELU = ("llava_next", "qwen2_vl")
"""Those whose peak is in the backward of x sigmoid(1.702 x), of which torch makes a tensor more."""
WAITING = ("mllama",)
"""Those where gradients of states behind like layers wait for each other, of which a trace has one."""


def traced(name, phase, setting, batch_size=2):
    model, image = small_model(name)
    (tower,) = model.towers
    request = tower.reading(Request(phase, batch_size), image)
    execution = Execution(
        "cpu" if setting.backend == "cpu" else "cuda",
        setting.attention == "sdpa",
        WIDTHS[setting.dtype],
        phase == "train",
    )
    return tower, request, trace_memory(tower, request, execution)


@pytest.mark.sample(1)
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", CONFIGS)
def test_the_peak_of_a_forward_is_torch_s(name, setting):
    tower, request, ours = traced(name, "forward", SETTINGS[setting])
    state = request.batch_size * request.seq_len * tower.model.d_model * WIDTHS[SETTINGS[setting].dtype]
    peak = max(moment.temporaries for moment in ours.ledger.moments) + unseen_states(tower) * state
    assert peak == inference_peak(tower, request, SETTINGS[setting])


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("setting", ["cuda", "eager"])
@pytest.mark.parametrize("name", CONFIGS)
def test_what_a_forward_keeps_is_what_autograd_keeps(name, setting):
    tower, request, ours = traced(name, "train", SETTINGS[setting])
    assert abs(ours.ledger.kept - kept_bytes(tower, request, SETTINGS[setting])) <= KIB
    assert ours.ledger.kept > 10 * KIB


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", CONFIGS)
def test_the_peak_of_a_backward_is_torch_s(name):
    tower, request, ours = traced(name, "train", SETTINGS["cuda"])
    backward, outputs = Backward(ours.ledger), TowerPass(tower, ours, 0, 0).outputs
    size = sum(size for _, size in outputs)
    backward.run(*outputs, held=True)
    # the witness holds the outputs, too
    alive = [size + moment.kept + moment.gradients + moment.temporaries for moment in backward.moments]
    peak = max(*alive, *(moment.kept + moment.temporaries for moment in ours.ledger.moments))
    theirs = training_peak(tower, request, SETTINGS["cuda"])
    assert abs(peak - theirs) <= (0.02 * theirs if name in (*QUICK_GELU, *WAITING) else KIB)


def memory(name, phase, sizes=(), **options):
    model, image = small_model(name, **dict(sizes))
    return archcli.count_memory(model, phase, image=[image], **options).totals


def params(name):
    totals = archcli.count_params(small_model(name)[0]).totals
    return totals["params"], totals["params_with_towers"]


@sampled_rows("name", CONFIGS, 4)
def test_towers_are_among_the_weights_with_an_image_or_without(name):
    model, _ = small_model(name)
    _, whole = params(name)
    for phase in ("prefill", "decode", "serve", "train"):
        with_image = memory(name, phase, seq_len=9, optimizer="sgd" if phase == "train" else "adamw-mixed")
        assert with_image["parts"]["weights"] == 2 * whole
        without = archcli.count_memory(model, phase, seq_len=9).totals
        assert without["parts"]["weights"] == 2 * whole
        assert "media" not in without
        assert without["towers"]["features_bytes"] == without["towers"]["kept_bytes"] == 0


def test_the_features_wait_while_the_language_model_runs():
    """Qwen3-VL: 384 x 320 are 24 x 20 patches, 12 x 10 tokens; two layers leave as many again."""
    eager = {"batch_size": 2, "engine": "none"}
    totals = memory("qwen3_vl", "prefill", seq_len=9, **eager)
    assert totals["towers"]["features_bytes"] == 3 * 2 * 120 * 64 * 2
    assert totals["media"] == [{"kind": "image", "size": [384, 320], "tokens": 120}]
    assert totals["prompt_tokens"] == 9 + 120
    text = archcli.count_memory(small_model("qwen3_vl")[0], "prefill", seq_len=129, **eager).totals
    of_text, of_both = (
        {moment["moment"]: moment["parts"] for moment in answer["moments"]} for answer in (text, totals)
    )
    waiting = of_both["prefill"]["temporaries"] - of_text["prefill"]["temporaries"]
    assert waiting == totals["towers"]["features_bytes"]
    assert of_both["prefill"]["cache"] == of_text["prefill"]["cache"]


def test_the_peak_is_the_larger_of_the_two_passes():
    """A tower over 480 patches beside 120 tokens, or beside many tokens of text."""
    # vLLM's own first run has a whole chunk of tokens
    few, many = (memory("qwen3_vl", "prefill", seq_len=n, engine="sglang") for n in (1, 5000))
    assert (few["moment"], many["moment"]) == ("vision_tower", "prefill")
    for totals in (few, many):
        assert totals["peak_bytes"] == max(moment["peak_bytes"] for moment in totals["moments"])


def test_an_engine_runs_the_tower_of_one_sequence_at_a_time():
    one, four = (memory("qwen2_vl", "serve", seq_len=9, batch_size=n)["towers"] for n in (1, 4))
    assert one == four
    prefilled = memory("qwen2_vl", "prefill", seq_len=9, batch_size=4, engine="none")["towers"]
    assert prefilled["features_bytes"] == 4 * one["features_bytes"]


def test_images_are_read_one_after_the_other():
    model, image = small_model("qwen2_vl")
    one, two = (
        archcli.count_memory(model, "prefill", image=[image] * n, seq_len=1, engine="none").totals
        for n in (1, 2)
    )
    assert two["towers"]["features_bytes"] == 2 * one["towers"]["features_bytes"]
    before, after = (
        next(m["peak_bytes"] for m in totals["moments"] if m["moment"] == "vision_tower")
        for totals in (one, two)
    )
    assert after - before == one["towers"]["features_bytes"]


def test_training_keeps_and_updates_the_tower_beside_the_language_model():
    """AdamW: a gradient and two moments of each parameter; SigLIP's head is built and gets none."""
    text, whole = params("qwen2_vl")
    image = memory("qwen2_vl", "train", seq_len=9, optimizer="adamw")
    model, _ = small_model("qwen2_vl")
    alone = archcli.count_memory(model, "train", seq_len=9, optimizer="adamw").totals
    update, of_text = (answer["moments"][-1]["parts"] for answer in (image, alone))
    assert update["gradients"] == 2 * whole
    assert of_text["gradients"] == 2 * text
    assert update["optimizer"] == 2 * 2 * whole
    assert image["kept_bytes"] == (
        image["towers"]["kept_bytes"]
        + archcli.count_memory(model, "train", seq_len=9 + 20, optimizer="adamw").totals["kept_bytes"]
    )
    stages = [moment["moment"] for moment in image["moments"]]
    last = ["loss", "backward", "vision_tower backward", "optimizer step"]
    assert stages == ["vision_tower", "forward", *last]


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", RUN)
def test_weights_that_get_a_gradient_are_torch_s(name):
    """All but those of a layer behind the vectors that are taken (LLaVA) and of a head that nothing reads."""
    model, image = running_model(name)
    request = model.placing(Request("train", 1, 9, media=(image,)))
    work = prepare(model, request)
    work.step()
    with_gradients = sum(x.numel() for x in work.model.parameters() if x.grad is not None)
    totals = archcli.count_memory(model, "train", image=[image], seq_len=9, optimizer="adamw").totals
    update = totals["moments"][-1]["parts"]
    assert (update["gradients"], update["optimizer"]) == (2 * with_gradients, 2 * 2 * with_gradients)
    whole = archcli.count_params(model).totals["params_with_towers"]
    assert (with_gradients < whole) == (name in {"llava", "llava_next", "gemma3"})


def test_lora_leaves_towers_frozen():
    model, image = small_model("qwen2_vl")
    adapted = archcli.load(model, overrides=["lora.rank=4"])
    totals = archcli.count_memory(adapted, "train", image=[image], seq_len=9, optimizer="adamw").totals
    alone = archcli.count_memory(adapted, "train", seq_len=9, optimizer="adamw").totals
    assert totals["towers"]["kept_bytes"] == 0
    assert totals["towers"]["features_bytes"] > 0
    assert totals["parts"]["gradients"] == alone["parts"]["gradients"]


def test_every_layer_of_a_tower_may_be_recomputed():
    whole, less = (
        memory("qwen2_vl", "train", seq_len=9, recompute=rule)["towers"]["kept_bytes"]
        for rule in ("none", "layer")
    )
    # 6 layers keep their inputs of 2 bytes, of 80 patches 64 wide
    assert 6 * 80 * 64 * 2 < less < whole / 3


def test_each_device_of_the_first_stage_has_the_whole_towers():
    _, whole = params("qwen2_vl")
    totals = memory("qwen2_vl", "serve", seq_len=9, pp=2)
    first, second = totals["ranks"][0], totals["ranks"][-1]
    assert {first["stage"], second["stage"]} == {0, 1}
    both = first["parts"]["weights"] + second["parts"]["weights"]
    assert both == 2 * whole


def test_micro_batches_in_flight_keep_what_their_towers_need():
    """Of two stages the first has two micro batches in flight."""
    steps = {
        batches: memory("qwen2_vl", "train", seq_len=9, pp=2, micro_batches=batches) for batches in (1, 4)
    }
    kept = steps[1]["towers"]["kept_bytes"]
    first = {
        batches: next(m for m in totals["moments"] if m["moment"] == "vision_tower")
        for batches, totals in steps.items()
    }
    assert kept > 0
    parts = {batches: moment["parts"] for batches, moment in first.items()}
    assert parts[4]["kept"] - parts[1]["kept"] >= kept
    text, whole = params("qwen2_vl")
    # gradients of earlier micro batches are there
    assert (parts[1]["gradients"], parts[4]["gradients"] >= 2 * (whole - text)) == (0, True)


def test_a_text_model_reads_no_image():
    with pytest.raises(ArchError, match="gpt2 reads text alone"):
        archcli.count_memory("gpt2", "serve", image="224x224")
