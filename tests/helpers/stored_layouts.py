"""What quantized files hold: the tensors of each layout, and the configs that state it of a small Llama."""

D, F, KV, V, L = 256, 384, 128, 1000, 4
LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": V,
    "hidden_size": D,
    "intermediate_size": F,
    "num_hidden_layers": L,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
LINEARS = {
    "self_attn.q_proj": (D, D),
    "self_attn.k_proj": (KV, D),
    "self_attn.v_proj": (KV, D),
    "self_attn.o_proj": (D, D),
    "mlp.gate_proj": (F, D),
    "mlp.up_proj": (F, D),
    "mlp.down_proj": (D, F),
}
"""Name: (outputs, inputs)."""
OTHERS = 2 * (2 * V * D + (2 * L + 1) * D)
"""Bytes of table, head and norms in bf16."""

HEAD = (V, D)


def plain(out, inputs):
    return 2 * out * inputs


def gptq(out, inputs, bits=4, group=128):
    """qweight and qzeros of int32, scales of fp16, g_idx of int32."""
    qweight, qzeros = 4 * (inputs * bits // 32) * out, 4 * (inputs // group) * (out * bits // 32)
    return qweight + qzeros + 2 * (inputs // group) * out + 4 * inputs


def awq(out, inputs):
    """qweight [in, out/8] and qzeros [in/128, out/8] of int32, scales of fp16."""
    return 4 * inputs * (out // 8) + 4 * (inputs // 128) * (out // 8) + 2 * (inputs // 128) * out


def nf4(out, inputs):
    """Two values a byte, absmax of fp32 for 64, a table of 16 values of fp32."""
    return out * inputs // 2 + 4 * (out * inputs // 64) + 4 * 16


def nf4_double(out, inputs):
    """absmax of 8 bits, nested_absmax of fp32 for 256 of them, and their table of 256 values."""
    scales = out * inputs // 64
    return out * inputs // 2 + scales + 4 * -(-scales // 256) + 4 * 16 + 4 * 256


def int8(out, inputs):
    """SCB of fp32 a row, and one byte that names the layout."""
    return out * inputs + 4 * out + 1


def fp8_block(out, inputs):
    """weight_scale_inv of fp32 for each block of 128 x 128."""
    return out * inputs + 4 * (-(-out // 128)) * (-(-inputs // 128))


def packed(out, inputs, group=32, bits=4):
    """weight_packed, weight_scale of bf16, weight_shape of two int64."""
    return out * inputs * bits // 8 + 2 * out * (inputs // group) + 2 * 8


def channel(out, inputs):
    return out * inputs + 2 * out


def nvfp4(out, inputs):
    """Two values a byte, a scale of fp8 for 16, and one of fp32 for the weight and one for its inputs."""
    return out * inputs // 2 + out * inputs // 16 + 4 + 4


def mlx(out, inputs, bits=4, group=64):
    """Values in words of 32 bits, a scale and a bias of bf16 a group."""
    return out * inputs * bits // 8 + 2 * 2 * out * (inputs // group)


GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True}
NF4 = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}
BY_GROUP = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": True}
FLOAT = {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": True}


def compressed(layout, weights, inputs=None, ignore=("lm_head",)):
    group = {"targets": ["Linear"], "weights": weights, "input_activations": inputs}
    return {
        "quant_method": "compressed-tensors",
        "format": layout,
        "config_groups": {"group_0": group},
        "ignore": list(ignore),
    }


FIRST = {f"model.layers.0.{name}" for name in LINEARS}
# name: (quantization_config, bytes of a packed matrix, modules that are not packed, whether the head is)
CASES = {
    "gptq": (GPTQ, gptq, (), False),
    "gptq-by-its-keys": ({"bits": 4, "group_size": 128, "desc_act": True}, gptq, (), False),
    "gptq-8": ({**GPTQ, "bits": 8}, lambda out, n: gptq(out, n, 8), (), False),
    "gptq-3": ({**GPTQ, "bits": 3}, lambda out, n: gptq(out, n, 3), (), False),
    "gptq-a-row": ({**GPTQ, "group_size": -1}, lambda out, n: gptq(out, n, group=n), (), False),
    "gptq-marlin": (
        {**GPTQ, "checkpoint_format": "marlin"},
        lambda out, n: out * n // 2 + 2 * out * (n // 128),
        (),
        False,
    ),
    "gptq-head": ({**GPTQ, "lm_head": True}, gptq, (), True),
    "gptq-modules": (
        {**GPTQ, "modules_in_block_to_quantize": [["self_attn.q_proj"], ["mlp.up_proj", "mlp.gate_proj"]]},
        gptq,
        [n for n in LINEARS if n not in {"self_attn.q_proj", "mlp.up_proj", "mlp.gate_proj"}],
        False,
    ),
    "gptq-dynamic": ({**GPTQ, "dynamic": {r"-:model\.layers\.0\..*": {}}}, gptq, FIRST, False),
    "awq": (
        {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"},
        awq,
        (),
        False,
    ),
    "awq-kept": (
        {"quant_method": "awq", "w_bit": 4, "q_group_size": 128, "modules_to_not_convert": ["self_attn"]},
        awq,
        [name for name in LINEARS if name.startswith("self_attn")],
        False,
    ),
    "nf4": (NF4, nf4, (), False),
    "nf4-double": ({**NF4, "bnb_4bit_use_double_quant": True}, nf4_double, (), False),
    "nf4-dynamic": (
        {
            **NF4,
            "llm_int8_skip_modules": ["lm_head", "model.layers.1.mlp", "model.layers.3.self_attn.q_proj"],
        },
        nf4,
        {
            "model.layers.3.self_attn.q_proj",
            *(f"model.layers.1.{name}" for name in LINEARS if name.startswith("mlp")),
        },
        False,
    ),
    "nf4-and-the-head": ({**NF4, "llm_int8_skip_modules": ["vision_tower"]}, nf4, (), True),
    "int8": ({"quant_method": "bitsandbytes", "load_in_8bit": True}, int8, (), False),
    "fp8": (
        {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]},
        fp8_block,
        (),
        False,
    ),
    "fp8-kept": (
        {"quant_method": "fp8", "modules_to_not_convert": ["lm_head", "model.layers.0", "down_proj"]},
        fp8_block,
        {*FIRST, "mlp.down_proj"},
        False,
    ),
    "fp8-a-matrix": (
        {"quant_method": "fp8", "activation_scheme": "static", "ignored_layers": ["lm_head"]},
        lambda out, n: out * n + 4 + 4,
        (),
        False,
    ),
    "fbgemm": (
        {"quant_method": "fbgemm_fp8", "modules_to_not_convert": [*sorted(FIRST), "lm_head"]},
        lambda out, n: out * n + 4 * out,
        FIRST,
        False,
    ),
    "int4": (compressed("pack-quantized", BY_GROUP), packed, (), False),
    "int4-reordered": (
        compressed("pack-quantized", {**BY_GROUP, "actorder": "group", "symmetric": False}),
        lambda out, n: packed(out, n) + (out * 4 // 8) * (n // 32) + 4 * n,
        (),
        False,
    ),
    "w8a8": (compressed("int-quantized", {**FLOAT, "type": "int"}, {"dynamic": True}), channel, (), False),
    "fp8-rows": (
        compressed("float-quantized", FLOAT, {"dynamic": True}, ["lm_head", "re:.*(q|k)_proj$"]),
        channel,
        ["self_attn.q_proj", "self_attn.k_proj"],
        False,
    ),
    "fp8-static": (
        compressed("float-quantized", {**FLOAT, "strategy": "tensor"}, {"dynamic": False}),
        lambda out, n: out * n + 2 + 2,
        (),
        False,
    ),
    "fp8-blocks": (
        compressed("float-quantized", {**FLOAT, "strategy": "block", "block_structure": [128, 128]}),
        lambda out, n: out * n + 2 * -(-out // 128) * -(-n // 128),
        (),
        False,
    ),
    "nvfp4": (
        compressed("nvfp4-pack-quantized", {"num_bits": 4, "type": "float"}, {"num_bits": 4}),
        nvfp4,
        (),
        False,
    ),
    "modelopt-nvfp4": (
        {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head", "model.layers.0*"]},
        nvfp4,
        FIRST,
        False,
    ),
    "modelopt-fp8": (
        {"quant_method": "modelopt", "quant_algo": "FP8", "exclude_modules": ["lm_head"]},
        lambda out, n: out * n + 4 + 4,
        (),
        False,
    ),
    "bitnet": (
        {"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "offline"},
        lambda out, n: out * n // 4 + 2,
        (),
        False,
    ),
}
