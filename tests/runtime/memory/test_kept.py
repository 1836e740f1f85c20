"""What autograd keeps, against arithmetic in the open: one operation, and a block of GPT-2."""

import pytest
import torch

from archcli.load.source import load
from archcli.ops import Activate, Attend, Linear, Multiply, Normalize
from archcli.ops.attention.mask import Causal, SlidingWindow
from archcli.wings.running.runtime.memory.cuda_on_meta import cuda_on_meta
from archcli.wings.running.runtime.memory.kept import KeptRecorder, kept_by_op, kept_of_model, kept_of_pass
from archcli.wings.running.runtime.memory.models import WitnessSetting
from zoo import ZOO

torch.set_num_threads(1)
BF16, FP32 = 2, 4
EAGER = WitnessSetting(attention="eager")
PLAIN_META = WitnessSetting(backend="meta")
CPU = WitnessSetting(backend="cpu")
B, T, D, H, V, FF = 2, 64, 768, 12, 50257, 3072


def told(saved):
    return sorted(str(one) for one in saved)


def attend(q, k, v, setting=None, mask=None):
    positions = torch.arange(q[1], device=(setting or WitnessSetting()).device)
    op = Attend("attend", mask or Causal(), scale=0.125)
    return kept_by_op(op, q, k, v, positions, setting=setting or WitnessSetting())


def test_a_linear_and_a_gelu_keep_x_and_what_comes_before_the_gelu():
    layer = torch.nn.Linear(8, 32, bias=False, device="meta", dtype=torch.bfloat16)
    x = torch.empty(3, 5, 8, device="meta", dtype=torch.bfloat16)
    model = torch.nn.Sequential(layer, torch.nn.GELU())
    kept, _ = kept_of_pass(model, {"input": x})
    assert kept.bytes == BF16 * 3 * 5 * 32  # x is an input of the pass, the weight is there anyway
    with KeptRecorder(list(model.parameters())) as recorder:
        model(x)
    assert recorder.kept().bytes == BF16 * 3 * 5 * (8 + 32)


@pytest.mark.parametrize("setting", [WitnessSetting(), EAGER, CPU, PLAIN_META, WitnessSetting(dtype="fp32")])
def test_a_linear_keeps_x_if_its_weight_trains(setting):
    assert told(kept_by_op(Linear("up", 32), (2, 5, 8), setting=setting)) == ["In(0)"]
    assert told(kept_by_op(Linear("up", 32), (2, 5, 8), setting=setting, trained=False)) == []


def test_what_needs_no_gradient_is_not_kept():
    x, y = (2, 5, 8), (2, 5, 8)
    assert told(kept_by_op(Multiply("gate"), x, y)) == ["In(0)", "In(1)"]
    assert told(kept_by_op(Multiply("gate"), x, y, needs=(True, False))) == ["In(1)"]
    assert told(kept_by_op(Multiply("gate"), x, y, needs=(False, False))) == []


def test_outputs_are_told_from_inputs():
    assert told(kept_by_op(Activate("f", "silu"), (2, 5, 8))) == ["In(0)"]
    assert told(kept_by_op(Activate("f", "tanh"), (2, 5, 8))) == ["Out(0)"]


def test_a_view_stands_for_its_whole_storage():
    whole = torch.empty(4, 5, 8, device="meta", dtype=torch.bfloat16)
    (saved,) = kept_by_op(Activate("f", "silu"), whole[1:2])
    assert (str(saved), saved.bytes) == ("In(0)", BF16 * 4 * 5 * 8)


def test_cuda_keeps_of_rmsnorm_x_and_four_bytes_a_row():
    norm = Normalize("norm", 1e-5)
    assert told(kept_by_op(norm, (B, T, D))) == ["In(0)", f"New({FP32 * B * T})"]
    copies = [f"New({FP32 * B * T * D})"] * 2
    assert told(kept_by_op(norm, (B, T, D), setting=PLAIN_META)) == sorted([*copies, f"New({FP32 * B * T})"])


