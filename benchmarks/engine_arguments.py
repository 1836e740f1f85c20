"""The arguments that engines take, read off their own sources: tests/oracle/engine_arguments.json.

    pip download --no-deps vllm sglang mlx-lm    # wheels; and a source distribution that has llama.cpp
    python benchmarks/engine_arguments.py vllm=FOLDER sglang=FOLDER mlx=FOLDER llamacpp=FOLDER trtllm=FOLDER

Each FOLDER is an unpacked wheel or a checkout; `vllm@0.33.0=FOLDER` states its version. An engine that is
left out keeps its entries. No engine is imported: argparse's and click's calls are read as syntax, arg.cpp
and the help of llama-bench as text. A kind is flag, int, float, text, or a list of choices.
"""

import ast
import json
import re
import sys
from pathlib import Path

DATA = Path(__file__).resolve().parent.parent / "tests/oracle/engine_arguments.json"
CALLS = {"add_argument", "option"}
FLAGS = {"store_true", "store_false", "BooleanOptionalAction"}


def trees(folder, *patterns):
    """The syntax of the files in a folder."""
    for pattern in patterns:
        for path in sorted(folder.glob(pattern)):
            yield ast.parse(path.read_text())


def nodes(folder, *patterns):
    """All nodes of the files in a folder."""
    return [node for tree in trees(folder, *patterns) for node in ast.walk(tree)]


def lists(found):
    """{name: texts} of `NAME = ["a", "b"]` and `Name = Literal["a", "b"]`."""
    texts = {}
    for node in found:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            texts[node.targets[0].id] = constants(node.value)
    return {name: values for name, values in texts.items() if values}


def constants(node):
    """The texts of a list, a tuple or a Literal."""
    literal = isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Literal"
    inner = node.slice if literal else node
    return [it.value for it in getattr(inner, "elts", ()) if isinstance(it, ast.Constant)]


def kind(type_text, action="", choices=None):
    """flag, int, float, text, or choices."""
    if choices:
        return choices
    if action in FLAGS or re.search(r"\bbool\b", type_text):
        return "flag"
    number = re.search(r"\b(int|float|human_readable_int)\b", type_text)
    return {"float": "float"}.get(number[1], "int") if number else "text"


def called(found, known):
    """{option: kind} of calls of add_argument and click's option."""
    options = {}
    for node in found:
        if not (isinstance(node, ast.Call) and getattr(node.func, "attr", "") in CALLS):
            continue
        names = [it.value for it in node.args if isinstance(it, ast.Constant) and str(it.value)[:1] == "-"]
        words = {word.arg: word.value for word in node.keywords if word.arg}
        action = ast.unparse(words["action"]).strip("'") if "action" in words else ""
        action = "store_true" if "is_flag" in words else action.rpartition(".")[2]
        choices = words.get("choices")
        choices = known.get(getattr(choices, "id", ""), choices and constants(choices))
        type_text = ast.unparse(words["type"]) if "type" in words else ""
        options |= dict.fromkeys(names, kind(type_text, action, choices))
    return options


def annotated(found, known):
    """{option: kind} of the fields of dataclasses, `max_num_seqs: int | None`, as options --max-num-seqs."""
    options = {}
    for node in found:
        if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)):
            continue
        text = ast.unparse(node.annotation)
        if "no_cli=True" in text:
            continue
        calls = [it for it in ast.walk(node.annotation) if isinstance(it, ast.Call)]
        words = {word.arg: word.value for call in calls for word in call.keywords}
        choices = words.get("choices")
        choices = known.get(getattr(choices, "id", ""), choices and constants(choices))
        named = (known[it.id] for it in ast.walk(node.annotation) if getattr(it, "id", "") in known)
        # of sglang's A with a type and a help text the type
        typed = ast.unparse(node.annotation.slice.elts[0]) if text.startswith("A[") else text
        names = [f"--{node.target.id.replace('_', '-')}", *(constants(words.get("aliases")) or [])]
        options |= dict.fromkeys(names, kind(typed, "", choices or next(named, None)))
    return options


