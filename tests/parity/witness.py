"""The witness: Hugging Face's model of a family on random tensors, and its logits of one pass."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import nn

from archcli.graph import Tensor
from archcli.load.huggingface.weights.auxiliary import TOWER
from archcli.modules import Encoder, Model
from archcli.modules.spec.request import Request
from archcli.wings.running.runtime.model.build import BuildTape, LanguageModel, build_model, example_inputs
from archcli.wings.running.runtime.model.leaves import Leaf
from archcli.wings.running.runtime.model.node import EAGER
from archcli.wings.running.runtime.weights.compare import translate
from archcli.wings.running.runtime.weights.transformers import cache_argument
from parity.families import FAMILIES
from parity.family import Family

torch.set_num_threads(1)

BATCH, LENGTH, SHORT, SOURCE = 2, 24, 11, 9
"""Beyond every window (5, 7) and original context (12, 16); the short one within the latter.

The source is another length still.
"""

TOLERANCE = 1e-5


class Witness(NamedTuple):
    """What one family's model says."""

    model: Any
    theirs: Mapping[str, torch.Tensor]
    ours: Mapping[str, torch.Tensor]
    tokens: torch.Tensor
    source: tuple[torch.Tensor, ...]
    logits: torch.Tensor
    short_logits: torch.Tensor


@cache
@torch.inference_mode(mode=False)  # whoever asks first, what is kept can be loaded into
def witness(name: str) -> Witness:
    """Build, randomise and run Hugging Face's model of the family, once."""
    family, seed = FAMILIES[name], torch.Generator().manual_seed(zlib.crc32(name.encode()))
    with torch.random.fork_rng():  # some weights start at random, and are spread around that
        torch.manual_seed(seed.initial_seed())
        model = their_model(family)
    theirs = {name: tensor for name, tensor in tensors(model).items() if not of_tower(name, family)}
    with torch.no_grad():
        randomise(theirs, family, seed)
        tokens = random_tokens(family, seed)
        tokens = tokens.where(tokens != family.avoids, tokens - 1) if family.avoids else tokens
        source = random_source(family.spec, seed)
        short, full = (answer(model, family, ids, *source) for ids in (tokens[:, :SHORT], tokens))
    shapes = {key: value.shape for key, value in untrained(name, "eager").state_dict().items()}
    return Witness(model, theirs, translate(theirs, family.map, shapes), tokens, source, full, short)


def random_tokens(family: Family, seed: torch.Generator) -> torch.Tensor:
    """Random ids, each once in a sequence where the family asks for it."""
    n_ids = family.spec.vocab_size
    if family.distinct:
        return torch.rand((BATCH, n_ids), generator=seed).argsort(-1)[:, :LENGTH]
    return torch.randint(n_ids, (BATCH, LENGTH), generator=seed)


def random_source(spec: Model, seed: torch.Generator, length: int = SOURCE) -> tuple[torch.Tensor, ...]:
    """What an encoder reads: so many ids, or features; nothing for a model without a source."""
    source = spec.inputs(Request("forward", BATCH, length)).get("source")
    if source is None:
        return ()
    if source.kind == "features":
        return (torch.randn(source.shape, generator=seed),)
    return (torch.randint(source.n_ids, source.shape, generator=seed),)


def answer(model: Any, family: Family, tokens: torch.Tensor, *source: torch.Tensor) -> torch.Tensor:
    """What their model makes of the tokens in one pass.

    Logits [B, T, V], or of one token [B, 1, …] what it pools.
    """
    given: dict[str, Any] = (
        {model.main_input_name: source[0], "decoder_input_ids": tokens} if source else {"input_ids": tokens}
    )
    if not isinstance(family.spec, Encoder):
        given["use_cache"] = False
    out: torch.Tensor = getattr(model(**given), family.answer)
    if out.shape == tokens.shape:  # a class that judges each token drops the last axis
        return out[..., None]
    return out if out.dim() > 2 else out[:, None]


@cache
def expected_steps(name: str, prompt: int) -> torch.Tensor:
    """Their logits from the last token of the prompt on.

    Of the one pass, or through their own cache where that must differ.
    """
    seen = witness(name)
    if not FAMILIES[name].restretched:
        return seen.logits[:, prompt - 1 :]
    logits, cache, cached = [], None, cache_argument(seen.model)
    with torch.no_grad():
        seen.model(
            seen.tokens[:, :1], use_cache=False
        )  # their dynamic frequencies remember the longest pass until a short one
        for span in spans(prompt):
            out = seen.model(seen.tokens[:, span], **{cached: cache}, use_cache=True)
            logits.append(out.logits)
            cache = getattr(out, cached)
    return torch.cat(logits, dim=1)[:, prompt - 1 :]


