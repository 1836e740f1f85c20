"""What the importer families share: reading a config.json key by key, and writing layers as groups.

A family is one file: a pure function from a `Config` to the mapping that YAML would hold. Hugging Face's names occur here and there only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from sys import float_info
from typing import Any

from archcli.errors import ArchError, Problem

Mapped = dict[str, Any]
Family = Callable[["Config"], Mapped]

MISSING = object()
MOST_LAYERS = 100_000
"""More is a slip or an attack: no model has a thousandth of it, and each layer is written out while a pattern is looked for."""

LARGEST = 10**18

HEADS = (
    "ForCausalLM",
    "LMHeadModel",
    "MTModel",
    "DoubleHeadsModel",
    "ForConditionalGeneration",
    "ForPreTraining",
    "ForMaskedLM",
)
"""How the names of classes end that turn hidden states into logits over the vocabulary."""

HARMLESS = frozenset(
    # a hundred words, which as a list would be a hundred lines
    "_name_or_path name_or_path _commit_hash architectures model_type auto_map transformers_version torch_dtype dtype "  # noqa: SIM905
    "use_cache use_return_dict return_dict torchscript gradient_checkpointing pretraining_tp use_bfloat16 "
    "chunk_size_feed_forward attn_implementation _attn_implementation _attn_implementation_autoset experts_implementation "
    "output_attentions output_hidden_states output_scores return_dict_in_generate output_router_logits "
    "bos_token_id eos_token_id pad_token_id sep_token_id cls_token_id mask_token_id unk_token_id decoder_start_token_id "
    "forced_bos_token_id forced_eos_token_id bad_words_ids suppress_tokens begin_suppress_tokens "
    "image_token_index image_token_id boi_token_index boi_token_id eoi_token_index eoi_token_id mm_tokens_per_image "
    "attention_dropout hidden_dropout hidden_dropout_prob attention_probs_dropout_prob classifier_dropout "
    "resid_pdrop embd_pdrop attn_pdrop residual_dropout embedding_dropout ffn_dropout dropout activation_dropout layerdrop "
    "initializer_range initializer_factor init_std init_method_std init_device "
    "router_aux_loss_coef router_z_loss_coef router_jitter_noise aux_loss_alpha seq_aux ep_size "
    "id2label label2id num_labels problem_type task_specific_params finetuning_task tokenizer_class prefix "
    "is_encoder_decoder cache_implementation model_max_length max_sequence_length seq_length n_ctx "
    "max_length min_length max_new_tokens do_sample early_stopping num_beams num_beam_groups num_return_sequences "
    "temperature top_k top_p typical_p diversity_penalty repetition_penalty length_penalty no_repeat_ngram_size "
    "encoder_no_repeat_ngram_size exponential_decay_length_penalty remove_invalid_values".split()
)
"""Keys that say how to load, sample, train or initialise: none changes what is counted. What a family cares for it reads all the same."""

MOST_REPORTED = 20
MOST_SHOWN = 60


def shown(value: Any) -> str:
    """A value of a file as messages quote it: not more of it than a line holds."""
    text = repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


def is_number(value: Any) -> bool:
    """A real number that a float holds: JSON as Python reads it also has NaN, Infinity and whole numbers of any length."""
    return not isinstance(value, bool) and isinstance(value, int | float) and abs(value) <= float_info.max


@dataclass
class Config:
    """One config.json, or the text part of one. Remembers which keys were read, so that none is ignored in silence.

    `defaults` are those of the family's class, `aliases` its own words for the common keys (GPT-2: hidden_size is n_embd).
    """

    data: Mapping[str, Any]
    file: str = "config.json"
    read: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)

    def of_class(self, defaults: Mapping[str, Any], **aliases: str) -> Config:
        """The same file as its class reads it: a missing key is the class's default, `n_embd` is hidden_size."""
        return replace(self, defaults=defaults, aliases=aliases)

    def get(self, *names: str, default: Any = MISSING) -> Any:
        """The first of these keys that is there and not null, else the class's default, else this one.

        Raises ArchError where the key has no default.
        """
        names = tuple(word for name in names for word in dict.fromkeys((self.aliases.get(name, name), name)))
        self.read.update(names)
        for source in (self.data, self.defaults):
            for name in names:
                if source.get(name) is not None:
                    return source[name]
        if default is MISSING:
            raise ArchError(
                Problem(
                    f"{self.file}: key {self._own(names[0])!r} is missing",
                    "the class of this model has no default for it",
                )
            )
        return default

    def stated_null(self, name: str) -> bool:
        """True where the file says null, which means none, and not the class's default as a missing key does."""
        self.read.add(name)
        return name in self.data and self.data[name] is None

    def size(self, *names: str, default: Any = MISSING) -> Any:
        """A whole number above zero, or the default."""
        value = self.get(*names, default=default)
        if value is default:
            return value
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
            raise ArchError(
                Problem(
                    f"{self.file}: {self._own(names[0])} must be a whole number above 0, not {shown(value)}"
                )
            )
        if value > LARGEST:
            raise ArchError(
                Problem(
                    f"{self.file}: {self._own(names[0])} is beyond reason", f"at most {LARGEST:,} is read"
                )
            )
        return value

    def count(self, *names: str, default: Any = MISSING) -> int:
        """A whole number, zero allowed."""
        return 0 if self.get(*names, default=default) == 0 else int(self.size(*names, default=default))

    def number(self, *names: str, default: Any = MISSING) -> float:
        """A real number."""
        value = self.get(*names, default=default)
        if not is_number(value):
            raise ArchError(
                Problem(f"{self.file}: {self._own(names[0])} must be a number, not {shown(value)}")
            )
        return float(value)

    def flag(self, *names: str, default: Any = MISSING) -> bool:
        """true or false."""
        value = self.get(*names, default=default)
        if not isinstance(value, bool):
            raise ArchError(
                Problem(f"{self.file}: {self._own(names[0])} must be true or false, not {shown(value)}")
            )
        return value

    def _own(self, name: str) -> str:
        """The file's word for a common key."""
        return name if name in self.data else self.aliases.get(name, name)

    def only(self, name: str, *allowed: Any, default: Any = MISSING) -> None:
        """Refuse a value that means something this importer does not know."""
        value = self.get(name, default=default)
        if value not in allowed:
            meant = " or ".join(repr(item) for item in allowed)
            raise ArchError(
                Problem(f"{self.file}: {name} {shown(value)} is not supported", f"supported: {meant}")
            )

    def ignore(self, *names: str) -> None:
        """Keys that change no count and no logit of a plain forward."""
        self.read.update(names)

    def note(self, text: str) -> None:
        """Something the user should know of the import, once."""
        if text not in self.notes:
            self.notes.append(text)

    def layers(self) -> int:
        """How many layers, within reason."""
        count = int(self.size("num_hidden_layers"))
        if count > MOST_LAYERS:
            raise ArchError(
                Problem(
                    f"{self.file}: {self._own('num_hidden_layers')} {count} is beyond reason",
                    f"at most {MOST_LAYERS:,} are read",
                )
            )
        return count

    def per_layer(self, name: str, count: int) -> list[Any] | None:
        """A list with an entry for each layer, cut to as many as there are, or None where the file has none."""
        stated = self.get(name, default=None)
        if stated is None:
            return None
        if not isinstance(stated, list) or len(stated) < count:
            found = f"{len(stated)} entries" if isinstance(stated, list) else shown(stated)
            raise ArchError(
                Problem(f"{self.file}: {name} must have an entry for each of {count} layers, not {found}")
            )
        return stated[:count]

    @property
    def architecture(self) -> str:
        """The class the file names first, or nothing."""
        stated = self.get("architectures", default=None)
        first = stated[0] if isinstance(stated, list) and stated else stated
        return first if isinstance(first, str) else ""

    @property
    def has_head(self) -> bool:
        """Whether that class has a head of logits over the vocabulary; without a class it is the base model, which has none."""
        return self.architecture.endswith(HEADS)

    def only_architectures(self, *known: str) -> None:
        """Refuse a class that is made of other parts than these are."""
        if self.architecture and self.architecture not in known:
            raise ArchError(
                Problem(
                    f"{self.file}: architecture {shown(self.architecture)} is not supported",
                    "known: " + ", ".join(known),
                )
            )

    def labels(self) -> int:
        """How many labels a classifier tells apart; two where the file does not say."""
        named = self.get("id2label", default={})
        return (
            len(named)
            if isinstance(named, dict | list) and named
            else int(self.size("num_labels", default=2))
        )

    def leftovers(self) -> list[str]:
        """Keys that no one has read and that say something; what is null, false, 0 or empty adds nothing."""
        return [
            str(key)
            for key, value in self.data.items()
            if value and key not in self.read and key not in HARMLESS
        ]

    def report_leftovers(self) -> None:
        """Note every key that was not understood."""
        left = self.leftovers()
        for key in left[:MOST_REPORTED]:
            self.note(f"key {shown(key)} was not understood and may change the count")
        if len(left) > MOST_REPORTED:
            self.note(f"{len(left) - MOST_REPORTED} more keys were not understood and may change the count")


