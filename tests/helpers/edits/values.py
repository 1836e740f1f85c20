"""Mistakes in values: sizes, numbers, switches, choices, lists, texts, dates.

As EDITS of test_mistakes.py.
"""

VALUES = {
    "size-fraction": ("d_ff: 128", "d_ff: 128.5", "18:48: d_ff must be a whole number above 0, not 128.5"),
    "size-real": (
        "d_ff: 128",
        "d_ff: 128.0",
        "18:48: d_ff must be a whole number above 0, not 128.0; write 128",
    ),
    "size-real-exponent": (
        "d_model: 64",
        "d_model: 6.4e1",
        "4:10: d_model must be a whole number above 0, not 6.4e1; write 64",
    ),
    "size-quoted": (
        "d_ff: 128",
        'd_ff: "128"',
        '18:48: d_ff must be a whole number above 0, not "128"; drop the quotes',
    ),
    "size-boolean": ("d_ff: 128", "d_ff: true", "18:48: d_ff must be a whole number above 0, not true"),
    "size-zero": ("d_ff: 128", "d_ff: 0", "18:48: d_ff must be a whole number above 0, not 0"),
    "size-negative": ("n_layers: 3", "n_layers: -1", "9:15: n_layers must be a whole number above 0, not -1"),
    "size-null": ("d_model: 64", "d_model:", "4:9: d_model must be a whole number above 0, not null"),
    "size-suffix-k": (
        "d_ff: 128",
        "d_ff: 8k",
        '18:48: d_ff must be a whole number above 0, not "8k"; write 8000',
    ),
    "size-suffix-K": (
        "d_ff: 128",
        "d_ff: 8K",
        '18:48: d_ff must be a whole number above 0, not "8K"; write 8192',
    ),
    "size-comma": (
        "vocab_size: 1000",
        "vocab_size: 1,000",
        '3:13: vocab_size must be a whole number above 0, not "1,000"; write 1000',
    ),
    "size-word": (
        "vocab_size: 1000",
        "vocab_size: big",
        '3:13: vocab_size must be a whole number above 0, not "big"',
    ),
    "size-list": ("d_ff: 128", "d_ff: [128]", "18:42: d_ff must be a whole number above 0, not a list"),
    "size-mapping": (
        "d_model: 64",
        "d_model: {a: 1}",
        "4:1: d_model must be a whole number above 0, not a mapping",
    ),
    "real-nan": ("eps: 1e-5", "eps: .nan", "6:28: eps must be a number above 0, not .nan"),
    "real-infinite": ("theta: 500000", "theta: .inf", "17:39: theta must be a number above 0, not .inf"),
    "real-negative-infinite": (
        "theta: 500000",
        "theta: -.INF",
        "17:39: theta must be a number above 0, not -.INF",
    ),
    "real-overflow": ("theta: 500000", "theta: 1e999", "17:39: theta must be a number above 0, not 1e999"),
    "real-zero": ("eps: 1e-5", "eps: 0.0", "6:28: eps must be a number above 0, not 0.0"),
    "real-quoted": (
        "eps: 1e-5",
        'eps: "1e-5"',
        '6:28: eps must be a number above 0, not "1e-5"; drop the quotes',
    ),
    "boolean-no": ("tied: false", "tied: no", '7:19: tied must be true or false, not "no"; write false'),
    "boolean-On": ("tied: false", "tied: On", '7:19: tied must be true or false, not "On"; write true'),
    "boolean-quoted": (
        "tied: false",
        'tied: "false"',
        '7:19: tied must be true or false, not "false"; drop the quotes',
    ),
    "boolean-number": ("tied: false", "tied: 0", "7:19: tied must be true or false, not 0"),
    "choice-misspelt": (
        "theta: 500000",
        "theta: 500000, pairing: halve",
        '17:56: pairing must be half or interleaved, not "halve"; did you mean half?',
    ),
    "choice-number-boolean": (
        "eps: 1e-5",
        "eps: 1e-5, offset: true",
        "6:42: offset must be 0 or 1, not true",
    ),
    "choice-number-real": (
        "eps: 1e-5",
        "eps: 1e-5, offset: 1.0",
        "6:42: offset must be 0 or 1, not 1.0; write 1",
    ),
    "choice-or-number": (
        "tied: false",
        "tied: false, scale: sqrt_dmodel",
        (
            '7:33: scale must be a number above 0, or sqrt_d_model, not "sqrt_dmodel"; did you mean '
            "sqrt_d_model?"
        ),
    ),
    "list-item": (
        "n_heads: 8",
        "n_heads: 8\n        bias: [q, w]",
        '15:19: bias.1 must be q, k, v or o, not "w"',
    ),
    "list-not-one": (
        "n_heads: 8",
        "n_heads: 8\n        bias: q",
        '15:15: bias must be true or false, or a list, each q, k, v or o, not "q"; write [q]',
    ),
    "numbers-item": (
        "theta: 500000",
        (
            "theta: 500000, scaling: {kind: longrope, factor: 2, original_max_seq_len: 8, short_factor: "
            "[1], long_factor: [0]}"
        ),
        "17:142: long_factor.0 must be a number above 0, not 0",
    ),
    "text-number": (
        "arXiv:2407.21783",
        "2407.21783",
        "2:9: source must be text, not 2407.21783; put it in quotes",
    ),
    "text-null": ("tiny-llama", "null", "1:7: name must be text, not null; leave the key out"),
    "published-text": (
        "d_model: 64",
        "d_model: 64\npublished: {params: about 8B}",
        "5:21: 'about 8B' is no figure; write a whole number, or a figure as it is printed, such as 7.62B",
    ),
    "published-list": (
        "d_model: 64",
        "d_model: 64\npublished: [1]",
        "5:1: published must be a mapping, each value a whole number, or text, not a list",
    ),
    "released-text": (
        "d_model: 64",
        "d_model: 64\nreleased: July 2024",
        "5:11: released must be a year, or a year and a month, not 'July 2024'; write 2024 or \"2024-07\"",
    ),
    "released-month": (
        "d_model: 64",
        "d_model: 64\nreleased: 2024-13",
        "5:11: released must be a year, or a year and a month, not '2024-13'; write 2024 or \"2024-07\"",
    ),
    "released-day": (
        "d_model: 64",
        "d_model: 64\nreleased: 20240723",
        "5:11: released must be a year, or a year and a month, not '20240723'; write 2024 or \"2024-07\"",
    ),
    "nullable-null-elsewhere": (
        "tied: false",
        "tied: null",
        "7:19: tied must be true or false, not null; leave the key out",
    ),
}
