"""Makes the truth table: figures of models by other people's software. No code of archcli takes part.

    python truth/make.py transformers [MODEL …]
    python truth/make.py llamacpp --work FOLDER [MODEL …]

`transformers`: the class of a config.json on torch's meta device; its tensors are counted, and torch's
FlopCounterMode counts its pass (`tests/oracle/regenerate.py`). `llamacpp`: the converter of llama.cpp writes
the header of a GGUF file, its quantizer plans the types of all tensors, and its own dry run says what the
cache takes (`benchmarks/llamacpp_dry_run.py`). A model that a program refuses has no figures of it.
"""

import argparse
import ctypes
import json
import logging
import math
import re
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / folder) for folder in ("benchmarks", "tests")]

import llamacpp_dry_run as dry_run
from llamacpp_headers import write_header

from oracle import regenerate

regenerate.GROUPS[""] = "rest"  # here a name of no group is no mistake
LENGTHS = (1024, 8192, 32768)
CONFIGS = json.loads((HERE / "configs.json").read_text())
SCANS = {"mamba", "mamba2", "falcon_mamba", "jamba", "lfm2", "lfm2_moe"}
SCANS |= {"granitemoehybrid", "nemotron_h", "qwen3_next"}
"""Types with recurrent layers: what their class multiplies depends on how it cuts a scan into chunks."""

FIELDS = {
    "flops": "flops",
    "decode_flops": "decode_flops",
    "kv_elements": "cache_elements",
    "cross_elements": "cross_cache_elements",
}
FORMATS = {"q8_0": 7, "q4_k_m": 15}
PLANNED = re.compile(r"^\[ *\d+/ *\d+\] .* - \[([^]]+)\], type = +(\w+), .*?(?:\((\w+)\))?$", re.MULTILINE)


def by_transformers(model, _work):
    """Parameters, FLOPs and cached elements of the class of a config.json."""
    settings = dict(CONFIGS[model])
    if settings["architectures"][0].endswith("ForCausalLM"):
        del settings["architectures"]
    if settings["model_type"] in SCANS:
        with regenerate.torch.device("meta"):
            counted = regenerate._params(regenerate._built(settings))
    else:
        counted = regenerate.figures(settings, regenerate.Lengths(contexts=LENGTHS))
    flat = {name: counted[name] for name in ("params", "active_params")}
    for name, field in FIELDS.items():
        flat |= {f"{field}@{n}": figure for n, figure in counted.get(name, {}).items()}
    return flat


class Quantizing(ctypes.Structure):
    """llama_model_quantize_params of llama.h."""

    _fields_ = (
        *((name, ctypes.c_int) for name in ("threads", "format", "output", "embedding")),
        *((name, ctypes.c_bool) for name in ("again", "output_too", "copy", "pure", "split", "dry_run")),
        *((name, ctypes.c_void_p) for name in ("imatrix", "metadata", "types", "prune")),
        ("most", ctypes.c_size_t),
    )


def planned_bytes(library, file, form):
    """Bytes of all tensors of a file in this format, as the quantizer plans them."""
    import gguf

    library.llama_model_quantize_default_params.restype = Quantizing
    log = []
    keep = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(
        lambda _level, text, _data: log.append(text.decode())
    )
    library.llama_log_set(keep, None)
    plan = library.llama_model_quantize_default_params()
    plan.format, plan.dry_run = FORMATS[form], True
    if library.llama_model_quantize(str(file).encode(), b"not-written", ctypes.byref(plan)):
        raise RuntimeError("".join(log).strip().splitlines()[-1])
    total = 0
    for shape, before, after in PLANNED.findall("".join(log)):
        block, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[(after or before).upper()]]
        total += math.prod(int(n) for n in shape.split(",")) // block * size
    return total


def by_llamacpp(model, work):
    """Bytes of the tensors of a file by format, and of caches and states in f16."""
    checkout = dry_run.source(work)
    program, file = dry_run.build(work, checkout), work / f"{model}-bf16.gguf"
    write_header(checkout, model, "bf16", file)
    library = ctypes.CDLL(str(work / "build/bin/libllama.so"))
    figures = {f"gguf_bytes_{form}": planned_bytes(library, file, form) for form in FORMATS}
    for n in LENGTHS:
        case = dry_run.Case("", model, "bf16", n)
        held = dry_run.bytes_of(dry_run.log_of(program, file, case, "1", 1))
        figures[f"llamacpp_cache_bytes@{n}"] = sum(context for _, context, _ in held.values())
    return figures


WITNESSES = {"transformers": by_transformers, "llamacpp": by_llamacpp}


def main():
    """Write the figures of one witness, of these models or of all, among those that stand already."""
    parser = argparse.ArgumentParser()
    parser.add_argument("witness", choices=WITNESSES)
    parser.add_argument("--work", type=Path, default=Path("build/llamacpp"))
    parser.add_argument("models", nargs="*")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    file = HERE / f"{options.witness}.json"
    table = json.loads(file.read_text())
    table["date"] = datetime.now(UTC).strftime("%Y-%m-%d")
    table["software"] |= {name: version(name) for name in ("torch", "transformers")}
    for name in options.models or CONFIGS:
        for outcome in (table["figures"], table["refused"]):
            outcome.pop(name, None)
        try:
            table["figures"][name] = WITNESSES[options.witness](name, options.work)
        except (Exception, SystemExit) as error:  # noqa: BLE001 whatever the witness refuses with
            table["refused"][name] = f"{type(error).__name__}: {error}".strip().splitlines()[-1][:160]
        sys.stderr.write(f"{name} {table['refused'].get(name, '')}\n")
        for key in ("figures", "refused"):
            table[key] = {model: table[key][model] for model in CONFIGS if model in table[key]}
        file.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
