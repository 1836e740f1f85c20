"""One tiny Llama as a GGUF file, for the tests of what is read and what is refused."""

from gguf_files.file import gguf

ARCH = "general.architecture"
LLAMA = {
    ARCH: "llama",
    "llama.context_length": 64,
    "llama.embedding_length": 16,
    "llama.feed_forward_length": 24,
    "llama.block_count": 3,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "llama.rope.freq_base": 500000.0,
    "llama.vocab_size": 50,
}


def layer(i):
    shapes = {
        "attn_norm": (16,),
        "attn_q": (16, 16),
        "attn_k": (8, 16),
        "attn_v": (8, 16),
        "attn_output": (16, 16),
        "ffn_norm": (16,),
    }
    shapes |= {"ffn_gate": (24, 16), "ffn_up": (24, 16), "ffn_down": (16, 24)}
    return {f"blk.{i}.{name}.weight": shape for name, shape in shapes.items()}


TENSORS = {"token_embd.weight": (50, 16), "output_norm.weight": (16,), "output.weight": (50, 16)}
TENSORS |= {name: shape for i in range(3) for name, shape in layer(i).items()}
COUNTED = 2 * 50 * 16 + 16 + 3 * (2 * 16 + 2 * 16 * 16 + 2 * 8 * 16 + 3 * 24 * 16)
WHOLE = gguf(LLAMA, TENSORS)
