"""Stored weights: formats by their arithmetic, rules by what they name, bits added up by hand."""

import pytest

import archcli
from archcli.errors import ArchError
from archcli.load.source import load
from archcli.measure.kvcache.cache_size import CacheDtypes, CacheSize
from archcli.measure.kvcache.held import fits
from archcli.measure.kvcache.kvcache import count_kv_cache
from archcli.measure.params import count_params
from archcli.modules import GLU, Group, LoRA, MixtureOfExperts, Packing, Quantization, Rule
from small import attention, decoder, layer
from table import every_row

BF16 = 16

# What one weight of a large matrix takes. llama.cpp: the block structs of ggml-common.h, a block's bytes
# times 8 over its weights.
FORMATS = {
    "Q4_0": ({"bits": 4, "group_size": 32}, (2 + 16) * 8 / 32),
    "Q4_1": ({"bits": 4, "group_size": 32, "zero_bits": 16}, (2 * 2 + 16) * 8 / 32),
    "Q5_0": ({"bits": 5, "group_size": 32}, (2 + 4 + 16) * 8 / 32),
    "Q8_0": ({"bits": 8, "group_size": 32}, (2 + 32) * 8 / 32),
    "Q2_K": (
        {
            "bits": 2,
            "group_size": 16,
            "scale_bits": 4,
            "zero_bits": 4,
            "second_group_size": 16,
            "second_scale_bits": 32,
        },
        (2 * 2 + 16 + 64) * 8 / 256,
    ),
    "Q4_K": (
        {
            "bits": 4,
            "group_size": 32,
            "scale_bits": 6,
            "zero_bits": 6,
            "second_group_size": 8,
            "second_scale_bits": 32,
        },
        (2 * 2 + 12 + 128) * 8 / 256,
    ),
    "Q6_K": (
        {"bits": 6, "group_size": 16, "scale_bits": 8, "second_group_size": 16, "second_scale_bits": 16},
        (2 + 16 + 192) * 8 / 256,
    ),
    "GPTQ-4bit-128g": ({"bits": 4, "group_size": 128, "zero_bits": 4}, 4 + (16 + 4) / 128),
    "4-bit-128g with a zero point of fp16": ({"bits": 4, "group_size": 128, "zero_bits": 16}, 4.25),
    "NF4": (
        {"bits": 4, "group_size": 64, "scale_bits": 32},
        4 + 0.5,
    ),  # QLoRA section 3: 0.5 bits of scales a weight
    "NF4 double": (
        {"bits": 4, "group_size": 64, "scale_bits": 8, "second_group_size": 256},
        4 + 8 / 64 + 32 / (64 * 256),
    ),  # 0.127
    "MXFP4": ({"bits": 4, "group_size": 32, "scale_bits": 8}, 4.25),
    "int8 by row": ({"bits": 8}, 8 + 16 / 4096),
    "int8 by tensor": ({"bits": 8, "group_size": "tensor"}, 8 + 16 / 4096**2),
    "unquantized": ({"bits": "dtype"}, BF16),
}


@every_row("name", FORMATS)
def test_a_known_format_takes_the_bits_it_is_known_for(name):
    fields, bits = FORMATS[name]
    found = Quantization(**fields).packing({}).bits_of((4096, 4096), BF16)
    assert (found.values + found.scales) / 4096**2 == bits


def test_the_double_quantization_of_qlora_takes_an_eighth_of_a_bit():
    found = Quantization(**FORMATS["NF4 double"][0]).packing({}).bits_of((4096, 4096), BF16)
    assert round(found.scales / 4096**2, 3) == 0.127


def test_a_group_that_is_not_full_has_a_scale_too():
    assert Packing(4, 32).bits_of((10, 40), BF16) == (10 * 40 * 4, 10 * 2 * 16)


def test_the_kernel_of_a_convolution_is_one_row_an_output():
    assert Packing(4).bits_of((10, 8, 3), BF16) == (10 * 24 * 4, 10 * 16)


Q3_K = {"bits": 3, "group_size": 16, "scale_bits": 6, "second_group_size": 16, "second_scale_bits": 16}
Q4_K, Q6_K = FORMATS["Q4_K"][0], FORMATS["Q6_K"][0] | {"zero_bits": 0}
Q5_K = Q4_K | {"bits": 5}
MORE_BITS = [
    0,
    1,
    2,
    3,
    *range(6, 28, 3),
    28,
    29,
    30,
    31,
]  # of the value and down projections of Q4_K_M; llama-quant.cpp, use_more_bits

