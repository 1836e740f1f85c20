"""profile: `archcli profile` in Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from archcli.api.asking.modules import takes_modules
from archcli.api.asking.options import CONTEXT, Files, MediaOptions, MlaForm, Past, ScanForm, SourceLen
from archcli.api.asking.question import Option, asks, count_option
from archcli.api.asking.subject import Subject, given
from archcli.errors import ArchError
from archcli.measure.report import Report
from archcli.modules.models.model import ModelLike
from archcli.modules.spec.arguments import AttentionKernel, TowerPart
from archcli.modules.spec.request import Phase, Request
from archcli.modules.spec.values import AboveZero, ZeroOrMore
from archcli.wings.running.api.profiling.one_model import cut_to, profile_model
from archcli.wings.running.api.profiling.rank import RankLaunch, said_once
from archcli.wings.running.api.profiling.settings import Detail, RunDtype, RunSettings
from archcli.wings.running.recording.recording import Recording

if TYPE_CHECKING:
    from archcli.wings.running.api.profiling.vs_changes import Read

PassPhase = Annotated[
    Phase | None,
    Option(
        "A full pass; with its backward; a pass that fills the cache; one token against a filled cache.",
        default="forward",
    ),
]
BatchSize = Annotated[AboveZero | None, count_option("Sequences in the batch.", "-b", default="1")]
SeqLen = Annotated[
    AboveZero | None,
    count_option("New tokens of each sequence; 8k is 8,000, 8K is 8,192.", "-s", "128", CONTEXT),
]
Dtype = Annotated[RunDtype, Option("Number format to run in.", any_case=True)]
Device = Annotated[str, Option("cpu, cuda or cuda:N.", metavar="DEVICE", completes="torch_devices")]
HideLaunch = Annotated[
    bool,
    Option(
        "On a GPU, queue each pass behind a waiting kernel, which hides launch overhead, and time the device."
    ),
]
Threads = Annotated[AboveZero | None, count_option("Threads of an operation. [default: torch's choice]")]
Attention = Annotated[
    AttentionKernel | None,
    Option(
        "torch's fused kernel where it applies, or products and softmax each on their own.", default="sdpa"
    ),
]
Compile = Annotated[
    bool,
    Option(
        "Run under torch.compile, on the CPU; operations fused into one kernel share a line. Needs g++.",
        name="compile",
    ),
]
Pairs = Annotated[
    AboveZero | None,
    count_option("Pairs of a plain and a traced pass. [default: 10, fewer if that takes over 8 s]"),
]
Vs = Annotated[
    Sequence[str],
    Option(
        "Time a variant against the model, passes in turn: norm.kind=layernorm as with --set, "
        "attention=eager, dtype=bf16, compile=true. Repeatable.",
        metavar="CHANGE[,CHANGE]",
        completes="variants",
    ),
]
Layers = Annotated[AboveZero | None, count_option("Run only the first N layers of each stack.")]
PerKind = Annotated[
    bool,
    Option("Run one and two layers of each kind and extrapolate; automatic where the model does not fit."),
]
NoCeilings = Annotated[bool, Option("Do not measure the peak FLOP/s and bandwidth of this machine.")]
Refresh = Annotated[bool, Option("Measure those peaks anew in spite of an earlier run.")]
AgainstPrediction = Annotated[
    bool, Option("Set what `archcli predict` says of the same pass beside it, by class of operation.")
]
Calibrate = Annotated[
    Files,
    Option(
        "With --against-prediction: fit its constants to this `archcli profile --json`. Repeatable.",
        metavar="FILE",
    ),
]
Part = Annotated[
    TowerPart | None,
    Option("Profile this tower of a multimodal model with its projector, over --image or sound."),
]
USUAL_LENGTH = 128
"""Tokens of a sequence where none are stated."""
Depth = Annotated[ZeroOrMore, count_option("Steps of a path to show; 0 for all.")]
Top = Annotated[ZeroOrMore, count_option("Operators in the table, the slowest first; 0 for all.")]


@dataclass(frozen=True)
class ProfileOptions(MediaOptions):
    """Options of `archcli profile`; None stands for the usual value."""

    model: ModelLike
    _: KW_ONLY
    phase: PassPhase = None
    batch_size: BatchSize = None
    seq_len: SeqLen = None
    past: Past = None
    source_len: SourceLen = None
    mla: MlaForm = "auto"
    scan: ScanForm = "auto"
    dtype: Dtype = "fp32"
    device: Device = "cpu"
    hide_launch: HideLaunch = False
    threads: Threads = None
    attention: Attention = None
    compiled: Compile = False
    pairs: Pairs = None
    vs: Vs = ()
    part: Part = None
    layers: Layers = None
    per_kind: PerKind = False
    no_ceilings: NoCeilings = False
    refresh: Refresh = False
    against_prediction: AgainstPrediction = False
    calibrate: Calibrate = ()
    depth: Depth = 0
    top: Top = 15

    def request(self) -> Request:
        """The pass; a forward of one sequence of 128 tokens where nothing else is stated."""
        sizes = (self.batch_size or 1, self.seq_len or USUAL_LENGTH, self.past, self.source_len)
        return Request(self.phase or "forward", *sizes, forms={"mla": self.mla, "scan": self.scan}).resolved()

    def settings(self, launch: RankLaunch | None = None, *, trace: bool = False) -> RunSettings:
        """How passes are run. Raises ArchError for what a device cannot do."""
        return RunSettings(
            dtype=self.dtype,
            device=self.device,
            attention=self.attention or "sdpa",
            threads=self.threads,
            pairs=self.pairs,
            ceilings=not self.no_ceilings,
            refresh=self.refresh,
            trace=trace,
            hide_launch=self.hide_launch,
            compile=self.compiled,
            launch=launch,
        )


NOT_PREDICTED = {
    "vs": "--vs",
    "compiled": "--compile",
    "per_kind": "--per-kind",
    "repeat_process": "--repeat-process",
    "no_ceilings": "--no-ceilings",
}
"""Options of profiles without a prediction: not one whole pass, or without a floor."""


def check_against(options: Mapping[str, Any]) -> None:
    """Raise ArchError for options of a profile that has no prediction."""
    if not options["against_prediction"]:
        if options["calibrate"]:
            raise ArchError("--calibrate is for a prediction", "add --against-prediction")
        return
    refused = [option for name, option in NOT_PREDICTED.items() if options.get(name)]  # Python asks for fewer
    if refused:
        raise ArchError(f"--against-prediction is of one whole pass, and {refused[0]} is not", "leave it out")


ALONE = {
    "vs": "--vs",
    "compiled": "--compile",
    "per_kind": "--per-kind",
    "against_prediction": "--against-prediction",
    "past": "--past",
}
"""Options of a language model or an encoder alone, without images and sounds in a prompt."""


def part_of(
    subject: Subject, request: Request, options: ProfileOptions, launch: RankLaunch | None = None
) -> tuple[Subject, Request]:
    """The profiled part and its media: the model with its towers, or one tower with its projector.

    Cut to some layers, by kinds of layer or on several ranks a tower is its encoder alone. Raises ArchError
    for a part that the model lacks, and for media that it does not read, or that are counted and not run.
    """
    request = replace(request, media=options.media)
    if options.part is None:
        return subject, _with_towers(subject, request, options, launch) if subject.model.towers else request
    if options.vs:
        raise ArchError("--vs compares whole models, and --part is of a tower", "leave one of them out")
    tower = subject.tower(options.part)
    if len(options.media) > 1:
        raise ArchError("a tower is profiled over one image or sound", "name one")
    medium = options.media[0] if options.media else tower.usual
    read = tower.one_reading(request, medium)
    is_cut = options.layers is not None or options.per_kind or launch is not None
    model: Any = tower.model if is_cut else tower.sized(medium)  # both are traced and built as models are
    of_tower = replace(request, batch_size=read.batch_size, seq_len=read.seq_len, media=read.media)
    return subject._replace(model=model, name=f"{subject.name}: {options.part}"), of_tower


def _with_towers(
    subject: Subject, request: Request, options: ProfileOptions, launch: RankLaunch | None
) -> Request:
    """The request of a pass of the whole model; without media that of the language model."""
    if not options.media or request.phase == "decode":
        return request
    from archcli.wings.media.modules.models.media import why_not_run

    reason, named = why_not_run(subject.model), " or ".join(tower.part for tower in subject.model.towers)
    if reason:
        hint = f"--part {named} profiles a tower; without images and sounds it is the language model"
        raise ArchError(f"towers of {subject.name} are counted and not run: {reason}", hint)
    refused = [option for name, option in ALONE.items() if vars(options)[name]]
    refused += [] if launch is None else ["--tp or --dp"]
    if refused:
        raise ArchError(
            f"{refused[0]} is of the language model or of one tower, without images and sounds in a prompt",
            f"leave it out, or add --part {named}",
        )
    return subject.model.placing(request)


class MeasuredModel(NamedTuple):
    """The report of a profile, the model it is of, and the recording; None of several variants."""

    report: Report
    subject: Subject
    recording: Recording | None


def measured(
    read: Read, options: ProfileOptions, launch: RankLaunch | None = None, *, trace: bool = False
) -> MeasuredModel:
    """Run and time the pass of a model, which `read` loads. Imports torch.

    An interrupt before anything was timed is a KeyboardInterrupt, told in a line; a later one gives what was
    measured so far.
    """
    with said_once(launch):
        settings, detail = options.settings(launch, trace=trace), Detail(options.depth, options.top)
        request = options.request()
        if not options.vs:
            subject, request = part_of(read(()), request, options, launch)
            subject = cut_to(subject, options.layers, per_kind=options.per_kind)
            prediction = None
            if options.against_prediction:
                from archcli.wings.running.api.profiling.against import PassPrediction

                prediction = PassPrediction.of(options.calibrate, options.device, options.dtype)
    # outside of said_once: `launch_of` has refused --vs on several ranks
    if options.vs:
        from archcli.wings.running.api.profiling.versus import compare  # of variants alone
        from archcli.wings.running.api.profiling.vs_changes import requested_variants

        variants = requested_variants(read, settings, options.vs)
        _, request = part_of(variants[0].subject, request, options)
        return MeasuredModel(compare(variants, request, detail), variants[0].subject, None)
    report, recording = profile_model(
        subject, request, settings, detail, layers=options.layers, per_kind=options.per_kind
    )
    if prediction is not None:
        report = prediction.compared(report, subject.model, request, launch)
    return MeasuredModel(report, subject, recording)


@takes_modules("profile")
@asks(ProfileOptions)
def profile(options: ProfileOptions) -> Report:
    """Where the time of a pass goes on this machine: the report of `archcli profile` (needs torch).

    Builds the model with random weights, runs the pass in this process and times every operation. `vs` are
    variants to time against it, "attention=eager". `rows` are operations, slowest first, with seconds, share,
    flops and bytes; `totals` hold seconds, by_class, by_module, ceilings and machine, with images or sounds
    also by_part.

    A torch.nn.Module and its inputs may stand in place of a model: `profile(module, x)`.

    Example: `profile("gpt2", seq_len=8, layers=1, pairs=1, no_ceilings=True).totals["partial"]` is False.
    """
    # an option of the command alone, which `check_against` looks at too
    check_against(vars(options))
    profiled = measured(lambda overrides: given(options.model, overrides), options)
    return profiled.subject.named(profiled.report)
