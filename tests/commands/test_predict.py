"""`archcli predict`: its options, figures by JSON's keys, what is refused, and how it is shown."""

import json

import pytest

import archcli
from archcli.errors import ArchError
from archcli.measure.report import Report

GPT2 = ("predict", "gpt2", "--device", "h100-sxm")
FIGURES = {"floor", "expected", "low", "high"}
DENSE_BF16 = 989.4e12


@pytest.fixture
def predicted(cli):
    """The JSON of a prediction."""

    def ask(*args):
        done = cli(*args, "--json")
        assert (done.code, done.err) == (0, "")
        return json.loads(done.out)

    return ask


@pytest.mark.sample(2, whole=True)
@pytest.mark.parametrize("phase", ["forward", "prefill", "decode", "train", "serve"])
def test_names_of_the_json(predicted, phase):
    found = predicted(*GPT2, "--phase", phase, "-s", "64")
    totals = found["totals"]
    assert all(set(totals[name]) == FIGURES for name in ("time_s", "tokens_per_s", "tokens_per_s_per_device"))
    times = totals["time_s"]
    assert 0 < times["floor"] < times["low"] < times["expected"] < times["high"]
    assert {"mfu", "hfu", "bound_by", "fits", "communication", "sentence", "limits"} <= set(totals)
    assert set(totals["device"]) == {"name", "constants", "held_out_error", "source"}
    keys = {"path", "kernel", "flops", "bytes", "time_s", "bound_by"}
    assert found["rows"]
    assert all(keys <= set(row) for row in found["rows"])
    assert found["not_modelled"]
    assert totals["fits"] is True
    assert sum(one["time_s"] for one in totals["limits"]) == pytest.approx(times["expected"])


def test_a_range_does_not_go_below_the_floor(predicted):
    """Of a device whose constants scatter: the fastest that was held out would be faster than its memory."""
    times = predicted("predict", "llama-3.1-8b", "--device", "2xl40s")["totals"]["time_s"]
    assert times["floor"] <= times["low"] < times["expected"] < times["high"]


@pytest.mark.long
def test_tokens_are_those_of_all_sequences_over_the_time(predicted):
    totals = predicted(*GPT2, "-b", "8", "--past", "100")["totals"]
    times, rates = totals["time_s"], totals["tokens_per_s"]
    assert rates["expected"] == pytest.approx(8 / times["expected"])
    assert (rates["low"], rates["high"]) == (
        pytest.approx(8 / times["high"]),
        pytest.approx(8 / times["low"]),
    )
    served = predicted(*GPT2, "--phase", "serve", "-b", "8", "-s", "100", "--new", "20")["totals"]
    assert served["tokens_per_s"]["expected"] == pytest.approx(8 * 20 / served["time_s"]["expected"])
    whole = served["first_token_s"]["expected"] + 20 * served["per_token_s"]["expected"]
    assert served["time_s"]["expected"] == pytest.approx(whole)


def test_mfu_is_the_flops_of_the_architecture_over_the_peak(predicted, cli):
    totals = predicted(*GPT2, "--phase", "train", "-s", "256")["totals"]
    flops = json.loads(cli("flops", "gpt2", "--phase", "train", "-s", "256", "--json").out)
    of_model = flops["totals"]["matmul_flops"]
    assert totals["mfu"] == pytest.approx(of_model / totals["time_s"]["expected"] / DENSE_BF16)


@pytest.mark.long
def test_a_device_without_constants_has_a_floor_and_says_so(cli, predicted):
    found = predicted("predict", "gpt2", "--device", "mi300x")
    assert found["totals"]["time_s"] | {"floor": None} == dict.fromkeys(FIGURES)
    unknown = dict.fromkeys(("constants", "held_out_error", "source"))
    assert found["totals"]["device"] == {"name": "mi300x", **unknown}
    out = cli("predict", "gpt2", "--device", "mi300x").out
    assert "expected" not in out
    assert "no measurements of vLLM with such a model and load on such a device" in " ".join(out.split())


