"""Mutants: the same model with one thing changed, each of which a parity test must tell from the original.

`ALTERED` says how each field is changed. `STRUCTURE` lists the fields left alone, because to change one
changes the shape of a weight, or nothing. A field in neither is an error, so that none escapes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from archcli import modules as m
from archcli.modules.spec.base import Spec
from parity import routing
from parity.alterations import (
    LOGITS,
    SINUSOID,
    TEMPERATURE,
    Alteration,
    backwards,
    both,
    dropped,
    filled,
    kinds,
    nothing,
    off,
    plus,
    table_offset,
    times,
    to,
)
from parity.crossing import norm_of_tokens, of_vectors, without_cross
from parity.encoding import ENCODER_PARTS, idle
from parity.particular import (
    each_bias,
    heads,
    norm_place,
    of_low_rank,
    offset,
    other_end,
    place,
    reverse,
    turned,
)
from parity.recurring import RECURRENT_PARTS, unless_one
from parity.sharing import SHARING_PARTS, earlier_index, own_index, shares_alike, without_blocks
from parity.visible import causality, visibility

STRUCTURE = set(
    """kind name source released series sibling_of published groups embedding head attention mixer ffn layer
    norm latent_norm activation scaling expert router vocab_size d_model max_seq_len n_heads n_kv_heads
    head_dim v_head_dim d_ff n_experts kv_lora_rank q_lora_rank qk_nope_head_dim qk_rope_head_dim weight per
    tied form token_types more_types width width_of pooler pools unread n_labels source_len encoder decoder
    in_channels frozen n_buckets front_end transform max_distance idle extra_rows lora
    quantization published_in dropout momentum loss mtp ignore training tie boxes global_projections
    bottleneck joined joins entries relative terms share shared use project adapter_rank
    adapter_targets buckets size branches latent n_blocks state d_inner
    dt_rank conv_kernel rank query_gate ffn_norm n_shared relative_rank relative_extent
    o_lora_rank network depthwise_kernel grouped_kernel router_width first blocks projects
    layer_scale towers uncounted beside projection projection_bias unread_frozen pooler_dense neighbours
    table_width networks reads qk_width""".split()  # noqa: SIM905
)


ROPE = m.Rope(theta=300.0)
OF_LATENTS = {"q_multiplier": of_low_rank, "kv_multiplier": times(1.1)}

ALTERED: dict[type[Spec], dict[str, Alteration]] = {
    m.Norm: {"eps": times(10)},
    m.RMSNorm: {"offset": offset, "kind": kinds(m.LayerNorm, bias=False)},
    m.LayerNorm: {"offset": offset, "bias": off, "kind": kinds(m.RMSNorm)},
    m.QKNorm: {"when": nothing},
    m.Learned: {"offset": table_offset},
    m.ALiBi: {"slope_exponent": times(0.9), "scaled": to(True, False)},
    m.LayerBuckets: {"max_distance": times(0.5), "bidirectional": to(True, False)},
    m.RelativeBuckets: {"max_distance": times(0.5), "bidirectional": to(True, False)},
    m.Rope: {
        "theta": times(2),
        "pairing": to("half", "interleaved"),
        "rotary_dim": turned,
        "clockwise": to(True, False),
        "rotates": other_end,
    },
    m.NoScaling: {"kind": kinds(m.LinearScaling, factor=2.0)},
    m.DynamicNTKScaling: {
        "factor": times(2),
        "original_max_seq_len": times(1.5),
        "kind": kinds(m.NoScaling, m.NTKScaling),
    },
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
        "short_attention_factor": to(1.3),
        "kind": kinds(m.NoScaling),
    },
    m.ReLU: {"kind": kinds(m.SquaredReLU, m.GELU)},
    m.SquaredReLU: {"kind": kinds(m.ReLU)},
    m.GELU: {"kind": kinds(m.GELUTanh)},
    m.GELUTanh: {"kind": kinds(m.GELU)},
    m.Swish: {"beta": times(1.1), "learnt": nothing, "kind": kinds(m.SiLU)},
    m.XIELU: {"beta": times(1.1), "eps": nothing, "kind": kinds(m.ReLU)},
    m.Sigmoid: {"kind": kinds(m.SiLU)},
    m.Softplus: {"kind": kinds(m.ReLU)},
    m.SiLU: {"kind": kinds(m.GELU, m.Sigmoid)},
    m.MLP: {"bias": off, "inner_norm": dropped},
    m.GLU: {
        "bias": off,
        "inner_norm": dropped,
        "kind": kinds(m.MLP),
        "limit": both(times(0.5), dropped, filled(0.5)),
        "limit_on": lambda spec, field: to("gate", "activation")(spec, field) if spec.limit else iter(()),
        "up_offset": to(0, 1),
        "gate_multiplier": unless_one,
        "down_multiplier": unless_one,
    },
    m.Router: {
        "scores": routing.score_kinds,
        "normalized": routing.normalization,
        "scale": times(1.1),
        "correction": off,
        "n_groups": routing.grouping,
        "top_k_groups": nothing,
        "group_score": nothing,
        "bias": off,
        "softcap": both(times(2), dropped, filled(0.5)),
        "ranked_by": routing.ranking,
        "correction_is": nothing,
        "jitter": routing.nearness,
        "zero_experts": nothing,
        "token_table": dropped,
        "multiplier": unless_one,
    },
    m.MixtureOfExperts: {
        "top_k": routing.top_k,
        "shared": dropped,
        "shared_gate": off,
        "weigh": routing.weighing,
        "combination": to("sum"),
        "out_norm": dropped,
        "out_bias": off,
        "latent_bias": off,
    },
    m.LengthTemperature: TEMPERATURE,
    m.Attention: {
        "position": both(
            to(m.NoPosition()),
            lambda spec, field: to(ROPE)(spec, field) if spec.position.kind == "none" else iter(()),
        ),
        "causal": causality,
    },
    m.SoftmaxAttention: {
        "window": both(plus(1, -1), dropped, visibility),
        "chunk": both(plus(1, -1), dropped, visibility),
        "scale": both(times(1.1), filled(0.4)),
        "softcap": both(times(2), dropped, filled(2.0)),
        "sinks": off,
        "sparsity": nothing,
        "normalizer": to("relu"),
        "temperature": both(dropped, filled(m.LengthTemperature(scale=0.5, floor_scale=4))),
        "output_gate": dropped,
        "inner_norm": dropped,
        "head_norm": dropped,
    },
    m.IndexedAttention: {"index": own_index, "index_from": earlier_index},
    m.ProjectedAttention: {"value_gate": dropped},
    m.ValueGate: {"top_k": plus(-1, 1), "bias": off},
    m.KeyIndex: {"top_k": plus(-1, 1), "pairing": to("half", "interleaved")},
    m.KeyBlockIndexer: {"block": plus(-1, 1), "local": plus(-1, 1)},
    m.PoolIndex: {"pool": plus(-1, 1)},
    m.LowRankHyperConnected: {"ngrams": dropped},
    m.NGramStreams: {
        "tables": backwards,
        "multipliers": both(times(3), backwards),
        "boundary": plus(-1, 1),
        "pad_to": nothing,
    },
    # computed, and the class has no weights for gates
    m.HyperConnected: {"last": nothing},
    m.ProjectedHeads: {
        "bias": each_bias,
        "clip": both(times(1.5), dropped, filled(0.5)),
        "clips_normed": off,
        "qk_norm": both(dropped, norm_place),
    },
    m.DifferentialAttention: {"lambda_init": times(1.1)},
    m.MultiHeadAttention: {"n_heads": heads},
    m.MultiHeadLatentAttention: {"bias": off, "k_pe_norm": dropped, **OF_LATENTS},
    m.MixtureOfHeads: {"top_k": routing.experts_of_heads, "out_bias": off},
    m.CrossAttention: {
        "causal": nothing,
        "position": nothing,
        "window": nothing,
        "chunk": nothing,
        "temperature": nothing,
    },
    m.OutputGate: {"bias": off, "projection_bias": off},
    m.Block: {"nth_branch": times(2), "residual_multiplier": times(1.1), "cross_attention": without_cross},
    m.ShortcutMoE: {"kind": nothing, "dense": nothing, "residual_multiplier": nothing, "nth_branch": nothing},
    m.BlockwiseAttention: {
        "compressor": without_blocks,
        "index": dropped,
        "o_groups": nothing,
        "query_norm": nothing,
        "causal": nothing,
        "normalizer": nothing,
        "chunk": nothing,
    },
    # of layers and their score bias together, or of none
    m.TransientGlobalAttention: {**dict.fromkeys(("block", "block_norm", "causal", "position"), nothing)},
    m.TokenAndBlockBuckets: {"block": nothing},
    m.CentredPattern: {"window": plus(1, -1)},
    m.MergedAttention: {
        **dict.fromkeys(("causal", "normalizer", "clip", "v_norm", "values", "kv_from"), nothing),
        "qk_norm": dropped,
    },
    m.TimedPreNorm: {"delay": plus(1), "kind": kinds(m.PreNorm)},
    m.BlockCompressor: {"rate": nothing, "overlaps": nothing},
    m.BlockIndexer: {"top_k": plus(-1, 1)},
    m.ConcatBlock: {"residual_multiplier": nothing, "nth_branch": nothing},
    m.PreNorm: {
        "kind": kinds(m.PostNorm, m.ResidualPostNorm),
        "normed": to("both"),
        "stream_scale": off,
        "layer_scale": dropped,
    },
    m.PostNorm: {"kind": kinds(m.PreNorm, m.ResidualPostNorm), "adapter": dropped},
    m.Sandwich: {"kind": kinds(m.PreNorm, m.ResidualPostNorm)},
    m.ResidualPostNorm: {"kind": kinds(m.PreNorm, m.PostNorm)},
    m.Parallel: {"n_norms": to(1, 2), "kind": kinds(m.PreNorm)},
    m.Group: {"n_layers": plus(-1), "pattern": reverse},
    m.Sinusoidal: SINUSOID,
    m.Embedding: {
        "scale": both(to(None), filled(2.0)),
        "norm": dropped,
        "norms_tokens": norm_of_tokens,
        "position": place,
    },
    m.LogitHead: LOGITS,
    m.TransformedHead: {"transform_bias": off},
    **ENCODER_PARTS,
    **RECURRENT_PARTS,
    m.Stack: {"final_norm": off, "score_bias": dropped},
    # its vectors of each head say how many heads there are
    m.RelativeAttention: {
        "n_heads": nothing,
        "pairing": to("half", "interleaved"),
        "spare_distance": nothing,  # computed, and no pair has it
    },
    m.EncoderStack: {
        "position": of_vectors(place),
        "input_norm": of_vectors(both(dropped, filled(m.LayerNorm()))),
    },
}


def mutants(spec: m.Model) -> Iterator[tuple[str, m.Model]]:
    """(where and what, the changed model) of every single change."""
    yield from wider_windows(spec)
    unused = {
        f"{path}.norm".strip(".")
        for path, part in parts(spec)
        if isinstance(part, m.Model | m.Stack) and not ends_in_norm(part)
    }.union(*(idle(path, part) for path, part in parts(spec)))
    for path, part in parts(spec):
        if path in unused:
            continue
        for field in part.fields:
            for label, changed in alteration(type(part), field)(part, field):
                mutant = m.substitute(spec, {path: changed})
                if shares_alike(spec, mutant):
                    yield f"{path or 'model'}: {label}", mutant


def wider_windows(spec: m.Model) -> Iterator[tuple[str, m.Model]]:
    """Every window one token wider, where layers share keys and values and so must have equal windows."""
    softmax = [(path, part) for path, part in parts(spec) if isinstance(part, m.SoftmaxAttention)]
    windows = {f"{path}.window": part.window + 1 for path, part in softmax if part.window is not None}
    if windows and any(getattr(part, "kv_from", None) is not None for _, part in softmax):
        yield "model: window+1 everywhere", m.substitute(spec, windows)


def ends_in_norm(part: Any) -> bool:
    """Whether the norm of a model or stack is put to use as the last one, not only inherited by others."""
    return bool(getattr(part, "final_norm", False))


def alteration(cls: type[Spec], field: str) -> Alteration:
    """How the class, or the nearest it inherits from, changes the field."""
    for kin in cls.__mro__:
        for table in (ALTERED, SHARING_PARTS):
            if field in table.get(kin, {}):
                return table[kin][field]
    if field not in STRUCTURE:
        raise KeyError(
            f"{cls.__name__}.{field} has no mutant: give it one in ALTERED, or list it in STRUCTURE"
        )
    return nothing


def parts(spec: Spec, path: str = "") -> Iterator[tuple[str, Spec]]:
    """(path, spec) of a spec and all below it."""
    yield path, spec
    for step, child in m.children(spec):
        yield from parts(child, f"{path}.{step}".strip("."))