ACTIVATIONS: dict[str, Any] = {
    "relu": "relu",
    "relu2": "relu2",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "gelu_python": "gelu",
    "gelu_python_tanh": "gelu_tanh",
    "quick_gelu": {"kind": "swish", "beta": 1.702},
    "silu": "silu",
    "swish": "silu",
    "sigmoid": "sigmoid",
}
"""Their names of activation functions, `transformers.activations.ACT2FN`, and ours."""


def activation(config: Config, *names: str, default: Any = MISSING) -> Any:
    """archcli's word for the activation function."""
    name = config.get(*names, default=default)
    if not isinstance(name, str) or name not in ACTIVATIONS:
        raise ArchError(
            Problem(
                f"{config.file}: activation {shown(name)} is not supported",
                "known: " + ", ".join(ACTIVATIONS),
            )
        )
    return ACTIVATIONS[name]


MOST_GROUPS = 1000


def groups(layers: Sequence[Mapped], longest: int = 12) -> list[Mapped]:
    """The layers of a model, one mapping each, as groups: of one layer repeated, or of a short pattern over and over.

    Each group takes as many of the layers that are left as one pattern covers; a pattern comes at least twice.
    """
    numbers: dict[str, int] = {}
    known: dict[int, int] = {}
    for layer in layers:
        if id(layer) not in known:
            known[id(layer)] = numbers.setdefault(repr(layer), len(numbers))
    kinds = [known[id(layer)] for layer in layers]
    found: list[Mapped] = []
    start = 0
    while start < len(kinds):
        covered, period = max((_covered(kinds, start, period), -period) for period in range(1, longest + 1))
        found.append(_group(layers[start : start - period], covered))
        start += covered
        if len(found) > MOST_GROUPS:
            raise ArchError(
                Problem(
                    f"the layers fall into more than {MOST_GROUPS:,} groups",
                    "no pattern of theirs comes twice",
                )
            )
    return found


def _covered(kinds: Sequence[int], start: int, period: int) -> int:
    """How many layers from `start` on repeat the first `period` of them; 0 where they do not come twice."""
    end = start + period
    while end < len(kinds) and kinds[end] == kinds[end - period]:
        end += 1
    return end - start if period == 1 or end - start >= 2 * period else 0


def _group(period: Sequence[Mapped], count: int) -> Mapped:
    return (
        {"n_layers": count, "layer": period[0]}
        if len(period) == 1
        else {"n_layers": count, "pattern": list(period)}
    )


def without_none(mapping: Mapped) -> Mapped:
    """The mapping without keys whose value is None."""
    return {key: value for key, value in mapping.items() if value is not None}
