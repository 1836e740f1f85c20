"""The peak of live storages, against torch's own MemTracker and arithmetic in the open."""

import pytest
import torch
from torch.distributed._tools.mem_tracker import MemTracker

from archcli.load.source import load
from archcli.modules.spec.request import Request
from archcli.wings.running.runtime.memory.models import WitnessSetting, loss_of, prepared
from archcli.wings.running.runtime.memory.peak import LiveStorages, inference_peak, training_step_peak
from archcli.wings.running.runtime.memory.shards import is_layer
from archcli.wings.serving.memory.inference import inference_pass
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.memory.traced import highest
from zoo import ZOO

torch.set_num_threads(1)
BF16, FP32, INT64 = 2, 4, 8
GPT2 = load("gpt2").model
B, T, D, V, LAYERS = 2, 128, 768, 50257, 12
GRADIENTS = BF16 * 124_439_808
MIXTURES = ("mixtral", "qwen-moe", "gpt-oss", "deepseek", "deepseek-absorbed", "llama4")
"""Of experts that run one after another it depends on numbers how many tokens each is given."""
CPU = WitnessSetting(backend="cpu")


def tracked(spec, batch, seq, dtype="bf16"):
    """MemTracker's peak of a step, without the weights and the inputs that it counts too."""
    request = Request("train", batch, seq).resolved()
    with prepared(spec, request, WitnessSetting(dtype, backend="cpu")) as (model, inputs):
        targets = torch.empty(batch, seq, dtype=torch.int64)
        tracker = MemTracker()
        tracker.track_external(model, targets, *inputs.values())
        with tracker:
            loss_of(model(**inputs), targets).backward()
        (total,) = [sizes["Total"] for sizes in tracker.get_tracker_snapshot("peak").values()]
    outside = [*model.parameters(), *model.buffers(), *inputs.values(), targets]
    return total - sum(tensor.numel() * tensor.element_size() for tensor in outside)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "batch", "seq", "dtype"), [("llama", 2, 40, "bf16"), ("gpt2", 1, 33, "fp32")]
)
def test_torchs_tracker_finds_the_same_peak(name, batch, seq, dtype):
    peak = training_step_peak(ZOO[name], batch, seq, setting=WitnessSetting(dtype, backend="cpu"))
    assert peak.bytes == tracked(ZOO[name], batch, seq, dtype)


def test_storages_are_booked_until_nothing_refers_to_them():
    with LiveStorages() as live:
        x = torch.zeros(1000, dtype=torch.float32)
        view = x[10:20]
        y = x + 1
        assert live.now == 2 * FP32 * 1000
        del x
        assert live.now == 2 * FP32 * 1000  # the view holds it
        del view
        assert live.now == FP32 * 1000
        live.reset()
        (y * 2).sum()
        assert live.peak.bytes == 2 * FP32 * 1000 + FP32
    assert (live.now, y.shape) == (FP32 * 1000, (1000,))


@pytest.mark.long
def test_a_short_step_peaks_at_the_gradients_of_a_tied_table():
    """The head's gradient of the table, and the embedding's, which is added to it into a third."""
    peak = training_step_peak(GPT2, B, 16)
    table = BF16 * V * D
    assert peak.bytes == GRADIENTS + 2 * table + 8
    assert (peak.moment, peak.path) == ("backward", "embedding.tokens")
    assert peak.end == GRADIENTS


@pytest.mark.long
def test_a_long_step_peaks_in_the_loss():
    """Log-probabilities, their gradient and that of the logits in fp32, beside all that is kept."""
    long, longer = (training_step_peak(GPT2, 1, seq) for seq in (896, 1024))
    assert long.moment == longer.moment == "loss"
    assert longer.path == ""
    assert (longer.bytes - long.bytes) // 128 > 3 * FP32 * V


@pytest.mark.long
def test_recomputed_layers_keep_their_inputs():
    plain, recomputed = (training_step_peak(GPT2, 1, 1024, recomputed=of) for of in (None, is_layer))
    assert recomputed.moment == "loss"
    kept = LAYERS * BF16 * 1024 * D
    head = 2 * BF16 * 1024 * D + 2 * BF16 * 1024  # the final norm's x and y, its statistics (a CPU's)
    spike = 3 * FP32 * 1024 * V
    positions = INT64 * 1024
    assert recomputed.bytes == kept + head + spike + positions + 8
    assert recomputed.bytes < plain.bytes


@pytest.mark.long
def test_a_loss_in_chunks_has_a_lower_spike():
    plain, four = (training_step_peak(GPT2, 1, 1024, chunks=n) for n in (None, 4))
    assert four.moment == "loss"
    assert four.bytes < plain.bytes - 2 * FP32 * 768 * V


@pytest.mark.long
def test_cuda_on_meta_keeps_less_than_a_cpu():
    cpu, cuda = (training_step_peak(ZOO["llama"], 2, 64, setting=at) for at in (CPU, WitnessSetting()))
    assert cuda.bytes < cpu.bytes


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", [name for name in ZOO if name not in MIXTURES])
def test_fake_tensors_take_what_real_ones_take(name):
    fake, real = (
        training_step_peak(ZOO[name], 2, 6, setting=WitnessSetting("fp32", backend=backend))
        for backend in ("cpu", "real")
    )
    assert fake == real


@pytest.mark.long
@pytest.mark.parametrize("name", ["bert-base-uncased", "gpt2"])
def test_a_forward_without_a_cache_peaks_where_it_is_counted(name):
    spec, settings = load(name).model, MemorySettings("forward", B, 64, attention="sdpa", backend="cpu")
    counted = highest(inference_pass(spec, settings).moments)
    peak = inference_peak(spec, settings.request(spec), setting=CPU)
    assert (counted.path, counted.bytes - counted.weights) == (peak.path, peak.bytes)


@pytest.mark.long
def test_a_prefill_peaks_with_its_cache():
    whole = inference_peak(GPT2, Request("prefill", 1, 512))
    cache = 2 * LAYERS * BF16 * 512 * D
    assert whole.end == cache
    assert (whole.moment, whole.path) == ("forward", "layers.11.ffn.activation")
    # beside it the stream before and after attention, attention's result and the norm's, which the frames of
    # the block hold, and what the activation reads and writes
    assert whole.bytes == cache + BF16 * 512 * (4 * D + 2 * 4 * D) + INT64 * 512
    decode = inference_peak(GPT2, Request("decode", 1, past=512))
    assert decode.end == 2 * LAYERS * BF16 * 513 * D
    assert decode.bytes > 2 * LAYERS * BF16 * (512 + 513) * D  # both caches live until the step has ended


@pytest.mark.long
def test_a_prefill_in_pieces_needs_less_where_the_model_is_wide():
    llama = load("llama-3.2-1b").model
    whole, pieces = (inference_peak(llama, Request("prefill", 1, 2048), chunk=n) for n in (None, 512))
    assert pieces.bytes < whole.bytes
    assert pieces.end == whole.end == 2 * 16 * BF16 * 2048 * 8 * 64
