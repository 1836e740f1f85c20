"""Quantization methods: configs that name modules, and the bytes that each method's code stores of a matrix.

None of our code takes part. Numbers of values, scales and tables are those of the tensors that the methods'
own libraries write; of each method a form is asked whose bytes differ from those of bf16.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import NamedTuple

from class_matrices import ROUTER, is_kept

COMPRESSED = {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "tensor"}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": -1}
FP8_WEIGHT = {"weight": {"dtype": "fp8_e4m3", "qscheme": "per_tensor"}}
ROWS_OF_8 = {"weight_quant_params": {"nbits": 8, "group_size": None, "axis": 1}}
INT8 = {"_type": "Int8WeightOnlyConfig", "_version": 2, "_data": {}}


def keeps_head(it) -> bool:
    """Whether engines leave a matrix as it is, whatever a list says: the head of words as well."""
    return is_kept(it) or (it.of_head and "entity" not in it.name) or it.has("output_projection")


def keeps_listed_head(it) -> bool:
    """Whether a list with `lm_head` leaves a matrix as it is: that module alone, none inside of it."""
    return it.kind == "table" or "lm_head" in it.names or bool(ROUTER.search(it.name))


class Method(NamedTuple):
    """A method that names a step.

    config: the quantization_config of a step and of the matrices with it. size: the bytes of a packed matrix.
    packs: whether it packs a matrix, of those that it does not keep. keeps: the matrices that it never packs.
    """

    config: Callable
    size: Callable
    packs: Callable
    keeps: Callable = is_kept


def step(name: str) -> str:
    """A regular expression of the modules with a step of this name."""
    return rf"(.*\.)?{name}(\..*)?$"


def globs(name: str) -> list[str]:
    """The same as texts with `*`."""
    return [f"*.{name}", f"*.{name}.*", f"{name}.*", name]


def has(it, name) -> bool:
    return it.has(name)


def lacks(it, name) -> bool:
    return not it.has(name)


def lacks_ending(it, name) -> bool:
    """Whether a matrix is none that a name means as transformers reads it: by its steps or its ending."""
    return not it.has(name) and not it.ends(name)


def in_layer(packs):
    """The same of layers alone."""
    return lambda it, name: it.in_layer and packs(it, name)


def compressed(ignore, targets=("Linear",)):
    groups = {"group_0": {"targets": [*targets], "weights": COMPRESSED}}
    return {
        "quant_method": "compressed-tensors",
        "format": "float-quantized",
        "config_groups": groups,
        "ignore": [*ignore, "lm_head"],
    }


def in_full(held, names=()):
    """The names of matrices as a file has them, each by itself."""
    return [*dict.fromkeys(it.names[-1] for it in held), *names]


def skipping(quant_method, key="modules_to_not_convert", **settings):
    """A method whose list names modules by their steps or their ending."""
    return lambda name, _: {"quant_method": quant_method, key: ["lm_head", name], **settings}


def by_row(it, *more):
    """4 bits, a scale of fp16 and a zero point a row; as it is where zero points fill no whole words."""
    if it.out % 8:
        return 2 * it.out * it.inputs
    return -(-it.out * it.inputs // 2) + 2 * it.out + it.out // 2 + sum(more)


def of_row(width, more=0):
    """A byte for each value, and so many bytes a row and a matrix."""
    return lambda it: it.out * it.inputs + width * it.out + more


def of_matrix(width):
    return lambda it: it.out * it.inputs + width


def in_groups(group, width):
    """A byte for each value, and so many bytes for each group of a row."""
    return lambda it: it.out * it.inputs + width * it.out * -(-it.inputs // group)


def halved(group, width, more=0):
    """4 bits for each value, and so many bytes for each group of a row and for a matrix."""
    return lambda it: it.out * it.inputs / 2 + width * it.out * -(-it.inputs // group) + more


METHODS = {
    "compressed-ignore": Method(
        lambda name, _: compressed([f"re:{step(name)}"]),
        of_matrix(2),
        lacks,
        keeps_listed_head,
    ),
    "compressed-target": Method(
        lambda name, _: compressed([], [f"re:{step(name)}"]),
        of_matrix(2),
        has,
        keeps_listed_head,
    ),
    "compressed-in-full": Method(
        lambda _, held: compressed(in_full(held)),
        of_matrix(2),
        lacks,
        keeps_listed_head,
    ),
    "bitsandbytes": Method(
        skipping("bitsandbytes", "llm_int8_skip_modules", load_in_8bit=True),
        of_row(4, 1),
        lacks_ending,
    ),
    # a scale of fp32 for each 64 of all values, and the table of 16 values
    "bitsandbytes-4": Method(
        skipping("bitsandbytes", "llm_int8_skip_modules", load_in_4bit=True, bnb_4bit_quant_type="nf4"),
        lambda it: it.out * it.inputs / 2 + 4 * -(-it.out * it.inputs // 64) + 64,
        lacks_ending,
    ),
    "awq": Method(
        lambda name, _: {
            "quant_method": "awq",
            "bits": 4,
            "group_size": -1,
            "modules_to_not_convert": [name],
        },
        by_row,
        in_layer(lacks_ending),
    ),
    "gptq-dynamic": Method(
        lambda name, _: {**GPTQ, "dynamic": {f"-:{step(name)}": {}}},
        lambda it: by_row(it, 4 * it.inputs),
        in_layer(lacks),
    ),
    "gptq-only": Method(
        lambda name, _: {**GPTQ, "modules_in_block_to_quantize": [[name]]},
        lambda it: by_row(it, 4 * it.inputs),
        in_layer(has),
    ),
    "auto-round": Method(
        lambda name, _: {
            "quant_method": "auto-round",
            "bits": 4,
            "group_size": -1,
            "sym": True,
            "packing_format": "auto_round:auto_gptq",
            "extra_config": {step(name): {"bits": 16}},
        },
        by_row,
        in_layer(lacks),
    ),
    "modelopt": Method(
        lambda name, _: {
            "quant_method": "modelopt",
            "quant_algo": "FP8",
            "ignore": ["lm_head", *globs(name)],
        },
        of_matrix(4 + 4),
        lacks,
    ),
    "modelopt-mixed": Method(
        lambda name, held: {
            "quant_method": "modelopt",
            "quant_algo": "MIXED_PRECISION",
            "quantized_layers": {module: {"quant_algo": "FP8"} for module in in_full(held) or [name]},
        },
        of_matrix(4 + 4),
        has,
        lambda it: it.kind == "table",  # a head and routers as well, where they are listed
    ),
    "fp8": Method(skipping("fp8", weight_block_size=[1, 16]), in_groups(16, 4), lacks_ending, keeps_head),
    "mxfp8": Method(skipping("mxfp8", weight_block_size=[1, 32]), in_groups(32, 1), lacks_ending, keeps_head),
    "fbgemm": Method(skipping("fbgemm_fp8"), of_row(4), lacks_ending),
    "w8a8": Method(skipping("w8a8_fp8"), of_row(4), lacks_ending, keeps_head),
    "mxfp4": Method(
        skipping("mxfp4"),
        halved(32, 1),
        lambda it, name: it.of_experts and lacks_ending(it, name),
    ),
    "hqq": Method(skipping("hqq", "skip_modules", quant_config=ROWS_OF_8), of_row(2 + 2), lacks_ending),
    "torchao": Method(skipping("torchao", quant_type="int8_weight_only"), of_row(2), lacks_ending),
    "torchao-in-full": Method(
        lambda _, held: {
            "quant_method": "torchao",
            "quant_type": {
                "default": {
                    "_type": "ModuleFqnToConfig",
                    "_data": {
                        "module_fqn_to_config": {
                            "_default": INT8,
                            **dict.fromkeys(in_full(held, ["lm_head"])),
                        }
                    },
                }
            },
        },
        of_row(2),
        lacks,
    ),
    "quark": Method(
        lambda name, _: {
            "quant_method": "quark",
            "global_quant_config": FP8_WEIGHT,
            "exclude": ["lm_head", *globs(name)],
        },
        of_matrix(4),
        lacks,
    ),
    "quark-layers": Method(
        lambda name, _: {
            "quant_method": "quark",
            "global_quant_config": {},
            "layer_quant_config": dict.fromkeys(globs(name), FP8_WEIGHT),
            "exclude": ["lm_head"],
        },
        of_matrix(4),
        has,
    ),
    "eetq": Method(skipping("eetq", weights="int8"), of_row(2), lacks_ending),
    "quanto": Method(skipping("quanto", weights="int8"), of_row(2, 2 + 2), lacks_ending),
    "metal": Method(skipping("metal", bits=8, group_size=16), in_groups(16, 2 + 2), lacks_ending),
    # tables of 2^4 values, and of 4^4 pairs of them
    "higgs": Method(
        skipping("higgs", bits=4, group_size=256), halved(256, 2, 2 * 16 + 4 * 256), lacks_ending
    ),
    # two Hadamard matrices of 16 x 16, and two scales of fp32
    "fp_quant": Method(
        skipping("fp_quant", forward_dtype="nvfp4"),
        halved(16, 1, 2 * 2 * 16 * 16 + 2 * 4),
        lacks_ending,
    ),
    "bitnet": Method(skipping("bitnet"), lambda it: it.out * it.inputs / 4 + 2, lacks_ending),
    # a codebook of 256 values of 16 bits
    "aqlm": Method(
        lambda _, held: {
            "quant_method": "aqlm",
            "in_group_size": 1,
            "num_codebooks": 1,
            "nbits_per_codebook": 8,
            "linear_weights_not_to_quantize": [f"{module}.weight" for module in in_full(held, ["lm_head"])],
        },
        of_row(2, 2 * 256),
        lacks,
    ),
    # MLX packs tables, heads and routers too, and states false for what stays as it is
    "mlx": Method(
        lambda _, held: {
            "quant_method": "mlx",
            "bits": 8,
            "group_size": 16,
            **dict.fromkeys(in_full(held), False),
        },
        in_groups(16, 2 + 2),
        lacks,
        lambda it: False,
    ),
}


def stored_bytes(plain, held, method, name):
    """The bytes of a file: `plain` ones in bf16, but for the matrices that this method packs."""
    _, size, packs, keeps = METHODS[method]
    packed = (it for it in held if not keeps(it) and packs(it, name))
    return ceil(plain + sum(size(it) - 2 * it.out * it.inputs for it in packed))
