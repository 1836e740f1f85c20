"""Notes on requests beyond a model's intended use, on one rank's share, and on images and sounds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from archcli.arith import Number, rounded
from archcli.errors import ArchError
from archcli.graph import Row
from archcli.measure.passes import count_pass, shape_pass
from archcli.measure.report import Column, Table
from archcli.modules import Model, settings
from archcli.modules.models.layers import folded_path
from archcli.modules.spec.forms import forms_of, in_other_forms, unused_forms
from archcli.modules.spec.request import SOUNDS, Media, Medium, Phase, Request, usual_tokens

REBUILT = "decoding rebuilds the keys and values of every cached token from its latent: MLA naive."
AS_CACHED = "decoding reads the latents as they are cached, without keys and values: MLA absorbed."
STEPPED = "decoding reads and writes the whole recurrent state for every token: scan recurrent."
READ_BY = {("mla", "naive"): REBUILT, ("mla", "absorbed"): AS_CACHED, ("scan", "recurrent"): STEPPED}
"""What a form does with the cache, by its key and name."""
WHOLE = {"tp": 1, "sp": False, "ep": 1}
"""The plan of one device."""
OWNERS = {"mla": "latent attention", "scan": "recurrent"}
"""The layers that have the forms of a key, in words."""


def context_notes(model: Model, tokens: int) -> Iterator[str]:
    """A note where the tokens exceed the model's max_seq_len."""
    limits = [
        value for path, value in settings(model) if path.split(".")[-1] == "max_seq_len" and value is not None
    ]
    if limits and tokens > min(limits):
        yield f"{tokens:,} tokens are beyond max_seq_len {min(limits):,}: counted by shape all the same."


def tower_notes(model: Model) -> Iterator[str]:
    """A note on each tower whose vectors the language model cannot read, as they have another width."""
    for tower in model.towers:
        if not tower.pooled and tower.width != model.d_model:
            vectors = f"the projector of its {tower.part.replace('_', ' ')} gives vectors of {tower.width:,}"
            yield f"{vectors}, and d_model is {model.d_model:,}: the language model cannot read them."


def source_notes(model: Model, source_len: int | None) -> Iterator[str]:
    """A note where `source_len` has no effect: no source, or one of fixed length."""
    length = None if source_len is None else model.source_length(source_len)
    if length == source_len:
        return
    reason = (
        "this model has no encoder"
        if length is None
        else f"this model's encoder always has {length:,} positions"
    )
    yield f"--source-len has no effect: {reason}."


def unfused_notes(model: Model) -> Iterator[str]:
    """A note that names the operations which torch runs step by step, and engines in one kernel."""
    rows = shape_pass(model).rows
    paths = dict.fromkeys(folded_path(row.path) for row in rows if row.op.lacks_kernel)
    if paths:
        yield (
            f"torch has no fused kernel for {', '.join(paths)} and holds scores of all pairs; an engine runs "
            "one: --engine vllm."
        )


def flex_notes(rows: Iterable[Row]) -> Iterator[str]:
    """A note that names the attention which trainers run by FlexAttention, and archcli's modules do not."""
    paths = dict.fromkeys(folded_path(row.path) for row in rows if row.op.needs_flex(*row.inputs))
    if paths:
        yield (
            f"FlexAttention runs {', '.join(paths)}, as in trainers; archcli's own modules run it in steps, "
            "or with a mask of all pairs: --attention sdpa counts that."
        )


def form_notes(models: Sequence[Model], forms: Mapping[str, str]) -> Iterator[str]:
    """A note for each form that is asked for by name and that no module of any model has."""
    unused = [unused_forms(model, forms) for model in models]
    for key in forms:
        if all(key in of_model for of_model in unused):
            yield f"--{key} has no effect: no layer is {OWNERS.get(key, 'computed in several forms')}."


def cached_form_notes(model: Model) -> Iterator[str]:
    """How decoding reads the cache, where there are several forms of it."""
    for key, form in forms_of(model, Request("decode")).items():
        yield from (note for (of, name), note in READ_BY.items() if of == key and name in form.split(" + "))


