"""Witnesses: everything torch and fvcore say of the built model, beside what archcli counted. On the meta device: no weights, no data.

What a witness cannot count is told in a note; a contraction that none has a formula for is a finding that fails.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from archcli.arith import prod
from archcli.errors import ArchError, Problem
from archcli.graph import Row
from archcli.modules import Model
from archcli.modules.layers import LayerIndex
from archcli.modules.stack import stacks
from archcli.runtime.model.build import LanguageModel, build_model, example_inputs
from archcli.runtime.model.build_tape import MismatchError
from archcli.runtime.verify.by_fvcore import ask_fvcore
from archcli.runtime.verify.by_torch import Counted, ask_parameters, ask_step, ask_training
from archcli.runtime.verify.finding import Finding, Verdict, listed

MOST_LAYERS = 2000  # every one is built and run: some 20 ms each on one core
MOST_ELEMENTS = 2**59  # torch counts the bytes of a tensor in 63 bits

Tell = Callable[[str, int, int], Any]


class Asked(NamedTuple):
    """archcli's own answers: each pass as it was counted, of `batch_size` sequences of `seq_len` tokens.

    `steps` are a prefill of as many and the decoding of one more after them; none for a model that caches nothing.
    """

    forward: Counted
    train: Counted
    steps: tuple[Counted, Counted] | None
    batch_size: int
    seq_len: int
    source_len: int | None = None


def verify(spec: Model, asked: Asked, tell: Tell = lambda *_: None) -> Verdict:
    """Build the model and ask every witness; `tell` hears what is being done, how far, of how much.

    Raises ArchError for a model that torch could hold on no machine.
    """
    _refuse_the_impossible(
        spec, [row for counted in (asked.train, *(asked.steps or ())) for row in counted.rows]
    )
    tell("building on meta", 0, 5)
    try:
        model = build_model(spec, device="meta", attention="eager")
        return _ask(spec, model, asked, tell)
    except MismatchError as problem:
        return Verdict((Finding("torch's shapes", problem.what, problem.ours, problem.theirs, problem.path),))


def _ask(spec: Model, model: LanguageModel, asked: Asked, tell: Tell) -> Verdict:
    layers = LayerIndex(spec)
    with torch.device("meta"):
        inputs = example_inputs(spec, asked.batch_size, asked.seq_len, asked.source_len)
        trained = example_inputs(spec, asked.train.batch_size, asked.seq_len, asked.source_len)
    findings = list(ask_parameters(model, asked.train, layers))
    tell("torch: forward and backward", 1, 5)
    answers = [ask_training(model, trained, asked.train, layers)]
    if asked.steps is not None:
        prefill, decode = asked.steps
        tell("torch: prefill", 2, 5)
        answers.append(ask_step(model, inputs, None, prefill, layers))
        tell("torch: decode", 3, 5)
        answers.append(ask_step(model, [inputs[0][:, :1]], inputs, decode, layers))
    tell("fvcore: forward", 4, 5)
    found, notes = ask_fvcore(model, asked.forward.rows, layers, inputs)
    other = sum((answer.other for answer in answers), Counter[str]())
    findings += [finding for answer in answers for finding in answer.findings]
    notes = [f"torch has no formula for {listed(other)}; none of them contracts.", *notes]
    if asked.steps is None:
        notes.append("An encoder caches nothing: there is no prefill and no decoding to verify.")
    if asked.train.batch_size != asked.batch_size:
        notes.append(
            f"Training runs at batch size {asked.train.batch_size}, of which every cluster_share is a whole number of tokens."
        )
    return Verdict((*findings, *found), tuple(notes))


def _refuse_the_impossible(spec: Model, rows: Sequence[Row]) -> None:
    """Sizes that counting answers for and torch cannot hold, not even on meta."""
    n_layers = sum(group.n_layers for _, stack in stacks(spec) for group in stack.groups)
    if n_layers > MOST_LAYERS:
        raise ArchError(
            Problem(
                f"{n_layers:,} layers are too many to build",
                f"at most {MOST_LAYERS:,}: --set n_layers=… to verify a shorter stack",
            )
        )
    for row in rows:
        copies = row.experts.n_experts if row.experts else 1
        gathered = row.inputs[0][0] if row.experts else 1
        largest = max(
            prod(shape)
            for shape in (*row.inputs, *row.outputs, (row.unit_params, copies), (row.unit_params, gathered))
        )
        largest = max(largest, *(part.written for part in row.parts), 0)
        if largest > MOST_ELEMENTS:
            raise ArchError(
                Problem(
                    f"{row.path} has a tensor of {largest:,} elements",
                    f"torch holds at most {MOST_ELEMENTS:,}",
                )
            )


__all__ = ["Asked", "Finding", "Verdict", "verify"]
