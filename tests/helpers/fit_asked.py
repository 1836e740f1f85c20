"""Random questions of `archcli fit`, and its answers held against those of `memory` and `predict`."""

from dataclasses import dataclass, replace
from functools import cache
from random import Random

import archcli
from archcli.wings.serving.api.engine import engine_of
from archcli.wings.serving.devices.datasheet import devices, load_datasheet

COUNTS = ("", "", "", "2x", "4x")
CONTEXTS = (512, 3000, 8192, 16_384, 65_536)
FORMATS = (
    "bf16",
    "fp8",
    "q8_0",
    "q6_k",
    "q5_k_m",
    "q4_k_m",
    "q3_k_m",
    "q2_k",
    "awq-int4",
    "mlx-4bit",
    "int8",
)
UNSTATED = 32_768
"""Tokens up to which a model is asked that states no length."""
LEAST = 512
"""Tokens without which nothing is said to fit, where none are asked for."""


@dataclass(frozen=True)
class Question:
    """A model and a device, and what is fixed of the answer."""

    model: str
    device: str | None
    dtype: str | None
    context: int | None

    @property
    def longest(self):
        """The tokens that the model knows, or the most that are tried."""
        return archcli.load(self.model).max_seq_len or max(UNSTATED, self.context or 0)

    @property
    def least(self):
        """The fewest tokens that must fit."""
        return self.context or min(LEAST, self.longest)

    def fit(self, **others):
        """The totals of `fit`."""
        options = {"dtype": self.dtype, "context": self.context, **others}
        return archcli.fit(self.model, self.device, **options).totals

    def memory(self, tokens, dtype, engine=None):
        """The totals of `memory` with so many tokens."""
        dtype = None if dtype == "published" else dtype
        asked = {"phase": "serve", "device": self.device, "seq_len": tokens, "dtype": dtype, "engine": engine}
        return archcli.memory(self.model, **asked).totals

    def fits(self, tokens, dtype, engine=None):
        """Whether `memory` says that so many tokens fit; None where it refuses the format."""
        try:
            return self.memory(tokens, dtype, engine)["fits"]
        except archcli.ArchError:
            return None

    def rates(self, tokens, dtype, engine, plan):
        """The tokens a second of `predict` with so many tokens in the cache; None where it refuses."""
        dtype = None if dtype == "published" else dtype
        asked = {"device": self.device, "dtype": dtype, "engine": engine, "seq_len": tokens}
        try:
            return archcli.predict(self.model, phase="decode", plan=plan, **asked).totals["tokens_per_s"]
        except archcli.ArchError:
            return None


def questions(seed, count):
    """So many random questions, none of which asks a model for more tokens than it knows."""
    random = Random(seed)  # noqa: S311
    for _ in range(count):
        model, longest = random.choice(generating())
        context = random.choice([None, *(tokens for tokens in CONTEXTS if tokens <= (longest or UNSTATED))])
        device = random.choice(COUNTS) + random.choice(sized())
        yield Question(model, device, random.choice([None, None, *FORMATS]), context)


@cache
def generating():
    """(preset, the tokens that it knows) of the presets that generate text."""
    rows = archcli.presets().rows
    return [(row["name"], row["max_seq_len"]) for row in rows if row["kind"] != "encoder"]


@cache
def sized():
    """The devices whose memory is known."""
    return [name for name in devices() if "memory_bytes" in load_datasheet(name).figures]


def agreement(question):
    """What is wrong with the answer of `fit`, in words, by asking `memory` and `predict` again."""
    try:
        answer = question.fit()
    except archcli.ArchError as error:
        if question.dtype is None or question.fits(question.least, question.dtype):
            yield f"fit refuses: {error}"
        return
    if answer["fits"]:
        yield from _fitting(question, answer)
    else:
        yield from _misfits(question)


def _fitting(question, answer):
    dtype, engine, context = (answer[name] for name in ("format", "engine", "context"))
    if context < question.least:
        yield f"{context} tokens fit, and {question.least} are asked for"
    yield from step(question, answer, engine)
    block = engine_of(engine).cache_block
    if context < question.longest and question.fits(context + block, dtype, engine):
        yield f"as {dtype} a block more than {context} tokens fits, too"
    for name in ("better", "smaller"):
        if answer[name] is not None:
            yield from step(question, answer[name], engine)
            yield from _order(question, answer, name)
    rates = question.rates(answer["speed_at"], dtype, engine, answer["plan"])
    if answer["tokens_per_s"] != (rates or dict.fromkeys(answer["tokens_per_s"])):
        yield f"{answer['tokens_per_s']} is not predict's {rates}"


def step(question, choice, engine):
    """What is wrong with a choice: it fits at its context with its peak."""
    dtype, context = choice["format"], choice["context"]
    held = question.memory(context, dtype, engine)
    if not held["fits"]:
        yield f"memory says that {context} tokens as {dtype} do not fit"
    if held["peak_bytes"] != choice["peak_bytes"]:
        yield f"{choice['peak_bytes']:,} bytes as {dtype} are {held['peak_bytes']:,} by memory"


def _order(question, answer, name):
    """What is wrong with the next step: its weights are more or fewer, and asked for alone it is the same."""
    chosen, other = (
        _weights(question, choice["format"], answer["engine"]) for choice in (answer, answer[name])
    )
    if not (other > chosen if name == "better" else other < chosen):
        yield f"{name} has {other:,} bytes of weights, and the chosen format {chosen:,}"
    alone = question.fit(dtype=answer[name]["format"], engine=answer["engine"])
    if {key: alone[key] for key in answer[name]} != answer[name]:
        yield f"{name} is {answer[name]}, and asked for alone {alone}"


def _weights(question, dtype, engine):
    """Bytes of all weights; of llama.cpp, which leaves a table in RAM, those of the file."""
    if engine == "llamacpp":
        return archcli.params(question.model, dtype=dtype).totals["bytes"]
    return replace(question, device=None).memory(LEAST, dtype, engine)["parts"]["weights"]


def _misfits(question):
    """Formats that fit though `fit` says that none does."""
    for dtype in FORMATS if question.dtype is None else (question.dtype,):
        if question.fits(question.least, dtype):
            yield f"{question.least} tokens fit as {dtype}, says memory"
