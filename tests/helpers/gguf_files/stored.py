"""What the tables of stored models share.

Sizes that are all different, the metadata of a plain model, and how one becomes a file.
"""

from dataclasses import dataclass, field

from gguf_files.names import LLAMA, renamed

V, D, F, H, KV, HD, L, CTX = 61, 32, 52, 4, 2, 12, 3, 64
TINY = {
    "vocab_size": V,
    "hidden_size": D,
    "intermediate_size": F,
    "num_hidden_layers": L,
    "num_attention_heads": H,
    "num_key_value_heads": KV,
    "max_position_embeddings": CTX,
    "pad_token_id": None,
    "bos_token_id": None,
    "eos_token_id": None,
}
USUAL = {
    "context_length": CTX,
    "embedding_length": D,
    "feed_forward_length": F,
    "block_count": L,
    "attention.head_count": H,
    "attention.head_count_kv": KV,
}
RMS, LN = {"attention.layer_norm_rms_epsilon": 1e-5}, {"attention.layer_norm_epsilon": 1e-5}
EPS, NORM_EPS = {"rms_norm_eps": 1e-5}, {"layer_norm_eps": 1e-5}
ROPE = {"rope.freq_base": 500.0}
THETA = {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}
WIDE, WIDE_KEYS = {"head_dim": HD}, {"attention.key_length": HD, "attention.value_length": HD}


@dataclass(frozen=True)
class Stored:
    """A config.json, the class it names, the metadata without the architecture's name, and names.

    `extra` are tensors besides weights.
    """

    arch: str
    config: dict
    metadata: dict
    names: dict = field(default_factory=lambda: LLAMA)
    cls: str = "AutoModelForCausalLM"
    extra: dict = field(default_factory=dict)


def of(arch, config, metadata, names=LLAMA, **more):
    return Stored(arch, {**TINY, **config}, {**USUAL, **metadata}, names, **more)


def stored(entry, state_dict):
    """Metadata and tensors of a file.

    A Stored, and name -> shape of the class's weights (tied ones once) and buffers.
    """
    metadata = {
        "general.architecture": entry.arch,
        **{f"{entry.arch}.{key}": value for key, value in entry.metadata.items()},
    }
    tensors = dict(pair for name, shape in state_dict.items() for pair in renamed(name, shape, entry.names))
    return metadata, {**tensors, **entry.extra}