@pytest.mark.long
def test_the_sentence_says_how_many_tokens_and_what_limits(cli, predicted):
    asked = ("predict", "llama-3.1-8b", "--device", "h100-sxm", "-s", "1024", "--engine", "trtllm")
    totals = predicted(*asked)["totals"]
    rates = totals["tokens_per_s"]  # to four digits in the table, and to three of these in words
    expected, low, high = (f"{float(f'{rates[name]:.4g}'):.3g}" for name in ("expected", "low", "high"))
    spent, whole = totals["limits"][0]["time_s"], totals["time_s"]["expected"]
    rate = f"Decoding 1 sequence: {expected} tokens/s ({low} to {high}); "
    times = f"{1e3 * spent:.2f} of {1e3 * whole:.2f} ms go into reading the weights."
    assert cli(*asked).out.splitlines()[0] == f"llama-3.1-8b: {rate}{times}"
    unknown = cli("predict", "gpt2", "--device", "mi300x").out.splitlines()[0]
    assert unknown.startswith("gpt2: Decoding 1 sequence: at most ")
    why = "no measurements of vLLM with such a model and load on such a device"
    assert unknown.endswith(f"({why}, so this is an upper limit).")
    long = cli("predict", "llama-2-7b", "--device", "h100-sxm", "--engine", "vllm", "-b", "64", "-s", "4096")
    assert "reading the KV cache" in long.out.splitlines()[0]


def test_an_encoder_runs_forward(predicted):
    """BERT's layers: 12 d^2 weights each, and every token sees all 128."""
    batch, tokens, width, layers = 4, 128, 768, 12
    asked = ("predict", "bert-base-uncased", "--device", "h100-sxm", "--phase", "forward")
    totals = predicted(*asked, "-b", batch, "-s", tokens)["totals"]
    products = 2 * batch * layers * (tokens * 12 * width**2 + 2 * tokens**2 * width)
    pooler = 2 * batch * width**2
    executed = totals["mfu"] * totals["time_s"]["expected"] * DENSE_BF16
    assert executed == pytest.approx(products + pooler)
    assert totals["tokens"] == batch * tokens
    assert not {"first_token_s", "per_token_s", "break_even"} & set(totals)


def test_a_prefill_behind_tokens_in_the_cache(predicted):
    """Chunks of 512: a later one multiplies the same matrices, and its queries see the earlier keys, too."""
    width, layers, vocabulary, new, past = 768, 12, 50257, 512, 4096
    asked = (*GPT2, "--phase", "prefill", "-s", new, "--engine", "vllm")
    first, later = predicted(*asked), predicted(*asked, "--past", past)
    matrices = 2 * (new * layers * 12 * width**2 + width * vocabulary)
    scores = [sum(4 * layers * width * (before + i) for i in range(1, new + 1)) for before in (0, past)]
    ratio = (matrices + scores[1]) / (matrices + scores[0])
    executed = [one["totals"]["mfu"] * one["totals"]["time_s"]["expected"] for one in (first, later)]
    assert executed[1] / executed[0] == pytest.approx(ratio)
    (attention,) = (row for row in later["rows"] if row["path"].endswith("attend"))
    assert attention["bytes"] >= layers * 2 * (2 * (past + new) * width + 2 * new * width)
    cache = 2 * 2 * layers * past * width
    assert later["totals"]["needed_bytes"] - first["totals"]["needed_bytes"] >= cache
    assert (first["inputs"]["past"], later["inputs"]["past"]) == (0, past)
    assert later["totals"]["tokens"] == new


@pytest.mark.long
def test_a_recurrent_model_has_a_state_and_no_kv_cache(predicted):
    """Of one sequence the host's launches of a scan take longest, of many the state is read and written."""
    asked = ("predict", "mamba-130m", "--device", "h100-sxm")
    eager = (*asked, "--engine", "none")
    one, many = predicted(*eager), predicted(*eager, "-b", "2048")
    assert one["totals"]["limits"][0]["what"] == "waiting for the host to launch kernels"
    trained = predicted(*asked, "--phase", "train", "-s", "16")
    assert trained["totals"]["limits"][0]["what"] == one["totals"]["limits"][0]["what"]
    for document in (one, trained):
        assert any("many small kernels" in note for note in document["notes"])
    assert many["totals"]["limits"][0]["what"] == "updating the recurrent state"
    assert not any("KV cache" in limit["what"] for limit in many["totals"]["limits"])
    assert not any("longer one" in note for note in many["notes"])


