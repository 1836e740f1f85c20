"""`archcli predict --measured`: a measured time beside the prediction, and what would explain the gap."""

import json

import pytest

import archcli
from archcli.errors import ArchError

STEP = ("predict", "gpt2", "--device", "8xa100-sxm-40gb", "--phase", "train", "-b", "12", "-s", "1024")
TOKEN = ("predict", "llama-3.1-8b", "--device", "h100-sxm")
DENSE_BF16 = 312e12


@pytest.fixture
def measured(cli):
    """The totals of a question with a measured time or rate."""

    def ask(command, text):
        done = cli(*command, "--measured", text, "--json")
        assert (done.code, done.err) == (0, "")
        return json.loads(done.out)["totals"]

    return ask


def test_shares_are_floor_and_expected_over_the_measured_time(measured):
    totals = measured(STEP, "1.2s")
    times, found = totals["time_s"], totals["measured"]
    assert set(found) == {"time_s", "mfu", "of_floor", "of_expected"}
    assert found["time_s"] == 1.2
    assert found["of_floor"] == pytest.approx(times["floor"] / 1.2)
    assert found["of_expected"] == pytest.approx(times["expected"] / 1.2)
    assert found["of_floor"] < found["of_expected"] < 1


def test_mfu_is_the_flops_of_the_architecture_over_the_measured_time(measured, cli):
    flops = json.loads(cli("flops", "gpt2", "--phase", "train", "-b", "12", "-s", "1024", "--json").out)
    of_all = 8 * flops["totals"]["matmul_flops"]
    assert measured(STEP, "850ms")["measured"]["mfu"] == pytest.approx(of_all / 0.85 / (8 * DENSE_BF16))


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("phase", ["forward", "prefill", "decode", "train", "serve"])
def test_a_rate_is_that_of_all_sequences(measured, phase):
    command = ("predict", "gpt2", "--device", "h100-sxm", "--phase", phase, "-b", "4", "-s", "64")
    totals = measured(command, "1000 tokens/s")
    tokens = {"decode": 4, "serve": 4 * 128}.get(phase, 4 * 64)
    assert totals["measured"]["time_s"] == pytest.approx(tokens / 1000)
    of_rate = 1000 / totals["tokens_per_s"]["expected"]
    assert totals["measured"]["of_expected"] == pytest.approx(of_rate)


@pytest.mark.long
def test_a_time_of_serving_is_that_of_a_token_after_the_first(measured):
    command = (*TOKEN, "--phase", "serve", "-b", "16", "-s", "2000")
    totals = measured(command, "100ms")
    found, per_token = totals["measured"], totals["per_token_s"]
    assert found["of_floor"] == pytest.approx(per_token["floor"] / 0.1)
    assert found["of_expected"] == pytest.approx(per_token["expected"] / 0.1)
    # the FLOPs of one token of each sequence, not those of the prompts
    decoded = measured((*TOKEN, "-b", "16", "--past", "2064"), "100ms")
    assert found["mfu"] == pytest.approx(decoded["measured"]["mfu"])
    late = [
        one["time_s"] for one in measured(command, "25ms")["explained"]["by"] if "prefills" in one["what"]
    ]
    alone = measured((*TOKEN, "-b", "16", "--past", "2064"), "1s")["time_s"]["expected"]
    assert late
    assert late[0] == pytest.approx(
        min(0.025 - per_token["expected"], per_token["expected"] - alone), rel=1e-3
    )


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize(
    ("share_of", "part", "words"),
    [
        ("expected", 1.0, "As fast as expected"),
        ("high", 0.99, "Inside the range, slower"),
        ("low", 1.01, "Inside the range, faster"),
        ("high", 1.01, "Slower than the range"),
        ("low", 0.99, "Faster than the range"),
        ("floor", 0.99, "Faster than the limit"),
    ],
)
def test_the_first_line_says_where_the_time_lies(measured, share_of, part, words):
    seconds = part * measured(STEP, "1s")["time_s"][share_of]
    totals = measured(STEP, f"{seconds:.9f}s")
    lines = totals["explained"]["lines"]
    assert len(lines) == 3
    assert lines[0].startswith(words)
    assert bool(totals["explained"]["by"]) == (words in {"Slower than the range", "Faster than the range"})
    assert ("the question is wrong" in lines[2]) == (words == "Faster than the limit")


def test_a_device_without_constants_has_its_limit_beside_the_measured_time(measured):
    totals = measured(("predict", "llama-3.1-8b", "--device", "mi300x"), "100tok/s")
    assert totals["measured"]["of_expected"] is None
    assert totals["measured"]["of_floor"] == pytest.approx(100 / totals["tokens_per_s"]["floor"])
    assert totals["explained"]["lines"][0].startswith("Against the limit alone: 10.0 ms")


