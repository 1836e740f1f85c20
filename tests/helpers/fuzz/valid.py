"""Valid questions in odd combinations: a model, and options of a command that fit it and each other."""

from random import Random

from archcli.load.presets import presets
from archcli.measure.params import count_params
from archcli.wings.serving.devices.datasheet import devices
from archcli.wings.serving.memory.plan import Plan
from fuzz.cases import FuzzCase
from fuzz.models import drawn_model, has_softmax, number
from fuzz.options import (
    BATCHES,
    device_for,
    device_of,
    environment,
    form,
    phase_of,
    picture,
    plan_of,
    plan_options,
    some,
    varied,
)

DTYPES = ("bf16", "bf16", "fp16", "fp32")
OPTIMIZERS = ("adamw", "adamw-fused", "adamw-mixed", "sgd", "sgd-momentum", "adafactor", "adam8bit", "muon")
STORED = ("bf16", "fp32", "fp16", "fp8", "int8", "int4", "fp4", "q8_0", "q4_0", "iq4_nl", "bfloat16")
OF_CHECK = {
    "full": ".txt",
    "concise": ".txt",
    "json": ".json",
    "github": ".txt",
    "sarif": ".sarif",
    "csv": ".csv",
}


def memory(random, folder):
    drawn = drawn_model(random, folder)
    model, phase, tokens = drawn.model, phase_of(random, drawn.model), drawn.tokens(random)
    batch = random.choice(BATCHES)
    arguments = ["memory", *drawn.arguments, "--phase", phase, "-b", str(batch), "-s", str(tokens)]
    arguments += some(
        random, {"--dtype": DTYPES, "--attention": ["flash", "sdpa", "eager"], "--backend": ["cpu"]}
    )
    if phase == "train":
        arguments += some(random, of_training(random, model, batch * number(tokens)))
    if phase in {"prefill", "serve"}:
        arguments += some(random, {"--chunk": [1, 7, 64, 512, 4096]})
    if model.source_length(1) is not None:
        arguments += some(random, {"--source-len": [1, 5, 64, 511, 512]})
    plan = plan_of(random, model, phase, number(tokens))
    arguments += plan_options(plan) + some(random, {"--alternatives": [True]}, 0.2) + picture(random, folder)
    if random.random() < 0.6:
        sized = ["--memory", random.choice(["1GiB", "24GB", "80GiB", "640GB", "18.5GiB"])]
        arguments += ["--device", device_of(random, plan.devices)] if random.random() < 0.7 else sized
        arguments += some(
            random, {"--fit": ["batch", "context", "devices"] + ["recompute"] * (phase == "train")}
        )
    return arguments


def of_training(random, model, tokens):
    """Options of a training step."""
    losses = ["plain"]
    if getattr(model, "head", None) is not None and not getattr(model, "mtp", None):
        losses += [*(f"chunked:{n}" for n in (1, 3, 8, 64) if n <= tokens), "fused"]
    recomputed = ["none", "layer", *(["attention"] if has_softmax(model) else [])]
    table = {"--optimizer": OPTIMIZERS, "--loss": losses, "--recompute": recomputed}
    return {**table, "--grad-accum": [1, 2, 3, 16, 1000]}


def predict(random, folder):
    drawn = drawn_model(random, folder)
    model, phase, tokens = drawn.model, phase_of(random, drawn.model), drawn.tokens(random)
    train = phase == "train"
    arguments = ["predict", *drawn.arguments, "--phase", phase, "-b", str(random.choice(BATCHES))]
    arguments += ["--past" if phase == "decode" else "-s", str(tokens)]
    fit = random.random() < 0.12
    plan = Plan() if fit else plan_of(random, model, phase, number(tokens), 0.4)
    dtype = random.choice([*DTYPES, *([] if train else ["fp8"])])
    name = device_for(random, dtype, plan.devices)
    arguments += ["--device", name, *(["--dtype", dtype] if dtype != "bf16" else [])]
    arguments += plan_options(plan) + (["--fit", "time"] if fit else [])
    arguments += some(
        random, {"--attention": ["flash", "sdpa", "eager"], "--price-per-hour": [0.01, 2, 3.5, 98]}
    )
    arguments += some(random, {"--curve": ["batch", "context", "devices"]}, 0.15) + picture(random, folder)
    if train:
        recomputed = ["none", "layer", *(["attention"] if has_softmax(model) else [])]
        arguments += some(random, {"--tokens": ["15T", "1e9", 1], "--grad-accum": [1, 2, 7]})
        arguments += [] if fit else some(random, {"--recompute": recomputed})
    if phase in {"prefill", "decode", "serve"}:
        arguments += some(random, {"--engine": ["none", "vllm", "trtllm"], "--kv-read": ["groups", "heads"]})
    if phase == "prefill":
        arguments += some(random, {"--past": [1, 100, 5000]}, 0.2)
    if phase == "serve":
        arguments += some(random, {"--new": [1, 2, 128, 3000]})
    if model.source_length(1) is not None:
        arguments += some(random, {"--source-len": [1, 5, 64, 511]})
    plain = plan == Plan() and not fit and "x" not in name.partition("-")[0] and "--engine" not in arguments
    if plain and phase != "serve" and "--recompute" not in arguments:
        arguments += some(random, {"--compile": [True]}, 0.15)
    return arguments


