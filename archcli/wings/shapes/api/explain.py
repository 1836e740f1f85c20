"""explain and formula: closed forms in Python, and what commands ask of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Any

from archcli.api.asking.options import MediaOptions, Past, SourceLen
from archcli.api.asking.question import Option, asks, count_option, tokens_option
from archcli.api.asking.subject import Subject, given
from archcli.errors import ArchError, Problem, either
from archcli.measure.report import Report
from archcli.modules.models.model import Model, ModelLike
from archcli.modules.spec.arguments import CountedPairs, Mla, Quantity, Scan, TowerPart
from archcli.modules.spec.calls import checked
from archcli.modules.spec.request import Logits, Phase, Request, pass_lengths
from archcli.modules.spec.values import AboveZero, Conversion, refused

if TYPE_CHECKING:
    from archcli.modules import Tower
    from archcli.wings.shapes.symbolic.explain.question import Question
    from archcli.wings.shapes.symbolic.formula import Formula

CONTEXT = 2048
"""Tokens in a cache where neither a request nor the model says how many."""
PASS = ("phase", "batch_size", "seq_len", "past", "source_len", "logits", "mla", "scan", "mask")
ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "params": ("path",),
    "flops": PASS,
    "kvcache": ("context", "batch_size"),
}
"""The arguments that each quantity depends on."""
OF_TOWER = ("phase", "batch_size", "mask", "path")
"""Those that a tower depends on: an image has its own tokens."""


def _names(value: Any) -> tuple[str, ...]:
    """Names, of which a text may hold several with commas between."""
    if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
        raise refused(value, "a list, each text")
    return tuple(name.strip() for text in value for name in text.split(",") if name.strip())


NAMES = "NAME[,NAME]"
Names = Conversion("a list, each text", _names)
QuantityArgument = Annotated[
    Quantity, Option("What the formula is of.", metavar="params|flops|kvcache", argument=True)
]
Steps = Annotated[bool, Option("Show each component's way to its number, operation by operation.")]
Approx = Annotated[bool, Option("Show what textbooks approximate it by, and by how much they err.")]
At = Annotated[
    Sequence[str],
    Names,
    Option("Tell how the total grows with this size, at its value. Repeatable.", metavar=NAMES),
]
Symbols = Annotated[
    Sequence[str],
    Names,
    Option("Keep these sizes as symbols, the others as numbers. Repeatable.", metavar=NAMES),
]
PassPhase = Annotated[Phase | None, Option("The pass of flops. [default: forward]")]
BatchSize = Annotated[AboveZero | None, count_option("Sequences. [default: 1]", "-b")]
SeqLen = Annotated[
    AboveZero | None, tokens_option("New tokens of flops. [default: 2048, or max_seq_len]", "-s")
]
Context = Annotated[
    AboveZero | None,
    tokens_option("Tokens of kvcache. [default: max_seq_len, else 2048]", "-c"),
]
Mask = Annotated[
    CountedPairs | None,
    Option("Scores that the mask allows, or all S x S. [default: exact]"),
]
WhichLogits = Annotated[
    Logits | None,
    Option("Logits of every position or of the last. [default: as in archcli flops]"),
]
MlaForm = Annotated[Mla | None, Option("The form of latent attention, as in archcli flops.")]
ScanForm = Annotated[Scan | None, Option("The form of recurrent layers, as in archcli flops.")]


Part = Annotated[
    TowerPart | None,
    Option("Explain this tower of a multimodal model, with its projector: of flops, over --image or sound."),
]


@dataclass(frozen=True)
class ExplainOptions(MediaOptions):
    """Options of `archcli explain`; None stands for the default of the quantity."""

    model: ModelLike
    quantity: QuantityArgument = "params"
    _: KW_ONLY
    steps: Steps = False
    approx: Approx = False
    at: At = ()
    symbols: Symbols = ()
    phase: PassPhase = None
    batch_size: BatchSize = None
    seq_len: SeqLen = None
    past: Past = None
    source_len: SourceLen = None
    context: Context = None
    mask: Mask = None
    logits: WhichLogits = None
    mla: MlaForm = None
    scan: ScanForm = None
    path: str | None = None
    part: Part = None
    latex: bool = False

    @property
    def arguments(self) -> dict[str, Any]:
        """The options given that a quantity may depend on, by name: those of a pass, a cache or a row."""
        names = {name for arguments in ARGUMENTS.values() for name in arguments}
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name in names}
        return {name: value for name, value in values.items() if value is not None}


@checked
def formula(
    model: ModelLike,
    *,
    batch_size: AboveZero = 1,
    seq_len: AboveZero | None = None,
    mask: CountedPairs = "exact",
) -> Formula:
    """Closed forms of parameters, FLOPs of a forward and cached elements (needs sympy).

    sympy expressions in the YAML's names, each checked to equal the counted integer; `values` of the symbols.

    Example: `formula("gpt2").kv_elements` is 2*batch_size*d_model*n_layers*seq_len.
    """
    from archcli.wings.shapes.symbolic.formula import formula as closed_form

    return closed_form(given(model).model, batch_size=batch_size, seq_len=seq_len, unmasked=mask == "dense")


@asks(ExplainOptions)
def explain(options: ExplainOptions) -> Report:
    """Where a number comes from: the report of `archcli explain` (needs sympy).

    The closed form of "params", "flops" or "kvcache", component by component, derived from the architecture's
    own forward and checked against the count. The pass is asked for as in `count_flops` and `count_kv_cache`.
    `symbols` are the only sizes that stay symbols; `at` those whose effect on the total is told; `approx`
    adds what textbooks say, `steps` the way from single operations to the number, `latex` the formulas as
    LaTeX. `path` is a row of `count_params` to explain alone, `part` a tower with its
    projector, over one `image` or sound. `totals` has formula, value and symbols;
    `rows` have component, formula, numbers, value and share.

    Example: `explain("gpt2").rows[2]["formula"]` is 4*d_model*n_layers.
    """
    return explained(given(options.model), options)


def explained(subject: Subject, options: ExplainOptions) -> Report:
    """The report on a loaded model. Raises ArchError for options that the quantity does not depend on."""
    from archcli.load.spec.schema import meaning
    from archcli.wings.shapes.symbolic.explain.report import explain as explain_model

    _require_used(options)
    question = _question(subject.model, options)
    if options.part is None:
        return subject.named(explain_model(subject.model, question, meaning))
    tower, question = _of_tower(subject.tower(options.part), question, options.part)
    return subject.named(explain_model(tower, question, meaning))


def explained_row(subject: Subject, model: ModelLike, path: str) -> Report:
    """The formula of a row's parameters, step by step: the report of `params --explain`."""
    return explained(subject, ExplainOptions(model, path=path, steps=True))


