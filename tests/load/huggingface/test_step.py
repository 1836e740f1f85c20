"""Step 3.7: heads of single layers, as its class saves them and as published files state them."""

import pytest

import archcli
from archcli.errors import ArchError
from importing import imported_file
from wrapping import TINY, language_model, their_wrapper

TYPES = ["full_attention", "sliding_attention"]
TEXT = {
    **TINY,
    "model_type": "step3p5",
    "head_dim": 8,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 20,
    "share_expert_dim": 14,
    "sliding_window": 8,
    "layer_types": TYPES,
}
HEADS = {"num_attention_heads": 6}
STATED = {
    "by the type": {"num_sliding_attention_heads": 6},
    "of published files": {"attention_other_setting": HEADS},
    "of one layer": {"per_layer_config": {"0": HEADS}, "num_sliding_attention_heads": 2},
    "of no layer": {"per_layer_config": {}, "num_sliding_attention_heads": 2},
}


def file_of(**text):
    inner = {**TEXT, **text}
    return {
        "model_type": "step3p7",
        "architectures": ["Step3p7ForConditionalGeneration"],
        "text_config": inner,
    }


@pytest.mark.sample(3, whole=True)
@pytest.mark.torch
@pytest.mark.parametrize("stated", STATED.values(), ids=STATED)
def test_heads_are_those_of_the_class(stated):
    config = file_of(**stated)
    ours = archcli.count_params(archcli.load(config)).totals["params"]
    assert ours == sum(tensor.numel() for tensor in language_model(their_wrapper(config)).values())


@pytest.mark.parametrize("entry", [{"head_dim": 4}, {"num_attention_heads": 0}, 3, None])
def test_what_else_differs_by_layer_is_refused(entry):
    with pytest.raises(ArchError, match="per_layer_config"):
        imported_file(file_of(per_layer_config={"1": entry}))
