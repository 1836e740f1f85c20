"""What llama.cpp allocates for models of the presets: the table `measured/llamacpp_dry_run.csv`.

    python benchmarks/llamacpp_dry_run.py [--work FOLDER] [MODEL …]

From nothing to the table: the source of llama.cpp inside the sdist of llama-cpp-python, its libraries for
the CPU, `llamacpp_dry_run.cpp` beside this file, headers of files (`llamacpp_headers.py`), and a dry run a
row. llama.cpp's own code creates the model and the context without memory (`no_alloc`, as
`llama-fit-params` does) and says what each buffer would take. No figure is computed here.

`card` is a stand-in that states of itself what ggml-cuda does; `host` is the RAM beside it. Needs cmake,
g++, torch, transformers, tqdm, and half a gigabyte of disk. Ten minutes on two cores, a second a row.
"""

import argparse
import csv
import logging
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

from llamacpp_headers import write_header

PACKAGE, VERSION = "llama-cpp-python", "0.3.36"
HERE = Path(__file__).resolve().parent
TABLE = HERE / "measured/llamacpp_dry_run.csv"
NOTHING = (0, 0, 0)
ALL = 0
"""Of `n_outputs_max`: logits of every token of a micro batch, as llama-bench and perplexity ask for."""


class Case(NamedTuple):
    """A file and how it is served: context of each sequence, micro batch, sequences, cache and attention."""

    kind: str
    model: str
    form: str = "q8_0"
    context: int = 8192
    ubatch: int = 512
    sequences: int = 1
    unified: int = 0
    cache: str = "f16"
    flash: str = "auto"
    cards: str = "1"
    """How many with equally much free, or GiB of each: `24+8`."""
    experts: str = "card"

    def names(self) -> list[str]:
        """The cards, as the program calls them."""
        count = len(self.cards.split("+")) if "+" in self.cards else int(self.cards)
        return [f"Card{i}" for i in range(count)]


