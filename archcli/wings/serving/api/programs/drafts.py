"""Options of speculative decoding: `--draft`, `--draft-tokens` and `--accept`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Annotated, Any

from archcli.api.asking.options import MediaOptions
from archcli.api.asking.question import Option, count_option
from archcli.api.asking.subject import given
from archcli.errors import ArchError
from archcli.measure.kvcache.engine import NO_ENGINE, InferenceEngine
from archcli.modules import Model
from archcli.modules.spec.values import AboveZero
from archcli.wings.serving.devices.engines import load_engine
from archcli.wings.serving.memory.answers.question import MemoryQuestion
from archcli.wings.serving.memory.beyond.drafts import HeldDraft
from archcli.wings.serving.memory.parts.heads import DraftHead, eagle_head, mtp_head
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.memory.traced import TracedModel
from archcli.wings.serving.predict.answers.drafts import DraftPass, Speculation
from archcli.wings.serving.predict.answers.question import PredictQuestion

DraftName = Annotated[
    str | None,
    Option(
        "Speculative decoding: a smaller model, or mtp, eagle3, ngram. In decode and serve.",
        metavar="MODEL",
        reads="text",
        rare=True,
    ),
]
DraftTokens = Annotated[
    AboveZero | None,
    count_option("With --draft: tokens of a round. [default: the layers of mtp, else 3]", rare=True),
]
Accept = Annotated[
    float | None,
    Option(
        "With --draft: share of its tokens that are accepted at each position. "
        "[default: mtp 0.85, eagle3 0.72, as published]",
        metavar="SHARE",
        reads="number",
        rare=True,
    ),
]
HEADS: dict[str, Callable[[Model], DraftHead]] = {"mtp": mtp_head, "eagle3": eagle_head}
NGRAM = "ngram"
PUBLISHED = {
    "mtp": (0.85, "DeepSeek-V3, section 5.4.3: 85% to 90% of second tokens"),
    "eagle3": (0.72, "vLLM's test of Llama 3.1 8B on MT-bench: 2.60 tokens a round of 3"),
}
"""Shares accepted of drafts of a kind, and their sources."""
USUAL_TOKENS = 3
PHASES = ("decode", "serve")
ALONE: dict[str, Any] = dict.fromkeys(("draft", "draft_tokens", "accept"))
"""Options of a draft, left out."""
TEXT: dict[str, Any] = {**{it.name: it.default for it in fields(MediaOptions)}, "adapters": None}
"""Options of images, sounds and adapters, which a draft does not read, left out."""


@dataclass(frozen=True, kw_only=True)
class DraftOptions:
    """Options of speculative decoding."""

    draft: DraftName = None
    draft_tokens: DraftTokens = None
    accept: Accept = None

    def _drafts(self, phase: str) -> bool:
        """Whether there is a draft. Raises ArchError for options that are none of it, and another phase."""
        if self.accept is not None and not 0 < self.accept < 1:
            what = f"--accept {self.accept:g} is no share between 0 and 1"
            raise ArchError(what, "--accept 0.7: 7 of 10 drafted tokens at each position")
        if self.draft is None:
            for name in ("draft_tokens", "accept"):
                if vars(self)[name] is not None:
                    option = f"--{name.replace('_', '-')}"
                    raise ArchError(f"{option} is of --draft, which is left out", "--draft ngram, or a model")
            return False
        if phase not in PHASES:
            what = f"--draft applies to decode and serve only, and the phase is {phase}"
            raise ArchError(what, "--phase serve, or leave --draft out")
        self.check_draft()
        return True

    def check_draft(self) -> None:
        """Raise ArchError for options that a draft excludes."""
        if vars(self).get("offload") is not None:
            raise ArchError("how --offload runs with --draft is not known", "leave one of them out")
        if vars(self).get("command"):
            raise ArchError("--command writes no line of an engine with a draft", "leave one of them out")

    def _model(self, target: Model, engine: InferenceEngine | None) -> Model | None:
        """The draft as a model; None of n-grams. Raises ArchError for one with another vocabulary."""
        name = self.draft or NGRAM
        if target.value_of("kind") != "decoder":
            raise ArchError("--draft is of a decoder, and the model is none", "leave --draft out")
        if name == NGRAM:
            return None
        if name in HEADS:
            return HEADS[name](target)
        model = given(name).model
        apart = abs(model.vocab_size - target.vocab_size)
        if apart > load_engine((engine or NO_ENGINE).name).get("draft_words", 0):
            sizes = f"{model.vocab_size:,} words, {target.name or 'the model'} {target.vocab_size:,}"
            hint = "a draft has the target's words: a smaller model of its series"
            raise ArchError(f"--draft {name} has {sizes}", hint)
        return model

    def accepted(self) -> tuple[float, str]:
        """The share accepted at each position, and the source of a published one."""
        if self.accept is not None:
            return self.accept, ""
        if self.draft not in PUBLISHED:
            what = f"--draft {self.draft}: what share of its tokens is accepted depends on model and text"
            raise ArchError(what, "--accept 0.7, as an engine's log states it for each position")
        return PUBLISHED[self.draft]

    def timed_draft(
        self, target: Model, settings: MemorySettings, ask: Callable[[Model], PredictQuestion]
    ) -> Speculation | None:
        """The draft of a prediction; `ask` asks the same about it alone, in a token's decoding."""
        if not self._drafts(settings.phase):
            return None
        model, (accept, source) = self._model(target, settings.engine), self.accepted()
        usual = target.mtp_depth if self.draft == "mtp" else USUAL_TOKENS
        draft = Speculation(self.draft or "", self.draft_tokens or usual, accept, source)
        if model is None:
            return draft
        alone = ask(model)
        passed = DraftPass(alone.model, alone.settings, alone.timing, alone.cache)
        return Speculation(draft.name, draft.tokens, accept, source, passed, self._held(alone.memory()))

    def held_draft(
        self, target: Model, settings: MemorySettings, ask: Callable[[Model], MemoryQuestion]
    ) -> HeldDraft | None:
        """The memory of the draft, None without one; `ask` asks the same about it alone."""
        model = self._model(target, settings.engine) if self._drafts(settings.phase) else None
        return None if model is None else self._held(ask(model))

    def _held(self, alone: MemoryQuestion) -> HeldDraft:
        model: Any = alone.model
        model = model.without_shared() if self.draft in HEADS else model
        return HeldDraft(self.draft or "", model, alone.settings, TracedModel(model))
