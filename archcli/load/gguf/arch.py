"""Arch: a GGUF architecture as a family of transformers, by metadata keys and names of tensors.

Names are those of gguf-py/gguf/constants.py of github.com/ggml-org/llama.cpp.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from archcli.errors import Problem
from archcli.load.huggingface.config_json import KeyPlaces
from archcli.load.yaml.nodes import Place, Source

NONE: Mapping[str, Any] = MappingProxyType({})

Names = str | tuple[str, ...]

KEYS: dict[str, str] = {
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.layer_norm_epsilon": "layer_norm_eps",
    "rope.freq_base": "rope_theta",
    "expert_count": "num_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
}
"""Metadata key, without the architecture's name before it: key of the config.json."""

REQUIRED = ("embedding_length", "block_count", "attention.head_count", "feed_forward_length")
"""Metadata keys that a file must have: no default of the family stands in for them."""

UNCOUNTED = frozenset(
    (
        "attention.value_length",
        "attention.causal",
        "rope.dimension_count",
        "tensor_data_layout",
        "rope.scaling.finetuned",
        "vocab_size",
    )
)
"""Keys that are read elsewhere, or change nothing that is counted."""


class Arch(NamedTuple):
    """An architecture of GGUF files: its family in transformers, and its differences from the tables.

    model_type, cls: of the family.
    keys, tensors: by metadata key and tensor, before `KEYS` and `TENSORS`.
    fixed: keys of the config.json that llama.cpp takes for granted.
    flags: keys of the config.json that are true where the file has a tensor; * stands for any layer.
    rope: False without RoPE. partial: RoPE may rotate a part of each head. scaling: keys of stretched RoPE.
    over: fields of archcli's model in place of the importer's.
    ignored: redundant metadata keys. unread: keys of the config.json that the family does not have.
    """

    model_type: str
    cls: str
    keys: Mapping[str, str] = NONE
    fixed: Mapping[str, Any] = NONE
    flags: Mapping[str, str] = NONE
    tensors: Mapping[str, Names] = NONE
    rope: bool = True
    partial: bool = False
    over: Mapping[str, Any] = NONE
    ignored: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    scaling: Mapping[str, Any] = NONE


# llama.cpp's post_attention_norm is a norm behind attention or, in some families, the one before the network
SANDWICH: dict[str, Names] = {"post_attention_norm": "attention_post_norm", "post_ffw_norm": "ffn_post_norm"}
LATE: dict[str, Names] = {"post_attention_norm": "ffn_norm"}
FUSED_GATE: dict[str, Names] = {"ffn_up": ("ffn.gate_proj", "ffn.up_proj")}

# no metadata key says that there are biases: the tensors do
BIASED = MappingProxyType({"attention_bias": "blk.0.attn_output.bias"})
BIASED_MLP = MappingProxyType({**BIASED, "mlp_bias": "blk.0.ffn_up.bias"})
EPSILON = MappingProxyType({"attention.layer_norm_epsilon": "layer_norm_epsilon"})
SOFTCAPS = {
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
}
WINDOW = {"attention.sliding_window": "sliding_window"}
SHARED_EXPERTS = {
    "expert_count": "n_routed_experts",
    "expert_shared_count": "n_shared_experts",
    "expert_weights_scale": "routed_scaling_factor",
    "expert_weights_norm": "norm_topk_prob",
    "expert_group_count": "n_group",
    "expert_group_used_count": "topk_group",
    "leading_dense_block_count": "first_k_dense_replace",
    "nextn_predict_layers": "num_nextn_predict_layers",
}
SCANS = tuple(
    f"ssm.{key}" for key in ("conv_kernel", "state_size", "group_count", "inner_size", "time_step_rank")
)
"""Keys of Mamba-2 layers, which files of Granite 4 state although all layers are of attention."""

ALL_ATTENTION = (*SCANS, "expert_count", "expert_used_count", "expert_shared_feed_forward_length")
"""Keys that a Granite 4 without Mamba-2 layers and without experts states and does not use."""

LATENT = {"attention.q_lora_rank": "q_lora_rank", "attention.kv_lora_rank": "kv_lora_rank"}


class HeaderPlaces(KeyPlaces):
    """The metadata key that each key of the config.json was read from."""

    def report(self, problem: Problem) -> Problem:
        """The problem with the metadata key's name appended, in place of a caret."""
        mark = problem.mark
        if mark is None or mark.file != self.source.name:
            return problem
        what = f"{problem.what} ({mark.text})" if mark.text else problem.what
        return Problem(what, problem.hint, path=self.source.name)


def header_places(file: str, metadata: Iterable[str], keys: Mapping[str, str]) -> HeaderPlaces:
    """The places for `keys`, which maps keys of the config.json to metadata keys."""
    # a header has no lines: its keys stand in for them, so that an error can name one
    lines = tuple(metadata)
    source = Source(file, lines)
    numbers = {name: number for number, name in enumerate(lines)}
    return HeaderPlaces(
        source, {key: Place(source, numbers[name], 0, len(name)) for key, name in keys.items()}
    )
