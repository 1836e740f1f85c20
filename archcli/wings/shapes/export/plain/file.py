"""torch_file: an architecture as one readable file of plain PyTorch."""

from __future__ import annotations

from typing import Any

from archcli.errors import ArchError
from archcli.graph import Tensor
from archcli.modules import Model, substitute
from archcli.modules.spec.base import settings
from archcli.modules.spec.request import InputSpec, Request
from archcli.wings.serving.launches.dtypes import NAMED
from archcli.wings.serving.launches.log import Log, logged, without_grad
from archcli.wings.serving.launches.tensor import ShapeTensor
from archcli.wings.shapes.export.plain.classes import Classes, first_line
from archcli.wings.shapes.export.plain.lines import TOKEN, forward, settle
from archcli.wings.shapes.export.plain.numbers import BATCH, LENGTH, SOURCE, coded
from archcli.wings.shapes.export.plain.parts import FLOAT
from archcli.wings.shapes.export.plain.scope import CodeScope
from archcli.wings.shapes.export.plain.tape import CodeTape
from archcli.wings.shapes.export.plain.wrap import wrapped

SIZES = (("batch_size", BATCH, "B"), ("seq_len", LENGTH, "T"), ("source_len", SOURCE, "S"))


def torch_file(model: Model) -> str:
    """One file of plain PyTorch, in which `Model()` has the parameters of `archcli.build(model)`.

    Its forward is the model's own, read on a tape that writes code. Raises ArchError for an operation that
    has no code.
    """
    named, constants = with_names(model)
    with logged(Unlogged()), without_grad():
        try:
            scope = traced(named, "forward")
        except NotImplementedError as problem:
            what = f"{model.name} cannot be written as plain torch yet: {problem}"
            raise ArchError(what, "archcli.build makes a torch module of it") from problem
        if model.mtp_depth:
            trained = traced(named, "train")
            scope.parts |= {name: part for name, part in trained.parts.items() if name not in scope.parts}
        return source(model, scope, constants)


class Unlogged(Log):
    """A log of a pass whose kernels nobody asks for."""

    def run(self, *_: Any) -> None:
        """Nothing is noted."""


