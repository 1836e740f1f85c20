"""Passes that docs/engines.md works by hand, with the constants of engines/kernels/vllm.yaml for H100.

A line's result is rounded to six digits, and later lines go on with what is shown.
"""

import archcli
from archcli.wings.serving.devices.datasheet import load_datasheet
from archcli.wings.serving.devices.engines import load_engine, load_kernels
from archcli.wings.serving.predict.engine_kernels.attention import DecodeConstants, PrefillConstants
from archcli.wings.serving.predict.engine_kernels.experts import ExpertsConstants
from engine_tables import h100, table
from uneven import reached_by_power
from worked import value_of

KINDS = {
    "contraction": "products",
    "fused_attention": "attention",
    "normalization": "norms",
    "elementwise": "element by element",
    "movement": "copies",
}


class Lines:
    """The lines of a worked table: what, arithmetic, result."""

    def __init__(self):
        self.rows = []

    def add(self, what, arithmetic):
        """The result of a new line, as later ones write it."""
        value = float(value_of(arithmetic))
        # whole numbers in full: of bytes and FLOPs every digit holds
        shown = f"{value:,.0f}" if value.is_integer() else f"{value:,.6g}"
        self.rows.append([what, arithmetic, shown])
        return shown.replace(",", "")

    def end(self, report, what, layers, each, kind):
        """Add the kernels of all layers, all kernels of the pass, and the pass as `predict` reports it."""
        self.add(f"ms of {what} in {layers} layers", f"{layers} * {each} / 1000")
        classes = report.totals["by_class"]
        terms = " + ".join(f"{1000 * seconds:.6g}" for seconds in classes.values())
        kernels = self.add(f"ms of all kernels: {', '.join(KINDS[name] for name in classes)}", terms)
        # a live server is slower than its kernels
        engine = load_engine("vllm")
        slower = engine["kinds"][kind]["slower"]
        what = "ms of the pass, as the report shows: by the engine's speed and the factor of the kind"
        self.add(what, f"{kernels} / {engine['live']['speed']} * {slower}")
        return table(["what", "arithmetic", "result"], self.rows, texts=2)


def constants_of(form, operation, **wanted):
    """The constants of vLLM's only such entry on H100."""
    entries = load_kernels("vllm")["h100-sxm"][operation]
    [entry] = [one for one in entries if wanted.items() <= one.items()]
    return form(**{name: entry[name] for name in form._fields if name in entry})


def peak(fraction):
    """FLOPs that a fraction of the peak does in a microsecond."""
    return f"({h100().peak / 1e12:g}e6 * {fraction})"


def bandwidth(fraction):
    """Bytes that a fraction of the bandwidth moves in a microsecond."""
    return f"({h100().bandwidth / 1e9:g}e3 * {fraction})"


def from_cache(size, constants):
    """Bytes of a call that is larger than L2, what L2 holds at its own rate."""
    cache = f"{h100().cache / 1e6:g}e6"
    return size if constants.cached == 1 else f"({size} - {cache} + {cache} / {constants.cached})"


def prefill_table():
    """A prompt of 4,096 tokens in Llama 3.1 8B: attention of 32 query heads and 8 key heads of 128."""
    report = archcli.predict("llama-3.1-8b", "h100-sxm", phase="prefill", seq_len=4096, engine="vllm")
    known = constants_of(PrefillConstants, "attention_prefill", kernel="flash_attn_fa3", cache="bf16")
    tile, lines = known.tile, Lines()
    flops = lines.add(
        "FLOPs: 4 for each head, element, and pair of a query and a key at or before it",
        "4 * 32 * 128 * 4096 * 4097 / 2",
    )
    lines.add("µs to compute them at the peak, the **floor**", f"{flops} / {h100().peak / 1e12:g}e6")
    tiles = lines.add(f"tiles of {tile} queries in a head", f"4096 / {tile}")
    keys = lines.add(
        f"keys that they walk over: the first tile {tile}, the last all 4,096",
        f"{tile} * {tiles} * ({tiles} + 1) / 2",
    )
    keys = lines.add("keys, with what a tile's start and end cost", f"{keys} + {known.start} * {tiles}")
    key = f"4 * {tile} * 128"
    work = lines.add(
        "µs of the tiles of 32 heads on all processors", f"{key} * {keys} * 32 / {peak(known.compute)}"
    )
    longest = lines.add(
        "µs of the last tile, on one processor of 132",
        f"{key} * (4096 + {known.start}) * 132 * {known.block} / {peak(known.compute)}",
    )
    products = lines.add("µs of both", f"({work} ** 1.5 + {longest} ** 1.5) ** (1 / 1.5)")
    passes = f"2 * 32 + 2 * 8 * {known.cache_passes}"
    size = lines.add(
        "MB of queries and outputs once, keys and values as often as moved",
        f"2 * 4096 * 128 * ({passes}) / 1e6",
    )
    moved = lines.add("µs to move them", f"{from_cache(f'{size}e6', known)} / {bandwidth(known.memory)}")
    each = lines.add("µs of the prompt's attention in a layer", f"{known.call_us} + {products} + {moved}")
    return lines.end(report, "attention", 32, each, "first several dense")


