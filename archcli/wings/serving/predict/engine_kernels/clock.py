"""EngineClock: the seconds of one call of an engine's kernels on a device, by the constants it states."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from archcli.wings.serving.launches.kernel import AttentionCall, KernelCost
from archcli.wings.serving.predict.engine_kernels.attention import HeadsCall
from archcli.wings.serving.predict.engine_kernels.choice import BORROWED, NumberedEntry, entry_for
from archcli.wings.serving.predict.engine_kernels.terms import MICRO, KernelDevice

FORMS: Mapping[str, tuple[str, str, str]] = {
    "attention_prefill": ("attention", "PrefillConstants", "prefill_seconds"),
    "attention_decode": ("attention", "DecodeConstants", "decode_seconds"),
    "latent_prefill": ("latent", "LatentPrefillConstants", "latent_prefill_seconds"),
    "latent_decode": ("latent", "LatentDecodeConstants", "latent_decode_seconds"),
    "experts": ("experts", "ExpertsConstants", "experts_seconds"),
    "collective_graph": ("exchange", "ExchangeConstants", "exchange_seconds"),
    "convolution_prefill": ("delta_net", "DeltaConstants", "convolution_prefill_seconds"),
    "convolution_decode": ("delta_net", "DeltaConstants", "convolution_decode_seconds"),
    "recurrence_prefill": ("delta_net", "DeltaConstants", "recurrence_prefill_seconds"),
    "recurrence_decode": ("delta_net", "DeltaConstants", "recurrence_decode_seconds"),
}
"""The file of an operation, its constants and its function; a file is imported when it is asked for."""


def _form(operation: str) -> tuple[Any, Callable[..., float]]:
    file, constants, function = FORMS[operation]
    module = import_module(f"archcli.wings.serving.predict.engine_kernels.{file}")
    return getattr(module, constants), getattr(module, function)


PEAKS = {"bf16": "bf16", "fp16": "bf16", "fp8": "fp8", "fp8_block": "fp8", "nvfp4": "fp4"}
PEAKS |= {"int4_wo": "bf16", "w4a16_mxfp4": "bf16", "w4a8_mxfp4_mxfp8": "fp8"}
"""The peak of a dtype's products; weights of 4 bits alone are multiplied as bf16."""
ALIKE: Mapping[str, tuple[str, ...]] = {
    # mixtures that are published in fp8 have a scale for each block of 128 x 128
    "fp8": ("fp8_block", "fp8"),
    "int4_wo": ("int4_wo", "w4a16_mxfp4"),
    # Blackwell multiplies in fp8 what it stores in mxfp4
    "mxfp4": ("w4a8_mxfp4_mxfp8", "w4a16_mxfp4", "int4_wo"),
    "nvfp4": ("nvfp4",),
}
"""Dtypes of experts whose kernels are nearest, the nearest first; bf16 stands in for none of them."""
OF_LATENT, OF_HEADS = (576, 512), (192, 128)
"""Widths of keys and values: of DeepSeek's latent with its rotary key, and of each of its heads."""
MOST_QUERIES = 16
"""The most tokens of a sequence at once whose attention is a decoded token's: one and those of a draft."""
Lookup = Callable[[str], Sequence[NumberedEntry]]
"""From an operation to the entries of one engine."""


class EngineTable(NamedTuple):
    """The entries of one engine for a device, by operation; of another device or engine where borrowed."""

    entries: Lookup
    borrowed: bool = False


class Measured(NamedTuple):
    """Seconds of a call as expected, low and high over expected, and whether launching takes most of it."""

    seconds: float
    low: float
    high: float
    launches: bool = False


