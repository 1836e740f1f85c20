"""Mutants of every kind of module, as a list."""

from archcli import modules as m
from mutants.mutant import Mutant, changed, identity
from mutants.of_attention import ATTENTION, POSITIONS

NORMS = [
    Mutant("RMSNorm: no weight", m.RMSNorm, "normalize", changed(weight=False), ("oracle.llama-3.1-8b",)),
    Mutant("RMSNorm: no offset", m.RMSNorm, "normalize", changed(offset=0), ("wiring.norm-rmsnorm-offset",)),
    Mutant("RMSNorm: eps", m.RMSNorm, "normalize", changed(eps=0.01), ("wiring.norm-rmsnorm",)),
    Mutant("LayerNorm: no bias", m.LayerNorm, "normalize", changed(bias=False), ("oracle.gpt2",)),
    Mutant("LayerNorm: no weight", m.LayerNorm, "normalize", changed(weight=False), ("oracle.gpt2",)),
    Mutant(
        "LayerNorm: no mean",
        m.LayerNorm,
        "normalize",
        lambda old: m.RMSNorm.normalize,
        ("wiring.norm-layernorm",),
    ),
    Mutant(
        "LayerNorm: no offset", m.LayerNorm, "normalize", changed(offset=0), ("wiring.norm-layernorm-gain",)
    ),
]

FEEDFORWARD = [
    *(
        Mutant(
            f"{cls.__name__} does nothing",
            cls,
            "forward",
            identity,
            (f"wiring.activation-{cls.fields['kind'].default}",),
        )
        for cls in (m.Activation, m.Swish, m.XIELU)
        if "kind" in cls.fields
    ),
    Mutant(
        "every activation is relu",
        m.Activation,
        "forward",
        lambda old: lambda self, x, name: old(m.ReLU(), x, name=name),
        ("wiring.activation-gelu",),
    ),
    Mutant("Swish: beta", m.Swish, "forward", changed(beta=1.0), ("wiring.activation-swish",)),
    Mutant("Swish: not learnt", m.Swish, "forward", changed(learnt=False), ("wiring.moe-qwen",)),
    *(
        Mutant(
            f"{cls.__name__}: no inner norm", cls, "forward", changed(inner_norm=None), ("wiring.inner-norm",)
        )
        for cls in (m.MLP, m.GLU)
    ),
    Mutant("MLP: no bias", m.MLP, "forward", changed(bias=False), ("oracle.gpt2",)),
    Mutant("GLU: all biased", m.GLU, "forward", changed(bias=True), ("wiring.glu-biases",)),
    Mutant("GLU: no gate", m.GLU, "forward", lambda old: m.MLP.forward, ("oracle.llama-3.1-8b",)),
    Mutant(
        "GLU: twice as wide",
        m.GLU,
        "forward",
        lambda old: lambda self, x: old(self.replace(d_ff=2 * self.d_ff), x),
        ("oracle.llama-3.1-8b",),
    ),
    Mutant(
        "MoE: no shared expert", m.MixtureOfExperts, "forward", changed(shared=None), ("oracle.deepseek-v3",)
    ),
    Mutant(
        "MoE: no gate of the shared",
        m.MixtureOfExperts,
        "_shared",
        changed(shared_gate=False),
        ("wiring.moe-qwen",),
    ),
    Mutant(
        "MoE: no mean",
        m.MixtureOfExperts,
        "forward",
        changed(combination="sum"),
        ("wiring.moe-mean",),
    ),
    Mutant("MoE: no bias", m.MixtureOfExperts, "forward", changed(out_bias=False), ("wiring.moe-biased",)),
    Mutant("MoE: no norm", m.MixtureOfExperts, "forward", changed(out_norm=None), ("wiring.moe-mean",)),
    Mutant(
        "GLU: gate bounded first", m.GLU, "forward", changed(limit_on="gate"), ("wiring.limits-activation",)
    ),
    Mutant("Router: no cap", m.Router, "forward", changed(softcap=None), ("wiring.moe-by-logits",)),
    Mutant(
        "Router: ranked by scores",
        m.Router,
        "forward",
        changed(ranked_by="scores"),
        ("wiring.moe-by-logits",),
    ),
    Mutant(
        "Router: another bound",
        m.Router,
        "forward",
        changed(jitter=4.0),
        ("wiring.moe-one-by-one",),
    ),
    Mutant(
        "Router: a parameter as a buffer",
        m.Router,
        "forward",
        changed(correction_is="buffer"),
        ("wiring.moe-counted-correction",),
    ),
    Mutant(
        "MoE: one expert fewer",
        m.MixtureOfExperts,
        "forward",
        lambda old: lambda self, x: old(self.replace(n_experts=self.n_experts - 1), x),
        ("oracle.mixtral-8x7b",),
    ),
    Mutant("MoE: top 1", m.MixtureOfExperts, "forward", changed(top_k=1), ("oracle.mixtral-8x7b",)),
    Mutant("Router: no bias", m.Router, "forward", changed(bias=False), ("wiring.moe-qwen",)),
    *(
        Mutant(
            f"Router: {field} {other}",
            m.Router,
            "forward",
            changed(**{field: other}),
            ("wiring.moe-deepseek",),
        )
        for field, other in (
            ("scores", "softmax"),
            ("normalized", False),
            ("scale", 1.0),
            ("correction", False),
            ("n_groups", 1),
        )
    ),
    Mutant(
        "Router: groups by their best",
        m.Router,
        "forward",
        changed(group_score="max"),
        ("wiring.moe-deepseek",),
    ),
]

