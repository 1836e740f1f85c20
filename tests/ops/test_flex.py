"""Attention of trainers in one kernel: torch's FlexAttention is the witness of results and kept bytes."""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.attention.flex_attention as flex

import archcli
from archcli.graph.kept import Call, Execution, OfMixture
from archcli.load.source import load
from archcli.modules.spec.request import Request
from archcli.ops.attention.attend import Attend
from archcli.ops.attention.mask import Causal, SlidingWindow
from archcli.wings.serving.api.programs.trainer import trainer_named
from archcli.wings.serving.launches.memory.op_reader import OpReader
from archcli.wings.serving.launches.trace import trace_kernels
from archcli.wings.serving.memory.settings import MemorySettings

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch.compile itself
torch.set_num_threads(1)
B, T, H, K, D, E, WINDOW = 2, 384, 4, 2, 32, 16, 130
FLEX = Execution(flex=True)
SINKS, BIAS = ("sinks",), ("shared_bias",)
OPS = {
    "window": Attend("attend", SlidingWindow(WINDOW), 0.2),
    "softcap": Attend("attend", Causal(), 0.2, softcap=30.0),
    "alibi": Attend("attend", Causal(), 0.2, alibi=8.0),
    "sinks": Attend("attend", SlidingWindow(WINDOW), 0.2, extras=SINKS),
    "bias": Attend("attend", Causal(), 0.2, extras=BIAS),
}


@pytest.fixture(autouse=True)
def trains_on_a_cpu(monkeypatch):
    """torch refuses a backward of FlexAttention on a CPU, whose graph it can trace all the same."""
    monkeypatch.setattr(flex, "_validate_device", lambda *_: None)


def inputs(op, dtype=torch.bfloat16):
    shapes = {"q": (B, T, H, D), "k": (B, T, K, D), "v": (B, T, K, E)}
    shapes |= {"sinks": {"sinks": (H,)}, "shared_bias": {"bias": (1, H, T, T)}}.get("".join(op.extras), {})
    torch.manual_seed(0)
    return {name: torch.randn(shape, dtype=dtype).requires_grad_() for name, shape in shapes.items()}


def flex_torch(op, compiled):
    """torch with a flex_attention that takes our arguments."""

    def attend(q, k, v, flops, mask, *biases):
        slopes = op._slopes(torch, H, q) if op.alibi else None

        def score_mod(score, b, h, i, j):
            score = op.softcap * torch.tanh(score / op.softcap) if op.softcap else score
            score = score - slopes[h] * (i - j) if op.alibi else score
            return score + biases[0][0, h, i, j] if biases else score

        blocks = flex.create_block_mask(lambda b, h, i, j: op.mask.allows(i, j), None, None, T, T, "cpu")
        out, aux = compiled(
            *(x.transpose(1, 2) for x in (q, k, v)),
            score_mod,
            blocks,
            op.scale,
            enable_gqa=True,
            return_aux=flex.AuxRequest(lse=True),
        )
        return out.transpose(1, 2), aux.lse.transpose(1, 2)

    return SimpleNamespace(flex_attention=attend, sigmoid=torch.sigmoid)


def partitioned():
    """FlexAttention as torch.compile cuts it into a forward and a backward, without its code."""
    torch._dynamo.reset()
    return torch.compile(flex.flex_attention, backend="aot_eager_decomp_partition", fullgraph=True)


