"""Mutants of attention and of what it knows of positions, as lists."""

from archcli import modules as m
from archcli.modules.positions.position import Position
from archcli.ops import Linear
from mutants.mutant import Mutant, changed, identity, plus, result, value

ATTENTION = [
    Mutant("MHA heads", m.MultiHeadAttention, "kv_heads", value(lambda self: 1), ("oracle.gpt2",)),
    Mutant(
        "MQA heads",
        m.MultiQueryAttention,
        "kv_heads",
        value(lambda self: self.n_heads),
        ("oracle.falcon-7b",),
    ),
    Mutant(
        "GQA heads",
        m.GroupedQueryAttention,
        "kv_heads",
        value(lambda self: self.n_heads),
        ("oracle.llama-3.1-8b",),
    ),
    Mutant("width of a head", m.ProjectedHeads, "width", plus(2), ("oracle.gpt2",)),
    Mutant(
        "a bias forgotten",
        m.ProjectedHeads,
        "_biased",
        lambda old: lambda self, which: which != "o" and old(self, which),
        ("oracle.gpt2",),
    ),
    Mutant(
        "keys are not placed",
        m.ProjectedHeads,
        "_placed",
        lambda old: lambda self, x, which, table: x if which == "k" else old(self, x, which, table),
        ("wiring.attention-gqa",),
    ),
    Mutant(
        "norm and rope in the other order",
        m.ProjectedHeads,
        "_placed",
        lambda old: (
            lambda self, x, which, table: (
                self.qk_norm(self.position.rotate(x, table, f"{which}_rotate"), name=f"{which}_norm")
                if self.qk_norm
                else old(self, x, which, table)
            )
        ),
        ("wiring.attention-qk-norm",),
    ),
    Mutant(
        "no output gate",
        m.SoftmaxAttention,
        "merge",
        changed(output_gate=None),
        ("wiring.attention-gated",),
    ),
    Mutant(
        "no inner norm",
        m.SoftmaxAttention,
        "merge",
        changed(inner_norm=None),
        ("wiring.attention-inner-norm",),
    ),
    *(
        Mutant(what, m.MixtureOfHeads, "forward", changed(**wrong), ("wiring.attention-moa",))
        for what, wrong in (
            ("one expert's heads", {"top_k": 1, "n_heads": 2}),
            ("a mixture of heads without its bias", {"out_bias": False}),
            ("heads of another width", {"head_dim": 4}),
        )
    ),
    Mutant(
        "differential: another start",
        m.DifferentialAttention,
        "forward",
        changed(lambda_init=0.5),
        ("wiring.differential",),
    ),
    Mutant(
        "differential: halves swapped",
        m.DifferentialAttention,
        "_both",
        lambda old: lambda self, *args: reversed([*old(self, *args)]),
        ("wiring.differential",),
    ),
    Mutant(
        "values not multiplied",
        m.ProjectedAttention,
        "_values",
        changed(value_multiplier=1.0),
        ("wiring.attention-gated",),
    ),
    Mutant("no clip", m.ProjectedAttention, "forward", changed(clip=None), ("wiring.attention-gqa-clip",)),
    *(
        Mutant(
            f"no {field}",
            m.SoftmaxAttention,
            "attend",
            changed(**{field: None}),
            ("wiring.attention-gqa-partial",),
        )
        for field in ("scale", "softcap", "chunk")
    ),
    Mutant(
        "no window",
        m.SoftmaxAttention,
        "mask",
        changed(window=None),
        ("oracle.gemma-2-9b", "wiring.attention-gqa"),
    ),
    Mutant("no sinks", m.SoftmaxAttention, "attend", changed(sinks=False), ("wiring.attention-gqa-partial",)),
    Mutant(
        "the cache holds keys twice",
        m.SoftmaxAttention,
        "extend",
        lambda old: (
            lambda self, context, **new: old(self, context, **dict.fromkeys(new, next(iter(new.values()))))
        ),
        ("oracle.deepseek-v3",),
    ),
    Mutant(
        "MLA: width of a query",
        m.MultiHeadLatentAttention,
        "_d_query",
        value(lambda self: self.qk_nope_head_dim),
        ("wiring.mla-naive",),
    ),
    Mutant(
        "MLA: no keys rebuilt",
        m.MultiHeadLatentAttention,
        "_kv_b",
        value(lambda self: Linear("kv_b_proj", self.n_heads * self.v_head_dim)),
        ("oracle.deepseek-v3",),
    ),
    Mutant(
        "MLA: absorbed is naive",
        m.MultiHeadLatentAttention,
        "_absorbed",
        lambda old: m.MultiHeadLatentAttention._naive,
        ("absorbed",),
    ),
    Mutant(
        "MLA: queries not compressed",
        m.MultiHeadLatentAttention,
        "_queries",
        changed(q_lora_rank=None),
        ("oracle.deepseek-v3",),
    ),
    Mutant("QK-norm does nothing", m.QKNorm, "forward", identity, ("oracle.qwen3-0.6b",)),
    Mutant("QK-norm full is per head", m.QKNorm, "forward", changed(per="head"), ("oracle.olmo-2-7b",)),
]


POSITIONS = [
    Mutant("Learned: no offset", m.Learned, "forward", changed(offset=0), ("wiring.ends-learned",)),
    Mutant("Learned: nothing added", m.Learned, "forward", lambda old: Position.forward, ("oracle.gpt2",)),
    Mutant(
        "Sinusoidal: halves", m.Sinusoidal, "forward", changed(pairing="half"), ("wiring.ends-sinusoidal",)
    ),
    Mutant("Sinusoidal: offset", m.Sinusoidal, "forward", changed(offset=1), ("wiring.ends-sinusoidal",)),
    Mutant("Sinusoidal: base", m.Sinusoidal, "forward", changed(base=100.0), ("wiring.ends-sinusoidal",)),
    Mutant("ALiBi: exponent", m.ALiBi, "max_bias", result(lambda bias: bias / 2), ("wiring.attention-mqa",)),
    Mutant("ALiBi: none", m.ALiBi, "max_bias", value(lambda self: None), ("wiring.attention-mqa",)),
    Mutant("RoPE: theta", m.Rope, "frequencies", changed(theta=10.0), ("wiring.attention-gqa",)),
    Mutant("RoPE: all dims", m.Rope, "table", changed(rotary_dim=None), ("wiring.attention-gqa-partial",)),
    Mutant(
        "RoPE: pairs",
        m.Rope,
        "rotate",
        changed(pairing="half"),
        ("wiring.attention-gqa-partial", "wiring.mla-naive"),
    ),
    Mutant(
        "RoPE: turns nothing",
        m.Rope,
        "rotate",
        lambda old: lambda self, x, table, name: x,
        ("wiring.attention-gqa",),
    ),
    *(
        Mutant(f"{cls.__name__}: a factor too much", cls, "frequencies", result(lambda f: f * 1.5), (suite,))
        for cls, suite in (
            (m.RopeScaling, "wiring.attention-gqa"),
            (m.LinearScaling, "linear"),
            (m.NTKScaling, "ntk"),
            (m.LongRopeScaling, "longrope"),
        )
    ),
    Mutant(
        "YaRN: scale of scores",
        m.YarnScaling,
        "score_factor",
        value(lambda self: 1.0),
        ("wiring.yarn-scale",),
    ),
    Mutant("YaRN: amplitude", m.YarnScaling, "amplitude", value(lambda self: 2.0), ("wiring.yarn-scale",)),
]