def with_names(model: Model) -> tuple[Model, dict[str, tuple[str, Any]]]:
    """The model with numbers that carry their names, and (path, value) of each name."""
    values: dict[str, Any] = {}
    constants: dict[str, tuple[str, Any]] = {}
    tokens: dict[tuple[str, Any], str] = {}
    for path, value in settings(model):
        if isinstance(value, bool) or not isinstance(value, int | float) or value in (0, 1, -1):
            continue
        if path.endswith("n_layers"):
            continue
        field = path.rpartition(".")[2]
        token = tokens.setdefault((field, value), f"c{len(tokens)}")
        constants.setdefault(token, (path, value))
        values[path] = coded(value, f"\x02{token}\x03")
    for path, value in settings(model):
        heads = values.get(f"{path.removesuffix('head_dim')}n_heads")
        # left out it is a share of the width, with a name all the same
        if path.endswith(".head_dim") and value is None and heads is not None and model.d_model % heads == 0:
            token = tokens.setdefault(("head_dim", model.d_model // heads), f"c{len(tokens)}")
            constants.setdefault(token, (path, model.d_model // int(heads)))
            values[path] = coded(model.d_model // int(heads), f"\x02{token}\x03")
    return substitute(model, values), constants


def traced(model: Model, phase: Any) -> CodeScope:
    """The scope of the model's forward."""
    request = Request(phase)
    for field, number, letter in SIZES:
        # past its checks, which make plain numbers of them
        object.__setattr__(request, field, coded(number, f"\x02{letter}\x03"))
    scope = CodeScope(model)
    tape = CodeTape(scope, {}, {})
    inputs: dict[str, Any] = {
        name: scope.param(None, ShapeTensor(tuple(read.shape), _dtype(read)), name)
        for name, read in model.reads(request).items()
    }
    tensors = {name: Tensor(tape, x) for name, x in inputs.items()}
    out, _ = model.adapted.forward(**tensors, past=0, cache=None)
    scope.results = [x.value for x in (out if isinstance(out, tuple) else (out,))]
    if phase == "forward":
        settle(scope, scope.results)
    return scope


def _dtype(read: InputSpec) -> Any:
    return NAMED["int64"] if read.kind == "ids" else FLOAT


DOC = '''"""{name} in plain PyTorch: Model()(tokens) gives its logits.

In comments B is the number of sequences, T their length. There is no cache and no dropout.{towers}
"""'''
TOWERS = "\nThe encoders of images and sounds are left out."

EXPERTS = '''class ExpertLinear(nn.Module):
    """A matrix for each expert. Tokens come sorted by expert."""

    def __init__(self, n_experts, d_in, d_out, bias=False):
        super().__init__()
        self.weight = nn.Parameter(0.02 * torch.randn(n_experts, d_out, d_in))
        self.bias = nn.Parameter(torch.zeros(n_experts, d_out)) if bias else None

    def forward(self, x, expert_of):  # x [N, d_in], expert_of [N]
        sizes = torch.bincount(expert_of, minlength=len(self.weight)).tolist()
        rows = zip(x.split(sizes), self.weight)
        y = torch.cat([F.linear(tokens, weight) for tokens, weight in rows])
        return y if self.bias is None else y + self.bias[expert_of]
'''


def source(model: Model, scope: CodeScope, constants: dict[str, tuple[str, Any]]) -> str:
    """The whole file: constants, then classes, parts before the modules that hold them."""
    classes = Classes({token: path.rpartition(".")[2] for token, (path, _) in constants.items()})
    alike(scope)
    classes.add(scope)
    classes.fill()
    texts = [classes.source(known) for known in classes.by_text.values()]
    functions = [written(lines, what) for lines, what in [*scope.functions.values()][::-1]]
    texts = [*functions, *texts]
    texts = [EXPERTS, *texts] if any("ExpertLinear(" in text for text in texts) else texts
    used = sorted(
        {t for text in texts for t in TOKEN.findall(text) if t in constants}, key=lambda t: int(t[1:])
    )
    names = constant_names({token: constants[token] for token in used})
    lines = [f"{names[token]} = {constants[token][1]!r}" for token in used]
    body = "\n\n".join(texts)
    imports = (
        ["import torch"] + ["import torch.nn.functional as F"] * ("F." in body) + ["from torch import nn"]
    )
    depths = {value for path, value in settings(model) if path.endswith("n_layers")}
    if len(depths) == 1 and (written_depth := f" in range({(depth := depths.pop())}))") in body:
        lines.append(f"N_LAYERS = {depth}")
        body = body.replace(written_depth, " in range(N_LAYERS))")
    doc = DOC.format(name=model.name, towers=TOWERS if model.towers else "")
    text = "\n".join([doc, "", *imports, "", *lines, "", "", body])
    text = TOKEN.sub(lambda m: names.get(m[1], m[1].removeprefix("l")), text)
    return "\n".join([short for line in text.split("\n") for short in wrapped(line)])


def alike(scope: CodeScope) -> None:
    """Raise ArchError where modules that share weights compute different things."""
    for statement in scope.statements:
        child = statement.call
        if child is None or not child.path:
            continue
        if child.lent is not None and forward(child) != forward(child.lent):
            what = f"{child.path} computes something else with the weights of {child.lent.path}"
            raise ArchError(f"{what}: it cannot be written as plain torch yet")
        alike(child)


def written(lines: list[str], what: Any) -> str:
    """The source of a function that runs an operation."""
    return "\n".join([lines[0], f'    """{first_line(what)}"""', *lines[1:]]) + "\n"


def constant_names(constants: dict[str, tuple[str, Any]]) -> dict[str, str]:
    """A name for each number: that of its field, with what holds it where several have one."""
    names: dict[str, str] = {}
    for token, (path, _) in constants.items():
        *steps, field = [step for step in path.split(".") if not step.isdigit()]
        same = sum(place.rpartition(".")[2] == field for place, _ in constants.values())
        name = field if same == 1 else "_".join([*steps[-1:], field])
        number = 1
        while name.upper() in names.values():
            number += 1
            name = f"{name.rstrip('0123456789_')}_{number}"
        names[token] = name.upper()
    return names
