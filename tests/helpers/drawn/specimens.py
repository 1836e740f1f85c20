"""Records of parts and kinds of layer, written by hand, for tests of how they are drawn."""

from __future__ import annotations

from typing import Any

from archcli.wings.drawing.drawn import (
    DrawnNode,
    DrawnPart,
    ExpertChoice,
    Figure,
    Heads,
    HeldState,
    Kind,
    MaskExample,
    Piece,
)


def fig(value: int, key: str = "outputs.0.2") -> Figure:
    """A figure of a row."""
    return Figure(value, "show", "layers.0", key)


def node(name: str, role: Any, label: str, reads: str = "", width: int = 0, **more: Any) -> DrawnNode:
    """A node; `reads` are ids with spaces between."""
    return DrawnNode(
        name, role, label, tuple(reads.split()), (f"layers.0.{name}",), fig(width) if width else None, **more
    )


def causal(window: int = 9) -> MaskExample:
    """A causal mask of nine tokens, each of which reads `window` keys."""
    cells = tuple(tuple(i - window < j <= i for j in range(9)) for i in range(9))
    return MaskExample("causal", None, cells)


def llama(d: int = 4096, heads: int = 32, groups: int = 8, size: int = 128) -> DrawnPart:
    """Grouped-query attention."""
    keys = Heads(fig(groups), fig(size))
    nodes = (
        node("x", "input", "", width=d),
        node("q", "matrix", "q", "x", heads * size, heads=Heads(fig(heads), fig(size), fig(groups))),
        node("k", "matrix", "k", "x", groups * size, heads=keys, cached=fig(2048)),
        node("v", "matrix", "v", "x", groups * size, heads=keys, cached=fig(2048)),
        node("attend", "core", "softmax", "q k v", heads * size, mask=causal(), lines=("causal",)),
        node("o", "matrix", "o", "attend", d),
        node("y", "output", "", "o", d),
    )
    return DrawnPart(
        "A", "attention", "Grouped-query attention", fig(41943040), nodes, ("32 heads on 8", "RoPE")
    )


def mla() -> DrawnPart:
    """Multi-head latent attention of DeepSeek-V3."""
    nodes = (
        node("x", "input", "", width=7168),
        node("q_a", "matrix", "latent", "x", 1536),
        node("q_norm", "unary", "RMSNorm", "q_a", 1536),
        node(
            "q_b",
            "matrix",
            "q",
            "q_norm",
            24576,
            heads=Heads(fig(128), fig(192)),
            pieces=(Piece(fig(128), "q"), Piece(fig(64), "rotated", rotated=True)),
        ),
        node(
            "kv_a",
            "matrix",
            "latent",
            "x",
            576,
            pieces=(Piece(fig(512), "latent", cached=True), Piece(fig(64), "key", rotated=True, cached=True)),
            cached=fig(1152),
        ),
        node("kv_norm", "unary", "RMSNorm", "kv_a", 512),
        node(
            "kv_b",
            "matrix",
            "k, v",
            "kv_norm",
            32768,
            heads=Heads(fig(128), fig(256)),
            pieces=(Piece(fig(128), "k"), Piece(fig(128), "v")),
        ),
        node("attend", "core", "softmax", "q_b kv_b kv_a", 16384, mask=causal(), lines=("causal",)),
        node("o", "matrix", "o", "attend", 7168),
        node("y", "output", "", "o", 7168),
    )
    return DrawnPart("A", "attention", "Multi-head latent attention", fig(187107328), nodes)


def delta(d: int = 2048) -> DrawnPart:
    """A gated delta net of Qwen3-Next."""
    nodes = (
        node("x", "input", "", width=d),
        node("q", "matrix", "q", "x", 2048, heads=Heads(fig(16), fig(128))),
        node("k", "matrix", "k", "x", 2048, heads=Heads(fig(16), fig(128))),
        node("v", "matrix", "v", "x", 4096, heads=Heads(fig(32), fig(128))),
        node("conv", "unary", "convolution, 4 taps", "q k v"),
        node("a", "matrix", "α", "x", 32),
        node("b", "matrix", "β", "x", 32),
        node("g", "matrix", "gate", "x", 4096),
        node(
            "scan",
            "core",
            "delta rule",
            "conv a b",
            4096,
            held=(HeldState(fig(32), fig(128), fig(128), fig(1114112)),),
            lines=("does not grow",),
        ),
        node("norm", "unary", "RMSNorm", "scan", 4096),
        node("act", "unary", "SiLU", "g", 4096),
        node("times", "join", "×", "norm act", 4096),
        node("o", "matrix", "o", "times", d),
        node("y", "output", "", "o", d),
    )
    return DrawnPart("B", "recurrent", "Gated DeltaNet", fig(33718464), nodes, ("32 heads",))


