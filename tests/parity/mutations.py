"""Mutants: the same model with one thing changed, each of which a parity test must tell from the original.

`ALTERED` says how each field is changed. `STRUCTURE` lists the fields left alone, because to change one changes the
shape of a weight, or nothing. A field in neither is an error, so that none escapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from archcli import modules as m
from archcli.modules.base import Spec

Alteration = Callable[[Any, str], Iterator[tuple[str, Spec]]]
"""From a spec and the name of a field: what is changed, and the spec so changed, once per mutant."""

STRUCTURE = set(
    """kind name source published groups embedding head attention ffn layer norm latent_norm activation scaling expert router
    vocab_size d_model max_seq_len n_heads n_kv_heads head_dim v_head_dim d_ff n_experts kv_lora_rank q_lora_rank qk_nope_head_dim
    qk_rope_head_dim weight per tied form""".split()  # noqa: SIM905 - a list to read
)


def altered(spec: Spec, **fields: Any) -> Spec:
    """The spec with other values, unvalidated."""
    return spec.model_copy(update=fields)


def times(factor: float) -> Alteration:
    """The number multiplied; None has nothing to multiply."""

    def changes(spec: Spec, field: str) -> Iterator[tuple[str, Spec]]:
        value = getattr(spec, field)
        if isinstance(value, tuple):
            yield f"{field}*{factor}", altered(spec, **{field: tuple(item * factor for item in value)})
        elif value is not None:
            yield f"{field}*{factor}", altered(spec, **{field: type(value)(value * factor)})

    return changes


def plus(*steps: int) -> Alteration:
    """The whole number and each step added to it, as long as it stays above zero."""

    def changes(spec: Spec, field: str) -> Iterator[tuple[str, Spec]]:
        for step in steps:
            if (getattr(spec, field) or 0) > max(0, -step):
                yield f"{field}{step:+}", altered(spec, **{field: getattr(spec, field) + step})

    return changes


def to(*values: Any) -> Alteration:
    """Each of the values, if it is another."""

    def changes(spec: Spec, field: str) -> Iterator[tuple[str, Spec]]:
        for value in values:
            if getattr(spec, field) != value:
                yield f"{field}={getattr(value, 'kind', value)}", altered(spec, **{field: value})

    return changes


def filled(value: Any) -> Alteration:
    """None becomes the value."""
    return lambda spec, field: to(value)(spec, field) if getattr(spec, field) is None else iter(())


def off(spec: Spec, field: str) -> Iterator[tuple[str, Spec]]:
    """True becomes False; the other way round new weights would start neutral and change nothing."""
    if getattr(spec, field):
        yield f"no {field}", altered(spec, **{field: type(getattr(spec, field))()})


def dropped(spec: Spec, field: str) -> Iterator[tuple[str, Spec]]:
    """What is there is left out."""
    if getattr(spec, field) is not None:
        yield f"no {field}", altered(spec, **{field: None})


def both(*alterations: Alteration) -> Alteration:
    """All mutants of several alterations."""

    def changes(spec: Spec, field: str) -> Iterator[tuple[str, Spec]]:
        for alteration in alterations:
            yield from alteration(spec, field)

    return changes


def kinds(*classes: type[Spec], **fixed: Any) -> Alteration:
    """The same fields in another class."""

    def changes(spec: Spec, _: str) -> Iterator[tuple[str, Spec]]:
        for cls in classes:
            known = {field: getattr(spec, field) for field in cls.model_fields if field != "kind" and field in type(spec).model_fields}
            yield cls.__name__, cls.model_construct(**{**known, **fixed})

    return changes


def nothing(spec: Spec, field: str) -> Iterator[tuple[str, Spec]]:
    """No mutant: the field is structure, or another field's mutants change it too."""
    yield from ()


