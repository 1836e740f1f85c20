"""What files of ModelOpt, AutoRound and other libraries hold: the tensors of each form, and its config."""

from stored_layouts import awq, channel, fp8_block, mlx, nvfp4


def in_groups(bits, group, scale, zero=0, beside=0, of_input=0):
    """Bytes of values of `bits`, a scale and a zero point a group, and more for inputs and for a matrix."""

    def size(out, inputs):
        groups = out * -(-inputs // group)
        return (out * inputs * bits + groups * (scale + zero) + inputs * of_input + beside) / 8

    return size


def a_row(bits, scale, beside=0):
    return lambda out, inputs: (out * inputs * bits + out * scale + beside) / 8


def auto_round(out, inputs, bits=4, group=128):
    """qweight and qzeros of int32 and scales of fp16, without g_idx: auto_round's qlinear_torch.py."""
    words = inputs * bits // 32 * out + inputs // group * (out * bits // 32)
    return 4 * words + 2 * (inputs // group) * out


def exl3(out, inputs):
    """trellis of 4 bits, suh and svh of fp16."""
    return out * inputs // 2 + 2 * inputs + 2 * out


def aqlm(out, inputs):
    """A code of 16 bits for 8 values, a codebook of 65,536 x 8 values of fp16, a scale of fp16 an output."""
    return 2 * out * inputs // 8 + 2 * 65536 * 8 + 2 * out


def higgs(out, inputs):
    """Codes, scales of fp16 for 256, tables of 2^4 and of 2^4 x 2^4 x 2 values of fp16."""
    return out * inputs // 2 + 2 * out * -(-inputs // 256) + 2 * (16 + 16 * 16 * 2)


def hqq3(out, inputs):
    """Ten values of 3 bits in 32: of 320 values two words more; a scale and a zero point of fp16 for 64."""
    return 3 * out * inputs / 8 + -(-out * inputs // 320) * (2 * 4 + 5 * 4)


HEAD_KEPT = {"modules_to_not_convert": ["lm_head"]}
WEIGHT_ONLY = {"_type": "Int4WeightOnlyConfig", "_version": 2, "_data": {"group_size": 32}}
PER_ROW = {"_type": "PerRow", "_data": {}}
PER_TENSOR = {"dtype": "fp8_e4m3", "qscheme": "per_tensor", "is_dynamic": False, "group_size": None}
MX = {"dtype": "fp4", "qscheme": "per_group", "group_size": 32, "scale_format": "e8m0"}
INT = {"bits": 4, "group_size": 128, "sym": True, "data_type": "int"}
HQQ = {"nbits": 4, "group_size": 64, "axis": 1, "channel_wise": True, "view_as_float": False}


def modelopt(algorithm, **more):
    return {"quant_method": "modelopt", "quant_algo": algorithm, "ignore": ["lm_head"], **more}


def torchao(kind, **more):
    return {"quant_method": "torchao", "quant_type": {"default": kind}, **HEAD_KEPT, **more}


# name: (quantization_config, bytes of a packed matrix)
CASES = {
    "modelopt-rows": (modelopt("FP8_PER_CHANNEL_PER_TOKEN"), a_row(8, 32)),
    "modelopt-blocks": (modelopt("fp8_pb_wo"), fp8_block),
    "modelopt-nvfp4-awq": (modelopt("NVFP4_AWQ", group_size=16), lambda o, n: nvfp4(o, n) + 2 * n),
    "modelopt-w4a16-nvfp4": (modelopt("W4A16_NVFP4"), lambda o, n: nvfp4(o, n) - 4),
    "modelopt-w4a16-awq": (modelopt("W4A16_AWQ", group_size=128), in_groups(4, 128, 32, of_input=16)),
    "modelopt-w4a8-awq": (modelopt("W4A8_AWQ", group_size=128), in_groups(4, 128, 32, 0, 64, 16)),
    "modelopt-mxfp8": (modelopt("MXFP8"), in_groups(8, 32, 8)),
    "modelopt-int8": (modelopt("W8A8_SQ_PER_CHANNEL"), lambda o, n: a_row(8, 32, 32)(o, n) + 2 * n),
    "modelopt-by-its-keys": (
        {"quant_algo": "FP8", "ignore": ["lm_head"], "config_groups": {"group_0": {"targets": ["Linear"]}}},
        lambda o, n: o * n + 4 + 4,
    ),
    "auto-round": (
        {"quant_method": "auto-round", **INT, "packing_format": "auto_round:auto_gptq"},
        auto_round,
    ),
    "auto-round-awq": ({"quant_method": "intel/auto-round", **INT, "packing_format": "awq"}, awq),
    "auto-round-mx": (
        {"quant_method": "auto-round", "bits": 4, "group_size": 32, "data_type": "mx_fp"},
        in_groups(4, 32, 8),
    ),
    "mxfp8": ({"quant_method": "mxfp8", "weight_block_size": [1, 32], **HEAD_KEPT}, in_groups(8, 32, 8)),
    "w8a8": ({"quant_method": "w8a8_int8", **HEAD_KEPT}, a_row(8, 32)),
    "hqq": (
        {
            "quant_method": "hqq",
            "quant_config": {"weight_quant_params": HQQ, "scale_quant_params": None},
            "skip_modules": ["lm_head"],
        },
        in_groups(4, 64, 16, 16),
    ),
    "hqq-3": (
        {
            "quant_method": "hqq",
            "quant_config": {"weight_quant_params": {**HQQ, "nbits": 3}},
            "skip_modules": [],
        },
        hqq3,
    ),
    "quanto": ({"quant_method": "quanto", "weights": "int8"}, a_row(8, 16, 32)),
    "eetq": ({"quant_method": "eetq", "weights": "int8", **HEAD_KEPT}, channel),
    "higgs": ({"quant_method": "higgs", "bits": 4, "group_size": 256}, higgs),
    "metal": ({"quant_method": "metal", "bits": 4, "group_size": 64, **HEAD_KEPT}, mlx),
    "gemma": ({"quant_method": "gemma", "num_bits": 4, **HEAD_KEPT}, a_row(4, 32, 64)),
    "aqlm": (
        {
            "quant_method": "aqlm",
            "in_group_size": 8,
            "out_group_size": 1,
            "num_codebooks": 1,
            "nbits_per_codebook": 16,
            "linear_weights_not_to_quantize": ["lm_head.weight", "model.embed_tokens.weight"],
        },
        aqlm,
    ),
    "torchao": (
        {
            "quant_method": "torchao",
            "quant_type": "int4_weight_only",
            "quant_type_kwargs": {"group_size": 32},
        },
        in_groups(4, 32, 16, 16),
    ),
    "torchao-config": (torchao(WEIGHT_ONLY), in_groups(4, 32, 16, 16)),
    "torchao-float8": (
        torchao(
            {
                "_type": "Float8DynamicActivationFloat8WeightConfig",
                "_data": {"granularity": [PER_ROW, PER_ROW]},
            }
        ),
        a_row(8, 32),
    ),
    "quark-fp8": (
        {
            "quant_method": "quark",
            "global_quant_config": {"weight": PER_TENSOR, "input_tensors": PER_TENSOR},
            "exclude": ["lm_head"],
        },
        lambda o, n: o * n + 4 + 4,
    ),
    "quark-mx": (
        {"quant_method": "quark", "global_quant_config": {"weight": MX}, "exclude": ["lm_head"]},
        in_groups(4, 32, 8),
    ),
    "quark-blocks": (
        {
            "quant_method": "quark",
            "global_quant_config": {
                "weight": {"dtype": "fp8_e4m3", "qscheme": "per_block", "block_size": [128, 128]}
            },
            "exclude": ["lm_head"],
        },
        fp8_block,
    ),
    "exl3": ({"quant_method": "exl3", "bits": 4.0, "head_bits": 16}, exl3),
    "compressed-without-a-format": (
        {
            "config_groups": {
                "group_0": {
                    "targets": ["Linear"],
                    "weights": {"num_bits": 8, "type": "float", "strategy": "channel"},
                    "input_activations": {"num_bits": 8, "dynamic": True},
                }
            },
            "ignore": ["lm_head"],
        },
        channel,
    ),
}
