"""The built model's forward timed in turns with the transformers class of the same weights.

    python benchmarks/forward.py [--rounds N] [--tokens N] [--threads N]

Small or shortened models with random weights, fp32 and bf16, each with its own fused attention. Before
anything is timed the logits of both must agree. As `archcli profile` does, it starts itself again with an
allocator that keeps large blocks: else the page faults of fresh memory are timed, which depend on what ran
before. Prints the median of the paired ratios (ours / theirs; below 1 is faster) and its quartiles.
"""

import argparse
import json
import os
import statistics
import sys
import time
from typing import NamedTuple

import torch
import transformers

from archcli.load.huggingface.importer import weight_map
from archcli.load.source import load_text
from archcli.wings.running.commands.profile.processes import SETTINGS
from archcli.wings.running.runtime.model.build import build_model
from archcli.wings.running.runtime.weights.compare import translate

ROPE = {"rope_type": "default", "rope_theta": 500000.0}
LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 128256,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 4,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "tie_word_embeddings": True,
    "rope_parameters": ROPE,
    "pad_token_id": None,
}
QWEN = {
    **LLAMA,
    "model_type": "qwen3",
    "architectures": ["Qwen3ForCausalLM"],
    "vocab_size": 151936,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_attention_heads": 16,
    "head_dim": 128,
}
MIXTRAL = {
    **LLAMA,
    "model_type": "mixtral",
    "architectures": ["MixtralForCausalLM"],
    "vocab_size": 8192,
    "hidden_size": 1024,
    "intermediate_size": 2048,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "tie_word_embeddings": False,
}
DEEPSEEK = {
    "model_type": "deepseek_v3",
    "architectures": ["DeepseekV3ForCausalLM"],
    "vocab_size": 8192,
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "moe_intermediate_size": 512,
    "num_hidden_layers": 4,
    "first_k_dense_replace": 1,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "n_routed_experts": 16,
    "num_experts_per_tok": 4,
    "n_group": 4,
    "topk_group": 2,
    "n_shared_experts": 1,
    "q_lora_rank": 384,
    "kv_lora_rank": 128,
    "qk_nope_head_dim": 64,
    "qk_rope_head_dim": 32,
    "v_head_dim": 64,
    "rope_parameters": ROPE,
    "pad_token_id": None,
    "num_nextn_predict_layers": 0,
}
GPT2 = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}
CONFIGS = {
    "gpt2": GPT2,
    "llama-3.2-1b, 4 layers": LLAMA,
    "qwen3-0.6b, 4 layers": QWEN,
    "small mixtral": MIXTRAL,
    "small deepseek-v3": DEEPSEEK,
}
DTYPES = {"fp32": (torch.float32, 1e-4), "bf16": (torch.bfloat16, 0.06)}


class Pair(NamedTuple):
    """The same weights twice."""

    ours: torch.nn.Module
    theirs: torch.nn.Module


def pair(config, dtype):
    """Both models, with the random weights of theirs."""
    torch.manual_seed(0)
    made = transformers.AutoConfig.for_model(
        **{key: value for key, value in config.items() if key != "architectures"}
    )
    theirs = transformers.AutoModelForCausalLM.from_config(made, attn_implementation="sdpa").eval().to(dtype)
    spec = load_text(json.dumps(config), "benchmark").model
    ours = build_model(spec, attention="sdpa", dtype=dtype).eval()
    shapes = {name: tensor.shape for name, tensor in ours.state_dict().items()}
    stored = (
        theirs.state_dict()
    )  # without tables that are computed; a tied weight has two names there, and one among the parameters
    own = [*theirs.named_parameters(), *theirs.named_buffers()]
    tensors = {name: each.detach() for name, each in own if name in stored}
    ours.load_state_dict(translate(tensors, weight_map(config), shapes))
    return Pair(ours, theirs)


def seconds(run):
    """Of one call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def ratios(models, tokens, rounds):
    """Ours / theirs of each round; who goes first changes."""
    ours, theirs = lambda: models.ours(tokens), lambda: models.theirs(tokens, use_cache=False).logits
    for run in (ours, theirs) * 3:
        run()
    found = []
    for i in range(rounds):
        if i % 2:
            first, second = seconds(ours), seconds(theirs)
        else:
            second, first = seconds(theirs), seconds(ours)
        found.append((first / second, first, second))
    return found


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--threads", type=int, default=0)
    asked = parser.parse_args()
    if sys.platform == "linux" and not SETTINGS.keys() & os.environ.keys():
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **SETTINGS})  # noqa: S606
    torch.set_num_threads(asked.threads or torch.get_num_threads())
    print("| model | dtype | ours | transformers | ratio | quartiles |\n|---|---|---:|---:|---:|---|")
    with torch.no_grad():
        for name, config in CONFIGS.items():
            for dtype, (kind, tolerance) in DTYPES.items():
                models = pair(config, kind)
                tokens = torch.randint(models.theirs.config.vocab_size, (1, asked.tokens))
                ours, theirs = (
                    models.ours(tokens).float(),
                    models.theirs(tokens, use_cache=False).logits.float(),
                )
                each = (ours - theirs).abs().amax(-1) / theirs.abs().max()
                difference = (
                    each.max() if dtype == "fp32" else each.median()
                ).item()  # in bf16 a router may choose otherwise
                if difference > tolerance:
                    print(f"| {name} | {dtype} | logits differ by {difference:.1e} | | | |", flush=True)
                    continue
                found = ratios(models, tokens, asked.rounds)
                lower, middle, upper = statistics.quantiles([each[0] for each in found], n=4)
                first, second = (statistics.median(each[i] for each in found) * 1e3 for i in (1, 2))
                print(
                    f"| {name} | {dtype} | {first:.1f} ms | {second:.1f} ms | {middle:.3f} | "
                    f"{lower:.3f} to {upper:.3f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
