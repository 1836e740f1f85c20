"""Fit what live servers take beside their kernels, and tell how well that predicts held-out servers.

    python benchmarks/fit_serving.py            # fits on one half of the servers, errors of the other half
    python benchmarks/fit_serving.py --rows     # and each row
    python benchmarks/fit_serving.py --write    # and writes the constants, as `live` of engines/*.yaml

measured/serving_live.csv: mean first-token and per-token milliseconds of vLLM, SGLang and TensorRT-LLM. Three
constants an engine: a factor on its kernels, the share of other sequences' prefills that a sequence waits for
before its first token, and seconds beside kernels before it. A server is a model on devices with lengths of
prompts and outputs, at all its batches; half of them are drawn by a seed. Five minutes.
"""

import argparse
import csv
import datetime as dt
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np

from archcli.errors import ArchError
from archcli.load import load
from archcli.wings.serving.api.predict import PredictOptions, predict_question
from archcli.wings.serving.devices.engines import engine_file
from archcli.wings.serving.predict.prediction import predict_pass
from archcli.wings.serving.predict.serving import added_to

TABLE = Path(__file__).parent / "measured" / "serving_live.csv"
MODELS = {
    "Qwen/Qwen3-32B": ("qwen3-32b", "dense"),
    "meta-llama/Llama-3.1-8B-Instruct": ("llama-3.1-8b", "dense"),
    "meta-llama/Llama-3.1-70B": ("llama-3.1-70b", "dense"),
    "openai/gpt-oss-120b": ("gpt-oss-120b", "mixture"),
    "MiniMaxAI/MiniMax-M2.5": ("minimax-m2", "mixture"),
    "Qwen/Qwen3-235B-A22B-FP8": ("qwen3-235b-a22b", "mixture"),
    "deepseek-ai/DeepSeek-R1": ("deepseek-v3", "latent"),
    "deepseek-ai/DeepSeek-V3": ("deepseek-v3", "latent"),
    "moonshotai/Kimi-K2.5": ("kimi-k2", "latent"),
    "Qwen/Qwen3.5-397B-A17B": ("qwen3.5-397b-a17b", "mixture"),
    "zhipuai/GLM-5": ("glm-5", "latent"),
    "nvidia/Llama-3.1-8B-Instruct-FP8": ("llama-3.1-8b", "dense"),
    "nvidia/DeepSeek-R1-NVFP4": ("deepseek-v3", "latent"),
    "nvidia/Qwen3-32B-NVFP4": ("qwen3-32b", "dense"),
    "nvidia/DeepSeek-V3.1-NVFP4": ("deepseek-v3.1", "latent"),
}
DTYPES = {"": "bf16", "fp8": "fp8", "int4": "awq-int4", "fp4": "nvfp4"}
SPECULATIVE = ("trtllm", "1.2.0rc6.post3")
"""Servers of twice the speed of the release before them, at each batch: they guess tokens ahead."""
ENGINES = ("vllm", "trtllm", "sglang")
MOST, SEED, TRIALS, OUTER = 256, 7, 1500, (0.1, 0.9)
BEGIN = "# made by benchmarks/fit_serving.py --write\n"
FIRST_WEIGHT = 0.3
"""First tokens scatter; they count that much beside the time of a token."""


def rows(path):
    """The rows that are asked, each once, without those that guess tokens, and whether they are fitted.

    Products in 4 bits of matrices that are no experts and attention in data parallel are not.
    """
    with path.open() as file:
        found = {tuple(sorted(row.items())): row for row in csv.DictReader(file)}
    for row in found.values():
        groups, ep = int(row["attention_dp_size"] or 1), int(row["moe_ep_size"] or 1) or 1
        tp, is_gpt_oss = groups * int(row["tp_size"]), "gpt-oss" in row["model_path"]
        guesses = (row["backend"], row["backend_version"]) == SPECULATIVE
        if row["model_path"] not in MODELS or guesses or int(row["batch_size"]) > MOST:
            continue
        dtype = "mxfp4" if is_gpt_oss else DTYPES[row["precision"]]
        is_fitted = groups == 1 and ep in {1, tp} and tp in {1, 2, 4, 8} and dtype != "nvfp4"
        yield {
            **row,
            "model": MODELS[row["model_path"]][0],
            "tp": tp,
            "ep": ep,
            "groups": groups,
            "dtype": dtype,
            "is_fitted": is_fitted,
        }


@cache
def passed(phase, where, batch, length):
    """A pass by its kernels alone, whether it fits, and whether prompts run in one pass with tokens."""
    model, device, tp, ep, groups, dtype, engine = where
    plan = {"tp": tp} | ({"ep": ep} if ep > 1 else {}) | ({"dp_attention": groups} if groups > 1 else {})
    sizes = {"past" if phase == "decode" else "seq_len": length}
    options = PredictOptions(
        loaded(model),
        f"{tp}x{device}",
        phase=phase,
        batch_size=batch,
        dtype=dtype,
        kv_dtype="fp8" if dtype == "fp8" else None,
        engine=engine,
        **plan,
        **sizes,
    )
    asked = predict_question(loaded(model), options)
    found = predict_pass(asked.model, asked.settings, asked.timing, asked.plan, asked.cache)
    return found, asked.memory().fits(), asked.settings.engine.mixes_prompts


@cache
def loaded(name):
    """A model by its name."""
    return load(name)


