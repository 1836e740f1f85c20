"""`archcli verify`: compare archcli's counts with those of torch and fvcore on the built model."""

from __future__ import annotations

from archcli.api.asking.subject import subject
from archcli.commands.line.options import Form, Json, Output, Set, asking
from archcli.render import chosen_format, show
from archcli.render.write import check_writable
from archcli.wings.running.api.verify import VerifyOptions, verified


@asking(VerifyOptions)
def run(
    options: VerifyOptions,
    *,
    overrides: Set = None,
    form: Form = None,
    as_json: Json = False,
    output: Output = None,
) -> int:
    """Compare archcli's counts with those of torch and fvcore.

    Builds the model with torch on the meta device, which holds shapes and no numbers, and compares
    parameters by name and shape, the cache, and the FLOPs of forward, training, prefill and decode, in
    total and row by row; of an encoder forward and training only. A multimodal model whose towers run is
    compared as a whole, with an image or a sound in its prompt. Exits with 1 where anything differs. Needs
    torch and fvcore.

    With --weights, loads the safetensors of a folder into the model instead and compares its logits with
    those of transformers, in one pass and token by token. Needs transformers as well.

    With --memory, compares the figures of archcli memory with what torch keeps for the backward, row by row,
    and with the storages that are alive at once in a training step, a prefill and a decoded token.
    """
    chosen_format(form, output, as_json=as_json)
    # before torch runs the model, so that no answer is lost for want of a place
    check_writable(output)
    report = verified(subject(options.model, overrides), options)
    show(report, form, output, as_json=as_json)
    return 1 if report.totals["failed"] else 0