@pytest.mark.long
def test_several_devices_share_the_model_as_is_usual(predicted):
    found = predicted("predict", "llama-3.1-70b", "--device", "4xh100-sxm")
    assert found["inputs"]["plan"]["tp"] == found["totals"]["devices"] == 4
    assert found["totals"]["fits"]
    (sent,) = found["totals"]["communication"]
    # a token of 8,192 numbers behind attention, the network and the table, of which 2 (4 - 1) / 4 are sent
    assert (sent["collective"], sent["link"]) == ("all_reduce", "link")
    assert sent["bytes"] >= 80 * 2 * 8192 * 2 * 2 * 3 / 4
    assert 0 < sent["exposed_s"] <= sent["time_s"]
    trained = predicted("predict", "gpt2", "--device", "8xh100-sxm", "--phase", "train", "-s", "64")
    assert (trained["inputs"]["plan"]["dp"], trained["inputs"]["plan"]["zero"]) == (8, 3)
    assert {one["collective"] for one in trained["totals"]["communication"]} == {
        "all_gather",
        "reduce_scatter",
    }


@pytest.mark.long
def test_what_does_not_fit_is_marked(cli, predicted):
    assert predicted("predict", "llama-3.1-70b", "--device", "h100-sxm")["totals"]["fits"] is False
    out = cli("predict", "llama-3.1-70b", "--device", "h100-sxm").out
    options = ("--phase", "decode", "--device", "h100-sxm", "--fit", "devices")
    assert f"`archcli memory llama-3.1-70b {' '.join(options)}` says how many devices would do." in out
    assert json.loads(cli("memory", "llama-3.1-70b", *options, "--json").out)["totals"]["fit"]["value"] == 2


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize(
    ("model", "device", "heading"),
    [
        ("deepseek-v3", "rtx-4090", "Does not fit into rtx-4090 (needs 628 GiB, has 21.6 GiB); all times "),
        ("llama-3.1-70b", "2xl4", "Does not fit into 2 x l4 (each needs "),
        ("llama-3.1-70b", "2xh100-sxm", "Decoding 1 sequence: "),
    ],
)
def test_what_does_not_fit_is_said_before_any_time(cli, model, device, heading):
    sentence = cli("predict", model, "--device", device).out.splitlines()[0]
    assert sentence.startswith(f"{model}: {heading}")


@pytest.mark.long
def test_headings_of_figures_and_their_names_in_json(cli, predicted):
    """Of a rate the floor is the highest figure: people read `limit`, JSON keeps `floor`."""
    asked = ("predict", "llama-3.1-8b", "--device", "h100-sxm")
    rates, lines = predicted(*asked)["totals"]["tokens_per_s"], cli(*asked).out.splitlines()
    assert lines[4].split() == ["limit", "expected", "low", "high"]
    known = [pytest.approx(rates[name], abs=0.05) for name in ("floor", "expected", "low", "high")]
    assert [float(rate) for rate in lines[6].split()[1:]] == known
    assert "floor" not in "\n".join(lines)


@pytest.mark.long
def test_an_engine_and_reads_of_each_head_take_longer(predicted):
    asked = ("predict", "llama-3.1-8b", "--device", "h100-sxm", "--phase", "serve", "-b", "64", "--new", "8")
    plain = predicted(*asked, "--engine", "trtllm")["totals"]["time_s"]
    vllm = predicted(*asked, "--engine", "vllm")["totals"]["time_s"]
    heads = predicted(*asked, "--engine", "trtllm", "--kv-read", "heads")["totals"]["time_s"]
    # the same weights and cache, in fewer kernels
    assert vllm["floor"] == pytest.approx(plain["floor"], rel=0.02)
    assert vllm["floor"] < vllm["low"] < vllm["expected"] < vllm["high"]
    assert heads["floor"] > plain["floor"]


