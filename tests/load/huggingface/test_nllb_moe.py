"""NLLB-MoE with equal experts is its class, which runs the first two experts whichever are chosen."""

import pytest
import torch
import transformers

from archcli.load.huggingface.importer import weight_map
from archcli.wings.running.runtime.model.build import build_model
from archcli.wings.running.runtime.weights.compare import translate
from importing import imported_file

CONFIG = {
    "model_type": "nllb-moe",
    "architectures": ["NllbMoeForConditionalGeneration"],
    "vocab_size": 53,
    "d_model": 32,
    "encoder_layers": 4,
    "encoder_attention_heads": 4,
    "encoder_ffn_dim": 40,
    "decoder_layers": 2,
    "decoder_attention_heads": 2,
    "decoder_ffn_dim": 36,
    "encoder_sparse_step": 2,
    "decoder_sparse_step": 1,
    "num_experts": 4,
    "moe_token_dropout": 0.25,
    "max_position_embeddings": 64,
    "pad_token_id": 1,
}
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def theirs():
    torch.manual_seed(3)
    config = transformers.AutoConfig.for_model(**CONFIG)
    model = transformers.NllbMoeForConditionalGeneration._from_config(config, attn_implementation="eager")
    tensors = dict(model.named_parameters())
    with torch.no_grad():
        for tensor in tensors.values():
            tensor.normal_(std=0.3)
        for name, tensor in tensors.items():
            if ".expert_" in name:
                base, _, rest = name.partition(".expert_")
                tensor.copy_(tensors[f"{base}.expert_0.{rest.partition('.')[2]}"])
    return model.eval()


@pytest.mark.long
def test_its_logits_are_those_of_the_class(theirs):
    spec = imported_file(CONFIG)
    model = build_model(spec)
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    model.load_state_dict(translate(dict(theirs.named_parameters()), weight_map(CONFIG), shapes))
    source, tokens = torch.randint(2, 53, (2, 9)), torch.randint(2, 53, (2, 12))
    with torch.inference_mode():
        expected = theirs(input_ids=source, decoder_input_ids=tokens, use_cache=False).logits
        ours = model(tokens, source)
    largest = expected.abs().max()
    assert (ours - expected).abs().max() / largest <= TOLERANCE
    # the router's weights come to 1, of which a quarter is masked in training
    other = build_model(imported_file({**CONFIG, "moe_token_dropout": 0.0}))
    other.load_state_dict(model.state_dict())
    with torch.inference_mode():
        assert (other(tokens, source) - expected).abs().max() / largest > TOLERANCE
