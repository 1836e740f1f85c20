"""Encoders of texts beside images give the vectors of their classes in transformers on equal weights."""

import pytest
import torch
import transformers

import archcli
from archcli.load.huggingface.importer import weight_map
from archcli.wings.running.runtime.model.build import build_model
from archcli.wings.running.runtime.weights.compare import translate
from importing import imported_file

TOLERANCE = 1e-5
TEXT = {
    "vocab_size": 60,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 16,
    "layer_norm_eps": 0.01,
    "bos_token_id": 1,
    "eos_token_id": 59,
    "pad_token_id": 0,
}
IMAGE = {
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 16,
    "patch_size": 8,
}
CLIP = {"text_config": TEXT, "vision_config": IMAGE, "projection_dim": 20}
SIGLIP = {"text_config": {**TEXT, "projection_size": 24}, "vision_config": IMAGE}
NAFLEX = {key: value for key, value in IMAGE.items() if key != "image_size"} | {"num_patches": 4}
TOWERS = {
    "CLIPTextModel": {"model_type": "clip_text_model", **TEXT},
    "CLIPTextModelWithProjection": {"model_type": "clip_text_model", **TEXT, "projection_dim": 20},
    "SiglipTextModel": {"model_type": "siglip_text_model", **TEXT, "projection_size": 20},
    "Siglip2TextModel": {"model_type": "siglip2_text_model", **TEXT},
    "CLIPModel": {"model_type": "clip", **CLIP},
    "SiglipModel": {"model_type": "siglip", **SIGLIP},
    "Siglip2Model": {"model_type": "siglip2", **SIGLIP, "vision_config": NAFLEX},
}
NAME = pytest.mark.parametrize("name", TOWERS)


def theirs(name):
    """Their model with every tensor random."""
    config = transformers.AutoConfig.for_model(**TOWERS[name])
    model, seed = getattr(transformers, name)(config).eval(), torch.Generator().manual_seed(1)
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.add_(0.3 * torch.randn(tensor.shape, generator=seed))
    return model


def vectors(name, model, ids):
    """The vectors that their class makes of texts."""
    if name.endswith("WithProjection"):
        return model(ids).text_embeds
    whole = not TOWERS[name]["model_type"].endswith("text_model")
    return model.get_text_features(ids).pooler_output if whole else model(ids).pooler_output


@pytest.mark.sample(1, whole=True)
@NAME
@torch.inference_mode()
def test_vectors_are_those_of_the_class(name):
    file = {"architectures": [name], **TOWERS[name]}
    spec, their_model = imported_file(file), theirs(name)
    ours = build_model(spec).eval()
    shapes = {key: value.shape for key, value in ours.state_dict().items()}
    stored = {k: v for k, v in their_model.state_dict().items() if "position_ids" not in k}
    ours.load_state_dict(translate(stored, weight_map(file), shapes))
    ids = torch.randint(2, 58, (2, 9), generator=torch.Generator().manual_seed(2))
    ids[:, -1] = 59  # where CLIP's class pools
    expected = vectors(name, their_model, ids)
    assert (ours(ids)[:, 0] - expected).abs().max() <= TOLERANCE * expected.abs().max()


@pytest.mark.sample(4, whole=True)
@NAME
def test_parameters_by_part_are_the_class_s(name):
    parts = {}
    for key, tensor in theirs(name).named_parameters():
        words = {"vision_model": "vision_tower", "visual_projection": "projector", "logit": "projector"}
        part = next((part for word, part in words.items() if key.startswith(word)), "text_tower")
        parts[part] = parts.get(part, 0) + tensor.numel()
    totals = archcli.count_params({"architectures": [name], **TOWERS[name]}).totals
    if len(parts) > 1:
        assert totals["by_part"] == parts
        assert totals["params_with_towers"] == sum(parts.values())
    assert totals["params"] == sum(n for part, n in parts.items() if part == "text_tower") + (
        {"clip": 1, "siglip": 2, "siglip2": 2}.get(TOWERS[name]["model_type"], 0)
    )


def test_flops_of_clip_by_hand():
    """4 patches of 8 x 8 x 3, 5 positions, D 24, F 40; then one vector of 24 to one of 20."""
    [medium] = archcli.count_flops(
        {"architectures": ["CLIPModel"], **TOWERS["CLIPModel"]}, image="16x16"
    ).totals["media"]
    tower = 2 * 4 * 192 * 24 + 2 * (2 * 5 * (4 * 24**2 + 2 * 24 * 40) + 4 * 5**2 * 24)
    assert medium["by_part"] == {"vision_tower": tower, "projector": 2 * 24 * 20}
    assert medium["tokens"] == 1
