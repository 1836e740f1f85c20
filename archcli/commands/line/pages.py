"""What a help page shows beside the text of each option: headings for long lists, and examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")

LONG = 13
"""Options below which a list needs no headings."""

HEADINGS = {
    "The model": ("overrides", "part", "dtype", "kv_dtype", "state_dtype"),
    "The pass": (
        *("phase", "batch_size", "seq_len", "past", "new", "context", "source_len", "chunk"),
        *("mask", "logits", "mla", "scan", "attention", "backend", "compiled", "kv_read"),
    ),
    "Training": ("optimizer", "gradients", "recompute", "grad_accum", "loss", "tokens"),
    "The device": (
        *("device", "memory", "engine", "utilization", "offload", "ram", "ram_bandwidth", "bus_bandwidth"),
        *("on", "calibrate", "price_per_hour", "prices", "grid", "threads", "hide_launch", "allocator"),
    ),
    "Devices that share the model": (
        *("dp", "zero", "tp", "sp", "pp", "micro_batches", "schedule", "virtual_stages", "ep", "cp"),
        "dp_attention",
    ),
    "Images and sounds": ("image", "video", "audio_seconds", "audio_frames", "audio_samples"),
    "A module of yours": ("input", "call", "run_on", "allow_uncounted", "by_class"),
    "Output": ("form", "as_json", "output", "plot", "trace", "write_yaml", "depth", "top", "macs", "verbose"),
}
"""Titles of a long list of options, and the parameters below each; all others stand first."""

EXAMPLES: Mapping[str, Mapping[str, str]] = {
    "fit": {
        "archcli fit llama-3.1-70b 2xrtx-3090": "One model on two cards.",
        "archcli fit qwen3-32b rtx-4090 --dtype q4_k_m -c 32Ki": "In this format, with 32,768 tokens.",
        "archcli fit --device rtx-3090": "Which presets fit this card.",
    },
    "choose": {
        "archcli choose llama-3.1-70b --speed 15 --budget 3500": "The cheapest that is fast enough.",
        "archcli choose qwen3-8b --users 16 --per-hour 2": "To hire, for sixteen at once.",
        "archcli choose gpt-oss-20b --devices 'rtx-*,m4*' --sort power": "The most saving of these.",
    },
    "params": {
        "archcli params llama-3.1-8b": "A preset.",
        "archcli params config.json --dtype q4_k_m": "A file of Hugging Face, with the bytes in 4 bits.",
        "archcli params gpt2 --set n_layers=24": "With another number of layers.",
    },
    "flops": {
        "archcli flops llama-3.1-8b -s 8k": "A pass over 8,000 tokens.",
        "archcli flops llama-3.1-8b --phase decode --past 8191": "One token after 8,191 others.",
        "archcli flops qwen3-vl-8b --image 1080x1920": "What an image costs.",
    },
    "kvcache": {
        "archcli kvcache llama-3.1-70b -c 128k": "128,000 tokens of one sequence.",
        "archcli kvcache deepseek-v3 -c 128Ki -b 32 --dtype fp8": "32 sequences in 8 bits.",
        "archcli kvcache llama-3.1-8b -c 8Ki --device rtx-4090": "How many tokens the card holds.",
    },
    "memory": {
        "archcli memory llama-3.1-8b --phase serve --dtype q4_k_m -s 32Ki --device rtx-3060": "Serving.",
        "archcli memory llama-2-7b --device 8xa100-sxm-80gb --dp 8 --zero 3": "Training with FSDP.",
        "archcli memory llama-3.1-70b --phase serve -s 8Ki --device 8xh100-sxm --fit batch": (
            "The largest batch."
        ),
    },
    "predict": {
        "archcli predict llama-3.1-70b --device 4xh100-sxm": "Tokens a second of one sequence.",
        "archcli predict llama-3.1-8b --device h100-sxm --phase prefill -s 32Ki": "Until the first token.",
        "archcli predict llama-3.1-8b --device 64xh100-sxm --phase train --tokens 1T --price-per-hour 2.5": (
            "Days and cost of a training run."
        ),
    },
    "compare": {
        "archcli compare llama-3.1-8b qwen3-8b": "Two models.",
        "archcli compare gpt2 gpt2 --set 2:n_layers=24": "A model with a change of its own.",
        "archcli compare deepseek-v3 llama-3.1-405b -c 128Ki": "Caches of 131,072 tokens.",
    },
    "sweep": {
        "archcli sweep llama-3.1-8b --vary d_ff=8192:16384:128 --where 'params in 7e9±1%'": "Near 7B.",
        "archcli sweep llama-3.1-8b --vary n_layers=24:40 --minimize kv_bytes_per_token": "Best first.",
        "archcli sweep gpt2 --vary d_model=512,768 --check": "Only shapes that pass `check`.",
    },
    "scale": {
        "archcli scale llama-3.1-8b --params 3B": "The shape of a smaller model of the family.",
        "archcli scale llama-3.1-8b --compute 1e22": "For so many FLOPs of training.",
        "archcli scale llama-3.1-8b --hours 24 --device 8xh100-sxm": "For a day on eight GPUs.",
    },
    "export": {
        "archcli export llama-3.1-8b": "The config.json that transformers loads as this model.",
        "archcli export my.yaml -o my-model": "Into a new folder, my-model/config.json.",
        "archcli export llama-3.1-8b --to torch": "The model as one file of plain PyTorch, to read.",
    },
    "check": {
        "archcli check llama-3.1-8b": "All rules.",
        "archcli check my.yaml --tp 8": "Also whether eight devices can share it.",
        "archcli check my.yaml --suggest": "With changes that mend it.",
    },
    "rules": {
        "archcli rules": "All rules.",
        "archcli rules --json": "The same for a program.",
        "archcli rules -o rules.csv": "The same in a file.",
    },
    "rule": {
        "archcli rule ATT001": "What one rule asks.",
        "archcli rule ffn001": "Another; small letters do.",
        "archcli rule ATT001 --json": "The same for a program.",
    },
    "profile": {
        "archcli profile gpt2 -s 128": "Build it with random weights and time a pass.",
        "archcli profile gpt2 -s 32 --vs n_layers=6,d_ff=7680": "Which of two shapes is faster.",
        "archcli profile -- python train.py": "Where a training program of yours spends its steps.",
    },
    "plot": {
        "archcli plot profile.json -o profile.svg": "A drawing.",
        "archcli plot profile.json -o profile.html": "A page with the numbers.",
        "archcli plot profile.json -o profile.png": "Pixels; needs resvg-py.",
    },
    "verify": {
        "archcli verify gpt2": "Counts beside those of torch and fvcore.",
        "archcli verify config.json --weights model.safetensors": "Logits beside those of transformers.",
        "archcli verify smolvlm-256m --image 64x64": "With its tower and an image.",
    },
    "draw": {
        "archcli draw deepseek-v3": "In the terminal.",
        "archcli draw deepseek-v3 -o deepseek-v3.svg": "As a file.",
        "archcli draw llama-3.1-8b qwen3-8b -o both.html": "Two models side by side.",
    },
    "report": {
        "archcli report llama-3.1-8b -o report.html": "A page that calculates.",
        "archcli report llama-3.1-8b qwen3-8b -o report.html": "Of two models.",
        "archcli report llama-3.1-8b --device 2xrtx-3090 -o report.html": "With a device of yours.",
    },
    "mcp": {
        "archcli mcp": "Presets and pasted files alone.",
        "archcli mcp --folder .": "Also the model files of this folder.",
        "claude mcp add archcli -- archcli mcp": "How an assistant starts it.",
    },
    "list": {
        "archcli list": "All presets.",
        "archcli list --where series=llama": "Of one series.",
        "archcli list --where params<10B --sort params:desc": "Below 10B, the largest first.",
    },
    "survey": {
        "archcli survey llama-3.1-8b qwen3-8b gemma-2-9b": "Three models.",
        "archcli survey --where params>100B": "All large presets.",
        "archcli survey --by series": "Medians of each series.",
    },
    "show": {
        "archcli show gpt2": "Operation by operation.",
        "archcli show llama-3.1-8b -b 4 -s 4096": "With these sizes.",
        "archcli show qwen3-vl-8b --image 448x448": "The operations of its tower, too.",
    },
    "summary": {
        "archcli summary torchvision.models:resnet50 --input 'x=float32[1,3,224,224]'": "Of a package.",
        "archcli summary model:GPT --input 'idx=int64[1,256]'": "A class of model.py in this folder.",
        "archcli summary model:build --phase train": "What a function of model.py returns.",
    },
    "explain": {
        "archcli explain llama-3.1-8b": "The formula of its parameters.",
        "archcli explain deepseek-v3 kvcache": "Of its cache.",
        "archcli explain llama-3.1-8b flops --steps": "Of its FLOPs, step by step.",
    },
    "families": {
        "archcli families": "All model types.",
        "archcli families --json": "The same for a program.",
        "archcli families -o families.csv": "The same in a file.",
    },
    "devices": {
        "archcli devices": "All devices.",
        "archcli devices rtx-4090": "One, with the sources of its figures.",
        "archcli devices --this": "This machine.",
    },
    "bench": {
        "archcli bench http://localhost:8000/v1 --device rtx-4090": "A server on this machine.",
        "archcli bench http://gpu:8080/v1 --device 2xl40s -b 32": "32 sequences at once.",
        "archcli bench http://gpu:8080/v1 --device l40s -o rows.csv": "As rows of a table of speeds.",
    },
    "engines": {
        "archcli engines": "All engines.",
        "archcli engines vllm": "One, with its settings.",
        "archcli engines llamacpp --json": "The same for a program.",
    },
    "trainers": {
        "archcli trainers": "All trainers.",
        "archcli trainers peft": "One, with what it holds.",
        "archcli trainers transformers --json": "The same for a program.",
    },
    "schema": {
        "archcli schema": "Of an architecture in YAML.",
        "archcli schema -o archcli.schema.json": "In a file, for an editor.",
        "archcli schema --of profile": "Of a profile's JSON.",
    },
}
"""Three command lines of each command, and what each asks."""


def under_headings(options: Sequence[tuple[str, T]]) -> dict[str, list[T]]:
    """Options by heading, each given with its parameter's name; a short list stands under one."""
    if len(options) < LONG:
        return {"Options": [option for _, option in options]}
    titles = {name: title for title, names in HEADINGS.items() for name in names}
    listed: dict[str, list[T]] = {title: [] for title in ("Options", *HEADINGS)}
    for name, option in options:
        listed[titles.get(name, "Options")].append(option)
    return {title: entries for title, entries in listed.items() if entries}
