"""Verification: the figures of torch and fvcore for the built model beside those that archcli counted.

The model is on the meta device, without weights and data. A note lists what a reference cannot count. A
contraction without a formula in any reference is a failed result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from archcli.arith import prod
from archcli.errors import ArchError, Problem
from archcli.graph import Row
from archcli.modules import Model
from archcli.modules.models.layers import LayerIndex, layer_count
from archcli.modules.spec.forms import with_forms
from archcli.wings.running.runtime.model.build import LanguageModel, MismatchError, build_model, empty_inputs
from archcli.wings.running.runtime.verify.by_fvcore import verify_fvcore
from archcli.wings.running.runtime.verify.by_torch import (
    Counted,
    Given,
    verify_parameters,
    verify_step,
    verify_training,
)
from archcli.wings.running.runtime.verify.result import ReferenceResult, VerifyResult, uncounted_note

MOST_LAYERS = 2000  # every one is built and run: some 20 ms each on one core
MOST_ELEMENTS = 2**59  # torch counts the bytes of a tensor in 63 bits

Tell = Callable[[str, int, int], Any]


class CountedPasses(NamedTuple):
    """The passes as archcli counted them, of `batch_size` sequences of `seq_len` tokens.

    `steps` are a prefill of as many and the decoding of one more token; None for a model that caches nothing.
    """

    forward: Counted
    train: Counted
    steps: tuple[Counted, Counted] | None
    batch_size: int
    seq_len: int
    source_len: int | None = None


def verify(spec: Model, passes: CountedPasses, tell: Tell = lambda *_: None) -> VerifyResult:
    """Build the model and compare it with every reference; `tell` gets (activity, done, total).

    Raises ArchError for a model that torch could hold on no machine.
    """
    _require_buildable(
        spec, [row for counted in (passes.train, *(passes.steps or ())) for row in counted.rows]
    )
    tell("building on meta", 0, 5)
    try:
        return _verify(spec, passes, tell)
    except MismatchError as problem:
        return VerifyResult(
            (ReferenceResult("torch's shapes", problem.what, problem.ours, problem.theirs, problem.path),)
        )


def _verify(spec: Model, passes: CountedPasses, tell: Tell) -> VerifyResult:
    layers, towers = LayerIndex(spec), passes.forward.request.in_prompt
    model = _built(spec, passes.train, towers=towers)
    inputs, trained = _inputs(spec, passes, passes.forward), _inputs(spec, passes, passes.train)
    results = list(verify_parameters(model, passes.train, layers))
    tell("torch: forward and backward", 1, 5)
    by_torch = [verify_training(model, trained, passes.train, layers)]
    if passes.steps is not None:
        prefill, decode = passes.steps
        tell("torch: prefill", 2, 5)
        prefilling = _built(spec, prefill, model, towers=towers)
        by_torch.append(verify_step(prefilling, inputs, None, prefill, layers))
        tell("torch: decode", 3, 5)
        decoding, next_token = _built(spec, decode, model, towers=towers), Given((inputs.tensors[0][:, :1],))
        by_torch.append(verify_step(decoding, next_token, inputs, decode, layers))
    tell("fvcore: forward", 4, 5)
    forward = _built(spec, passes.forward, model, towers=towers)
    by_fvcore = verify_fvcore(forward, passes.forward.rows, layers, inputs)
    by_reference = {
        "torch": sum((of_pass.uncounted for of_pass in by_torch), Counter[str]()),
        "fvcore": by_fvcore.uncounted,
    }
    uncounted = {reference: dict(counts) for reference, counts in by_reference.items() if counts}
    results += [result for of_pass in by_torch for result in of_pass.results]
    notes = [uncounted_note(reference, counts) for reference, counts in uncounted.items()]
    notes += by_fvcore.notes
    if passes.steps is None:
        notes.append("An encoder caches nothing: there is no prefill and no decoding to verify.")
    if passes.train.batch_size != passes.batch_size:
        notes.append(
            f"Training runs at batch size {passes.train.batch_size}, of which every cluster_share "
            "is a whole number of tokens."
        )
    return VerifyResult((*results, *by_fvcore.results), tuple(notes), uncounted)


def _inputs(spec: Model, passes: CountedPasses, counted: Counted) -> Given:
    """The inputs of a counted pass on meta, without targets."""
    request = replace(counted.request, phase="forward", source_len=passes.source_len)
    with torch.device("meta"):
        inputs = empty_inputs(spec, request)
    media = inputs.pop("media", ())
    return Given(tuple(inputs.values()), tuple(media))


def _built(
    spec: Model, counted: Counted, model: LanguageModel | None = None, *, towers: bool
) -> LanguageModel:
    """The model on meta in the forms of a counted pass: `model`, where it was built in those."""
    formed = with_forms(spec, counted.request)
    if model is not None and model.spec == formed:
        return model
    # step by step: fvcore has no formula for a fused kernel of attention
    return build_model(formed, device="meta", attention="eager", towers=towers)


def _require_buildable(spec: Model, rows: Sequence[Row]) -> None:
    """Raises ArchError for sizes that can be counted, but that torch cannot hold even on meta."""
    n_layers = layer_count(spec)
    if n_layers > MOST_LAYERS:
        raise ArchError(
            Problem(
                f"{n_layers:,} layers are too many to build",
                f"at most {MOST_LAYERS:,}: --set n_layers=… to verify a shorter stack",
            )
        )
    for row in rows:
        copies = row.experts.n_experts if row.experts else 1
        # experts in the form `gather` copy a matrix for every token
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


__all__ = ["CountedPasses", "verify"]
