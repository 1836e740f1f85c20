"""What every command is asked of every model."""

PHASES = ("forward", "train", "prefill", "decode")
ASKED = {
    "params": ("params",),
    **{f"flops {phase}": ("flops", "--phase", phase, "-s", "7") for phase in PHASES},
    "flops past a window": ("flops", "--phase", "decode", "--past", "30"),
    "kvcache": ("kvcache", "--context", "30"),
    "memory": ("memory", "-s", "7"),
    "memory forward": ("memory", "--phase", "forward", "-s", "7"),
    "memory decode": ("memory", "--phase", "decode", "-s", "30"),
    "predict": ("predict", "--device", "h100-sxm", "--phase", "train", "-s", "7"),
    "fit": ("fit", "h100-sxm"),
    "choose": ("choose", "--devices", "h100-sxm"),
    "predict decode": ("predict", "--device", "h100-sxm", "-s", "30"),
    "export": ("export", "--to", "yaml"),
    "scale": ("scale", "--params", "2M", "-s", "7"),
    "check": ("check", "--exit-zero"),
    "survey": ("survey", "--no-presets"),
    "compare": ("compare", "gpt2"),
    "show": ("show",),
    "sweep": ("sweep", "--vary", "vocab_size=1000,70000", "--where", "params > 0", "--minimize", "flops"),
    "explain": ("explain",),
    "explain flops": ("explain", "flops", "-s", "7"),
    "explain kvcache": ("explain", "kvcache", "--context", "30"),
}
GENERATES = {
    "choose",
    "fit",
    "memory decode",
    "predict decode",
    "flops prefill",
    "flops decode",
    "flops past a window",
    "profile decode",
}
"""What is asked of models alone that generate."""
PICTURES = {
    "draw": ("draw", "-o", "-"),
    "report": ("report", "--device", "rtx-4090", "-o", "-"),
}
"""What answers with a picture or a page, and no JSON."""
OF_NO_MODEL = {
    *("list", "families", "devices", "engines", "trainers", "rule", "rules", "schema", "plot", "summary"),
    *("mcp", "bench"),
}
TORCH = {
    "verify": ("verify", "-s", "5"),
    "profile": ("profile", "-s", "5", "--pairs", "1", "--threads", "1", "--no-ceilings"),
    "profile decode": (
        *("profile", "--phase", "decode", "--past", "9", "--attention", "eager"),
        *("--pairs", "1", "--threads", "1", "--no-ceilings"),
    ),
}
FORMATS = (
    *("q2_k", "q3_k_m", "q3_k_l", "q4_0", "q4_k_s", "q4_k_m", "q5_k_s", "q5_k_m", "q6_k", "q8_0", "iq3_xxs"),
    *("iq4_xs", "nf4", "nf4-double", "awq-int4", "gptq-int4", "mlx-4bit", "mxfp4", "nvfp4", "fp8"),
    *("fp8-block", "int8", "bf16", None),
)
"""Formats of weights that are asked by name, plain bf16, and what is usual."""
CACHES = (None, "bf16", "fp16", "fp32", "fp8", "int8", "q8_0", "q5_1", "q4_0", "nvfp4")
"""Types of a cache, and what is usual."""