def of_vllm(folder):
    """vllm serve and vllm bench serve."""
    engine = nodes(folder, "vllm/engine/arg_utils.py")
    known = lists(nodes(folder, "vllm/config/*.py", "vllm/model_executor/layers/quantization/__init__.py"))
    record = next(it for it in engine if isinstance(it, ast.ClassDef) and it.name == "EngineArgs")
    kinds, there = annotated(record.body, known), called(engine, known)
    bench = nodes(folder, "vllm/benchmarks/serve.py", "vllm/benchmarks/datasets/datasets.py")
    serve = {name: kinds.get(name, of_call) for name, of_call in there.items()}
    return {"vllm serve": serve, "vllm bench serve": called(bench, known)}


def of_sglang(folder):
    """The server and the benchmark of SGLang."""
    known = lists(nodes(folder, "sglang/srt/arg_groups/choices.py"))
    fields = nodes(folder, "sglang/srt/arg_groups/fields/*.py")
    server = annotated(fields, known) | called(nodes(folder, "sglang/srt/server_args.py"), known)
    bench = called(nodes(folder, "sglang/benchmark/serving.py"), known)
    return {"python -m sglang.launch_server": server, "python -m sglang.benchmark.serving": bench}


def of_mlx(folder):
    """The server and the benchmark of mlx-lm."""
    programs = {"mlx_lm.server": "server", "mlx_lm.benchmark": "benchmark"}
    return {name: called(nodes(folder, f"mlx_lm/{file}.py"), {}) for name, file in programs.items()}


def of_trtllm(folder):
    """trtllm-serve; of its subcommands the first."""
    tree = next(trees(folder, "tensorrt_llm/commands/serve.py"))
    serve = next(it for it in tree.body if isinstance(it, ast.FunctionDef) and it.name == "serve")
    return {"trtllm-serve": called([*serve.decorator_list], {})}


TAKES = {"int value": "int", "const std::string & value": "text"}
OPTION = re.compile(
    r"common_arg\(\s*\{([^{}]*)\},\s*(?:\{([^{}]*)\},)?.*?\]\(common_params & \w*(?:, ([^)]*?))?\s*\)"
    r"(.*?)\n\s*\)(.*?);\n",
    re.DOTALL,
)


def of_llamacpp(folder):
    """llama-server, by common/arg.cpp, and llama-bench, by its help."""
    source = (folder / "common/arg.cpp").read_text()
    block = re.search(r"kv_cache_types = \{(.*?)\}", source, re.DOTALL)[1]
    types = [name.lower() for name in re.findall(r"GGML_TYPE_(\w+)", block)]
    server = {}
    for names, negated, value, _, after in OPTION.findall(source):
        examples = re.findall(r"LLAMA_EXAMPLE_(\w+)", after)
        if not examples or {"SERVER", "COMMON"} & {*examples}:
            taken = TAKES.get(value.strip(), "flag")
            server |= dict.fromkeys(re.findall(r'"(-[^"]+)"', names + negated), taken)
    server |= {name: types for name in server if name.startswith(("-ctk", "-ctv", "--cache-type"))}
    text = (folder / "tools/llama-bench/llama-bench.cpp").read_text()
    bench, lines = {}, re.findall(r'printf\("  (-[^"]*)', text)
    for line in lines:
        names = re.match(r"-[\w-]+(?:,? -[\w-]+)*", line)[0]
        value = re.match(r"\s*<([^>]*)>", line[len(names) :])
        taken = "flag" if value is None else "int" if value[1] == "n" else "text"
        bench |= dict.fromkeys(re.split(r",? ", names), taken)
    bench |= dict.fromkeys(("-ctk", "--cache-type-k", "-ctv", "--cache-type-v"), types)
    return {"llama-server": server, "llama-bench": bench}


READERS = {
    "vllm": of_vllm,
    "sglang": of_sglang,
    "mlx": of_mlx,
    "llamacpp": of_llamacpp,
    "trtllm": of_trtllm,
}


def main():
    """Replace the entries of the engines that are named."""
    data = json.loads(DATA.read_text()) if DATA.exists() else {}
    for argument in sys.argv[1:]:
        named, _, folder = argument.partition("=")
        name, _, version = named.partition("@")
        for program, options in READERS[name](Path(folder)).items():
            data[program] = {"engine": name, "version": version, "options": dict(sorted(options.items()))}
    programs = ",\n".join(f"{json.dumps(name)}: {json.dumps(data[name])}" for name in sorted(data))
    DATA.write_text(f"{{\n{programs}\n}}\n")


if __name__ == "__main__":
    main()