# Bits per weight of Llama 2 7B, as tools/quantize/README.md of llama.cpp lists them.
LLAMA_2_7B = {
    "Q3_K_S": (Q3_K, [("lm_head", Q6_K)], 3.50),
    "Q4_K_M": (
        Q4_K,
        [
            ("lm_head", Q6_K),
            *((f"layers.{i}.{which}", Q6_K) for i in MORE_BITS for which in ("*.v_proj", "*.down_proj")),
        ],
        4.84,
    ),
    "Q5_K_S": (Q5_K, [("lm_head", Q6_K)], 5.52),
    "Q6_K": (Q6_K, [], 6.56),
}


@pytest.mark.parametrize("name", LLAMA_2_7B)
def test_a_whole_model_takes_the_bits_per_weight_that_llama_cpp_lists(name):
    fields, rules, published = LLAMA_2_7B[name]
    quantization = Quantization(**fields, rules=tuple(Rule(match=match, **own) for match, own in rules))
    model = load("llama-2-7b").model.replace(quantization=quantization)
    assert round(count_params(model, "fp32").totals["bits_per_weight"], 2) == published


TABLE, NORMS = 50 * 8, (3 * 2 + 1) * 8
Q, KV, UP = 8 * 8, 4 * 8, 12 * 8
ATTENTION, FFN = 2 * Q + 2 * KV, 3 * UP
PARAMS = 3 * (ATTENTION + FFN) + NORMS + 2 * TABLE


def totals(model):
    return count_params(model).totals


def stored(*rules, model=None, lora=None, **fields):
    spec = (model or decoder()).replace(
        lora=lora, quantization=Quantization(**{"bits": 4} | fields, rules=rules)
    )
    return totals(type(spec)(**{name: getattr(spec, name) for name in spec.fields}))


def test_matrices_are_quantized_and_norms_are_not():
    found = stored(scale_bits=0)
    matrices = PARAMS - NORMS
    assert found["bytes"] == (4 * matrices + 16 * NORMS) // 8
    assert found["params_by_width"] == {"4": matrices, "bf16": NORMS}
    assert (
        found["bits_per_weight"]
        == found["bits_per_weight_without_scales"]
        == (4 * matrices + 16 * NORMS) / PARAMS
    )


def test_scales_are_told_apart():
    found = stored()
    rows = 2 * 50 + 3 * (8 + 4 + 4 + 8 + 12 + 12 + 8)
    values = 4 * (PARAMS - NORMS) + 16 * NORMS
    assert found["bytes"] == (values + 16 * rows) // 8
    assert found["bits_per_weight"] == (values + 16 * rows) / PARAMS
    assert found["bits_per_weight_without_scales"] == values / PARAMS


def test_without_quantization_the_dtype_is_what_is_stored():
    found = totals(decoder())
    assert found["bytes"] == 2 * PARAMS
    assert (found["bits_per_weight"], found["bits_per_weight_without_scales"]) == (16, 16)
    assert found["params_by_width"] == {"bf16": PARAMS}


RULES = {
    "group": ("ffn", 3 * FFN),
    "one-layer": ("layers.1", ATTENTION + FFN),
    "layers": ("layers.0-1", 2 * (ATTENTION + FFN)),
    "layers-beyond": ("layers.1-9.ffn", 2 * FFN),
    "every-layer": ("layers.*.ffn", 3 * FFN),
    "matrix": ("q_proj", 3 * Q),
    "matrix-of-a-layer": ("layers.2.attention.q_proj", Q),
    "steps-in-between": ("ffn.up_proj", 3 * UP),
    "any-step": ("layers.1.*.*", ATTENTION + FFN),
    "table": ("embedding", TABLE),
    "head": ("lm_head", TABLE),
}


@every_row("match", RULES)
def test_a_rule_names_what_it_says(match):
    pattern, params = RULES[match]
    assert stored(Rule(match=pattern, bits=2))["params_by_width"]["2"] == params


@every_row(
    "pattern",
    ["layers.3", "layers.1-0.ffn", "norms", "ff", "layers.1-.ffn", "layers.-1", "final_norm", "bias", ""],
)
def test_a_rule_that_names_nothing_is_refused(pattern):
    with pytest.raises(ArchError, match="no matrix of this model is called"):
        stored(Rule(match=pattern, bits=2))


def test_the_last_rule_decides():
    rules = (
        Rule(match="ffn", bits=3),
        Rule(match="layers.1-2", bits=2),
        Rule(match="layers.2.ffn.up_proj", bits="dtype"),
    )
    assert stored(*rules)["params_by_width"] == {
        "4": ATTENTION + 2 * TABLE,
        "3": FFN,
        "2": 2 * (ATTENTION + FFN) - UP,
        "bf16": UP + NORMS,
    }


