"""`explain --approx` and `--steps`: what textbooks say, by hand, and for what the layers of a model see."""

import json

import pytest

import archcli


def totals(cli, *args):
    return json.loads(cli("explain", *args, "--json").out)["totals"]


@pytest.mark.long
def test_the_textbook_counts_the_layers_that_have_a_component(cli):
    rows = json.loads(cli("explain", "deepseek-v3", "--steps", "--json").out)["rows"]
    first = {row["component"]: row["steps"][0] for row in rows}
    assert first["ffn"]["numbers"] == "8*3*7168**2"
    assert first["attention"]["value"] == 4 * 61 * 7168**2
    asked = ("explain", "gpt2", "flops", "--phase", "train", "--steps", "--json")
    scores = json.loads(cli(*asked).out)["rows"][1]["steps"][0]
    assert scores["formula"] == "3*2*L*d*S*T"


@pytest.mark.long
def test_approximations_by_hand(cli):
    params = totals(cli, "gpt2", "--approx")["approximations"]
    assert params[0]["value"] == 12 * 12 * 768**2
    assert params[0]["exact"] == 124_439_808 - (50257 + 1024) * 768
    assert params[1]["value"] == 12 * 12 * 768**2 + 50257 * 768
    assert params[1]["error"] == pytest.approx(params[1]["value"] / 124_439_808 - 1, rel=1e-12)
    approximated = totals(cli, "mixtral-8x7b", "flops", "--approx")["approximations"]
    flops = {record["formula"]: record for record in approximated}
    active = archcli.count_params("mixtral-8x7b").totals["active_params"]
    kaplan = active - 2 * 32_000 * 4096  # without the token table and the head
    assert (flops["2*P*T"]["value"], flops["2*N*T"]["value"]) == (2 * active * 2048, 2 * kaplan * 2048)
    trained = archcli.count_flops("mixtral-8x7b", phase="train").totals["matmul_flops"]
    assert (flops["6*P*T"]["value"], flops["6*P*T"]["exact"]) == (6 * active * 2048, trained)
    (cache,) = totals(cli, "llama-3.1-8b", "kvcache", "-c", "10", "--approx")["approximations"]
    assert (cache["value"], cache["exact"]) == (2 * 32 * 4096 * 10, 2 * 32 * 1024 * 10)


SCORES = {
    # GPT-2, 1,024 tokens: 24 d^2 and 4 d S a layer and token; the textbook lacks the head alone
    ("gpt2", "-s", "1024", "--mask", "dense"): ("2*N*T + 4*L*d*S*T", -0.2702),
    ("gpt2", "-s", "1024"): ("2*N*T + 2*L*d*S*T", -0.2894),
    ("gpt2", "--phase", "decode", "--past", "1023"): ("2*N*T + 4*L*d*S*T", -0.2702),
    # an encoder sees every token; N counts biases and norms, which no product reads
    ("bert-base-uncased", "-s", "512"): ("2*N*T + 4*L*d*S*T", 0.0075),
    ("qwen3-next-80b-a3b",): ("2*N*T + 2*12*d*S*T", None),  # 12 of 48 layers have scores
    ("gemma-3-1b", "-s", "8192"): ("2*N*T + 4*22*d*512*T + 2*4*d*S*T", None),  # 22 of a window
    ("gemma-3-1b", "-s", "512"): ("2*N*T + 2*L*d*S*T", None),
    ("t5-small",): ("2*N*T + 4*L*d*S*T + 2*6*d*S*T", None),  # the encoder's 6 and cross attention's 6
    ("mamba2-2.7b",): ("2*N*T", None),
}


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("words", SCORES, ids=" ".join)
def test_the_textbooks_scores_are_of_what_layers_see(cli, words):
    formula, error = SCORES[words]
    records = totals(cli, words[0], "flops", *words[1:], "--approx")["approximations"]
    forward = [record for record in records if record["formula"].startswith("2*N*T")][-1]
    assert forward["formula"] == formula
    assert error is None or forward["error"] == pytest.approx(error, abs=5e-5)


@pytest.mark.long
def test_the_textbook_of_a_component_follows_the_mask(cli):
    def textbook(*words):
        rows = json.loads(cli("explain", *words, "--steps", "--json").out)["rows"]
        lines = {row["component"]: row["steps"][0] for row in rows if "scores" in row["component"]}
        return {name: line["formula"] for name, line in lines.items() if line["step"] == "textbook"}

    name = "attention_scores"
    assert textbook("gpt2", "flops", "--mask", "dense") == {name: "4*L*d*S*T"}
    assert textbook("bert-base-uncased", "flops") == {name: "4*L*d*S*T"}
    assert textbook("gemma-3-1b", "flops", "-s", "4096") == {
        f"{name} of groups.0.pattern.0-4": "4*L*d*512*T",
        f"{name} of groups.0.pattern.5": "2*L*d*S*T",
    }


@pytest.mark.long
def test_only_layers_with_keys_and_values_are_in_the_textbooks_cache(cli):
    def cache(*words):
        return [one["formula"] for one in totals(cli, *words, "--approx")["approximations"]]

    assert cache("qwen3-next-80b-a3b", "kvcache", "-c", "100") == ["2*12*d*T"]
    assert cache("gemma-3-1b", "kvcache", "-c", "1024", "-b", "3") == ["2*22*d*1536 + 2*4*d*T"]
    assert cache("mamba2-2.7b", "kvcache", "-c", "100") == []