def run(op, q, k, v, *extras):
    return op.run_flex(flex_torch(op, partitioned()), {}, q, k, v, torch.arange(T), *extras)


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("name", OPS)
def test_it_computes_what_attention_in_steps_does(name):
    op = OPS[name]
    q, k, v, *extras = (x.detach() for x in inputs(op, torch.float32).values())
    assert torch.allclose(
        run(op, q, k, v, *extras), op.run(torch, {}, q, k, v, torch.arange(T), *extras), atol=1e-5
    )


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("name", OPS)
def test_it_keeps_the_bytes_that_torch_keeps(name):
    op, saved = OPS[name], {}

    def hold(x):
        saved[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
        return x

    xs = inputs(op)
    with torch.autograd.graph.saved_tensors_hooks(hold, lambda x: x):
        result = run(op, *xs.values())
    of_inputs = {x.untyped_storage().data_ptr() for x in xs.values()}
    slopes = 2 * H if op.alibi else 0  # captured by the function of scores
    kept = sum(size for key, size in saved.items() if key not in of_inputs) - slopes
    shapes = [tuple(x.shape) for x in xs.values()]
    shapes.insert(3, (T,))
    grads = (True, True, True, False, *[True] * len(op.extras))
    widths = (2, 2, 2, 8, *[2] * len(op.extras))
    told = OpReader()(op, Call(FLEX, grads, widths), shapes)
    own = [tensor for tensor in told.kept if hasattr(tensor, "width")]
    # the result is an output that is kept, but for sinks, whose product no backward of its own reads
    out = result.untyped_storage().nbytes() if op.extras != SINKS else 0
    assert kept == out + sum(x.elements * x.width for x in own)
    blocks = [x for x in own if isinstance(x, OfMixture)]
    # 3 x 3 blocks of 128 x 128 of two kinds, by queries and by keys, and the numbers of each row
    assert [x.elements * x.width for x in blocks] == [4 * (2 * 2 * 9 + 2 * 2 * 3)]


def test_the_kernel_computes_the_pairs_that_see_each_other():
    model = load("mistral-7b-v0.1", ["n_layers=1"]).model  # windows of 4,096, heads of 128
    runs = trace_kernels(model, Request("train", 1, 6000), FLEX)
    flops = {run.kernel.name: run.kernel.flops for run in runs if "flex" in run.kernel.name}
    pairs = 4096 * 4097 // 2 + (6000 - 4096) * 4096
    assert flops == {
        "flex_attention": 2 * 2 * 32 * 128 * pairs,
        "flex_attention_backward": 5 * 2 * 32 * 128 * pairs,
    }


@pytest.mark.parametrize("name", ["gpt-oss-20b", "gemma-2-9b", "mpt-7b"])
def test_no_scores_of_all_pairs_are_kept(name):
    """The second difference is that of masks of blocks, of 16 bytes for each of 32^2, 48^2 and 64^2."""
    kept = [
        archcli.memory(name, phase="train", seq_len=tokens).totals["kept_bytes"]
        for tokens in (4096, 6144, 8192)
    ]
    masks = 1 if name == "mpt-7b" else 2
    assert kept[2] - 2 * kept[1] + kept[0] == masks * 16 * (64**2 - 2 * 48**2 + 32**2)


def test_only_trainers_on_a_gpu_run_it():
    def runs(**changes):
        return MemorySettings(**changes).execution().run_as

    assert runs() == "run_flex"
    assert runs(attention="sdpa") == runs(backend="cpu") == runs(phase="forward") == "run_fused"
    assert runs(attention="eager") == "run"
    assert runs(trainer=trainer_named("torchtitan")) == "run_flex"
    assert runs(trainer=trainer_named("transformers")) == "run_fused"


def test_what_it_cannot_express_runs_as_before():
    shapes = [(B, T, H, D), (B, T, K, D), (B, T, K, E), (T,)]
    plain, long = Attend("attend", Causal(), 0.2), Attend("attend", SlidingWindow(T), 0.2)
    dropped, relu = (
        Attend("attend", SlidingWindow(8), 0.2, **how) for how in ({"dropout": 0.1}, {"relu": True})
    )
    assert [op.needs_flex(*shapes) for op in (plain, long, dropped, relu)] == [False] * 4
    assert all(op.needs_flex(*shapes) for op in OPS.values())


def test_a_note_names_the_layers():
    """Gemma 3 has windows of 1,024 in five of six layers."""
    asked = {"phase": "train", "seq_len": 4096}
    for report in (
        archcli.memory("gemma-3-12b", **asked),
        archcli.predict("gemma-3-12b", "h100-sxm", **asked),
    ):
        assert any(note.startswith("FlexAttention runs layers.*.attention.attend,") for note in report.notes)
    for short in ({"seq_len": 1024}, {"attention": "sdpa"}):
        notes = archcli.memory("gemma-3-12b", **asked | short).notes
        assert not any("FlexAttention" in note for note in notes)


def test_its_backward_holds_a_number_for_each_query_in_fp32():
    """With sinks beside the gradient of the kernel's result, and that of the log-sum-exp."""
    shapes = [(B, T, H, D), (B, T, K, D), (B, T, K, E), (T,)]
    call = Call(FLEX, (True,) * 5, (2,) * 5)
    numbers = 4 * B * T * H
    assert OPS["window"].space(call, *shapes).backward == numbers
    assert OPS["sinks"].space(call, *shapes, (H,)).backward == 2 * numbers + 2 * B * T * H * E
    assert OPS["bias"].space(call, *shapes, (1, H, T, T)).backward == numbers + 4 * H * T * T
