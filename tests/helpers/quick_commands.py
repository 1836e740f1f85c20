"""A short command line of every subcommand that needs no torch."""

QUICK = {
    "params": ("params", "gpt2"),
    "flops": ("flops", "gpt2"),
    "kvcache": ("kvcache", "gpt2"),
    "list": ("list",),
    "survey": ("survey", "--no-presets", "gpt2", "deepseek-v3"),
    "compare": ("compare", "gpt2", "llama-3.1-8b"),
    "show": ("show", "gpt2"),
    "schema": ("schema",),
}
