"""`archcli predict` of a server under a load: requests, traces, targets, and what it says."""

import json

import pytest

import archcli
from archcli.errors import ArchError

ASKED = {"device": "h100-sxm", "engine": "vllm", "seq_len": 512, "new": 64}


def totals(model="gpt2", **changes):
    return archcli.predict(model, **{**ASKED, **changes}).totals


def test_a_request_alone_takes_a_prompt_and_its_tokens():
    """One request: the end is the first token and 63 more."""
    found = totals(requests=1)
    first, token, end = (found[key]["expected"] for key in ("first_token_s", "per_token_s", "end_to_end_s"))
    assert end == pytest.approx(first + 63 * token)
    assert found["tokens"] == 64
    assert found["most_running"] == 1
    assert found["waiting"] == 0


def test_rates_are_tokens_and_requests_over_the_run():
    """All requests count, from the first arrival to the last token."""
    found = totals(requests=50)
    seconds = found["time_s"]["expected"]
    assert found["tokens_per_s"]["expected"] == pytest.approx(50 * 64 / seconds)
    assert found["prompt_tokens_per_s"]["expected"] == pytest.approx(50 * 512 / seconds)
    assert found["requests_per_s"]["expected"] == pytest.approx(50 / seconds)


@pytest.mark.long
def test_the_floor_is_never_slower_than_expected():
    """At the floor kernels run at the device's peaks."""
    found = totals(rate="50/s", requests=200)
    for key in ("first_token_s", "per_token_s", "end_to_end_s"):
        assert found[key]["floor"] <= found[key]["expected"]
    assert found["tokens_per_s"]["floor"] >= found["tokens_per_s"]["expected"]


@pytest.mark.long
def test_a_rate_beyond_capacity_saturates():
    """Below it nothing waits long, beyond it the queue grows."""
    capacity = totals(rate="1/s", requests=200)["capacity_requests_per_s"]
    below, beyond = (totals(rate=part * capacity, requests=600) for part in (0.5, 2.0))
    assert not below["saturated"]
    assert beyond["saturated"]
    assert beyond["first_token_s"]["expected"] > below["first_token_s"]["expected"]


@pytest.mark.long
def test_targets_are_met_at_the_highest_rate_and_not_beyond_it():
    """The rate that the search finds meets the targets; one a fifth higher does not."""
    asked = {"ttft": "100ms", "tpot": "1ms", "requests": None}
    report = archcli.predict("gpt2", **ASKED, **asked)
    assert report.totals["targets"]["met"]
    rate = report.totals["load_rate"]
    assert not totals(**asked | {"rate": 1.2 * rate})["targets"]["met"]


@pytest.mark.long
def test_later_targets_allow_no_lower_rate():
    """Time per token from 0.7 to 3 ms."""
    rates = [totals(tpot=f"{ms}ms")["load_rate"] for ms in (0.7, 1, 1.5, 3)]
    assert rates == sorted(rates)


@pytest.mark.long
def test_more_requests_a_second_take_no_fewer_devices():
    """The fewest devices for a rate, for 100 and 1,600 requests a second."""
    asked = {"ttft": "1s", "tpot": "1ms", "fit": "devices", "requests": 100}
    devices = [totals(rate=rate, **asked)["devices"] for rate in (100, 1600)]
    assert devices == sorted(devices)
    assert devices[-1] > devices[0]


@pytest.mark.long
def test_the_best_plan_under_a_load_is_the_best_of_those_asked_singly():
    """GPT-2 on two devices: two replicas, or tp 2; no row of the front is beaten, each other one is."""
    load = {"device": "2xh100-sxm", "concurrency": 8, "requests": 24}
    found = totals(fit="time", **load)
    singly = [totals(**plan, **load)["end_to_end_s"]["expected"] for plan in ({"dp": 2}, {"tp": 2})]
    assert found["end_to_end_s"]["expected"] == min(singly)
    rows = found["plans"]
    assert {row["plan"] for row in rows} == {"dp 2", "tp 2"}
    for row in rows:
        beaten = any(
            it["tokens_per_s"] > row["tokens_per_s"] and it["per_token_s"] < row["per_token_s"] for it in rows
        )
        assert row["front"] is not beaten