def spans(prompt: int) -> list[slice]:
    """How the tokens are decoded: the prompt, three at once, then one by one."""
    return [
        slice(0, prompt),
        slice(prompt, prompt + 3),
        *(slice(i, i + 1) for i in range(prompt + 3, LENGTH)),
    ]


def their_model(family: Family) -> Any:
    """Hugging Face's class for the family's config, in float32."""
    import transformers

    config = transformers.AutoConfig.for_model(**deepcopy(family.config))
    cls = getattr(transformers, family.cls)
    make = cls.from_config if family.cls.startswith("Auto") else cls._from_config
    model = make(config, attn_implementation=family.attention).eval()
    if family.untied:
        model.lm_head.weight = nn.Parameter(model.lm_head.weight.detach().clone())
    return model


def tensors(model: Any) -> dict[str, torch.Tensor]:
    """Everything a checkpoint would store, tied tensors once: parameters and persistent buffers."""
    stored = model.state_dict().keys() - set(model._keys_to_ignore_on_save or ())
    return {
        name: tensor for name, tensor in [*model.named_parameters(), *model.named_buffers()] if name in stored
    }


def of_tower(name: str, family: Family) -> bool:
    """Whether a tensor is of a tower beside the language model, which keeps what it starts with."""
    target = family.map.find(name)
    if target is None:
        return family.map.reason(name, None) == TOWER
    # towers whose tensors have names are compared in `test_whole.py`
    return target.parts.ours[0].startswith(("vision_tower.", "audio_tower."))


def randomise(theirs: Mapping[str, torch.Tensor], family: Family, seed: torch.Generator) -> None:
    """Make every tensor matter.

    Gains, biases and buffers spread by 0.5 around their start, tables by 1, matrices such that outputs are.
    What is no weight, such as a stored sinusoid, stays as it is.
    """
    for name, tensor in theirs.items():
        noise, target = torch.randn(tensor.shape, generator=seed), family.map.find(name)
        if target is None:
            continue
        take = target.parts
        if not tensor.is_floating_point():  # which experts each id visits, none twice
            n_experts = family.config["n_routed_experts"]
            tensor.copy_(
                torch.rand((len(tensor), n_experts), generator=seed).argsort(-1)[:, : tensor.shape[1]]
            )
            continue
        if tensor.dim() == 1 or tensor.min() == tensor.max():
            tensor.add_(0.5 * noise)
        else:
            table = take.ours[0].startswith("embedding.") and not family.spec.embedding.tied
            convolves = ".conv" in take.ours[0]
            inputs = (
                1
                if table
                else tensor[0].numel()
                if convolves
                else tensor.shape[-2 if take.transposed else -1]
            )
            tensor.copy_(noise * inputs**-0.5)
        tensor.mul_(quietness(name, family))


def quietness(name: str, family: Family) -> float:
    """The factor the family puts on this tensor's spread."""
    factors = [
        factor
        for pattern, factor in family.quiet.items()
        if re.fullmatch(re.escape(pattern).replace(r"\*", "[^.]+"), name)
    ]
    return factors[0] if factors else 1.0


@cache
def our_model(name: str, attention: str) -> LanguageModel:
    """Our model of the family with their weights; loading is strict, so every name and shape is right."""
    model = untrained(name, attention)
    model.load_state_dict(witness(name).ours)
    return model.eval()


@cache
@torch.inference_mode(mode=False)
def untrained(name: str, attention: str) -> LanguageModel:
    """Our model of the family as it is built."""
    return build_model(FAMILIES[name].spec, attention=attention)


def mutant_model(spec: Model, weights: Mapping[str, torch.Tensor]) -> LanguageModel:
    """A mutant with those of the weights it has a place for.

    What else it needs starts as it does in a fresh model.

    It is built where it is instead of on meta, which for models this small is ten times quicker.
    """
    model = LanguageModel(spec, EAGER)
    tape = BuildTape(model, "", None)
    tokens, *source = [Tensor(tape, torch.zeros_like(value)) for value in example_inputs(spec, 1, 2)]
    spec.forward(tokens, **({"source": source[0]} if source else {}))
    for leaf in model.modules():
        if isinstance(leaf, Leaf):
            leaf.reset_parameters()
    model.load_state_dict(weights, strict=False)
    return model.eval()


def difference(logits: torch.Tensor | tuple[torch.Tensor, torch.Tensor], expected: torch.Tensor) -> float:
    """max|logits - expected| in units of max(1, max|expected|); of an encoder that pools too, its logits."""
    logits = logits[0] if isinstance(logits, tuple) else logits
    assert logits.shape == expected.shape
    return float((logits - expected).abs().max() / max(1.0, float(expected.abs().max())))
