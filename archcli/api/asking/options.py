"""Options that several questions share: type, limits, help and letter of each, stated once.

A question's fields are annotated with these names; the defaults stand in the question.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, get_args

from archcli.api.asking.question import Option, count_option, tokens_option
from archcli.errors import ArchError, quote, with_article
from archcli.graph.kept import Backend as KernelBackend
from archcli.modules.spec import arguments, request
from archcli.modules.spec.values import AboveZero, Conversion, Interval, ZeroOrMore, refused
from archcli.modules.stored import dtypes
from archcli.plugins import part


def _files(value: Any) -> tuple[Path, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(file, str | PathLike) for file in value):
        raise refused(value, "a list of files")
    return tuple(map(Path, value))


def _engine(value: Any) -> str:
    """The name of an engine, also by a common word: ollama is llamacpp."""
    if not isinstance(value, str):
        raise refused(value, "the name of an engine")
    name: str = part("serving.engine_named")(value)
    return name


def _engines(value: Any) -> str:
    """The names of engines, with commas between."""
    if not isinstance(value, str) or "," not in value:
        return _engine(value)
    return ",".join(dict.fromkeys(map(_engine, map(str.strip, value.split(",")))))


def _size(value: Any) -> str | int:
    """A size as it is written, or bytes."""
    return value if isinstance(value, str) else arguments.memory_bytes(value)


def _sized(kind: str, axes: int, form: str) -> Conversion:
    """A list of media of a kind, each as 224x224 or as (224, 224)."""

    def convert(value: Any) -> tuple[request.Medium, ...]:
        single = isinstance(value, str) or (isinstance(value, tuple) and bool(value) and is_size(value[0]))
        return tuple(_medium(kind, axes, form, entry) for entry in ([value] if single else value))

    return Conversion(f"a list of sizes such as {form}", convert)


def is_size(value: Any) -> bool:
    """Whether a value is a whole number above zero."""
    return type(value) is int and value > 0


def _medium(kind: str, axes: int, form: str, value: Any) -> request.Medium:
    if isinstance(value, request.Medium):
        return value
    parts = value.lower().split("x") if isinstance(value, str) else value
    sizes: list[Any] = [int(part) if str(part).isdecimal() else part for part in parts]
    if len(sizes) != axes or not all(map(is_size, sizes)):
        raise ArchError(f"{quote(str(value))} is no size of {with_article(kind)}", f"write {form}")
    return request.Medium(kind, tuple(sizes))


Size = Annotated[str | int | None, Conversion("bytes", _size)]
"""A size as it is written, 80GiB, or bytes."""
Share = Annotated[float, Interval(gt=0, le=1)]
Files = Annotated[Sequence[Path], Conversion("a list of files", _files)]

CONTEXT, SEQ_LEN = ("--context", "-c"), ("--seq-len", "-s")
"""Names of the tokens of a sequence: where a command has one of both, the other is taken for it."""

# sizes of a pass
BatchSize = Annotated[AboveZero, count_option("Sequences in the batch.", "-b")]
SeqLen = Annotated[
    AboveZero, tokens_option("New tokens of each sequence; 8k is 8,000, 8K is 8,192.", "-s", CONTEXT)
]
NewTokens = Annotated[
    AboveZero | None,
    tokens_option("New tokens of a sequence; 8K is 8,192. [default: 2048, or max_seq_len]", "-s", CONTEXT),
]
Tokens = Annotated[
    ZeroOrMore | None,
    tokens_option("Tokens of a sequence. [default: 2048, or max_seq_len]", "-s", CONTEXT),
]
Past = Annotated[
    ZeroOrMore | None,
    tokens_option("Tokens already in the cache. [decode default: --seq-len]"),
]
Context = Annotated[AboveZero | None, tokens_option("Tokens in the cache.", "-c", SEQ_LEN)]
SourceLen = Annotated[
    AboveZero | None,
    tokens_option("Tokens that the encoder of an encoder-decoder reads. [default: as many as the decoder]"),
]
Chunk = Annotated[
    AboveZero | None, count_option("Tokens of a prefill at a time. [default: the engine's, or all]")
]
GradAccum = Annotated[AboveZero, count_option("Micro batches per step.")]

# what an encoder of images or sounds reads
Image = Annotated[
    Sequence[str],
    _sized("image", 2, "448x448"),
    Option("An image of so many pixels, height by width. Repeatable.", metavar="HxW"),
]
Video = Annotated[
    Sequence[str],
    _sized("video", 3, "8x448x448"),
    Option("A video of T frames. Repeatable.", metavar="TxHxW"),
]
AudioSeconds = Annotated[AboveZero | None, count_option("Seconds of sound.")]
AudioFrames = Annotated[AboveZero | None, count_option("Frames of a spectrogram.", rare=True)]
AudioSamples = Annotated[AboveZero | None, count_option("Samples of a wave.", rare=True)]


@dataclass(frozen=True, kw_only=True)
class MediaOptions:
    """The images and sounds that a pass reads; without any, an encoder reads one of its usual size."""

    image: Image = ()
    video: Video = ()
    audio_seconds: AudioSeconds = None
    audio_frames: AudioFrames = None
    audio_samples: AudioSamples = None

    @property
    def media(self) -> tuple[request.Medium, ...]:
        """Images, videos and sounds, in this order."""
        return tuple(self._media())

    def _media(self) -> Iterator[Any]:
        yield from (*self.image, *self.video)
        for kind in ("seconds", "frames", "samples"):
            amount = getattr(self, f"audio_{kind}")
            if amount is not None:
                yield request.Medium(kind, (amount,))


# what runs
PassPhase = Annotated[
    request.Phase,
    Option("A full pass; with its backward; a pass that fills the cache; one token against a filled cache."),
]
CountedMask = Annotated[
    arguments.CountedPairs,
    Option("Count the scores that the mask allows, or all S x S, as torch's counter does."),
]
CountedLogits = Annotated[
    request.Logits | None,
    Option("Logits of every position or of the last. [default: all; of prefill and decode last]"),
]
MlaForm = Annotated[
    arguments.Mla,
    Option("Latent attention: naive rebuilds keys and values; absorbed works on latents, as auto to decode."),
]
ScanForm = Annotated[
    arguments.Scan,
    Option("Recurrent layers: a chunk of tokens at once, or one after the other, as auto to decode."),
]
Backend = Annotated[KernelBackend, Option("Whose kernels run.", rare=True)]
RECOMPUTED = (
    "What backward recomputes: none, attention, layer, a pattern as layers.*.ffn; keep:PATTERN leaves out."
)
Recompute = Annotated[str, Option(RECOMPUTED, metavar="WHAT", completes="recomputes")]
ChosenRecompute = Annotated[
    str | None,
    Option(f"{RECOMPUTED} [default: none, or the trainer's]", metavar="WHAT", completes="recomputes"),
]
OPTIMIZERS = (
    "adamw, adamw-mixed, also -fused; sgd, sgd-momentum, adafactor, muon; paged-adamw; adam8bit, also paged-."
)
Optimizer = Annotated[str, Option(OPTIMIZERS, metavar="NAME", completes="optimizers")]
ChosenOptimizer = Annotated[
    str | None,
    Option(
        f"{OPTIMIZERS} [default: the trainer's, else adamw-mixed]",
        metavar="NAME",
        completes="optimizers",
    ),
]
Gradients = Annotated[
    arguments.GradientDtype | None,
    Option("Type in which gradients are summed and kept. [default: the weights']", rare=True),
]

# number formats
Dtype = Annotated[
    dtypes.DtypeName,
    Option(
        "Type of an element, fp32, bf16, fp8, int4, or a stored format: q8_0, nf4, mxfp4 and others.",
        metavar="DTYPE",
        reads="text",
        completes="dtypes",
    ),
]
KvDtype = Annotated[
    dtypes.CacheDtypeName | None,
    Option(
        "Type of an engine's cache: bf16, fp8, int8, q8_0, q5_1, q4_0, nvfp4, fp8_ds_mla; of keys and "
        "values: q8_0:q4_0. [default: as computed]",
        metavar="TYPE",
        reads="text",
        completes="cache_dtypes",
    ),
]
ENGINES = get_args(arguments.EngineName)
NamedEngine = Annotated[arguments.EngineName, Conversion("the name of an engine", _engine, ENGINES)]
NamedEngines = Annotated[str, Conversion("names of engines", _engines)]
Engine = Annotated[
    NamedEngine | None,
    Option(
        "What runs inference; none: eager torch. [default: llamacpp for its formats, Macs, CPUs; else vllm]",
        metavar=f"<{'|'.join(ENGINES)}>",
        reads="text",
        completes="engines",
    ),
]
Utilization = Annotated[
    Share | None,
    Option(
        "The share of memory that the engine takes. [default: the engine's]",
        metavar="SHARE",
        reads="number",
    ),
]
StateDtype = Annotated[
    dtypes.PlainDtype | None,
    Option(
        "Type of recurrent states, which transformers keeps in fp32. [default: --dtype]",
        metavar="DTYPE",
        reads="text",
        completes="dtypes",
    ),
]

# what is shown
Depth = Annotated[ZeroOrMore, count_option("Steps of a path to show; deeper ones are summed.")]
Where = Annotated[
    Sequence[str],
    Option(
        "Only models that meet it: params>10B, params in 7e9±1%. Repeatable; all must hold.",
        metavar="CONDITION",
        completes="columns",
    ),
]
Sort = Annotated[str | None, Option("Sort by a column.", metavar="COLUMN[:desc]", completes="orders")]

# a device
Device = Annotated[
    str | None,
    Option(
        "Of `archcli devices`, an instance, a line '24GB, 1008GB/s', a YAML file, or local: 8xh100-sxm.",
        metavar="[Nx]NAME",
        completes="devices",
    ),
]

# devices that share a model
Tp = Annotated[AboveZero, count_option("Devices that share each matrix (tensor parallelism).")]
Sp = Annotated[
    bool,
    Option(
        "With --tp, but not in decoding: devices also share the tokens of norms and residuals (sequence "
        "parallelism)."
    ),
]
Pp = Annotated[AboveZero, count_option("Stages that the layers are cut into (pipeline parallelism).")]
Ep = Annotated[AboveZero, count_option("Devices that share the experts (expert parallelism).")]
Dp = Annotated[AboveZero, count_option("Replicas, each with its own sequences (data parallelism).")]
