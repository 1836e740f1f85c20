"""Closed forms in a JavaScript engine beside the JSON of commands, at random settings of a model."""

import json
from functools import cache
from pathlib import Path
from random import Random

import quickjs

import archcli
from archcli.api.asking.subject import given
from archcli.errors import ArchError
from archcli.measure.flops import count_flops
from archcli.measure.kvcache.kvcache import count_kv_cache
from archcli.measure.params import count_params
from archcli.measure.survey.show import list_rows
from archcli.modules.spec.request import Request
from archcli.wings.shapes.symbolic.closed.addresses import CACHE_DTYPES
from archcli.wings.shapes.symbolic.closed.conditions import conditions, settable
from archcli.wings.shapes.symbolic.closed.forms import closed_forms
from archcli.wings.shapes.symbolic.closed.free import free_model
from archcli.wings.shapes.symbolic.closed.javascript import condition, script

RUNTIME = Path(archcli.__file__).parent / "wings/drawing/report" / "bigint.js"
COMMANDS = {"params", "flops", "decode", "kvcache", "show"}


class Engine:
    """The closed forms of a model in a JavaScript engine."""

    def __init__(self, name):
        self.name = name
        free = free_model(given(name).model)
        self.settings = settable(free, self.load)
        self.conditions = conditions(free, self.load)
        self.values = free.values
        # shares are no whole numbers, and a page has them as floats; numbers of layers are for the titles of
        # a drawing, which names the last one wherever it stands
        forms = {at: form for at, form in closed_forms(free).items() if not left_out(at)}
        distinct = list(dict.fromkeys(forms.values()))
        self.places = {address: distinct.index(form) for address, form in forms.items()}
        self.context = quickjs.Context()
        self.context.eval(RUNTIME.read_text())
        self.context.eval(f"SCRIPT = {script(distinct).code}")
        checks = ", ".join(f"s => {condition(known)}" for known in self.conditions)
        self.context.eval(f"CHECKS = [{checks}]")
        self.rows = [row["path"] for row in list_rows(free.numeric).rows]

    def load(self, texts):
        return given(self.name, texts).model

    def evaluated(self, code, sizes):
        """The JSON of an expression in `s`, at these sizes."""
        written = ", ".join(f"{name}: {value}n" for name, value in sizes.items())
        return json.loads(self.context.eval(f"{{ const s = stepped(SCRIPT, {{{written}}}); {code} }}"))

    def figures(self, sizes):
        """Every closed form's value at these sizes, by address."""
        values = self.evaluated("JSON.stringify(SCRIPT.forms.map(f => String(f(s))))", sizes)
        return {tuple(address): int(values[place]) for address, place in self.places.items()}

    def allows(self, sizes):
        """Whether the conditions hold at these sizes."""
        return all(self.evaluated("JSON.stringify(CHECKS.map(f => f(s)))", sizes))


def left_out(address):
    return address.key.endswith("_share") or address.key.startswith("layers.")


@cache
def engine(name):
    return Engine(name)


def numbers(tree, lead=""):
    """(keys joined by dots, number) of all whole numbers in a JSON."""
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        if isinstance(value, dict | list):
            yield from numbers(value, f"{lead}{key}.")
        elif isinstance(value, int) and not isinstance(value, bool):
            yield f"{lead}{key}", value


def counted(model, sizes, rows):
    """The numbers of the commands' JSON by address; of show under the paths `rows` of its rows."""
    batch_size, seq_len, context = (sizes[name] for name in ("batch_size", "seq_len", "context"))
    reports = [
        ("params", count_params(model), "path"),
        *_flops(model, "flops", Request("forward", batch_size, seq_len)),
    ]
    if model.caches:
        reports += _flops(model, "decode", Request("decode", batch_size, 1, context - 1))
    found = {}
    for command, report, named in reports:
        found |= {(command, "", key): value for key, value in numbers(report.totals)}
        for row in report.rows:
            found |= {(command, row[named], key): value for key, value in numbers(row)}
    for dtype in CACHE_DTYPES if model.caches else ():
        suffix = "" if dtype == "bf16" else f"@{dtype}"
        totals = count_kv_cache(model, context, batch_size, dtype).totals
        found |= {("kvcache", "", f"{key}{suffix}"): value for key, value in numbers(totals)}
    for path, row in zip(rows, list_rows(model, batch_size, seq_len).rows, strict=True):
        for key, value in numbers(row):
            found.setdefault(("show", path, key), value)
    return found


def _flops(model, command, request):
    return [(command, count_flops(model, request), "component")]


def random_changes(known, rng):
    """A few settings with other values, as somebody would try them."""
    chosen = rng.sample(known.settings, min(len(known.settings), rng.randint(1, 3)))
    values = {}
    for setting in chosen:
        value = setting.value
        value = rng.choice(
            [2 * value, value + 1, 3 * value, max(1, value // 2), rng.randint(1, 2 * value), 1]
        )
        if value >= setting.least:
            values[setting] = value
    return values


def disagreement(name, seed):
    """What closed forms and commands say differently of random settings: an empty list where nothing."""
    known, rng = engine(name), Random(f"{name} {seed}")  # noqa: S311
    changes = random_changes(known, rng)
    texts = [text for setting, value in changes.items() for text in setting.overrides(value)]
    sizes = known.values | {setting.name: value for setting, value in changes.items()}
    sizes |= {"batch_size": rng.randint(1, 9), "seq_len": rng.randint(1, 9_000)}
    sizes["context"] = rng.choice([rng.randint(2, 300_000), rng.randint(2, 10**16)])
    allowed = known.allows(sizes)
    assert allowed == all(condition.holds(sizes) for condition in known.conditions)
    try:
        model = known.load(texts)
    except ArchError:
        return [f"{texts} is refused"] if allowed else []
    if not allowed:
        return [f"{texts} is allowed"]
    said, exact = known.figures(sizes), counted(model, sizes, known.rows)
    assert {address[0] for address in exact} >= {"params", "flops", "show"}
    return [
        (texts, sizes, key, said[key], exact[key]) for key in said if key in exact and said[key] != exact[key]
    ]
