"""Formulas worked out by hand from the papers are those that the forward gives, as polynomials."""

import pytest
import sympy

import archcli

NAMES = (
    "batch_size seq_len past context d_model n_layers d_ff vocab_size max_seq_len n_heads n_kv_heads "
    "head_dim n_experts top_k q_lora_rank kv_lora_rank qk_nope_head_dim qk_rope_head_dim v_head_dim "
    "groups_0_n_layers groups_1_n_layers ffn_d_ff expert_d_ff shared_d_ff window"
)
S = {name: sympy.Symbol(name, positive=True) for name in NAMES.split()}
B, T, P, C, d, L, f, V, n_ctx, h, k = (S[name] for name in NAMES.split()[:11])
E, K, q, c, nope, rope, v = (S[name] for name in NAMES.split()[12:19])


def traced(model, quantity="params", key="formula", **asked):
    return sympy.sympify(archcli.explain(model, quantity, **asked).totals[key], locals=S)


def same(a, b):
    return sympy.expand(a - b) == 0


def pairs(tokens):
    """Queries times the keys that each sees, under a causal mask."""
    return tokens * (tokens + 1) / 2


# Radford et al. 2019 section 2.3 on Vaswani et al. 2017, arXiv:1706.03762 section 3: matrices with biases,
# learned positions, a norm before each of two sublayers and one at the end, the head tied to the table.
def test_gpt2():
    attention, ffn, norm = 4 * (d * d + d), d * f + f + f * d + d, 2 * d
    assert same(traced("gpt2"), V * d + n_ctx * d + L * (attention + ffn + 2 * norm) + norm)
    products = 2 * B * T * (L * (4 * d * d + 2 * d * f) + d * V)
    scores_and_mix = L * 2 * (2 * B * d * pairs(T))
    assert same(traced("gpt2", "flops"), products + scores_and_mix)
    assert same(traced("gpt2", "kvcache"), L * 2 * B * C * d)


# Touvron et al. 2023, arXiv:2302.13971 section 2.2, with grouped queries (arXiv:2305.13245): heads of width
# d/h, k of keys and values; SwiGLU of three matrices; RMSNorm of one gain; an untied head; no biases.
@pytest.mark.long
def test_llama():
    w = d / h
    attention, ffn = d * h * w + 2 * d * k * w + h * w * d, 3 * d * f
    model = "llama-3.1-8b"
    assert same(traced(model), 2 * V * d + L * (attention + ffn + 2 * d) + d)
    products = 2 * B * T * (L * (attention + ffn) + d * V)
    assert same(traced(model, "flops"), products + L * 2 * (2 * B * h * w * pairs(T)))
    decoded = 2 * B * (L * (attention + ffn) + d * V) + L * 2 * (2 * B * h * w * (P + 1))
    assert same(traced(model, "flops", phase="decode", past=1000), decoded)
    assert same(traced(model, "kvcache"), L * 2 * B * C * k * S["head_dim"])


# Jiang et al. 2024, arXiv:2401.04088 section 2.1: y = sum of the top-K of E SwiGLU experts, weighed by a
# softmax over a linear router.
def test_mixtral():
    w = d / h
    attention, expert, router = 2 * d * h * w + 2 * d * k * w, 3 * d * f, d * E
    model, outside = "mixtral-8x7b", 2 * V * d + d
    assert same(traced(model), outside + L * (attention + E * expert + router + 2 * d))
    assert same(traced(model, key="active_formula"), outside + L * (attention + K * expert + router + 2 * d))
    products = 2 * B * T * (L * (attention + K * expert + router) + d * V)
    assert same(traced(model, "flops"), products + L * 2 * (2 * B * h * w * pairs(T)))


# DeepSeek-V2, arXiv:2405.04434 section 2.1.2 and 2.1.3, equations 9 to 19: W_DQ, W_UQ and W_QR, W_DKV and
# W_KR, W_UK and W_UV, W_O; RMSNorm of both latents (section 3.1.2). DeepSeek-V3, arXiv:2412.19437:
# one shared expert beside the routed ones, and dense layers first.
DOWN_Q, UP_Q = d * q, q * h * (nope + rope)
DOWN_KV, UP_K, UP_V, OUT = d * (c + rope), c * h * nope, c * h * v, h * v * d
DENSE, SPARSE = S["groups_0_n_layers"], S["groups_1_n_layers"]
ROUTED, SHARED, FFN = (3 * d * S[f"{name}_d_ff"] for name in ("expert", "shared", "ffn"))
LAYERS = DENSE + SPARSE


def test_mla_parameters():
    attention = DOWN_Q + UP_Q + DOWN_KV + UP_K + UP_V + OUT + q + c
    layers = LAYERS * (attention + 2 * d) + DENSE * FFN
    by_hand = 2 * V * d + d + layers + SPARSE * (E * ROUTED + SHARED + d * E)
    assert same(traced("deepseek-v3"), by_hand)
    active = 2 * V * d + d + layers + SPARSE * (K * ROUTED + SHARED + d * E)
    assert same(traced("deepseek-v3", key="active_formula"), active)


def test_the_cache_of_mla():
    assert same(traced("deepseek-v3", "kvcache"), LAYERS * B * C * (c + rope))


@pytest.mark.long
def test_mla_decoded_in_both_forms():
    keys = P + 1
    ffn = DENSE * FFN + SPARSE * (K * ROUTED + SHARED + d * E)
    outside = 2 * B * (ffn + d * V)
    common = DOWN_Q + UP_Q + DOWN_KV + OUT
    # absorbed, section 2.1.2: W_UK goes into the query, W_UV into the output; scores and mix on the latents
    absorbed = common + UP_K + UP_V + keys * h * (c + rope) + keys * h * c
    asked = {"phase": "decode", "past": 4096}
    assert same(traced("deepseek-v3", "flops", mla="absorbed", **asked), outside + LAYERS * 2 * B * absorbed)
    # naive: keys and values of every cached token are rebuilt from its latent
    naive = common + keys * (UP_K + UP_V) + keys * h * (nope + rope) + keys * h * v
    assert same(traced("deepseek-v3", "flops", mla="naive", **asked), outside + LAYERS * 2 * B * naive)


# Mistral 7B, arXiv:2310.06825 section 2: a window bounds the cache (a rolling buffer).
def test_a_window_is_a_minimum():
    kept = sympy.Min(C, S["window"])
    by_hand = L * 2 * B * k * S["head_dim"] * kept
    found = traced("mistral-7b-v0.1", "kvcache")
    assert same(found, by_hand)


# Raffel et al. 2019, arXiv:1910.10683 section 2.1: the cache of a decoder beside an encoder.
def test_an_encoder_decoder():
    inner = h * S["head_dim"]
    assert same(traced("t5-small", "kvcache"), L * 2 * B * C * inner)
    assert same(traced("t5-small", "kvcache", key="cross_formula"), L * 2 * B * C * inner)
    encoder, decoder = 4 * d * inner + 2 * d * f + 2 * d, 8 * d * inner + 2 * d * f + 3 * d
    bias = 2 * sympy.Symbol("n_buckets") * h
    report = archcli.explain("t5-small").totals["formula"]
    found = sympy.sympify(report, locals=S)
    assert same(found, V * d + L * (encoder + decoder) + 2 * d + bias)