def decode_table():
    """A token of each of 64 sequences in Llama 3.1 8B: attention, and the last product of a layer."""
    report = archcli.predict("llama-3.1-8b", "h100-sxm", batch_size=64, past=4095, engine="vllm")
    lines = Lines()
    attention, product = decoded_attention(lines), decoded_product(lines)
    each = lines.add("µs of both in a layer", f"{attention} + {product}")
    return lines.end(report, "both", 32, each, "token several dense")


def decoded_attention(lines):
    """Microseconds of attention over 64 caches of 4,096 tokens."""
    known = constants_of(DecodeConstants, "attention_decode", kernel="flash_attn_fa3", cache="bf16")
    size = lines.add("bytes of keys and values", "64 * 8 * 4096 * 2 * 128 * 2")
    rate = bandwidth(known.memory)
    read = lines.add("µs to read them, 50 MB of them from L2", f"{from_cache(size, known)} / {rate}")
    chunk = max(min(4096, known.chunk), 4096 / known.splits)
    longest = lines.add(
        "µs of the longest chunk, on one processor of 132",
        f"{chunk:g} * 2 * 128 * 2 * 132 * {known.block} / {rate}",
    )
    waves = lines.add(
        "µs of the waves of blocks, one a key head of a sequence", f"{known.wave_us} * 64 * 8 / 132"
    )
    return lines.add(
        "µs of the token's attention in a layer",
        f"{known.call_us} + {waves} + ({read} ** 2 + {longest} ** 2) ** 0.5",
    )


def decoded_product(lines):
    """Microseconds of `down_proj`, by the constants of the device: engines run the same products."""
    known = load_datasheet("h100-sxm").efficiency["matrix_products"]["bf16"]
    flops = lines.add("FLOPs of `down_proj`", "2 * 64 * 14336 * 4096")
    size = lines.add(
        "bytes: 64 vectors, the matrix, 64 results", "2 * (64 * 14336 + 14336 * 4096 + 64 * 4096)"
    )
    compute = lines.add("µs to compute at what is reached", f"{flops} / {peak(known['compute'])}")
    read = lines.add("µs to read and write at what is reached", f"{size} / {bandwidth(known['memory'])}")
    power = known["exponent"]
    # nanoseconds for each step along k
    launch = f"{known['launch_us']} + {known['depth_ns'] / 1000:g} * 14336"
    return lines.add(
        "µs of `down_proj`: launch, steps along k, and both",
        f"{launch} + ({compute} ** {power} + {read} ** {power}) ** (1 / {power})",
    )


def mixture_table():
    """A token of each of 64 sequences in Qwen3 30B: 8 of 128 experts of three matrices 768 x 2,048."""
    report = archcli.predict("qwen3-30b-a3b", "h100-sxm", batch_size=64, past=4095, engine="vllm")
    known = constants_of(ExpertsConstants, "experts", dtype="bf16")
    tile, lines = known.tile, Lines()
    touched = lines.add(
        "experts that the tokens touch, with loads that fall as the rank^-1.2 of an expert",
        f"{reached_by_power(128, 8, 64):.6g}",
    )
    size = lines.add("MB of their weights", f"{touched} * 3 * 2048 * 768 * 2 / 1e6")
    read = lines.add(
        "µs to read them, 50 MB of them from L2",
        f"{from_cache(f'{size}e6', known)} / {bandwidth(known.memory)}",
    )
    rows = lines.add("rows: pairs of a token and an expert", "64 * 8")
    half = lines.add(
        f"rows in tiles of {tile}, of each expert the last half empty", f"{rows} + {touched} * {tile} / 2"
    )
    least = lines.add("rows in tiles, at least one tile an expert", f"{touched} * {tile}")
    products = lines.add(
        "µs of the products, with the larger number of rows",
        f"2 * {max(half, least, key=float)} * 3 * 2048 * 768 / {peak(known.compute)}",
    )
    both = lines.add(
        "µs of both: weights are read while others multiply", f"({read} ** 2 + {products} ** 2) ** 0.5"
    )
    activations = lines.add(
        "µs to move rows in, between matrices, and out",
        f"2 * {rows} * (2 * 2048 + 3 * 768) / {bandwidth(known.activations)}",
    )
    scheduled = lines.add("µs to schedule each expert", f"{known.expert_us} * {touched}")
    each = lines.add(
        "µs of the experts in a layer", f"{known.call_us} + {both} + {activations} + {scheduled}"
    )
    return lines.end(report, "experts", 48, each, "token several mixture")


TABLES = {"prefill": prefill_table, "decode": decode_table, "mixture": mixture_table}


def engine_pass_table(name):
    """The worked table of a pass: prefill, decode or mixture."""
    return TABLES[name]()