def test_cuda_keeps_of_flash_attention_q_k_v_out_and_four_bytes_a_query():
    q = k = v = (B, T, H, 64)
    told_of = told(attend(q, k, v))
    assert told_of == sorted(["In(0)", "In(1)", "In(2)", "Out(0)", f"New({FP32 * B * H * T})", "New(16)"])
    grouped = (B, T, H // 4, 64)
    assert told(attend(q, grouped, grouped)) == told_of


def test_narrower_values_take_the_memory_efficient_kernel():
    rows = FP32 * B * H * 96  # 80 queries in blocks of 32
    saved = told(attend((B, 80, H, 64), (B, 80, H, 64), (B, 80, H, 48)))
    assert saved == sorted(["In(0)", "In(1)", "In(2)", "Out(0)", f"New({rows})"])


def test_a_mask_is_kept_as_what_is_added_to_scores():
    window = SlidingWindow(16)
    q = (B, 60, H, 64)
    rows, bias = f"New({FP32 * B * H * 64})", f"New({BF16 * 60 * 64})"  # rows padded to 8: 60 to 64
    assert told(attend(q, q, q, mask=window)) == sorted(["In(0)", "In(1)", "In(2)", "Out(0)", rows, bias])


def test_a_mask_with_grouped_queries_repeats_keys_for_the_memory_efficient_kernel():
    """torch 2.13 would fall to mathematics otherwise, with scores in fp32."""
    q, k = (B, 64, H, 64), (B, 64, H // 4, 64)
    repeated, sums, mask = BF16 * B * 64 * H * 64, FP32 * B * H * 64, BF16 * 64 * 64
    new = [f"New({size})" for size in (repeated, repeated, mask, sums)]
    assert told(attend(q, k, k, mask=SlidingWindow(16))) == sorted(["In(0)", *new, "Out(0)"])


def test_registrations_end_with_the_block():
    norm, x = torch.nn.RMSNorm(8, device="meta"), torch.empty(2, 8, device="meta")

    def bytes_kept():
        with KeptRecorder([*norm.parameters(), x]) as recorder:
            norm(x)
        return recorder.kept().bytes

    before = bytes_kept()
    with cuda_on_meta():
        assert bytes_kept() == FP32 * 2
    assert bytes_kept() == before > FP32 * 2


@pytest.mark.long
def test_every_storage_of_a_block_of_gpt2():
    kept = kept_of_model(load("gpt2").model, B, T)
    norm = ["In(0)", f"New({FP32 * B * T})", f"New({FP32 * B * T})"]
    ops = {
        "attention_norm": norm,
        "attention.q_proj": ["In(0)"],
        "attention.k_proj": ["In(0)"],
        "attention.v_proj": ["In(0)"],
        "attention.attend": ["In(0)", "In(1)", "In(2)", f"New({FP32 * B * H * T})", "New(16)", "Out(0)"],
        "attention.o_proj": ["In(0)"],
        "ffn_norm": norm,
        "ffn.up_proj": ["In(0)"],
        "ffn.activation": ["In(0)"],
        "ffn.down_proj": ["In(0)"],
    }
    block = {path: told(saved) for path, saved in kept.by_op.items() if path.startswith("layers.3.")}
    assert block == {f"layers.3.{path}": sorted(saved) for path, saved in ops.items()}
    x, wide = BF16 * B * T * D, BF16 * B * T * FF
    # both norms' x and y; q, k, v and the mix; what comes before the gelu and after it
    layer = 8 * x + 2 * wide + 4 * FP32 * B * T + FP32 * B * H * T + 16
    rest = 2 * x + 2 * FP32 * B * T + 8 * T  # final norm's x and y, its statistics, positions
    assert kept.bytes == 12 * layer + rest
    assert kept.bytes_by_op()["layers.3.attention_norm"] == x + 2 * FP32 * B * T


@pytest.mark.long
def test_a_storage_counts_once_whoever_keeps_it():
    kept = kept_of_model(load("gpt2").model, B, T)
    (shared,) = [one for one in kept.storages if len(one.keepers) == 3 and "layers.0." in one.maker]
    assert shared.maker == "layers.0.attention_norm"
    assert shared.keepers == tuple(f"layers.0.attention.{name}_proj" for name in "qkv")
    assert shared.bytes == BF16 * B * T * D


@pytest.mark.long
def test_the_plain_loss_outside_keeps_fp32_logits_twice_over():
    without, with_loss = (kept_of_model(load("gpt2").model, B, T, loss=loss) for loss in (False, True))
    # log-probabilities; the sum of weights has no axes
    assert with_loss.bytes - without.bytes == FP32 * B * T * V
    assert with_loss.bytes_by_op()[""] == FP32 * B * T * V


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ZOO)
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_fake_tensors_are_kept_as_real_ones(name, attention):
    fake, real = (
        kept_of_model(ZOO[name], 2, 6, WitnessSetting("fp32", attention, backend))
        for backend in ("cpu", "real")
    )
    assert fake == real