def network(d: int = 4096, inner: int = 14336) -> DrawnPart:
    """A SwiGLU network."""
    nodes = (
        node("x", "input", "", width=d),
        node("gate", "matrix", "gate", "x", inner),
        node("act", "unary", "SiLU", "gate", inner),
        node("up", "matrix", "up", "x", inner),
        node("times", "join", "×", "act up", inner),
        node("down", "matrix", "down", "times", d),
        node("y", "output", "", "down", d),
    )
    return DrawnPart("B", "dense", "SwiGLU network", fig(176160768), nodes)


def gated(d: int = 4096, inner: int = 14336) -> DrawnPart:
    """A SwiGLU network whose equal products are drawn as one."""
    stacked = (Piece(fig(inner), "gate"), Piece(fig(inner), "up"))
    nodes = (
        node("x", "input", "", width=d),
        node("up", "matrix", "gate, up", "x", inner, stacked=stacked, lines=("SiLU(gate) × up",)),
        node("down", "matrix", "down", "up", d),
        node("y", "output", "", "down", d),
    )
    return DrawnPart("B", "dense", "SwiGLU network", fig(176160768), nodes, ("d_ff 14,336",))


def mixture(d: int = 7168, experts: int = 256, inner: int = 2048, groups: int | None = 8) -> DrawnPart:
    """A mixture of experts with a shared one."""
    choice = ExpertChoice(fig(experts), fig(8), fig(groups) if groups else None, "sigmoid")
    within = (
        node("x", "input", "", width=d),
        node(
            "up",
            "matrix",
            "gate, up",
            "x",
            inner,
            stacked=(Piece(fig(inner), "gate"), Piece(fig(inner), "up")),
        ),
        node("down", "matrix", "down", "up", d),
        node("y", "output", "", "down", d),
    )
    nodes = (
        node("x", "input", "", width=d),
        node("router", "router", "sigmoid", "x", experts),
        node("experts", "experts", "experts", "x router", d, choice=choice, inner=within, hue="experts"),
        node("shared", "experts", "shared", "x", d, hue="shared", inner=within, lines=("gated by σ",)),
        node("add", "join", "+", "experts shared", d),
        node("y", "output", "", "add", d),
    )
    return DrawnPart(
        "C", "experts", "Mixture of experts", fig(11317280768), nodes, ("8 of 256, 4 of 8 groups",)
    )


def rwkv(d: int = 768) -> DrawnPart:
    """A time mixer with token shifts, as in RWKV."""
    names = ("r", "k", "v", "w", "g")
    nodes = [node("x", "input", "", width=d), node("shift", "unary", "token shift", "x", d)]
    for name in names:
        nodes += [
            node(f"{name}_mix", "join", "+", "x shift", d),
            node(f"{name}_proj", "matrix", name, f"{name}_mix", d),
        ]
    nodes += [
        node("decay", "unary", "exp", "w_proj", d),
        node("act", "unary", "SiLU", "g_proj", d),
        node("k_norm", "unary", "norm", "k_proj", d),
        node(
            "wkv",
            "core",
            "WKV",
            "r_proj k_norm v_proj decay",
            d,
            held=(HeldState(fig(12), fig(64), fig(64), fig(196608)),),
        ),
        node("norm", "unary", "GroupNorm", "wkv", d),
        node("times", "join", "×", "norm act", d),
        node("o", "matrix", "o", "times", d),
        node("bonus", "join", "+", "o x", d),
        node("y", "output", "", "bonus", d),
    ]
    return DrawnPart("A", "recurrent", "RWKV time mixing", fig(4718592), tuple(nodes))