def test_a_whole_training_and_its_price(predicted):
    asked = ("--phase", "train", "-s", "1024", "-b", "4", "--tokens", "1e9", "--price-per-hour", "3")
    found = predicted("predict", "gpt2", "--device", "2xh100-sxm", *asked)
    totals, training = found["totals"], found["totals"]["training"]
    steps = 1e9 / (2 * 4 * 1024)
    seconds = steps * totals["time_s"]["expected"]
    assert training["steps"] == pytest.approx(steps)
    assert training["days"]["expected"] == pytest.approx(seconds / 86400)
    assert training["device_hours"]["expected"] == pytest.approx(2 * seconds / 3600)
    assert training["cost"]["expected"] == pytest.approx(3 * 2 * seconds / 3600)
    assert training["energy_kwh_at_most"]["expected"] == pytest.approx(0.7 * 2 * seconds / 3600)
    per_unit = totals["tokens_per_s"]["expected"] / (2 * 3 / 3600)
    assert totals["cost"]["tokens_per_unit"]["expected"] == pytest.approx(per_unit)


def test_a_device_that_costs_nothing(predicted):
    asked = ("--phase", "train", "-s", "64", "--tokens", "1e9", "--price-per-hour", "0")
    totals = predicted("predict", "gpt2", "--device", "h100-sxm", *asked)["totals"]
    assert set(totals["cost"]["per_million_tokens"].values()) == {0}
    assert set(totals["cost"]["tokens_per_unit"].values()) == {None}
    assert set(totals["training"]["cost"].values()) == {0}


@pytest.mark.long
def test_a_token_that_is_decoded_behind_nothing(predicted):
    def flops(past):
        found = predicted("predict", "gpt2", "--device", "h100-sxm", "--past", past)
        assert found["inputs"]["seq_len"] == past
        return found["totals"]["mfu"] * found["totals"]["time_s"]["expected"]

    # a cached token adds scores and a mix of 12 layers, 768 wide
    whole = archcli.count_flops("gpt2", phase="decode", past=0).totals["matmul_flops"]
    assert flops(1) / flops(0) == pytest.approx((whole + 12 * 2 * 2 * 768) / whole, rel=1e-9)
    for asked in (("gpt2", "--engine", "vllm"), ("t5-small",), ("mamba-130m", "--curve", "batch")):
        predicted("predict", *asked, "--device", "h100-sxm", "--past", 0)


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize(
    ("curve", "key", "sizes"),
    [("batch", "batch_size", [1, 2, 4]), ("context", "seq_len", [1024]), ("devices", "devices", [1, 2])],
)
def test_curves(predicted, curve, key, sizes):
    found = predicted("predict", "gpt2", "--device", "2xh100-sxm", "--tp", "2", "--curve", curve)
    points = found["totals"]["curve"]
    assert [point[key] for point in points][: len(sizes)] == sizes
    assert all(set(point["tokens_per_s"]) == FIGURES for point in points)


@pytest.mark.long
def test_the_fastest_plan_that_fits(predicted, cli):
    asked = (
        "predict",
        "llama-3.1-70b",
        "--device",
        "8xh100-sxm",
        "-b",
        "8",
        "--engine",
        "trtllm",
        "--fit",
        "time",
    )
    found = predicted(*asked)
    fit, plan = found["totals"]["fit"], found["inputs"]["plan"]
    assert found["totals"]["fits"]
    assert plan["tp"] * plan["dp"] == 8
    assert fit["plan"]["time_s"] == pytest.approx(found["totals"]["time_s"]["expected"])
    assert fit["plan"]["time_s"] <= fit["runner_up"]["time_s"]
    assert f"The fastest of {fit['n_tried']} plans that fits: {fit['plan']['options']}" in cli(*asked).out