BLOCKS = [
    *(
        Mutant(
            f"{cls.__name__} {step} is {other.__name__}'s",
            cls,
            step,
            lambda old, other=other, step=step: getattr(other, step),
            suites,
        )
        for cls, other, step, suites in (
            (m.PreNorm, m.PostNorm, "before", ("wiring.block-pre_norm",)),
            (m.PreNorm, m.ResidualPostNorm, "after", ("wiring.block-pre_norm",)),
            (m.PostNorm, m.PreNorm, "before", ("wiring.block-post_norm",)),
            (m.PostNorm, m.ResidualPostNorm, "after", ("wiring.block-post_norm",)),
            (m.DoubleNorm, m.PostNorm, "before", ("wiring.block-sandwich",)),
            (m.DoubleNorm, m.PreNorm, "after", ("wiring.block-sandwich", "oracle.gemma-2-9b")),
            (m.ResidualPostNorm, m.PreNorm, "before", ("wiring.block-norm_after",)),
            (m.ResidualPostNorm, m.PreNorm, "after", ("wiring.block-norm_after",)),
        )
    ),
    Mutant(
        "Parallel is one after the other",
        m.Parallel,
        "forward",
        lambda old: (
            lambda self, x, context=None: m.PreNorm.forward(m.PreNorm.unchecked(**vars(self)), x, context)
        ),
        ("wiring.block-parallel-1", "oracle.falcon-7b"),
    ),
    Mutant("Parallel: one norm", m.Parallel, "forward", changed(n_norms=1), ("oracle.gpt-neox-20b",)),
    Mutant(
        "no residual multiplier",
        m.Block,
        "_add",
        changed(residual_multiplier=1.0),
        ("wiring.block-multiplier",),
    ),
]

ENDS = [
    Mutant(
        "Embedding: no scale",
        m.Embedding,
        "forward",
        changed(scale=None),
        ("wiring.ends-tied", "wiring.ends-softcap"),
    ),
    Mutant("Embedding: no norm", m.Embedding, "forward", changed(norm=None), ("wiring.ends-tied",)),
    Mutant(
        "Embedding: no position", m.Embedding, "forward", changed(position=m.NoPosition()), ("oracle.gpt2",)
    ),
    Mutant("Head: no bias", m.LogitHead, "forward", changed(bias=False), ("oracle.phi-2",)),
    Mutant("Head: no scale", m.LogitHead, "forward", changed(scale=1.0), ("wiring.ends-untied",)),
    Mutant("Head: no softcap", m.LogitHead, "forward", changed(softcap=None), ("wiring.ends-softcap",)),
    Mutant(
        "Head: a wider one",
        m.LogitHead,
        "forward",
        lambda old: lambda self, x, vocab, table, name: old(self, x, vocab + 1, table, name=name),
        ("oracle.llama-3.1-8b",),
    ),
    Mutant("Decoder: no final norm", m.Decoder, "forward", changed(final_norm=False), ("oracle.gpt2",)),
    Mutant(
        "Decoder: tied or not",
        m.Decoder,
        "forward",
        lambda old: (
            lambda self, *args: old(
                self.replace(embedding=self.embedding.replace(tied=False)),
                *args,
            )
        ),
        ("oracle.gpt2",),
    ),
    Mutant(
        "Decoder: all logits of a prefill",
        m.Decoder,
        "forward",
        lambda old: (
            lambda self, tokens, positions=None, past=0, cache=None, last_only=False: old(
                self, tokens, positions, past, cache
            )
        ),
        ("prefill",),
    ),
]

MUTANTS = [*ATTENTION, *POSITIONS, *NORMS, *FEEDFORWARD, *BLOCKS, *ENDS]