@pytest.mark.long
def test_targets_that_nothing_meets_say_what_a_request_takes_alone():
    """An error in one line, with what would help."""
    with pytest.raises(ArchError, match="alone, the first token of a request takes") as caught:
        totals(ttft="1us")
    assert "later --ttft" in str(caught.value)


@pytest.mark.long
def test_a_cached_prefix_shortens_first_tokens():
    """1,500 of 2,000 tokens of each prompt are cached."""
    asked = {"model": "llama-3.1-8b", "seq_len": 2000, "requests": 20, "new": 8}
    assert (
        totals(**asked, prefix=1500)["first_token_s"]["expected"]
        < 0.6 * totals(**asked)["first_token_s"]["expected"]
    )


def test_clients_keep_as_many_in_flight():
    """Eight in flight, eighty in all."""
    report = archcli.predict("gpt2", **ASKED, concurrency=8)
    assert report.inputs["load"]["requests"] == 80
    assert report.totals["most_running"] + report.totals["most_waiting"] >= 8
    assert report.totals["most_running"] <= 8


def test_a_split_pool_sends_the_cache_of_a_prompt():
    """A request alone ends later by the bytes of its prompt's cache over the rate of the network.

    GPT-2: keys and values of 12 layers, 768 wide, in two bytes, of 512 tokens, at 50 GB/s.
    """
    asked = {"requests": 1, "network": "50GB/s", "dtype": "bf16"}
    one, split = totals(**asked), totals(**asked, split="h100-sxm")
    sending_s = 2 * 12 * 768 * 2 * 512 / 50e9
    ends = [it["end_to_end_s"]["expected"] for it in (one, split)]
    assert ends[1] - ends[0] == pytest.approx(sending_s, rel=1e-6)
    assert split["first_token_s"] == one["first_token_s"]
    assert split["devices"] == 2


@pytest.mark.long
def test_split_pools_keep_prompts_out_of_the_way_of_tokens():
    """With prompts elsewhere a token takes as long under a load as without prompts beside it."""
    asked = {"model": "llama-3.1-8b", "seq_len": 4096, "rate": "4/s", "requests": 200}
    mixed, split = totals(**asked), totals(**asked, split="h100-sxm")
    assert split["per_token_s"]["expected"] < mixed["per_token_s"]["expected"]


TRACES = {
    "ours.csv": "arrival_s,prompt,new\n5,100,10\n5.5,200,20\n",
    "mooncake.jsonl": (
        '{"timestamp": 5000, "input_length": 100, "output_length": 10, "hash_ids": [1]}\n'
        '{"timestamp": 5500, "input_length": 200, "output_length": 20, "hash_ids": [1]}\n'
    ),
    "azure.csv": (
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:17:03.0000000,100,10\n2023-11-16 18:17:03.5000000,200,20\n"
    ),
    "vidur.csv": "arrived_at,num_prefill_tokens,num_decode_tokens\n0,100,10\n0.5,200,20\n",
    "blis.csv": "request_id,arrival_time_us,input_tokens,output_tokens\na,0,100,10\nb,500000,200,20\n",
    "burst.csv": "Timestamp,Model,Request tokens,Response tokens\n5,x,100,10\n5.5,x,200,20\n",
}


@pytest.mark.parametrize("name", TRACES)
def test_traces_of_all_forms_are_the_same_requests(name, tmp_path):
    """Half a second apart, 100 and 200 tokens that ask for 10 and 20."""
    from archcli.wings.serving.load.traces import read_trace

    path = tmp_path / name
    path.write_text(TRACES[name])
    assert read_trace(path) == [(0.0, 100, 10), (0.5, 200, 20)]
    assert read_trace(path, rate=4.0) == [(0.0, 100, 10), (0.25, 200, 20)]


@pytest.mark.long
def test_a_trace_states_the_lengths(tmp_path):
    """What the report says of the requests is of the file, and options of drawn ones are refused."""
    path = tmp_path / "trace.csv"
    path.write_text("arrival_s,prompt,new\n0,100,10\n1.5e-1,300,30\n")
    report = archcli.predict("gpt2", device="h100-sxm", trace=str(path))
    assert report.inputs["seq_len"] == 200
    assert report.inputs["new"] == 20
    assert "2 x 200 tokens and 20 more" in report.title
    with pytest.raises(ArchError, match="is of requests that are drawn"):
        totals(trace=str(path), new=None)