CASES = [
    Case("dense", "llama-3.1-8b"),
    Case("dense", "llama-3.1-8b", "bf16", 32768),
    Case("dense", "llama-3.1-8b", "f16", 131072, 2048),
    Case("dense", "llama-3.1-8b", cache="q8_0", context=32768),
    Case("dense", "llama-3.1-8b", context=16384, flash="off"),
    Case("dense", "llama-3.1-8b", sequences=4),
    Case("dense", "llama-3.1-8b", sequences=4, unified=1),
    Case("dense", "llama-3.1-70b", context=32768),
    Case("dense", "qwen3-8b", context=32768, cache="q8_0", sequences=4),
    Case("dense", "qwen2.5-0.5b", "f16", context=4096, ubatch=2048),
    Case("dense", "qwen3-0.6b", context=32768),
    Case("dense", "llama-3.2-1b", context=131072),
    Case("dense", "seed-oss-36b", context=65536),
    Case("dense", "phi-3-mini-4k", context=4096),
    Case("dense", "llama-2-7b", context=4096),
    Case("dense", "olmo-2-7b", context=4096, ubatch=2048),
    Case("dense", "phi-2", "f16", context=4096, flash="off"),
    Case("dense", "stablelm-2-1.6b", context=4096, sequences=4),
    Case("mixture", "mixtral-8x7b", context=32768),
    Case("mixture", "mixtral-8x7b", context=8192, ubatch=2048),
    Case("mixture", "qwen3-30b-a3b", context=32768),
    Case("mixture", "qwen3-30b-a3b", context=32768, ubatch=2048, cache="q8_0"),
    Case("mixture", "qwen3-30b-a3b", sequences=4, unified=1),
    Case("mixture", "olmoe-1b-7b", context=4096),
    Case("mixture", "granite-3.0-1b-a400m", context=4096, flash="off"),
    Case("mixture", "minimax-m2.5", context=65536),
    Case("latent", "deepseek-v2-lite", context=32768),
    Case("latent", "deepseek-v2-lite", context=32768, flash="off"),
    Case("latent", "deepseek-v2-lite", context=16384, ubatch=2048, cache="q8_0"),
    Case("latent", "deepseek-v3", context=65536),
    Case("latent", "deepseek-v3", context=32768, ubatch=2048, sequences=4),
    Case("latent", "minicpm3-4b", context=16384),
    Case("sparse", "deepseek-v3.2", context=32768),
    Case("sparse", "deepseek-v3.2", context=131072),
    Case("hybrid", "qwen3.5-35b-a3b", context=65536),
    Case("hybrid", "qwen3.5-35b-a3b", context=32768, ubatch=2048, sequences=4),
    Case("hybrid", "qwen3-next-80b-a3b", context=131072),
    Case("hybrid", "jamba-1.5-mini", context=65536),
    Case("hybrid", "nemotron-h-8b", context=8192, sequences=4),
    Case("hybrid", "nemotron-3-nano-30b-a3b", context=131072),
    Case("hybrid", "lfm2-1.2b", "bf16", context=32768),
    Case("hybrid", "lfm2-8b-a1b", context=32768, ubatch=2048),
    Case("hybrid", "granite-4.0-h-tiny", context=131072, cache="q8_0"),
    Case("window", "gemma-2-9b"),
    Case("window", "gemma-3-1b", "bf16", context=32768),
    Case("window", "gemma-3-4b", context=131072),
    Case("window", "gemma-3-4b", context=32768, ubatch=2048, sequences=4),
    Case("window", "gemma-3-4b", context=32768, sequences=4, unified=1),
    Case("window", "gemma-4-26b-a4b", context=65536),
    Case("window", "gemma-4-e4b", context=32768, cache="q8_0"),
    Case("window", "gpt-oss-20b", "mxfp4", context=131072),
    Case("window", "gpt-oss-20b", "mxfp4", context=32768, ubatch=2048, sequences=4),
    Case("window", "olmo-3-7b", context=65536),
    Case("window", "command-r7b", context=32768, flash="off"),
    Case("window", "exaone-4.0-32b", context=32768),
    Case("recurrent", "mamba-130m", "f16"),
    Case("recurrent", "mamba2-2.7b", ubatch=2048),
    Case("recurrent", "falcon-mamba-7b", sequences=4),
    Case("dense", "llama-3.1-70b", context=32768, cards="2"),
    Case("dense", "llama-3.1-70b", context=32768, cards="4"),
    Case("dense", "llama-3.1-8b", context=32768, cards="2"),
    Case("mixture", "qwen3-30b-a3b", context=32768, cards="2"),
    Case("window", "gpt-oss-20b", "mxfp4", context=32768, cards="2"),
    Case("mixture", "qwen3-30b-a3b", context=32768, experts="ram"),
    Case("mixture", "qwen3-30b-a3b", context=32768, ubatch=2048, experts="ram"),
    Case("window", "gpt-oss-20b", "mxfp4", context=32768, experts="ram"),
    Case("latent", "deepseek-v3", context=32768, experts="ram"),
    Case("hybrid", "qwen3.8-27b", context=4096),
    Case("hybrid", "qwen3.8-27b", context=65536, sequences=4, unified=1),
    Case("dense", "llama-3.1-8b", context=32768, cards="24+8"),
    Case("dense", "llama-3.1-8b", context=32768, cards="8+24"),
    Case("dense", "llama-3.1-70b", context=32768, cards="48+32+24"),
    Case("dense", "qwen3-8b", context=32768, cache="q8_0", sequences=4, cards="16+12"),
    Case("dense", "qwen3-0.6b", context=32768, cards="24+1"),
    Case("dense", "qwen3-0.6b", context=32768, cards="40+1"),
    Case("mixture", "qwen3-30b-a3b", context=32768, cards="24+12"),
    Case("mixture", "mixtral-8x7b", context=32768, cards="24+24+16"),
    Case("latent", "deepseek-v2-lite", context=32768, cards="16+8"),
    Case("window", "gpt-oss-20b", "mxfp4", context=32768, cards="12+8"),
    Case("window", "gemma-3-4b", context=131072, cards="8+4"),
    Case("hybrid", "qwen3.5-35b-a3b", context=65536, cards="32+16"),
    Case("hybrid", "jamba-1.5-mini", context=65536, cards="48+24"),
    Case("recurrent", "mamba2-2.7b", ubatch=2048, cards="4+2"),
]

FIGURES = (
    "layers", "weights_card", "weights_host", "context_card", "kv_mib", "rs_mib", "output_mib",
    "compute_card", "compute_host", "compute_card_all",
    "compute_host_all", "cpu_weights", "cpu_compute", "cpu_compute_all", "attention",
)  # fmt: skip