class EngineClock(NamedTuple):
    """The kernels of an engine on a device.

    tables: those of the engine, and behind them those of others for operations that it has none of, each
    read when it is asked for. peaks: FLOP/s by dtype. sizes: the device but for its peak. lender: the device
    whose constants these are, empty for its own. products: the constants of other kernels, of the device
    `products_of`, where the device has none of its own. links_of: looks up the device of the collectives,
    empty for the lender.
    """

    name: str
    tables: Callable[[], Iterator[EngineTable]]
    peaks: Mapping[str, float]
    sizes: KernelDevice
    lender: str = ""
    products: Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None
    products_of: str = ""
    links_of: Callable[[], str] = str

    def kernel(self, kernel: KernelCost) -> Measured | None:
        """Seconds of a kernel; None for one without a call, or whose call nobody measured."""
        call = kernel.call
        if isinstance(call, AttentionCall):
            return self._attention(call)
        return None if call is None else self._time(call.operation, call.sizes, call.wanted)

    def exchange(self, ranks: int, size: float) -> Measured | None:
        """Seconds of an all-reduce of so many bytes among ranks of a node."""
        from archcli.wings.serving.predict.engine_kernels.exchange import ExchangeCall  # of several devices

        return self._time("collective_graph", ExchangeCall(ranks, size), {"kernel": "all_reduce"})

    def _attention(self, call: AttentionCall) -> Measured | None:
        cache = {"dtype": "bf16", "cache": call.cache or "bf16"}
        width = 1 if call.cache == "fp8" else 2
        widths = (call.width, call.value_width)
        before = call.length - call.queries
        drafted = bool(before) and call.queries <= MOST_QUERIES and widths != OF_HEADS
        phase = "decode" if call.queries == 1 or drafted else "prefill"
        # drafted tokens share a read of the cache, as query heads of a group do
        heads = call.heads * (call.queries if phase == "decode" and not call.window else 1)
        if widths in (OF_LATENT, OF_HEADS) and (call.latent or phase == "prefill"):
            operation, name = f"latent_{phase}", ""
            from archcli.wings.serving.predict.engine_kernels.latent import LatentCall  # of latent attention

            sizes: Any = LatentCall(heads, call.batch, call.length, width)
        elif call.latent or call.width != call.value_width:
            return None
        else:
            sizes = HeadsCall(heads, call.kv_heads, call.width, call.window, call.batch, call.length, width)
            operation, name = f"attention_{phase}", f"{call.width}{'w' if call.window else ''}"
        whole = self._time(operation, sizes, cache, name)
        if whole is None or phase == "decode" or not before:
            return whole
        # tokens behind others: the whole prompt without the part that is in the cache, launched once
        past = self._time(operation, sizes._replace(length=before), cache, name)
        launch = self._time(operation, sizes._replace(length=1), cache, name)
        if past is None or launch is None:
            return None
        return whole._replace(seconds=whole.seconds - past.seconds + launch.seconds)

    def _time(
        self, operation: str, sizes: Any, wanted: Mapping[str, Any], width: str = ""
    ) -> Measured | None:
        most = None
        for table in self.tables():
            entry = _chosen(table, operation, wanted, width)
            if entry is not None:
                time = self._of_entry(operation, entry, sizes, borrowed=table.borrowed)
                return time if most is None or time.seconds <= most.seconds else most
            # its own kernel with launches around it takes as long at most
            hiding = None if table.borrowed else _hiding(table, operation, wanted)
            if hiding is not None:
                most = self._of_entry(operation, hiding, sizes, borrowed=False)
        return None

    def _of_entry(self, operation: str, entry: NumberedEntry, sizes: Any, *, borrowed: bool) -> Measured:
        form, function = _form(operation)
        constants = form(**{name: entry[name] for name in form._fields if name in entry})
        names = (PEAKS.get(entry["dtype"], "bf16"), "fp8", "bf16", "fp16")
        peak = next((self.peaks[name] for name in names if name in self.peaks), 0.0)
        seconds = float(function(constants, sizes, self.sizes._replace(peak=peak)))
        widened = BORROWED if borrowed else 1.0
        low, high = min(1.0, entry["low"] / widened), max(1.0, entry["high"] * widened)
        # launches that hide behind work decide nothing
        launched = not entry.get("overlapped") and constants.call_us * MICRO > seconds / 2
        return Measured(seconds, low, high, launched)


def _chosen(
    table: EngineTable, operation: str, wanted: Mapping[str, Any], width: str
) -> NumberedEntry | None:
    """The entry of a table for an operation, None where it has none.

    Those that hold launches of the host are left out: a graph takes them away, and what they hide is unknown.
    """
    entries = [entry for entry in table.entries(operation) if not entry.get("overlapped")]
    if table.borrowed and operation == "latent_prefill":
        # to absorb in a prefill is a choice of the engine
        entries = [entry for entry in entries if not entry.get("absorbed")]
    if operation == "experts":
        for name in ALIKE.get(wanted["dtype"], (wanted["dtype"],)):
            alike = [entry for entry in entries if entry["dtype"] == name]
            if alike:
                return min(alike, key=lambda entry: float(entry["error"]))
        return None
    return entry_for(entries, wanted, width)


def _hiding(table: EngineTable, operation: str, wanted: Mapping[str, Any]) -> NumberedEntry | None:
    """The entry with launches of the host for this type of cache, which `_chosen` leaves out."""
    entries = [entry for entry in table.entries(operation) if entry.get("overlapped")]
    return next((entry for entry in entries if entry.get("cache") == wanted.get("cache")), None)
