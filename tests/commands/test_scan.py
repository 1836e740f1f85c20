"""--scan on every command that counts or runs: the form is counted, named, and told beside its other."""

import json

import pytest

import archcli
from combinations.hybrids import hybrid

DECODE = ("--phase", "decode", "--past", "9")
ONE_PASS = ("-s", "4", "--pairs", "1", "--threads", "1", "--no-ceilings")
H, P, N, G, Q = 4, 6, 5, 2, 4
LAYERS, TOKENS = 2, 10
PER_TOKEN = 4 * H * N * P
PAIRS = 10 + 10 + 3
"""Of ten tokens in chunks of four: 1 + 2 + 3 + 4 twice, and 1 + 2."""


@pytest.fixture
def mamba(tmp_path):
    path = tmp_path / "mamba2.yaml"
    path.write_text(hybrid("mamba2"))
    return path


@pytest.fixture
def recurrence(cli, mamba):
    """FLOPs of the scans, by the options of `archcli flops`."""

    def ask(*args):
        return json.loads(cli("flops", mamba, *args, "--json").out)["totals"]["by_component"]["recurrence"]

    return ask


def test_a_pass_is_chunked_and_a_decoded_token_recurrent(recurrence):
    chunked = LAYERS * (TOKENS * PER_TOKEN + 2 * PAIRS * (G * N + H * P))
    assert recurrence("-s", TOKENS) == recurrence("-s", TOKENS, "--scan", "chunked") == chunked
    assert recurrence("-s", TOKENS, "--scan", "recurrent") == LAYERS * TOKENS * PER_TOKEN
    assert recurrence(*DECODE) == recurrence(*DECODE, "--scan", "recurrent") == LAYERS * PER_TOKEN
    assert recurrence(*DECODE, "--scan", "chunked") == LAYERS * (PER_TOKEN + 2 * (G * N + H * P))


def test_dense_counts_whole_chunks(recurrence):
    blocks = 4 * 4 + 4 * 4 + 2 * 2
    dense = LAYERS * (TOKENS * PER_TOKEN + 2 * blocks * (G * N + H * P))
    assert recurrence("-s", TOKENS, "--mask", "dense") == dense


@pytest.mark.sample(4, whole=True)
@pytest.mark.parametrize(
    ("args", "form"),
    [
        (("flops",), "scan chunked"),
        (("flops", "--phase", "train"), "scan chunked"),
        (("flops", *DECODE), "scan recurrent"),
        (("flops", "--set", "form=recurrent"), "scan recurrent"),
        (("compare", "gpt2"), "scan chunked, decoding recurrent"),
        (("compare", "gpt2", "--scan", "recurrent"), "scan recurrent"),
    ],
)
def test_a_heading_names_the_form_that_was_counted(cli, mamba, args, form):
    verb, *rest = args
    assert f", {form}" in cli(verb, mamba, *rest).out.splitlines()[1]


def test_the_other_form_is_told_beside_it(cli, mamba):
    note = next(line for line in cli("flops", mamba, "-s", 64).out.splitlines() if "--scan" in line)
    assert note.startswith("note: --scan recurrent takes ")
    other = cli("compare", mamba, "gpt2", "-s", 64).out
    assert "note: mamba2: a forward with --scan recurrent takes " in other


def test_it_is_said_to_have_no_effect_where_nothing_scans(cli):
    notes = [
        line for line in cli("flops", "gpt2", "--scan", "recurrent").out.splitlines() if "--scan" in line
    ]
    assert notes == ["note: --scan has no effect: no layer is recurrent."]


def test_kvcache_says_how_decoding_reads_the_state(cli, mamba):
    assert "reads and writes the whole recurrent state" in cli("kvcache", mamba).out
    assert "recurrent state" not in cli("kvcache", "gpt2").out


def test_python_takes_it_by_the_same_name(mamba):
    chunked, stepped = (
        archcli.count_flops(str(mamba), seq_len=64, scan=scan) for scan in ("auto", "recurrent")
    )
    assert (chunked.inputs["scan"], stepped.inputs["scan"]) == ("chunked", "recurrent")
    assert chunked.totals["matmul_flops"] != stepped.totals["matmul_flops"]
    both = archcli.compare(str(mamba), "gpt2", scan="recurrent")
    assert both.inputs["scan"] == "recurrent"
    with pytest.raises(archcli.ArchError, match="count_flops: scan must be"):
        archcli.count_flops(str(mamba), scan="blocked")


@pytest.mark.sample(1, whole=True)
@pytest.mark.torch
@pytest.mark.parametrize(
    ("args", "form"), [((), "chunked"), (("--scan", "recurrent"), "recurrent"), (DECODE, "recurrent")]
)
def test_a_profile_runs_the_form_that_it_counts(cli, mamba, args, form):
    done = cli("profile", mamba, *ONE_PASS, "--top", 0, *args)
    assert done.code == 0, done.err
    assert f"scan {form}" in done.out.splitlines()[1]


@pytest.mark.long
@pytest.mark.torch
@pytest.mark.parametrize("form", ["auto", "chunked", "recurrent"])
def test_verify_asks_about_the_form_that_is_counted(cli, mamba, form):
    done = cli("verify", mamba, "-s", 6, "--scan", form)
    assert done.code == 0, done.out
    named = "chunked, decoding recurrent" if form == "auto" else form
    assert done.out.splitlines()[1].endswith(f"scan {named}")


def test_states_have_a_dtype_of_their_own_on_the_command_line_and_in_python(cli, mamba):
    wide = json.loads(cli("kvcache", mamba, "--state-dtype", "FP32", "--json").out)
    state, window = H * P * N, 3 * (H * P + 2 * G * N)
    assert wide["inputs"]["state_dtype"] == "fp32"
    assert wide["totals"]["bytes"] == LAYERS * (4 * state + 2 * window)
    assert archcli.count_kv_cache(str(mamba), state_dtype="fp32").totals["bytes"] == wide["totals"]["bytes"]
    refused = cli("kvcache", mamba, "--state-dtype", "q8_0")
    assert refused.code == 2
    assert "unknown dtype 'q8_0'" in refused.err
    with pytest.raises(archcli.ArchError, match="count_kv_cache: unknown dtype 'q8_0'"):
        archcli.count_kv_cache(str(mamba), state_dtype="q8_0")