def parts(row):
    """A row's sizes, measured seconds, and seconds of its kernels; None without room or plan for it."""
    model, kind = MODELS[row["model_path"]]
    device = row["system"].replace("_", "-")
    where = (model, device, *(row[name] for name in ("tp", "ep", "groups", "dtype", "backend")))
    batch, prompt, new = (int(row[name]) for name in ("batch_size", "isl", "osl"))
    try:
        alone, _, mixes = passed("prefill", where, 1, prompt)
        decoded, fits, _ = passed("decode", where, batch, prompt + new // 2)
    except ArchError:  # 36 devices do not share a width
        return None
    prefill, step = alone.seconds.expected, decoded.seconds.expected
    added = added_to(decoded, alone) if mixes else prefill
    first, token = float(row["silicon_ttft_ms"]) / 1e3, float(row["silicon_tpot_ms"]) / 1e3
    # a server that holds fewer sequences than are asked for lets them wait longer than all prefills take
    if not fits or first > 1.5 * batch * prefill + 1:
        return None
    return {
        "engine": row["backend"],
        "is_fitted": row["is_fitted"],
        "kind": kind,
        "server": (*where, prompt, new),
        "group": where[:2],
        "sizes": (max(batch / row["groups"] - 1, 0), new, prefill, added, step),
        "measured": (token, first),
    }


def ratios(servers, constants):
    """Expected over measured seconds of a token and of the first one, of all rows."""
    others, new, prefill, added, step = (
        np.array(column) for column in zip(*(s["sizes"] for s in servers), strict=True)
    )
    token, first = (np.array(column) for column in zip(*(s["measured"] for s in servers), strict=True))
    factor, waits, beside = constants
    of_token = factor * (step + (1 - waits) * others * added / new)
    of_first = factor * (prefill + waits * others * added + step) + beside
    return of_token / token, of_first / first


def fitted(servers):
    """The constants of least mean logarithm of errors, each model on each device with one weight."""
    often = Counter(server["group"] for server in servers)
    weights = np.array([1 / often[server["group"]] for server in servers])
    generator = np.random.default_rng(SEED)

    def loss(constants):
        token, first = (np.abs(np.log(one)) for one in ratios(servers, constants))
        return float(np.sum(weights * (token + FIRST_WEIGHT * first)))

    best, width = np.array([1.0, 0.1, 0.03]), 0.5
    least = loss(best)
    for _ in range(TRIALS):
        tried = best * np.exp(width * generator.normal(size=3) * (generator.random(3) < 0.5))
        # no engine is faster than its kernels, and no sequence waits for more than all others
        tried[:2] = max(tried[0], 1.0), min(tried[1], 1.0)
        found = loss(tried)
        if found < least:
            best, least, width = tried, found, width * 1.3
        else:
            width = max(0.985 * width, 1e-3)
    return best


def halves(servers):
    """The servers of a seeded half, and the others."""
    names = sorted({server["server"] for server in servers})
    drawn = set(np.random.default_rng(SEED).permutation(len(names))[: len(names) // 2])
    drawn = {names[number] for number in drawn}
    for inside in (True, False):
        yield [server for server in servers if (server["server"] in drawn) is inside]


def report(servers, constants, what):
    """Print errors and quantiles of some rows."""
    if not servers:
        return
    for name, found in zip(("token", "first"), ratios(servers, constants), strict=True):
        low, high = np.quantile(1 / found, OUTER)
        error = np.mean(np.abs(found - 1))
        figures = f"median {np.median(found):.2f}  error {error:.3f}  {low:.2f} to {high:.2f}"
        print(f"  {what:18} {name:5} {len(servers):4} rows  {figures}")


def entry(constants, others):
    """What the YAML states of an engine's live servers; ranges are those of kinds."""
    factor, waits, beside = constants
    token, _ = ratios(others, constants)
    stated = {"speed": 1 / factor, "waits": waits, "first_s": beside, "error": np.mean(np.abs(token - 1))}
    rounded = {name: f"{value:.3g}" for name, value in stated.items()}
    return {**rounded, "table": TABLE.name, "fitted": dt.datetime.now(tz=dt.UTC).date().isoformat()}


def write_live(engine, stated):
    """Write the constants of an engine's live servers into its YAML, in place of those that it has."""
    path = engine_file(engine)
    before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    constants = ", ".join(f"{name}: {value}" for name, value in stated.items())
    kinds = rest.partition("\n")[2]
    path.write_text(f"{before}{BEGIN}live: {{{constants}}}\n{kinds}", encoding="utf-8")


def renew(*, write, table=TABLE, show_rows=False):
    """Fit each engine, print its constants and errors, and write them if asked to."""
    servers = [found for row in rows(table) if (found := parts(row)) is not None]
    drawn, others = halves([server for server in servers if server["is_fitted"]])
    unfitted = [server for server in servers if not server["is_fitted"]]
    for engine in ENGINES:
        of_engine = [[one for one in part if one["engine"] == engine] for part in (drawn, others, unfitted)]
        constants = fitted(of_engine[0])
        stated = entry(constants, of_engine[1])
        print(f"{engine}: {', '.join(f'{name} {value}' for name, value in stated.items())}")
        if write:
            write_live(engine, stated)
        for kind in ("dense", "mixture", "latent", ""):
            for half, part in zip(("fitted", "held out", "not fitted"), of_engine, strict=True):
                report([s for s in part if kind in {"", s["kind"]}], constants, f"{kind or 'all'} {half}")
        for server in of_engine[1] if show_rows else ():
            token, first = (float(one[0]) for one in ratios([server], constants))
            print(f"    {server['server']} batch {server['sizes'][0] + 1}: {token:.2f} {first:.2f}")


def main():
    """Read the command line, and fit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", nargs="?", type=Path, default=TABLE)
    parser.add_argument("--rows", action="store_true", help="print each row")
    parser.add_argument("--write", action="store_true", help="write the constants into engines/*.yaml")
    asked = parser.parse_args()
    renew(write=asked.write, table=asked.table, show_rows=asked.rows)


if __name__ == "__main__":
    main()