@pytest.mark.long
def test_the_fastest_plan_that_serves_is_that_of_every_plan(predicted):
    """Its last token of each sequence is the quickest, of the plans whose devices hold the weights."""
    asked = ("predict", "llama-3.1-70b", "--device", "8xh100-sxm", "--phase", "serve", "-b", "64")
    sizes = ("-s", "1000", "--new", "2", "--engine", "trtllm")
    fit = predicted(*asked, *sizes, "--fit", "time")["totals"]["fit"]
    tokens = {}
    for tp in (2, 4, 8):
        alone = ("--phase", "decode", "-b", "64", "--past", "1002", "--engine", "trtllm")
        plan = ("--tp", str(tp), "--dp", str(8 // tp))
        found = predicted("predict", "llama-3.1-70b", "--device", "8xh100-sxm", *alone, *plan)
        tokens[tp] = found["totals"]["time_s"]["expected"]
    assert fit["plan"]["tp"] == min(tokens, key=tokens.get)
    assert fit["plan"]["time_s"] == pytest.approx(min(tokens.values()))


@pytest.mark.long
def test_what_a_reader_must_know(predicted):
    long = predicted(*GPT2, "-s", "1024", "--phase", "serve", "--new", "2")
    assert "1,026 tokens are beyond max_seq_len 1,024: counted by shape all the same." in long["notes"]
    (curve,) = [note for note in predicted(*GPT2, "--curve", "devices")["notes"] if "curve" in note]
    assert curve == "A curve of devices goes up to those of --device: 8xh100-sxm has four points."
    mixture = predicted("predict", "mixtral-8x7b", "--device", "h100-sxm")["not_modelled"]
    assert (
        "The routing: loads of experts fall as rank^-1.2; at the limit all tokens choose the same." in mixture
    )
    assert (
        "The routing: loads of experts fall as rank^-1.2; at the limit all tokens choose the same."
        not in long["not_modelled"]
    )


@pytest.mark.long
def test_what_bounds_a_served_kernel_changes_as_its_cache_grows(predicted):
    rows = predicted(*GPT2, "-s", "8", "--phase", "serve", "--new", "100000")["rows"]
    read = [row for row in rows if row["path"] == "layers.0.attention.attend" and row["stage"] == "decode"]
    kernels = {(row["kernel"], row["bound_by"]): row["time_s"] for row in read}
    assert {bound for _, bound in kernels} == {"launch", "memory"}


@pytest.mark.long
def test_pictures(cli, tmp_path):
    file = tmp_path / "drawn.svg"
    assert cli(*GPT2, "--plot", file).code == 0
    drawn = file.read_text()
    assert drawn.startswith("<svg")
    assert "Throughput against latency" in drawn
    assert "989 TFLOP/s" in drawn


@pytest.mark.long
@pytest.mark.parametrize("form", ["plain", "md", "csv", "json"])
def test_forms(cli, form):
    done = cli(*GPT2, "--curve", "batch", "-s", "64", "--format", form)
    assert done.code == 0
    assert "launch" in done.out


def test_a_narrow_terminal_without_colours(cli, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")
    out = cli(*GPT2, "--format", "table").out
    assert "\x1b[" not in out
    assert max(map(len, out.splitlines())) <= 60


def test_in_python():
    report = archcli.predict("gpt2", "h100-sxm", batch_size=4, seq_len=100)
    assert isinstance(report, Report)
    assert report.inputs["batch_size"] == 4
    planned = archcli.predict("gpt2", "2xh100-sxm", plan={"tp": 2})
    assert planned.inputs["plan"]["tp"] == 2
    with pytest.raises(ArchError, match="price_per_hour must be a number of at least"):
        archcli.predict("gpt2", "h100-sxm", price_per_hour=-1)


@pytest.mark.parametrize("phase", ["forward", "train"])
def test_without_constants_of_products_all_is_told_at_its_floor(predicted, phase):
    """Kernels as expected beside products at their floor would take more than the whole."""
    totals = predicted(*GPT2, "--phase", phase, "-s", "64", "--dtype", "fp32")["totals"]
    assert totals["time_s"]["expected"] is None
    assert sum(totals["by_class"].values()) == pytest.approx(totals["time_s"]["floor"])
    assert sum(limit["share"] for limit in totals["limits"]) <= 1 + 1e-9


@pytest.mark.long
def test_what_runs_is_no_less_than_what_the_architecture_asks_for(predicted):
    """The scan of one token runs its products element by element."""
    totals = predicted("predict", "qwen3.5-9b", "--device", "h100-sxm", "--phase", "train", "-s", "1")[
        "totals"
    ]
    assert totals["hfu"] == totals["mfu"]


def test_no_more_of_what_is_sent_is_exposed_than_it_takes(predicted):
    sent = predicted("predict", "gpt2", "--device", "8xh100-sxm", "--phase", "train")["totals"][
        "communication"
    ]
    assert all(0 < part["exposed_s"] <= part["exposed_most_s"] <= part["time_s"] for part in sent)