def forward_and_decode_forms(models: Sequence[Model], request: Request) -> dict[str, str | None]:
    """The forms of a forward by key, and those of decoding if they differ: `naive, decoding absorbed`.

    None for a requested form that no model has.
    """
    phases: tuple[Phase, Phase] = ("forward", "decode")
    forward, decode = (
        [forms_of(model, replace(request, phase=phase)) for model in models] for phase in phases
    )
    forms: dict[str, str | None] = dict.fromkeys(request.forms)
    for key in dict.fromkeys(key for of_model in forward for key in of_model):
        first, second = (_distinct(of_models, key) for of_models in (forward, decode))
        forms[key] = first if first == second else f"{first}, decoding {second}"
    return forms


def _distinct(of_models: Sequence[Mapping[str, str]], key: str) -> str:
    return " / ".join(dict.fromkeys(forms[key] for forms in of_models if key in forms))


def other_form_notes(
    model: Model, request: Request, matmul: Number, *, unmasked: bool = False
) -> Iterator[str]:
    """A note for each other form (MLA absorbed, say): its FLOPs of this pass, which takes `matmul`."""
    for key, form, in_other in in_other_forms(model, request):
        flops, _ = count_pass(model, in_other).flops(unmasked=unmasked)
        # float first: a Fraction cannot be formatted with g before Python 3.12
        ratio = f"{float(flops / matmul):.3g}"
        if ratio != "1":  # a decoded token is a chunk of one
            yield f"--{key} {form} takes {rounded(flops):,} matmul FLOPs, {ratio}x as many."


def check_tokens(model: Model, request: Request) -> None:
    """Raise ArchError for tokens that the ranks of sequence parallelism cannot share."""
    degrees = model.degrees
    if degrees is None or not degrees.sp:
        return
    from archcli.modules.tensor_parallel.checks import unshared_tokens  # of several devices alone

    request = request.resolved()
    lengths = {"seq_len": request.seq_len, "past": request.past}
    problems = list(unshared_tokens(request.phase, lengths, degrees.tp))
    if problems:
        raise ArchError(problems)


def plan_inputs(model: Model) -> dict[str, Any]:
    """The plan by JSON's keys; empty for a whole model."""
    degrees = model.degrees
    return {} if degrees is None else {"tp": degrees.tp, "sp": degrees.sp, "ep": degrees.ep}


def plan_convention(model: Model) -> str:
    """A sentence on the rank whose share is counted, with a blank in front; empty for a whole model."""
    degrees = model.degrees
    if degrees is None:
        return ""
    shared = [f"{degrees.tp} that share each matrix"] * (degrees.tp > 1)
    shared += [f"{degrees.ep} that share the experts"] * (degrees.ep > 1)
    return f" All figures are of one rank of {' and of '.join(shared)}."


Record = dict[str, Any]
MEDIA = "Images and sounds"
"""The heading of tables of media."""


def medium_record(medium: Medium, tokens: int) -> Record:
    """The entry of one image, video or sound in `totals.media`."""
    kind = "audio" if medium.kind in SOUNDS else medium.kind
    return {"kind": kind, "size": list(medium.size), "tokens": tokens}


def media_records(model: Model, media: Iterable[Medium]) -> list[Record]:
    """The entries of all media, in the order of the options; ArchError for one that is not read."""
    return [medium_record(medium, model.tokens_of(medium)) for medium in media]


def medium_in_words(record: Record) -> str:
    """`image 448x448`."""
    return f"{record['kind']} {'x'.join(map(str, record['size']))}"


def sized_medium(record: Record, unit: str) -> str:
    """`image of 336 × 336`, `sound of 3,000 frames`."""
    size = " × ".join(f"{length:,}" for length in record["size"])
    return f"sound of {size} {unit}" if record["kind"] == "audio" else f"{record['kind']} of {size}"


def prompt_tokens(model: Model, text: int | None, media: Media) -> int:
    """Tokens of a prompt: of its text, by default `usual_tokens`, and of its images, videos and sounds."""
    text = text or usual_tokens(model.max_seq_len)
    tokens: int = model.fitted(Request(seq_len=text, media=media)).seq_len
    return tokens


def media_table(records: list[Record], total: int) -> Table:
    """The tokens of each medium in the prompt."""
    columns = (Column("medium", "medium"), Column("tokens", "tokens", "number"))
    rows = [{"medium": medium_in_words(record), "tokens": record["tokens"]} for record in records]
    return Table(MEDIA, columns, rows, {"medium": "with the text", "tokens": total})
