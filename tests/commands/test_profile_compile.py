"""`archcli profile --compile` and `--vs compile=true`.

Compiled once here, and what is refused before anything is.
"""

import json

import pytest

from archcli.wings.serving.recorded.schema import first_violation

pytestmark = pytest.mark.torch


@pytest.fixture
def llama(llama):
    """One layer of it: compiling takes a while."""
    llama.write_text(llama.read_text().replace("n_layers: 2", "n_layers: 1"))
    return llama


@pytest.mark.long
def test_eager_against_compiled(cli, llama):
    options = "-s 8 --pairs 2 --threads 1 --compile --vs compile=false --json"
    done = cli("profile", llama, *options.split())
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    assert first_violation(found) is None
    a, b = found["totals"]["variants"]
    assert found["inputs"]["compile"] is True
    assert b["settings"] == [{"setting": "compile", "from": "true", "to": "false"}]
    assert a["operations_differing"] == b["operations_differing"] == []
    assert (a["compiled"]["graphs"], a["compiled"]["kernels"], b["compiled"]) == (
        1,
        a["operations_executed"],
        None,
    )
    lines = {line["path"]: line for line in b["operators"]}
    # both stand on the line of what was fused, and cost the same
    fused = lines["layers.*.ffn.{activation, gated}"]
    assert fused["operators"] == ["layers.*.ffn.activation", "layers.*.ffn.gated"]
    assert min(fused["base_seconds"], fused["seconds"], fused["ratio"]) > 0
    assert all(
        line["base_flops"] == line["flops"] and line["base_bytes"] == line["bytes"] for line in lines.values()
    )
    assert sum(line["flops"] for line in lines.values()) == a["matmul_flops"] + a["other_flops"]
    for side, one in (("base_seconds", a), ("seconds", b)):
        assert sum(row[side] for row in found["rows"]) == pytest.approx(one["wall_s"])
    classes = {row["class"]: row for row in found["rows"]}
    assert {"contraction", "fused_kernels", "fused_attention"} <= classes.keys()
    assert (
        "B runs operation by operation: its times stand on the lines of A's kernels, and in their classes."
        in found["notes"]
    )


REFUSED = {
    "a GPU": (["--compile", "--device", "cuda"], "cuda"),
    "an unknown way": (["--vs", "compile=yes"], "compile 'yes' is none of true, false"),
    "no difference": (["--compile", "--vs", "compile=true"], "this variant is the model as it is"),
    "kinds of layer": (
        ["--compile", "--per-kind"],
        "--compile is of the whole model, as kernels reach across layers",
    ),
}


@pytest.mark.parametrize(("args", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_compiled_is_refused(cli, llama, args, words):
    done = cli("profile", llama, *args)
    assert (done.code, done.out) == (2, "")
    assert words in done.err


@pytest.mark.parametrize("how", [["--compile"], ["--vs", "compile=true"]], ids=["--compile", "--vs"])
def test_a_missing_compiler_is_told_before_anything_is_built(cli, llama, how):
    from torch._inductor import config

    with config.patch({"cpp.cxx": (None, "no-such-compiler")}):
        done = cli("profile", llama, *how)
    assert (done.code, done.out) == (2, "")
    assert "--compile needs a C++ compiler, and there is none" in done.err
    assert "g++" in done.err


def test_gradients_of_experts_for_each_token_are_reckoned_with(cli, llama):
    # 2 * 4 Mi gradients of a matrix of 32 x 3000 in fp32
    experts = [
        "--set",
        "groups.0.layer.ffn={kind: moe, n_experts: 4, top_k: 2, expert: {kind: glu, d_ff: 3000}}",
    ]
    done = cli("profile", llama, *experts, "-s", 64, "-b", 65536, "--phase", "train", "--compile")
    assert (done.code, done.out) == (2, "")
    assert "3,000.0 GiB gradients" in done.err