def sweep(random, folder):
    drawn = drawn_model(random, folder)
    sizes = drawn.sizes()
    arguments = ["sweep", *drawn.arguments]
    slow = random.random() < 0.25
    for path, size in random.sample(
        sizes, min(len(sizes), random.choice([1, 1, 2] if slow else [1, 2, 2, 3]))
    ):
        arguments += ["--vary", f"{path}={varied(random, size, 2 if slow else 5)}"]
    plain = ["params", "active_params", "flops_per_token", "kv_bytes(context=333)", "other_flops", "n_layers"]
    plain += ["flops(seq_len=5)/params", "flops(phase=train, batch_size=3)", "aspect_ratio", "state_bytes"]
    plain += ["non_embedding_params", "cache_bytes(context=1000, dtype=fp8)", "params - active_params"]
    timed = [
        "peak_bytes(seq_len=64)",
        "needed_bytes(phase=decode, seq_len=9)",
        "time(device=h100-sxm, seq_len=77)",
    ]
    timed += ["tokens_per_s(device=4xa100-sxm-80gb, phase=train, seq_len=64)", "kept_bytes(seq_len=32)"]
    figures = [*plain, *(timed if slow else [])]
    conditions = ["params > 0", "params in 1e3..1e13", "params in 1e9±50%", "kv_bytes(context=64) <= 1GiB"]
    conditions += ["aspect_ratio >= 1", "flops/params > 1", "active_params/params in 0..1"]
    table = {"--where": conditions, "--minimize": figures, "--maximize": figures, "--show": figures}
    arguments += some(random, table, 0.45) + some(random, {"--top": [1, 2, 3, 100], "--check": [True]}, 0.2)
    if random.random() < 0.1:
        arguments += ["--write-yaml", str(folder / "written")]
    return arguments


def scale(random, folder):
    drawn = drawn_model(random, folder)
    arguments = ["scale", *drawn.arguments]
    goal = random.choice(["--params", "--params", "--compute", "--hours"])
    own = count_params(drawn.model).totals["params"]
    values = {"--params": [int(own * times) for times in (0.2, 0.5, 0.77, 1, 1.9, 4, 13, 100)]}
    values |= {"--compute": ["3e18", "1e20", "1e21", "3e23", "1e26"], "--hours": [0.1, 1, 24, 1000]}
    arguments += [goal, str(random.choice(values[goal]))]
    if goal == "--hours" or random.random() < 0.4:
        arguments += ["--device", device_for(random, "bf16", 1)]
    laws = ["besiroglu", "hoffmann-1", "hoffmann-2", "hoffmann-3"]
    table = {"--law": laws, "--batch-tokens": ["1K", 3000, "4M", "64M"], "-s": [64, 100, "1K", 2048]}
    arguments += some(random, table)
    if random.random() < 0.2:
        arguments += ["--write-yaml", str(folder / "scaled.yaml")]
    kept = [path for path, _ in drawn.sizes() if path.rpartition(".")[2] not in {"d_model", "n_layers"}]
    return arguments + (some(random, {"--keep": kept}, 0.2) if kept else [])


