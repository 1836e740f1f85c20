"""The line below the answer: what was asked for, without what goes without saying."""

import pytest

from table import every_row

LATENT = """
name: latent
vocab_size: 61
d_model: 32
max_seq_len: 64
norm: {kind: rmsnorm, eps: 1e-5}
groups:
  - n_layers: 2
    layer:
      kind: pre_norm
      attention: {kind: mla, n_heads: 2, kv_lora_rank: 6, qk_nope_head_dim: 4, qk_rope_head_dim: 2,
                  v_head_dim: 5, position: rope}
      ffn: {kind: mlp, d_ff: 24}
"""
DECODE = ("--phase", "decode", "--past", "5")
ONE_PASS = ("--pairs", 1, "--threads", 1, "--no-ceilings", "-s", 6)


@pytest.fixture
def latent(tmp_path):
    path = tmp_path / "latent.yaml"
    path.write_text(LATENT)
    return path


def heading(done):
    assert done.code == 0, done.err
    return done.out.splitlines()[1]


@pytest.mark.long
@every_row(
    ("args", "said"),
    [
        (("flops",), "flops, phase forward, seq len 1,024"),
        (("flops", "--mask", "exact", "-b", "1", "--past", "0"), "flops, phase forward, seq len 1,024"),
        (("flops", "-b", "2", "--past", "8"), "flops, phase forward, batch size 2, seq len 1,016, past 8"),
        (("flops", "--phase", "prefill"), "flops, phase prefill, seq len 1,024"),
        (
            ("flops", "--phase", "prefill", "--logits", "all"),
            "flops, phase prefill, seq len 1,024, logits all",
        ),
        (("flops", *DECODE, "--mask", "dense"), "flops, phase decode, past 5, mask dense"),
        (("flops", "--mla", "absorbed", "--source-len", "9"), "flops, phase forward, seq len 1,024"),
        (("kvcache",), "kvcache, context 1,024"),
        (
            ("kvcache", "--memory", "80GiB", "--source-len", "9"),
            "kvcache, context 1,024, memory 80.0 GiB, engine vllm",
        ),
        (("params",), ""),
        (("params", "--dtype", "fp8", "--depth", "1"), "params, dtype fp8, depth 1"),
        (("show",), "show, seq len 1,024"),
        (
            ("compare", "gemma-2b", "--mla", "absorbed", "--source-len", "9"),
            "compare, seq len 1,024",
        ),
    ],
)
def test_a_heading_says_what_was_asked_for(cli, args, said):
    verb, *rest = args
    assert heading(cli(verb, "gpt2", *rest)) == said


def test_the_length_of_a_source_that_is_read_is_named(cli):
    assert heading(cli("flops", "t5-base", "-s", "5")).endswith("phase forward, seq len 5, source len 5")
    assert heading(cli("kvcache", "t5-base", "-c", "7", "--source-len", "9")).endswith(
        "context 7, source len 9"
    )


@pytest.mark.sample(6, whole=True)
@pytest.mark.parametrize(
    ("args", "form"),
    [
        (("flops",), "MLA naive"),
        (("flops", "--phase", "prefill"), "MLA naive"),
        (("flops", "--phase", "train"), "MLA naive"),
        (("flops", *DECODE), "MLA absorbed"),
        (("flops", *DECODE, "--mla", "naive"), "MLA naive"),
        (("flops", *DECODE, "--set", "form=naive"), "MLA naive"),
        (("flops", "--mla", "absorbed"), "MLA absorbed"),
        (("compare", "gpt2"), "MLA naive, decoding absorbed"),
        (("compare", "gpt2", "--mla", "absorbed"), "MLA absorbed"),
    ],
)
def test_a_heading_names_the_form_that_was_counted(cli, latent, args, form):
    verb, *rest = args
    assert form in heading(cli(verb, latent, *rest))


@pytest.mark.long
@pytest.mark.torch
@pytest.mark.parametrize(
    ("args", "form"), [(DECODE, "absorbed"), ((*DECODE, "--mla", "naive"), "naive"), ((), "naive")]
)
def test_a_profile_runs_the_form_that_it_counts(cli, latent, args, form):
    done = cli("profile", latent, *ONE_PASS, "--top", 0, *args)
    assert f"MLA {form}" in heading(done)
    assert ("q_absorb" in done.out) == (form == "absorbed")
    assert "torch operations outside of any row" in done.out
    other = "naive" if form == "absorbed" else "absorbed"
    assert f"note: --mla {other} takes " in done.out


@pytest.mark.long
@pytest.mark.torch
def test_verify_asks_about_the_forms_that_are_counted(cli, latent):
    auto, naive = (cli("verify", latent, "-s", 6, *args) for args in ((), ("--mla", "naive")))
    assert heading(auto) == "verify, seq len 6, MLA naive, decoding absorbed"
    assert heading(naive) == "verify, seq len 6, MLA naive"
    decode = [[line for line in done.out.splitlines() if "decode FLOPs" in line] for done in (auto, naive)]
    assert decode[0] != decode[1]


@pytest.mark.long
@pytest.mark.torch
def test_a_form_that_no_layer_has_is_noted_once(cli, tiny):
    for args in (("flops", "gpt2"), ("compare", "gpt2", "gemma-2b"), ("verify", tiny, "-s", 4)):
        notes = [line for line in cli(*args, "--mla", "naive").out.splitlines() if "--mla" in line]
        assert notes == ["note: --mla has no effect: no layer is latent attention."]


def test_a_comparison_names_the_other_form_of_each_pass(cli, latent):
    notes = [line for line in cli("compare", latent, "gpt2").out.splitlines() if "--mla" in line]
    assert [note.split(" takes ")[0] for note in notes] == [
        "note: latent: a forward with --mla absorbed",
        "note: latent: a decoded token with --mla naive",
    ]


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ((), "as they are cached, without keys and values: MLA absorbed"),
        (("--set", "form=naive"), "MLA naive"),
    ],
)
def test_the_cache_says_in_which_form_decoding_reads_it(cli, latent, overrides, said):
    notes = [line for line in cli("kvcache", latent, *overrides).out.splitlines() if "decoding" in line]
    assert len(notes) == 1
    assert said in notes[0]
    assert "decoding" not in cli("kvcache", "gpt2").out