def test_a_rule_takes_what_it_leaves_out_from_the_rest():
    grouped = {
        "group_size": 4,
        "scale_bits": 8,
        "zero_bits": 2,
        "second_group_size": 3,
        "second_scale_bits": 5,
    }
    alike = stored(Rule(match="ffn", bits=4), **grouped)
    assert alike == stored(**grouped)
    own = stored(Rule(match="lm_head", bits=4, group_size="row", second_group_size="none"), **grouped)
    groups = 50 * 2
    before, after = groups * (8 + 2) + -(-groups // 3) * 5, 50 * (8 + 2)
    assert round((alike["bits_per_weight"] - own["bits_per_weight"]) * PARAMS) == before - after


@pytest.mark.sample(3, whole=True)
@pytest.mark.parametrize("adapted", [None, LoRA(rank=2, targets=("q",))], ids=["plain", "adapted"])
@pytest.mark.parametrize("n_layers", [1, 2, 3, 4, 7])
def test_layers_are_counted_by_their_number_in_patterns_and_groups(n_layers, adapted):
    """One by one: every layer a group of its own, of which each has a rule of its own."""
    wide, own = layer(ffn=GLU(d_ff=20)), attention(n_kv_heads=4)
    groups = (
        Group(n_layers=1, layer=layer(own)),
        Group(n_layers=n_layers, pattern=(layer(), wide, layer(own))),
    )
    single = [layer(own), *((layer(), wide, layer(own))[i % 3] for i in range(n_layers))]
    last = n_layers // 2 + 1
    folded = stored(Rule(match=f"layers.1-{last}", bits=2), model=decoder(*groups), lora=adapted)
    alone = decoder(*(Group(n_layers=1, layer=one) for one in single))
    assert folded == stored(
        *(Rule(match=f"layers.{i}", bits=2) for i in range(1, last + 1)), model=alone, lora=adapted
    )


def test_of_a_billion_layers_a_range_is_counted_at_once():
    found = stored(
        Rule(match="layers.5-999999994", bits=2), model=decoder(Group(n_layers=10**9, layer=layer()))
    )
    assert found["params_by_width"]["2"] == (10**9 - 10) * (ATTENTION + FFN)


def test_every_expert_is_a_matrix_with_scales_of_its_own():
    moe = decoder(
        Group(n_layers=3, layer=layer(ffn=MixtureOfExperts(n_experts=6, top_k=2, expert=GLU(d_ff=5))))
    )
    found = stored(Rule(match="router", bits="dtype"), Rule(match="experts", bits=2), model=moe)
    assert found["params_by_width"]["2"] == 3 * 6 * 3 * 5 * 8
    rows = 2 * 50 + 3 * (8 + 4 + 4 + 8) + 3 * 6 * (5 + 5 + 8)
    assert (
        round((found["bits_per_weight"] - found["bits_per_weight_without_scales"]) * found["params"])
        == 16 * rows
    )


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("ranks", [4, 8])
def test_the_part_of_a_rank_stays_packed_where_it_ends_within_a_block(ranks):
    """gpt-oss: the 2,880 hidden channels of an expert are 90 blocks, those of one rank of four 22.5."""

    def weights(**plan):
        asked = archcli.count_memory("gpt-oss-20b", "serve", seq_len=16, plan=plan)
        return asked.totals["parts"]["weights"]

    # each rank has all routers and norms, and a scale for half a block
    assert weights() / ranks < weights(tp=ranks) < 1.02 * weights() / ranks


def test_adapters_keep_the_dtype_and_are_in_the_bytes_but_not_in_the_average():
    plain, found = stored(), stored(lora=LoRA(rank=2, targets=("q",)))
    assert found["bytes"] == plain["bytes"] + 2 * 3 * 2 * (8 + 8)
    assert found["bits_per_weight"] == plain["bits_per_weight"]


def test_paths_add_up():
    spec = decoder(
        quantization=Quantization(bits=4, group_size=4, rules=(Rule(match="layers.0-1.ffn", bits=2),))
    )
    report = count_params(spec, depth=4)
    assert sum(row["bytes"] for row in report.rows) == report.totals["bytes"]
    bits = {row["path"]: row["bits_per_weight"] for row in report.rows}
    assert bits["layers.*.ffn.up_proj"] == (2 + 2 + 4 + 3 * 16 / 4) / 3
    assert bits["layers.*.attention_norm"] == 16


def test_the_cache_is_fitted_beside_what_is_stored():
    spec = decoder(quantization=Quantization(bits=4))
    weights = count_params(spec).totals["bytes"]
    per_token = count_kv_cache(spec, 1).totals["bytes_per_token"]
    found = fits(spec, CacheSize(spec), weights + 100 * per_token, 10, 1, CacheDtypes("bf16"))
    assert (found["weights_bytes"], found["beside_weights"]["tokens"]) == (weights, 100)