def test_what_is_admitted_fits():
    """3,000 requests at once are more than the cache holds, and wait."""
    found = totals("llama-3.1-8b", requests=3000, seq_len=1024, new=2)
    assert found["most_waiting"] > 0
    assert found["fits"] is True
    assert found["verdict"] == "fits"


WRONG = {
    "arrival_s,prompt,new\n0,100,10\n1,-5,10\n": ":3: prompt is '-5'",
    "arrival_s,prompt,new\n0,100,0\n": ":2: new is '0'",
    "arrival_s,prompt,new\n-1,100,10\n": ":2: arrival_s is '-1'",
    "arrival_s,new\n0,10\n": "has no column prompt",
    "arrival_s,prompt,new\n": "has no requests",
    '{"timestamp": 0, "input_length": 9, "output_length": 9}\n{"timest\n': ":2 is no JSON record",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_line_of_a_trace_is_named(text, tmp_path):
    """Where and what, and nothing simulated."""
    path = tmp_path / "trace"
    path.write_text(text)
    with pytest.raises(ArchError) as caught:
        archcli.predict("gpt2", device="h100-sxm", trace=str(path))
    assert WRONG[text] in str(caught.value)


REFUSED = {
    "a plan that is looked for": (
        {"rate": 4, "ttft": "1s", "fit": "devices", "device": "2xh100-sxm", "tp": 2},
        "--fit devices chooses the plan, and --tp states it",
    ),
    "an image": ({"rate": 4, "image": ["224x224"]}, "images and sounds do not go with a load"),
    "rate of 0": ({"rate": "0/s"}, "above 0"),
    "no unit of time": ({"rate": "4/fortnight"}, "a rate of requests such as 4/s"),
    "a batch": ({"rate": 4, "batch_size": 3}, "--batch-size does not go with a load"),
    "training": ({"rate": 4, "phase": "train"}, "a load is of serving"),
    "hits without a prefix": ({"rate": 4, "hit": 0.5}, "--hit applies to a prefix only"),
    "a seed without a load": ({"seed": 4}, "--seed applies to a load only"),
    "devices without targets": ({"rate": 4, "fit": "devices"}, "needs a rate and targets"),
    "a curve without a rate": ({"concurrency": 4, "curve": "rate"}, "--curve rate with a --rate"),
    "a split of clients": ({"concurrency": 4, "split": "h100-sxm"}, "--split goes with requests that arrive"),
    "no pool": ({"rate": 4, "split": "h100-sxm:xx3"}, "devices for prompts such as"),
    "no scheduler": ({"rate": 4, "engine": "transformers"}, "how transformers admits requests is not known"),
    "too long": ({"requests": 4, "seq_len": 10**9}, "fits into the devices"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_contradictions_are_errors(name):
    """Each in one line."""
    changes, text = REFUSED[name]
    with pytest.raises(ArchError) as caught:
        totals(**changes)
    assert text in str(caught.value)


@pytest.mark.long
def test_the_same_seed_gives_the_same_bytes_and_another_does_not():
    """Requests are drawn by their seed alone."""
    asked = {**ASKED, "rate": "20/s", "requests": 100, "lengths": "lognormal"}
    first, again, other = (
        json.dumps(archcli.predict("gpt2", **asked, seed=seed).totals) for seed in (1, 1, 2)
    )
    assert first == again != other


@pytest.mark.long
def test_a_curve_rises_to_what_the_server_can_take(tmp_path, cli):
    """Throughput grows with the rate, and so does the time to a first token; drawn as SVG."""
    picture = tmp_path / "load.svg"
    done = cli(
        *("predict", "gpt2", "--device", "h100-sxm", "-s", "512", "--new", "64", "--rate", "4/s"),
        *("--requests", "200", "--curve", "rate", "--plot", str(picture), "--json"),
    )
    points = json.loads(done.out)["totals"]["curve"]
    assert [it["rate"] for it in points] == sorted(it["rate"] for it in points)
    first = [it["first_token_s"]["expected"] for it in points]
    assert first == sorted(first)
    assert "requests/s" in picture.read_text()
