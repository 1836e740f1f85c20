"""What an importer makes of a config computes what Hugging Face's class computes.

The parity table's models, imported.
"""

from functools import reduce

import pytest
import torch

from archcli.load.huggingface.importer import weight_map
from archcli.load.huggingface.registry import families
from archcli.wings.running.runtime.model.build import build_model
from archcli.wings.running.runtime.weights.compare import translate
from importing import imported
from parity.families import FAMILIES
from parity.witness import TOLERANCE, difference, witness

NAMES = [name for name, family in FAMILIES.items() if family.config["model_type"] in families()]


@pytest.mark.sample(1)
@torch.inference_mode()
@pytest.mark.parametrize("name", NAMES)
def test_an_imported_config_gives_the_same_logits(name):
    seen, family = witness(name), FAMILIES[name]
    config = {"architectures": [type(seen.model).__name__], **family.config}
    model = build_model(imported(config["model_type"], config), attention="eager")
    model.load_state_dict(seen.ours)
    assert difference(model.eval()(seen.tokens, *seen.source), seen.logits) <= TOLERANCE


def as_chatglm(tensors):
    """GLM's tensors as files of ChatGLM hold them: q, k and v in one, and names of their own."""
    fused, renamed = {}, {}
    for own, tensor in tensors.items():
        name = reduce(lambda name, pair: name.replace(*pair), CHATGLM_NAMES.items(), own)
        stem, _, which = name.rpartition("self_attention.")
        if which[:2] in {"q_", "k_", "v_"}:
            fused.setdefault(f"{stem}self_attention.query_key_value.{which.split('.')[-1]}", {})[which[0]] = (
                tensor
            )
        else:
            renamed[name] = tensor
    return {
        **renamed,
        **{name: torch.cat([parts[which] for which in "qkv"]) for name, parts in fused.items()},
    }


# after transformers' own convert_glm_weights_to_hf.py, the other way round
CHATGLM_NAMES = {
    "model.embed_tokens.": "transformer.embedding.word_embeddings.",
    "model.layers.": "transformer.encoder.layers.",
    "model.norm.": "transformer.encoder.final_layernorm.",
    "lm_head.": "transformer.output_layer.",
    "self_attn.o_proj.": "self_attention.dense.",
    "self_attn.": "self_attention.",
    "mlp.gate_up_proj.": "mlp.dense_h_to_4h.",
    "mlp.down_proj.": "mlp.dense_4h_to_h.",
}


@torch.inference_mode()
def test_a_file_of_chatglm_gives_the_logits_of_glm():
    seen = witness("glm")
    glm = FAMILIES["glm"].config
    config = {
        "model_type": "chatglm",
        "architectures": ["ChatGLMModel"],
        "num_layers": glm["num_hidden_layers"],
        "padded_vocab_size": glm["vocab_size"],
        "hidden_size": glm["hidden_size"],
        "ffn_hidden_size": glm["intermediate_size"],
        "kv_channels": glm["head_dim"],
        "num_attention_heads": glm["num_attention_heads"],
        "multi_query_attention": True,
        "multi_query_group_num": glm["num_key_value_heads"],
        "layernorm_epsilon": glm["rms_norm_eps"],
        "add_qkv_bias": True,
        "rope_ratio": glm["rope_parameters"]["rope_theta"] / 10000.0,
    }
    model = build_model(imported("chatglm", config), attention="eager")
    shapes = {name: tensor.shape for name, tensor in model.state_dict().items()}
    model.load_state_dict(translate(as_chatglm(seen.theirs), weight_map(config), shapes))
    assert difference(model.eval()(seen.tokens), seen.logits) <= TOLERANCE