def run(*command: object) -> str:
    """What a program prints, whose failure ends the script."""
    words = [str(word) for word in command]
    done = subprocess.run([shutil.which(words[0]), *words[1:]], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(words)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def source(work: Path) -> Path:
    """The checkout of llama.cpp inside the package's sdist, downloaded where it is not there."""
    checkout = work / f"llama_cpp_python-{VERSION}/vendor/llama.cpp"
    if not checkout.exists():
        download = ["pip", "download", "-d", work, "--no-deps", "--no-binary", PACKAGE]
        run(sys.executable, "-m", *download, f"{PACKAGE}=={VERSION}")
        with tarfile.open(next(work.glob("llama_cpp_python-*.tar.gz"))) as archive:
            archive.extractall(work, filter="data")
    return checkout


def build(work: Path, checkout: Path) -> Path:
    """The program of dry runs, linked with llama.cpp's libraries for the CPU."""
    program, made = work / "dry_run", work / "build"
    if not program.exists():
        off = ("GGML_NATIVE", "GGML_OPENMP", "LLAMA_BUILD_COMMON", "LLAMA_BUILD_TOOLS")
        options = ["-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=ON", *(f"-D{name}=OFF" for name in off)]
        run("cmake", "-S", checkout, "-B", made, *options)
        run("cmake", "--build", made, "-j2", "--target", "llama")
        folders = [f"-I{checkout}/{folder}" for folder in ("include", "ggml/include", "ggml/src", "common")]
        linked = ["-lllama", "-lggml", "-lggml-base", "-lggml-cpu", f"-L{made}/bin", f"-Wl,-rpath,{made}/bin"]
        run("g++", "-O1", "-std=c++17", *folders, HERE / "llamacpp_dry_run.cpp", "-o", program, *linked)
    return program


def log_of(program: Path, file: Path, case: Case, cards: str, outputs: int) -> str:
    """The log of one dry run, with the line of bytes for each type of buffer."""
    context = case.context * case.sequences
    of_context = (context, case.ubatch, case.sequences, case.unified, case.cache, case.flash, outputs)
    return run(program, file, cards, *of_context, case.experts)


def bytes_of(log: str) -> dict[str, tuple[int, int, int]]:
    """Bytes of weights, context and graph by type of buffer: `Card0`, `Host`, `CPU`."""
    lines = re.findall(r"^bytes (\S+) \d (\d+) (\d+) (\d+)$", log, re.MULTILINE)
    return {name: (int(weights), int(context), int(graph)) for name, weights, context, graph in lines}


def printed(log: str, line: str) -> str:
    """The sum of the MiB that lines such as `llama_kv_cache: size = 128.00 MiB` print."""
    return f"{sum(float(size) for size in re.findall(rf'{line} = +([0-9.]+) MiB', log)):.2f}"


def row_of(program: Path, file: Path, case: Case) -> dict[str, object]:
    """One row of the table: four dry runs, on the card and on the CPU, with few and with all logits."""
    few, every = (log_of(program, file, case, case.cards, n) for n in (case.sequences, ALL))
    on_cpu, on_cpu_all = (bytes_of(log_of(program, file, case, "0", n)) for n in (case.sequences, ALL))
    card, card_all = bytes_of(few), bytes_of(every)

    def over(figures: dict[str, tuple[int, int, int]], which: int) -> str:
        return "+".join(str(figures.get(name, NOTHING)[which]) for name in case.names())

    placed = re.findall(r"assigned to device (\w+)", few)
    layers = "+".join(str(placed.count(name)) for name in case.names())

    used = "steps" if case.flash == "off" or "Flash Attention not supported" in few else "fused"
    figures = (
        layers, over(card, 0), card["Host"][0], over(card, 1), printed(few, "llama_kv_cache: size"),
        printed(few, "llama_memory_recurrent: size"), printed(few, "output buffer size"),
        over(card, 2), card["Host"][2], over(card_all, 2), card_all["Host"][2],
        on_cpu["CPU"][0], on_cpu["CPU"][2], on_cpu_all["CPU"][2], used,
    )  # fmt: skip
    return case._asdict() | dict(zip(FIGURES, figures, strict=True))


def rows(work: Path, models: list[str]) -> Iterator[dict[str, object]]:
    """The rows of all cases, or of these models."""
    checkout = source(work)
    program = build(work, checkout)
    for case in CASES:
        if models and case.model not in models:
            continue
        file = work / f"{case.model}-{case.form}.gguf"
        if not file.exists():
            write_header(checkout, case.model, case.form, file)
        yield row_of(program, file, case)


def main() -> None:
    """Write the table, or print the rows of the models that are named."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=Path, default=Path("build/llamacpp"))
    parser.add_argument("models", nargs="*")
    asked = parser.parse_args()
    asked.work.mkdir(parents=True, exist_ok=True)
    logging.disable(logging.CRITICAL)
    where = sys.stdout if asked.models else TABLE.open("w", newline="")
    with where:
        table = csv.DictWriter(where, [*Case._fields, *FIGURES], lineterminator="\n")
        table.writeheader()
        for row in rows(asked.work, asked.models):
            table.writerow(row)
            where.flush()


if __name__ == "__main__":
    main()