def part_box(name: str, label: str, reads: str, letter: str, hue: Any, *lines: str) -> DrawnNode:
    """A part within a layer."""
    return node(name, "part", label, reads, letter=letter, hue=hue, lines=lines)


def kind(title: str, nodes: tuple[DrawnNode, ...], spine: str, path: str = "layers.0") -> Kind:
    """A kind of layer."""
    return Kind(path, title, fig(32), tuple(range(32)), nodes, tuple(spine.split()))


def pre_norm() -> Kind:
    """Pre-norm, as in Llama."""
    nodes = (
        node("x", "input", ""),
        node("n1", "unary", "RMSNorm", "x"),
        part_box("att", "grouped-query attention", "n1", "A", "attention", "32 heads on 8"),
        node("add1", "join", "+", "x att"),
        node("n2", "unary", "RMSNorm", "add1"),
        part_box("ffn", "SwiGLU", "n2", "B", "dense", "d_ff 14,336"),
        node("add2", "join", "+", "add1 ffn"),
        node("y", "output", "", "add2"),
    )
    return kind("layers 0–31", nodes, "x add1 add2 y")


def sandwich() -> Kind:
    """Norms before and after, as in Gemma 2."""
    nodes = (
        node("x", "input", ""),
        node("n1", "unary", "RMSNorm", "x"),
        part_box("att", "attention", "n1", "A", "attention", "window 4,096"),
        node("p1", "unary", "RMSNorm", "att"),
        node("add1", "join", "+", "x p1"),
        node("n2", "unary", "RMSNorm", "add1"),
        part_box("ffn", "GeGLU", "n2", "B", "dense", "d_ff 14,336"),
        node("p2", "unary", "RMSNorm", "ffn"),
        node("add2", "join", "+", "add1 p2"),
        node("y", "output", "", "add2"),
    )
    return kind("even layers", nodes, "x add1 add2 y")


def post_norm() -> Kind:
    """Norms after the sums, on the stream itself, as in BERT."""
    nodes = (
        node("x", "input", ""),
        part_box("att", "attention", "x", "A", "attention", "12 heads"),
        node("add1", "join", "+", "x att"),
        node("n1", "unary", "LayerNorm", "add1"),
        part_box("ffn", "network", "n1", "B", "dense", "d_ff 3,072"),
        node("add2", "join", "+", "n1 ffn"),
        node("n2", "unary", "LayerNorm", "add2"),
        node("y", "output", "", "n2"),
    )
    return kind("layers 0–11", nodes, "x add1 n1 add2 n2 y")


def parallel() -> Kind:
    """Attention and network beside each other, as in Falcon."""
    nodes = (
        node("x", "input", ""),
        node("n1", "unary", "LayerNorm", "x"),
        part_box("att", "attention", "n1", "A", "attention", "71 heads on 1"),
        part_box("ffn", "network", "n1", "B", "dense", "d_ff 18,176"),
        node("add", "join", "+", "x att ffn"),
        node("y", "output", "", "add"),
    )
    return kind("layers 0–31", nodes, "x add y")


def cross() -> Kind:
    """A decoder's layer with three sublayers; the second reads the encoder."""
    nodes = (
        node("x", "input", ""),
        node("memory", "input", "encoder"),
        node("n1", "unary", "RMSNorm", "x"),
        part_box("att", "self-attention", "n1", "A", "attention", "12 heads"),
        node("add1", "join", "+", "x att"),
        node("n2", "unary", "RMSNorm", "add1"),
        part_box("cross", "cross-attention", "n2 memory", "B", "attention", "12 heads"),
        node("add2", "join", "+", "add1 cross"),
        node("n3", "unary", "RMSNorm", "add2"),
        part_box("ffn", "network", "n3", "C", "dense", "d_ff 3,072"),
        node("add3", "join", "+", "add2 ffn"),
        node("y", "output", "", "add3"),
    )
    return kind("layers 0–11", nodes, "x add1 add2 add3 y")


PARTS = {
    "llama": llama(),
    "mla": mla(),
    "delta": delta(),
    "network": network(),
    "gated": gated(),
    "mixture": mixture(),
    "rwkv": rwkv(),
}
KINDS = {
    "pre_norm": pre_norm(),
    "sandwich": sandwich(),
    "post_norm": post_norm(),
    "parallel": parallel(),
    "cross": cross(),
}
