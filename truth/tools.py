"""Asks calculators for the figures of the truth table: results/TOOL.csv, its version in results/tools.json.

    python truth/tools.py TOOL …

Each runs where it is installed, from config.json alone. Those that look a model up on the hub get the file in
place of the hub's answer; nothing else of them is changed. What a tool does not answer, refuses or has no
answer to in a minute is empty.
"""

import csv
import json
import signal
import sys
import tempfile
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

from check import CONFIGS, HERE, truth

RESULTS, MOST_SECONDS = HERE / "results", 60


def accelerate(config, folder):
    """Parameters: the bytes that estimate-memory states for float32, over 4."""
    from accelerate.commands import estimate
    from accelerate.utils import calculate_maximum_sizes

    estimate.verify_on_hub = lambda *_: SimpleNamespace(config=config)
    size, _ = calculate_maximum_sizes(estimate.create_empty_model(str(folder), "transformers"))
    return {"params": lambda _: size / 4}


def llm_analysis(_config, folder):
    """Parameters, FLOPs of a forward, and elements of the cache at one byte each."""
    from llm_analysis.analysis import LLMAnalysis
    from llm_analysis.config import get_gpu_config_by_name, get_model_config_from_hf

    model = get_model_config_from_hf(str(folder))
    analysis = LLMAnalysis(model, get_gpu_config_by_name("a100-sxm-80gb"))
    return {
        "params": lambda _: analysis.total_num_params,
        "active_params": lambda _: analysis.total_num_active_params,
        "flops": lambda n: analysis.get_num_flops_fwd_total(1, n),
        "cache_elements": lambda n: analysis.get_memory_kv_cache_per_layer(1, n, 1) * model.num_layers,
    }


def fitcheck_llm(_config, folder):
    """Parameters, and the cache in fp16 over 2 bytes."""
    from fitcheck import config_parser, estimator

    config_parser.hf_hub_download = lambda **_: str(folder / "config.json")
    config_parser._reported_param_count = lambda *_: None
    model = config_parser.fetch_model_config("a/model")

    def cached(n):
        held = estimator.estimate_inference_memory(model, "fp16", n, 1, "none", False)
        return held.kv_cache_mib * 2**20 / 2

    return {"params": lambda _: model.num_params, "cache_elements": cached}


def calflops(_config, folder):
    """Parameters, and two FLOPs a multiply-add: its own FLOPs are of all operations."""
    import torch
    from calflops import calculate_flops
    from transformers import AutoConfig, AutoModelForCausalLM

    forms = {"attn_implementation": "eager", "experts_implementation": "batched_mm"}
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder), **forms)

    def counted(n):
        tokens = {"input_ids": torch.zeros(1, n, dtype=torch.long, device="meta")}
        with torch.no_grad():
            return calculate_flops(model, kwargs=tokens, print_results=False, output_as_string=False)

    return {"params": lambda _: counted(8)[2], "flops": lambda n: 2 * counted(n)[1]}


def archcli(config, _folder):
    """All fields, in the table's conventions."""
    import archcli

    def flops(**question):
        return archcli.count_flops(config, mask="dense", **question).totals["matmul_flops"]

    def served(n):
        question = {"seq_len": n, "engine": "llamacpp", "kv_dtype": "fp16", "dtype": "q8_0"}
        return archcli.count_memory(config, "serve", **question).totals["parts"]["cache"]

    def stored(form):
        return lambda _: archcli.count_params(config, dtype=form).totals["bytes"]

    return {
        "params": lambda _: archcli.count_params(config).totals["params"],
        "active_params": lambda _: archcli.count_params(config).totals["active_params"],
        "flops": lambda n: flops(seq_len=n),
        "decode_flops": lambda n: flops(phase="decode", past=n, mla="naive"),
        "cache_elements": lambda n: archcli.count_kv_cache(config, n).totals["elements"],
        "cross_cache_elements": lambda n: archcli.count_kv_cache(config, n).totals["cross_elements"],
        "gguf_bytes_q8_0": stored("q8_0"),
        "gguf_bytes_q4_k_m": stored("q4_k_m"),
        "llamacpp_cache_bytes": served,
    }


TOOLS = {
    "accelerate": accelerate,
    "llm-analysis": llm_analysis,
    "fitcheck-llm": fitcheck_llm,
    "calflops": calflops,
    "archcli-llm": archcli,
}


def answers(tool, model, fields):
    """{field: figure} of a model, without what the tool does not answer."""
    config = json.loads(CONFIGS.read_text())[model]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(config))
        known = answer_of(lambda: TOOLS[tool](config, Path(folder)), f"{tool} {model}") or {}
        split = {name: name.partition("@") for name in fields}
        figures = {
            name: answer_of(lambda ask=known[field], n=n: ask(int(n or 0)), f"{tool} {model} {name}")
            for name, (field, _, n) in split.items()
            if field in known
        }
    return {name: f"{figure:.0f}" for name, figure in figures.items() if figure is not None}


def answer_of(ask, title):
    """What a question gives, or None where the tool refuses."""
    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(MOST_SECONDS)
    try:
        return ask()
    except (Exception, SystemExit) as error:  # noqa: BLE001 whatever a tool refuses with
        sys.stderr.write(f"{title}: {type(error).__name__}: {error}"[:200].replace("\n", " ") + "\n")
    finally:
        signal.alarm(0)


def too_long(*_):
    """End a question."""
    raise TimeoutError(f"no answer in {MOST_SECONDS} s")


def main(tools):
    """Write the answers of these tools."""
    RESULTS.mkdir(exist_ok=True)
    figures, about = truth(), RESULTS / "tools.json"
    fields = list(dict.fromkeys(field for row in figures.values() for field in row))
    for tool in tools:
        with (RESULTS / f"{tool}.csv").open("w", newline="") as file:
            table = csv.DictWriter(file, ["model", *fields], lineterminator="\n")
            table.writeheader()
            for model, row in figures.items():
                table.writerow({"model": model, **answers(tool, model, row)})
                file.flush()
        known = json.loads(about.read_text()) if about.exists() else {}
        known[tool] = {"version": version(tool), "date": datetime.now(UTC).strftime("%Y-%m-%d")}
        about.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