def each_bias(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """Without the bias of one projection; a bias of keys that are not rotated shifts all scores of a query alike and is felt by nobody."""
    biased = tuple("qkvo") if spec.bias is True else spec.bias or ()
    for which in biased:
        if which != "k" or isinstance(spec.position, m.Rope):
            yield f"no {which} bias", altered(spec, bias=tuple(other for other in biased if other != which))


def heads(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """Half as many, twice as wide: the same weights read otherwise."""
    if spec.head_dim is None and spec.qk_norm is None:
        yield "n_heads/2", altered(spec, n_heads=spec.n_heads // 2)


def norm_place(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """Queries and keys normalized on the other side of the rotation, which a norm without weights does not see."""
    norm = spec.qk_norm
    if norm is not None and norm.norm.weight and isinstance(spec.position, m.Rope):
        for _, changed in to("before_rope", "after_rope")(norm, "when"):
            yield "qk_norm on the other side", altered(spec, qk_norm=changed)


def offset(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """The weight stored minus one, or not; without a weight there is nothing to store."""
    return to(0, 1)(spec, field) if spec.weight else iter(())


def turned(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """Fewer turned dims; LongRoPE lists a divisor for each pair, so there the number is structure."""
    return both(plus(-2), filled(4))(spec, field) if spec.scaling.kind != "longrope" else iter(())


def visibility(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """A window or chunk for a layer that has none."""
    if spec.window is None and spec.chunk is None:
        yield f"{field}=7", altered(spec, **{field: 7})


def table_offset(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """The same table, read from another row on."""
    if spec.offset:
        yield "offset=0", altered(spec, offset=0, max_seq_len=spec.max_seq_len + spec.offset)


def score_kinds(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """Other scores. A softmax over all experts, normalized over the chosen, is a softmax over the chosen: no mutant."""
    same = {"softmax", "softmax_after"} if spec.normalized and spec.scores != "sigmoid" else {spec.scores}
    for scores in sorted({"softmax", "sigmoid", "softmax_after"} - same):
        yield f"scores={scores}", altered(spec, scores=scores)


def normalization(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """Weights that sum to 1, or not; a softmax over the chosen does by itself."""
    return to(True, False)(spec, field) if spec.scores != "softmax_after" else iter(())


def grouping(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """Groups of experts: none, more kept, valued otherwise."""
    if spec.n_groups > 1:
        yield "no groups", altered(spec, n_groups=1, top_k_groups=1)
        yield "top_k_groups+1", altered(spec, top_k_groups=spec.top_k_groups + 1)
        yield from to("max", "top2")(spec, "group_score")


def reverse(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """The layers of a pattern in the opposite order."""
    if spec.pattern:
        yield "pattern reversed", altered(spec, pattern=spec.pattern[::-1])


ROPE = m.Rope(theta=300.0)

ALTERED: dict[type[Spec], dict[str, Alteration]] = {
    m.Norm: {"eps": times(10)},
    m.RMSNorm: {"offset": offset, "kind": kinds(m.LayerNorm, bias=False)},
    m.LayerNorm: {"offset": offset, "bias": off, "kind": kinds(m.RMSNorm)},
    m.QKNorm: {"when": nothing},
    m.Learned: {"offset": table_offset},
    m.ALiBi: {"slope_exponent": times(0.9)},
    m.Rope: {"theta": times(2), "pairing": to("half", "interleaved"), "rotary_dim": turned},
    m.NoScaling: {"kind": kinds(m.LinearScaling, factor=2.0)},
    m.DynamicNTKScaling: {"factor": times(2), "original_max_seq_len": times(1.5), "kind": kinds(m.NoScaling, m.NTKScaling)},
    m.NTKScaling: {"factor": times(2), "kind": kinds(m.NoScaling, m.LinearScaling)},
    m.LinearScaling: {"factor": times(2), "kind": kinds(m.NoScaling)},
    m.Llama3Scaling: {
        "factor": times(2),
        "low_freq_factor": times(0.5),
        "high_freq_factor": times(2),
        "original_max_seq_len": times(2),
        "kind": kinds(m.NoScaling, m.LinearScaling),
    },
    m.YarnScaling: {
        "factor": times(2),
        "original_max_seq_len": times(2),
        "beta_fast": times(0.5),
        "beta_slow": times(2),
        "attention_factor": to(1.5),
        "mscale": times(2),
        "mscale_all_dim": times(2),
        "truncate": to(False),
        "kind": kinds(m.NoScaling, m.LinearScaling),
    },
    m.LongRopeScaling: {
        "factor": times(2),
        "original_max_seq_len": times(2),
        "short_factor": times(1.1),
        "long_factor": times(1.1),
        "attention_factor": to(1.5),
        "kind": kinds(m.NoScaling),
    },
    m.ReLU: {"kind": kinds(m.SquaredReLU, m.GELU)},
    m.SquaredReLU: {"kind": kinds(m.ReLU)},
    m.GELU: {"kind": kinds(m.GELUTanh)},
    m.GELUTanh: {"kind": kinds(m.GELU)},
    m.Swish: {"beta": times(1.1), "learnt": nothing, "kind": kinds(m.SiLU)},
    m.Sigmoid: {"kind": kinds(m.SiLU)},
    m.SiLU: {"kind": kinds(m.GELU, m.Sigmoid)},
    m.MLP: {"bias": off},
    m.GLU: {"bias": off, "kind": kinds(m.MLP)},
    m.Router: {
        "scores": score_kinds,
        "normalized": normalization,
        "scale": times(1.1),
        "correction": off,
        "n_groups": grouping,
        "top_k_groups": nothing,
        "group_score": nothing,
        "bias": off,
    },
    m.MixtureOfExperts: {"top_k": plus(1, -1), "shared": dropped, "shared_gate": off},
    m.Attention: {
        "position": both(to(m.NoPosition()), lambda spec, field: to(ROPE)(spec, field) if spec.position.kind == "none" else iter(())),
        "window": both(plus(1, -1), dropped, visibility),
        "chunk": both(plus(1, -1), dropped, visibility),
        "scale": both(times(1.1), filled(0.4)),
        "softcap": both(times(2), dropped, filled(2.0)),
        "sinks": off,
    },
    m.ProjectedAttention: {"bias": each_bias, "clip": both(times(1.5), dropped, filled(0.5)), "qk_norm": both(dropped, norm_place)},
    m.MultiHeadAttention: {"n_heads": heads},
    m.MultiHeadLatentAttention: {"bias": off},
    m.Block: {"residual_multiplier": times(1.1)},
    m.PreNorm: {"kind": kinds(m.PostNorm, m.NormAfter)},
    m.PostNorm: {"kind": kinds(m.PreNorm, m.NormAfter)},
    m.Sandwich: {"kind": kinds(m.PreNorm, m.NormAfter)},
    m.NormAfter: {"kind": kinds(m.PreNorm, m.PostNorm)},
    m.Parallel: {"n_norms": to(1, 2), "kind": kinds(m.PreNorm)},
    m.Group: {"n_layers": plus(-1), "pattern": reverse},
    m.Sinusoidal: {"base": times(2), "pairing": to("half", "interleaved")},
    m.Embedding: {
        "scale": both(to(None), filled(2.0)),
        "norm": dropped,
        "position": lambda spec, field: to(m.NoPosition() if spec.position.kind != "none" else m.Sinusoidal())(spec, field),
    },
    m.Head: {"bias": off, "scale": times(1.1), "softcap": both(times(2), dropped, filled(3.0))},
    m.Decoder: {"final_norm": off},
}


def mutants(spec: m.Decoder) -> Iterator[tuple[str, m.Decoder]]:
    """(where and what, the changed model) of every single change."""
    for path, part in parts(spec):
        if path == "norm" and not spec.final_norm:
            continue  # the model's own norm is the last one
        for field in type(part).model_fields:
            for label, changed in alteration(type(part), field)(part, field):
                yield f"{path or 'model'}: {label}", m.substitute(spec, {path: changed})


def alteration(cls: type[Spec], field: str) -> Alteration:
    """How the class, or the nearest it inherits from, changes the field."""
    for kin in cls.__mro__:
        if field in ALTERED.get(kin, {}):
            return ALTERED[kin][field]
    if field not in STRUCTURE:
        raise KeyError(f"{cls.__name__}.{field} has no mutant: give it one in ALTERED, or list it in STRUCTURE")
    return nothing


def parts(spec: Spec, path: str = "") -> Iterator[tuple[str, Spec]]:
    """(path, spec) of a spec and all below it."""
    yield path, spec
    for step, child in m.children(spec):
        yield from parts(child, f"{path}.{step}".strip("."))