@pytest.mark.long
def test_another_way_to_run_it_adds_what_its_own_prediction_has_more(measured):
    compiled = (*STEP, "--compile")
    by = {one["option"]: one["time_s"] for one in measured(compiled, "300ms")["explained"]["by"]}
    times = measured(compiled, "300ms")["time_s"]["expected"]
    eager = measured((*compiled, "--attention", "eager"), "300ms")["time_s"]["expected"]
    assert by["--attention eager"] == pytest.approx(eager - times)


@pytest.mark.long
def test_a_way_to_run_it_slower_than_measured_explains_nothing(measured):
    """Eager attention takes longer than what was measured even at the low end of its range."""
    low = measured((*STEP, "--attention", "eager"), "1s")["time_s"]["low"]
    for seconds, is_told in ((0.99 * low, False), (1.01 * low, True)):
        by = measured(STEP, f"{seconds:.9f}s")["explained"]["by"]
        assert any(one["option"] == "--attention eager" for one in by) == is_told


def test_explanations_come_largest_first_and_a_part_takes_no_more_than_the_gap(measured):
    totals = measured(STEP, "200ms")
    gap = 0.2 - totals["time_s"]["expected"]
    by = totals["explained"]["by"]
    within = [min(one["time_s"], gap) for one in by]
    assert within == sorted(within, reverse=True)
    stretched = [one["time_s"] for one in by if one["option"] is None and "no computing" not in one["what"]]
    assert all(seconds <= gap * (1 + 1e-9) for seconds in stretched)


@pytest.mark.long
def test_a_faster_way_to_run_it_saves_what_its_own_prediction_has_less(measured):
    eager = (*STEP, "--attention", "eager")
    totals, fused = measured(eager, "85ms"), measured(STEP, "85ms")
    assert totals["explained"]["lines"][0].startswith("Faster than the limit")
    assert "one kernel" in totals["explained"]["lines"][2]
    (first, *_) = totals["explained"]["by"]
    assert first["option"] == "--attention flash"
    assert first["time_s"] == pytest.approx(fused["time_s"]["expected"] - totals["time_s"]["expected"])


def test_mfu_with_all_pairs_is_noted(cli):
    """As llm-foundry counts it, where attention is a large part."""
    question = ("-s", "1024", "-b", "12", "--phase", "train", "--json")
    done = json.loads(cli("predict", "gpt2", "--device", "a100-sxm-40gb", *question, "--measured", "1s").out)
    dense = json.loads(cli("flops", "gpt2", *question, "--mask", "dense").out)["totals"]["matmul_flops"]
    assert f"it is {100 * dense / DENSE_BF16:.1f}%." in " ".join(done["notes"])
    assert done["totals"]["measured"]["mfu"] < dense / DENSE_BF16


def test_an_engine_may_not_have_run(measured):
    totals = measured(TOKEN, "24ms")
    by = {one["option"]: one["time_s"] for one in totals["explained"]["by"]}
    eager = measured((*TOKEN, "--engine", "none"), "24ms")["time_s"]["expected"]
    assert by["--engine none"] == pytest.approx(eager - totals["time_s"]["expected"])
    assert "archcli profile" in totals["explained"]["lines"][2]


@pytest.mark.long
def test_the_three_lines_are_printed_first(cli, measured):
    out = cli(*STEP, "--measured", "1.2s").out.split(": ", 1)[1].split("\n")
    assert out[:3] == measured(STEP, "1.2s")["explained"]["lines"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1.2", "'1.2' has no unit; write 1.2s, 1.2ms or 1.2tok/s"),
        ("0s", "'0s' is no measurement; it must be above zero"),
        ("0tok/s", "'0tok/s' is no measurement; it must be above zero"),
        ("-1s", "'-1s' is not a time such as 1.2s or 850ms, or a rate such as 20tok/s"),
        ("5it/s", "'5it/s' is not a time"),
        ("20tok", "'20tok' is not a time"),
        ("1e99s", "'1e99' is not a number"),
        ("fast", "'fast' is not a time"),
        ("", "'' is not a time"),
    ],
)
def test_what_is_no_measurement_is_refused_in_a_line(cli, text, words):
    done = cli(*TOKEN, "--measured", text)
    assert (done.code, done.out) == (2, "")
    assert words in done.err
    assert len(done.err.strip().splitlines()) <= 2
    with pytest.raises(ArchError, match=r"^predict: "):
        archcli.predict("gpt2", "h100-sxm", measured=text)


def test_python_takes_the_text_alone():
    assert archcli.predict("gpt2", "h100-sxm", measured="1.2 s").totals["measured"]["time_s"] == 1.2
    with pytest.raises(ArchError, match="measured must be a time such as"):
        archcli.predict("gpt2", "h100-sxm", measured=1.2)


def test_a_plan_that_is_to_be_chosen_was_not_measured(cli):
    done = cli(*TOKEN, "--fit", "time", "--measured", "1s")
    assert done.code == 2
    assert "--fit time chooses a plan, and --measured is of one that ran" in done.err