def explain(random, folder):
    drawn = drawn_model(random, folder)
    quantity = random.choice(
        ["params", "params", "flops", "kvcache"] if drawn.model.caches else ["params", "flops"]
    )
    arguments = ["explain", *drawn.arguments, quantity]
    tokens = drawn.tokens(random)
    arguments += some(random, {"--steps": [True], "--approx": [True]})
    if quantity == "kvcache":
        arguments += some(random, {"-c": [tokens], "-b": BATCHES})
    if quantity == "flops":
        phase = random.choice(["forward", "train", *(["prefill", "decode"] if drawn.model.caches else [])])
        table = {"-b": BATCHES, "--mask": ["exact", "dense"]}
        table |= {} if phase == "train" else {"--logits": ["all", "last"]}
        table |= {"--mla": ["auto", "naive", "absorbed"], "--scan": ["auto", "chunked", "recurrent"]}
        arguments += ["--phase", phase, *some(random, table)]
        arguments += ["--past" if phase == "decode" else "-s", str(tokens)]
    names = sorted({path.rpartition(".")[2] for path, _ in drawn.sizes()} & {"d_model", "vocab_size"})
    return arguments + (some(random, {"--at": names, "--symbols": names}, 0.2) if names else [])


def devices_asked(random, folder):
    columns = ["name", "memory_bytes:desc", "bandwidth_gb_s", "bf16_tflops:desc", "fp8_tflops", "link_gb_s"]
    conditions = ["memory_bytes in 40GB..80GB", "vendor=NVIDIA", "fp8_tflops=none", "bandwidth_gb_s > 1000"]
    conditions += [
        "kind=gpu",
        "tdp_w/memory_gb < 10",
        "bf16_tflops >= 100",
        "architecture~sm",
        "memory_gb != 80",
    ]
    if random.random() < 0.4:
        return ["devices", random.choice(devices())]
    several = [word for text in random.sample(conditions, random.randint(0, 2)) for word in ("--where", text)]
    return ["devices", *several, *some(random, {"--sort": columns}, 0.5)]


def kvcache(random, folder):
    drawn = drawn_model(random, folder)
    arguments = ["kvcache", *drawn.arguments]
    lengths = [drawn.tokens(random), 1, 7, "100k", "128K", "1M"]
    table = {"-c": lengths, "-b": BATCHES, "--dtype": STORED, "--state-dtype": ["fp32", "bf16", "fp8"]}
    arguments += some(random, table, 0.5)
    if drawn.model.source_length(1) is not None:
        arguments += some(random, {"--source-len": [1, 5, 64, 1500]})
    plan = plan_of(random, drawn.model, "decode", None, 0.2)
    tp = plan.tp if Plan(tp=plan.tp).suits(drawn.model) else 1
    arguments += ["--tp", str(tp)] if tp > 1 else []
    if random.random() < 0.5:
        name = random.choice(devices())
        named = ["--device", name if tp == 1 else f"{tp}x{name}"]
        arguments += random.choice([["--memory", random.choice(["1GiB", "24GB", "80GiB", "7.5GiB"])], named])
    return arguments


def check(random, folder):
    drawn = drawn_model(random, folder)
    others = random.sample(presets(), random.choice([0, 0, 0, 1, 3])) if len(drawn.arguments) == 1 else []
    codes = ["FFN", "ATT001", "ALL", "HWD", "NRM,POS", "POS002", "A", "ATT,FFN003"]
    arguments = ["check", *drawn.arguments, *others]
    arguments += some(random, {"--select": codes, "--extend-select": codes, "--ignore": codes}, 0.2)
    table = {"--severity": ["error", "warning"], "--exit-zero": [True], "--strict-files": [True]}
    table |= dict.fromkeys(("--tp", "--pp", "--ep"), (1, 2, 3, 8, 64))
    return arguments + some(random, table, 0.25)


def of_check(random, folder):
    """How findings are printed: --suggest and --statistics go with some formats alone."""
    if random.random() < 0.1:
        return ["--suggest", *(["-o", str(folder / "fix.patch")] if random.random() < 0.3 else [])]
    counted = random.random() < 0.15
    forms = {
        name: suffix for name, suffix in OF_CHECK.items() if not counted or name in {"full", "json", "csv"}
    }
    return [*["--statistics"] * counted, *form(random, folder, forms)]


VALID = {
    "memory": memory,
    "predict": predict,
    "sweep": sweep,
    "scale": scale,
    "explain": explain,
    "devices": devices_asked,
    "kvcache": kvcache,
    "check": check,
}


def valid_case(command, seed, folder):
    """A question that a user could mean, in an empty folder."""
    random = Random(f"{command} {seed}")  # noqa: S311 - a case is told by its seed
    arguments = VALID[command](random, folder)
    printed = (of_check if command == "check" else form)(random, folder)
    if command == "explain" and random.random() < 0.1:
        printed = ["--format", "latex"]
    return FuzzCase([*arguments, *printed], environment(random))