def _require_used(options: ExplainOptions) -> None:
    """Raise ArchError for arguments that the quantity does not depend on."""
    quantity, known = options.quantity, ARGUMENTS[options.quantity]
    if options.part is not None:
        known = tuple(name for name in known if name in OF_TOWER)
    idle = [name for name in options.arguments if name not in known]
    idle += ["image or sound"] if options.media and quantity != "flops" else []
    if idle:
        of = quantity if options.part is None else f"{quantity} of {options.part}"
        hint = f"it depends on {', '.join(known)}; leave {either(idle)} out"
        raise ArchError(Problem(f"{either(idle)} changes nothing of {of}", hint))


def _of_tower(tower: Tower, question: Question, part: str) -> tuple[Any, Question]:
    """The tower of a part to trace, and the question of the pieces of an image or a sound that it reads."""
    if question.quantity == "kvcache":
        raise ArchError(Problem("a tower caches nothing", "ask for its params or flops"))
    if question.request.phase == "decode":
        raise ArchError(Problem("a tower runs before the first token alone", "leave --phase decode out"))
    if question.approx:
        raise ArchError(Problem("textbooks approximate language models, no towers", "leave --approx out"))
    media = question.request.media or (tower.usual,)
    if len(media) > 1:
        raise ArchError(Problem("a tower is explained over one image or sound", "name one"))
    read = tower.reading(question.request, media[0])
    read = replace(read, media=() if read.media == (tower.usual,) else read.media)
    # what becomes of an image is settled: its pieces are numbers, and no symbols
    return tower.replace(sizing=None), replace(question, request=read, part=part)


def _question(model: Model, options: ExplainOptions) -> Question:
    from archcli.wings.shapes.symbolic.explain.question import Question

    values = options.arguments
    if options.quantity == "kvcache":
        tokens = options.context or model.max_seq_len or CONTEXT
        request = Request("prefill", options.batch_size or 1, tokens)
    else:
        forms = {name: values.get(name, "auto") for name in ("mla", "scan")}
        sizes = {name: values[name] for name in ("batch_size", "source_len", "logits") if name in values}
        phase = options.phase or "forward"
        lengths = pass_lengths(model.max_seq_len, phase, options.seq_len, options.past)
        request = Request(phase, **lengths, **sizes, forms=forms, media=options.media)
    shown = {name: getattr(options, name) for name in ("symbols", "at", "approx", "steps", "latex")}
    return Question(options.quantity, request, options.mask or "exact", path=options.path, **shown)
