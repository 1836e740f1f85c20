"""Hints of memory, predict and kvcache: whoever does what one says gets an answer, not the next error."""

import json

import pytest

H100 = "predict gpt2 --device h100-sxm"
MIXTRAL = "memory mixtral-8x7b --memory 48GB"
SMALLER = "memory mixtral-8x7b --memory 12GB"
NOT_ONE = "No one option would make it fit: "
PIPELINE = "memory gpt2 --pp 2"
INTERLEAVED = "memory gpt2 --schedule interleaved"

# what is asked: a hint of its errors, or words of a note, and the commands of whoever follows it
HINTS = {
    "memory gpt2 --phase serve --loss fused": ("leave --loss out", ["memory gpt2 --phase serve"]),
    "memory gpt2 --phase serve --micro-batches 2": (
        "leave --micro-batches out",
        ["memory gpt2 --phase serve"],
    ),
    "memory gpt2 --phase serve --cp 2": (
        "leave --cp out: tp, pp, ep and dp",
        ["memory gpt2 --phase serve --tp 2", "memory gpt2 --phase serve --pp 2"],
    ),
    "memory gpt2 --dp-attention 2 --tp 2": (
        "leave --dp-attention out: --dp has whole replicas",
        ["memory gpt2 --tp 2", "memory gpt2 --dp 2 --tp 2"],
    ),
    "memory roberta-base --phase serve": (
        "--phase forward runs it once, --phase train trains it",
        ["memory roberta-base --phase forward", "memory roberta-base --phase train"],
    ),
    "memory gpt2 --chunk 64": (
        "ask for --phase prefill or serve, or leave --chunk out",
        ["memory gpt2 --chunk 64 --phase prefill", "memory gpt2 --chunk 64 --phase serve", "memory gpt2"],
    ),
    "memory roberta-base --chunk 64": ("leave --chunk out", ["memory roberta-base"]),
    "memory gpt2 --dp 4 --device 2xl4": ("--device 4xl4, or", ["memory gpt2 --dp 4 --device 4xl4"]),
    "memory gpt2 --loss chunked:99 -s 8": ("chunked:8 at most", ["memory gpt2 --loss chunked:8 -s 8"]),
    "memory gpt2 --set head=null --loss fused": ("leave --loss out", ["memory gpt2 --set head=null"]),
    "memory deepseek-v3 --loss fused": (
        "--loss plain, or --set mtp=null",
        ["memory deepseek-v3 --loss plain", "memory deepseek-v3 --loss fused --set mtp=null"],
    ),
    "memory mamba2-2.7b --recompute attention": (
        "--recompute layer",
        ["memory mamba2-2.7b --recompute layer"],
    ),
    "memory gpt2 --recompute layers.*.fn": (
        "none, attention, layer, or a pattern such as layers.*.ffn, ",
        [f"memory gpt2 --recompute {it}" for it in ("none", "attention", "layer", "layers.*.ffn")],
    ),
    "memory gpt2 --zero 1": (
        "state dp or cp, or leave zero out",
        ["memory gpt2 --zero 1 --dp 2", "memory gpt2 --zero 1 --cp 2", "memory gpt2"],
    ),
    "memory gpt2 --sp": ("state tp, or leave sp out", ["memory gpt2 --sp --tp 2", "memory gpt2"]),
    "memory gpt2 --sp --tp 2 --phase decode": ("leave sp out", ["memory gpt2 --tp 2 --phase decode"]),
    "memory gpt2 --sp --tp 2 -s 7": ("8 tokens would do", ["memory gpt2 --sp --tp 2 -s 8"]),
    "memory gpt2 --tp 5": ("2, 3, 4, 6 or 12 would do", [f"memory gpt2 --tp {n}" for n in (2, 3, 4, 6, 12)]),
    "memory gpt2 --cp 2 -s 1": ("leave cp out", ["memory gpt2 -s 1"]),
    "memory gpt2 --cp 3 -s 8": ("2, 4 or 8 would do", [f"memory gpt2 -s 8 --cp {n}" for n in (2, 4, 8)]),
    "memory mamba2-2.7b --cp 2": ("leave cp out", ["memory mamba2-2.7b"]),
    "memory mamba2-2.7b --tp 2": ("no tp above 1 would do", ["memory mamba2-2.7b"]),
    "memory gpt2 --ep 2 --dp 2": ("leave ep out", ["memory gpt2 --dp 2"]),
    "memory mixtral-8x7b --ep 2": ("dp 2 would do", ["memory mixtral-8x7b --ep 2 --dp 2"]),
    "memory mixtral-8x7b --ep 2 --dp 3": ("dp 6 would do", ["memory mixtral-8x7b --ep 2 --dp 6"]),
    "memory mixtral-8x7b --tp 4 --dp 2 --ep 6": (
        "2, 4 or 8 would do",
        [f"memory mixtral-8x7b --tp 4 --dp 2 --ep {n}" for n in (2, 4, 8)],
    ),
    "memory mixtral-8x7b --tp 3 --dp 2 --ep 2": (
        "2, 4, 8, 16 or 32 would do",
        [f"memory mixtral-8x7b --tp {n} --dp 2 --ep 2" for n in (2, 4, 8, 16, 32)],
    ),
    "memory mixtral-8x7b --tp 4 --phase decode --dp-attention 3": (
        "2 or 4 would do",
        [f"memory mixtral-8x7b --tp 4 --phase decode --dp-attention {n}" for n in (2, 4)],
    ),
    f"{PIPELINE} --virtual-stages 2": (
        "leave virtual_stages out, or state schedule with micro_batches, a multiple of pp",
        [PIPELINE, f"{PIPELINE} --virtual-stages 2 --schedule interleaved --micro-batches 2"],
    ),
    "memory gpt2 --micro-batches 2": (
        "state pp, or leave micro_batches out",
        ["memory gpt2 --micro-batches 2 --pp 2", "memory gpt2"],
    ),
    INTERLEAVED: ("leave schedule out", ["memory gpt2"]),
    f"{INTERLEAVED} --pp 2 --micro-batches 2": (
        "state virtual_stages, 2 or more",
        [f"{INTERLEAVED} --pp 2 --micro-batches 2 --virtual-stages 2"],
    ),
    f"{INTERLEAVED} --pp 2 --virtual-stages 7 --micro-batches 2": (
        "virtual_stages 6 at most",
        [f"{INTERLEAVED} --pp 2 --virtual-stages 6 --micro-batches 2"],
    ),
    "memory t5-small --pp 2": ("leave pp out", ["memory t5-small"]),
    "memory gpt2 --fit batch": (
        "--device h100-sxm, or --memory 80GiB",
        ["memory gpt2 --fit batch --device h100-sxm", "memory gpt2 --fit batch --memory 80GiB"],
    ),
    "memory gpt2 --memory 8GB --fit recompute --phase serve": (
        "--phase train",
        ["memory gpt2 --memory 8GB --fit recompute --phase train"],
    ),
    "memory gpt2 --device l4 --memory 8GB": (
        "leave --device or --memory out",
        ["memory gpt2 --device l4", "memory gpt2 --memory 8GB"],
    ),
    "memory gpt2 --memory 80": ("write 80GB (", ["memory gpt2 --memory 80GB", "memory gpt2 --memory 80GiB"]),
    "memory gpt2 --memory 0GB": ("such as 80GiB", ["memory gpt2 --memory 80GiB"]),
    f"{MIXTRAL} --phase serve": (
        "With --dtype q6_k it would fit",
        [f"{MIXTRAL} --phase serve --dtype q6_k"],
    ),
    f"{SMALLER} --phase serve": (f"{NOT_ONE}--fit devices may.", [f"{SMALLER} --phase serve --fit devices"]),
    f"{SMALLER} --phase forward": (
        f"{NOT_ONE}--fit devices may.",
        [f"{SMALLER} --phase forward --fit devices"],
    ),
    MIXTRAL: (
        f"{NOT_ONE}--fit recompute or --fit devices may.",
        [f"{MIXTRAL} --fit recompute", f"{MIXTRAL} --fit devices"],
    ),
    f"{MIXTRAL} --fit recompute": (f"{NOT_ONE}--fit devices may.", [f"{MIXTRAL} --fit devices"]),
    "memory gpt2-xl --phase serve --device 8xl4 --dp 2 -b 2": ("This plan uses 2 of 8 devices.", []),
    "memory gpt2 --phase serve --device 8xl4 --tp 2": (
        "This plan uses 2 of 8 devices; --tp 6 would use more of them.",
        ["memory gpt2 --phase serve --device 8xl4 --tp 6"],
    ),
    "memory gpt2 --device 8xl4 --dp 3": (
        "This plan uses 3 of 8 devices; --dp 6 --zero 3 would use more of them.",
        ["memory gpt2 --device 8xl4 --dp 6 --zero 3"],
    ),
    f"{H100} --phase train --dtype fp8": ("--dtype bf16", [f"{H100} --phase train --dtype bf16"]),
    f"{H100} --phase train --engine vllm": ("leave --engine out", [f"{H100} --phase train"]),
    f"{H100} --new 5": ("ask for --phase serve", [f"{H100} --new 5 --phase serve"]),
    "predict roberta-base --device h100-sxm --phase forward --new 5": (
        "leave --new out",
        ["predict roberta-base --device h100-sxm --phase forward"],
    ),
    f"{H100} --tokens 1000000000": ("ask for --phase train", [f"{H100} --tokens 1000000000 --phase train"]),
    f"{H100} --phase serve --past 5": (
        "state the tokens of a sequence: --seq-len",
        [f"{H100} --phase serve -s 5"],
    ),
    f"{H100} --compile --phase serve": (
        "--phase prefill or decode with --engine none",
        [f"{H100} --compile --phase prefill --engine none", f"{H100} --compile --phase decode --engine none"],
    ),
    f"{H100} --compile --recompute layer --phase train": (
        "leave --compile or --recompute out",
        [f"{H100} --recompute layer --phase train", f"{H100} --compile --phase train"],
    ),
    f"{H100} --compile --fit time": (
        "leave --compile or --fit out",
        [f"{H100} --fit time", f"{H100} --compile"],
    ),
    f"{H100} --curve devices": (
        "8xh100-sxm has four points",
        ["predict gpt2 --device 8xh100-sxm --curve devices"],
    ),
    "predict gpt2 --device 2xh100-sxm --fit time --dp 2 --tp 2": (
        "leave --dp and --tp out, or leave --fit out; the device 8xNAME says how many there are",
        ["predict gpt2 --device 2xh100-sxm --fit time", "predict gpt2 --device 4xh100-sxm --dp 2 --tp 2"],
    ),
    "predict gpt2 --device 13xh100-sxm --fit time": (
        "-b 13, a sequence for each, or fewer devices",
        ["predict gpt2 --device 13xh100-sxm --fit time -b 13", "predict gpt2 --device 4xh100-sxm --fit time"],
    ),
    "predict gpt2 --device 7xh100-sxm --fit time --phase train --cp 7": (
        "leave --cp out",
        ["predict gpt2 --device 7xh100-sxm --fit time --phase train"],
    ),
    "kvcache gpt2 --device 8xl4 --tp 4": (
        "--device 4xl4, or leave --tp out",
        ["kvcache gpt2 --device 4xl4 --tp 4", "kvcache gpt2 --device 8xl4"],
    ),
    "kvcache mamba2-2.7b": ("--state-dtype fp32.", ["kvcache mamba2-2.7b --state-dtype fp32"]),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("asked", HINTS)
def test_a_hint_that_is_followed_leads_to_an_answer(asked, cli):
    hint, followed = HINTS[asked]
    done = cli(*asked.split())
    said = [line.split("= help: ")[-1] for line in done.err.splitlines() if "= help: " in line]
    said += [line.removeprefix("note: ") for line in done.out.splitlines() if line.startswith("note: ")]
    assert [line for line in said if line.startswith(hint) or hint in line], said
    assert done.code == (2 if "= help: " in done.err else 0)
    for command in followed:
        after = cli(*command.split())
        assert (command, after.code, after.err) == (command, 0, "")


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "asked",
    [
        "gpt2 --memory 2GB --phase serve -b 999",
        "gpt2 --memory 4GB -b 16 --optimizer adamw",
        "gpt2 --memory 4GB -b 4 --attention eager --optimizer adamw",
        "llama-3.1-70b --device h100-sxm --phase decode",
        "llama-3.2-3b --device 2xl4 --dp 2 --optimizer adamw",
    ],
)
def test_the_change_with_which_it_would_fit_makes_it_fit(asked, cli):
    args = ["memory", *asked.split(), "--json"]
    totals = json.loads(cli(*args).out)["totals"]
    assert totals["fits"] is False
    change = totals["change"]["change"].split()
    assert json.loads(cli(*args, *change).out)["totals"]["fits"] is True
