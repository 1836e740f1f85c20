"""Options of the fuzzer's valid questions that several commands share."""

from archcli.wings.serving.devices.datasheet import devices, load_datasheet
from archcli.wings.serving.devices.names import split_count
from archcli.wings.serving.memory.plan import Plan
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.predict.communication.collective import DEVICES_PER_NODE

BATCHES = (1, 1, 1, 2, 3, 5, 8, 13, 64, 100, 256, 1000, 4096)
WIDTHS = ("20", "40", "63", "80", "100", "200", "1000")
FORMS = {"json": ".json", "csv": ".csv", "md": ".md", "plain": ".txt", "table": ".txt"}
PICTURES = (".svg", ".html")


def some(random, table, share=0.3):
    """Options of a table, each with one of its values; True stands for a flag."""
    arguments = []
    for option, values in table.items():
        if random.random() < share:
            value = random.choice(values)
            arguments += [option] if value is True else [option, str(value)]
    return arguments


def form(random, folder, forms=FORMS):
    """How the answer is printed: JSON most often, to standard output or into a file."""
    chosen = "json" if random.random() < 0.7 else random.choice(list(forms))
    stated = ["--json"] if chosen == "json" and random.random() < 0.7 else ["--format", chosen]
    if random.random() < 0.2:
        return [*stated, "-o", str(folder / f"answer{forms[chosen]}")]
    return stated if chosen == "json" or random.random() < 0.7 else []


def environment(random):
    """The width of a terminal, and whether colours are wanted."""
    variables = {"COLUMNS": random.choice(WIDTHS)} if random.random() < 0.6 else {}
    return variables | ({"NO_COLOR": "1"} if random.random() < 0.3 else {})


def picture(random, folder):
    """--plot into a temporary file, once in ten."""
    return ["--plot", str(folder / f"picture{random.choice(PICTURES)}")] if random.random() < 0.1 else []


def phase_of(random, model):
    """A phase that the model has: what caches nothing neither prefills nor decodes."""
    return random.choice(
        ["train", "train", "forward"] + (["prefill", "decode", "serve"] if model.caches else [])
    )


def plan_of(random, model, phase, tokens, share=0.5):
    """A plan that the model can have, or none."""
    degrees = (1, 1, 1, 2, 2, 3, 4, 5, 8, 16)
    for _ in range(12 if random.random() < share else 0):
        drawn = {"dp": random.choice(degrees), "tp": random.choice(degrees)}
        if random.random() < 0.3:
            drawn["ep"] = random.choice(degrees)
        if phase == "train":
            drawn |= {"zero": random.choice([0, 0, 1, 2, 3]), "cp": random.choice([1, 1, 1, 2, 4])}
            drawn |= {"pp": random.choice([1, 1, 2, 3, 4]), "sp": random.random() < 0.3}
        if drawn.get("pp", 1) > 1:
            drawn["micro_batches"] = random.choice([1, 2, 3, 8, 12])
            if random.random() < 0.3:
                drawn |= {"schedule": "interleaved", "virtual_stages": random.choice([2, 3])}
        plan = Plan(**drawn)
        # --sp is of a plan with --tp
        if plan.suits(model, MemorySettings(phase, seq_len=tokens)) and (plan.tp > 1 or not plan.sp):
            return plan
    return Plan()


def plan_options(plan):
    """The plan as options."""
    arguments = []
    for name, value in plan.inputs().items():
        if value != getattr(Plan(), name):
            option = f"--{name.replace('_', '-')}"
            arguments += [option] if value is True else [option, str(value)]
    return arguments


def device_of(random, least=1):
    """A device of `archcli devices`, and so many of them at least."""
    many = max(least, random.choice([1, 1, 2, 4, 8, 16, 72]))
    name = random.choice(devices())
    return name if many == 1 else f"{many}x{name}"


LEAST_BYTES = 8 * 2**30


def device_for(random, dtype, many):
    """So many of a device whose peak of the dtype is known, and the rates of the links between them."""
    for _ in range(40):
        device = device_of(random, many)
        number_of, name = split_count(device)
        sheet = load_datasheet(name)
        figures = sheet.figures
        node = figures["devices_per_node"].value if "devices_per_node" in figures else DEVICES_PER_NODE
        links = ["link_gb_s"] * (number_of > 1) + ["network_gb_s"] * (number_of > node)
        # of a CPU or a card of 2 GB most questions have no answer
        holds = sheet.kind != "cpu" and figures["memory_bytes"].value > LEAST_BYTES
        if holds and {f"{dtype}_tflops", "bandwidth_gb_s", *links} <= {*figures}:
            return device
    return f"{many}xh100-sxm"


def varied(random, size, most):
    """Values of a size: a list of odd ones, or a range."""
    near = [n for n in dict.fromkeys((1, 2, size - 1, size + 1, 3 * size, size + 64)) if n > 0]
    if random.random() < 0.6:
        return ",".join(map(str, random.sample(near, min(most, len(near)))))
    return f"{size}:{size * random.randint(1, most)}:{size}"
