"""Text parts of wrappers by model_type, whose layers are those of a family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.family import class_defaults


class TextClass(NamedTuple):
    """The class of a text part whose layers are those of a family, with other defaults.

    Its positions in three axes are equal for text. `defaults` are those that class_defaults.json does not
    say, or says otherwise; `fixed` is what the class does whatever a file says; `synonyms` are second words
    for keys.
    """

    family: str
    defaults: Mapping[str, Any] = {}
    fixed: Mapping[str, Any] = {}
    synonyms: Mapping[str, str] = {}

    def as_family(self, model_type: str, text: Mapping[str, Any]) -> Mapped:
        """A text part of this model_type as a config.json of the family."""
        renamed = {self.synonyms.get(key, key): value for key, value in text.items()}
        defaults = {**class_defaults(model_type), **self.defaults}
        data = {**defaults, **renamed, **self.fixed, "model_type": self.family}
        return data | _in_one_axis(data)


def _in_one_axis(data: Mapping[str, Any]) -> Mapped:
    """Three-axis RoPE (mrope) rewritten as plain RoPE: for text the three positions are equal."""
    scaling = data.get("rope_scaling")
    if not isinstance(scaling, dict) or scaling.get("rope_type", scaling.get("type")) != "mrope":
        return {}
    return {"rope_scaling": {**scaling, "rope_type": "default"}}


EXPERTS = {"num_local_experts": "num_experts"}
WHOLE_HEADS = {"partial_rotary_factor": 1.0}  # GLM-4 turns half of each head
NO_WINDOW = {"use_sliding_window": False, "sliding_window": None}

TEXTS: Mapping[str, TextClass] = {
    "emu3_text_model": TextClass("llama"),
    "glm4v_text": TextClass("glm4", WHOLE_HEADS, {"attention_bias": True, "head_dim": None}),
    "glm4v_moe_text": TextClass("glm4_moe", fixed={"use_qk_norm": False}),
    "glm_ocr_text": TextClass("glm4", {**WHOLE_HEADS, "head_dim": None}, {"attention_bias": False}),
    "granite_docling_text": TextClass("granite"),
    "hunyuan_vl_text": TextClass(
        "hunyuan_v1_dense", synonyms={"attention_head_dim": "head_dim", "org_vocab_size": "vocab_size"}
    ),
    "qwen2_vl_text": TextClass("qwen2"),
    "qwen2_5_vl_text": TextClass("qwen2"),
    # to_dict says null, as windows are off by default
    "qwen2_5_omni_text": TextClass("qwen2", {"sliding_window": 32768}),
    "qwen3_vl_text": TextClass("qwen3"),
    "qwen3_vl_moe_text": TextClass(
        "qwen3_moe", fixed={"norm_topk_prob": True, **NO_WINDOW}, synonyms=EXPERTS
    ),
    "qwen3_omni_moe_text": TextClass("qwen3_moe", fixed=NO_WINDOW),
}
"""Text parts by model_type; class_defaults.json has the defaults of their classes."""

RENAMED = {"exaone4_5_text": "exaone4"}
"""Types of text parts for which the wrapper's class takes a family's."""
