"""Every kind of model carries adapters, and trains only what lies above the first of them.

Counted as torch's counter does.
"""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from archcli.measure.params import count_params
from archcli.measure.passes import train_pass
from archcli.modules import (
    MLP,
    CrossAttention,
    DecoderStack,
    Encoder,
    EncoderDecoder,
    EncoderStack,
    Group,
    LayerNorm,
    LoRA,
    MultiHeadAttention,
    PreNorm,
)
from archcli.wings.running.runtime.model.build import build_model

torch.set_num_threads(1)
NORM = LayerNorm()
SIZES = {"vocab_size": 20, "d_model": 8, "norm": NORM}


def layers(*, causal, **parts):
    attention, ffn = MultiHeadAttention(n_heads=2, causal=causal), MLP(d_ff=12, bias=True)
    return (Group(n_layers=3, layer=PreNorm(attention=attention, ffn=ffn, norm=NORM, **parts)),)


def encoder(lora):
    return Encoder(**SIZES, pooler=True, groups=layers(causal=False), lora=lora)


def encoder_decoder(lora, vocab_size=None):
    return EncoderDecoder(
        **SIZES,
        encoder=EncoderStack(norm=NORM, vocab_size=vocab_size, groups=layers(causal=False)),
        decoder=DecoderStack(
            norm=NORM, groups=layers(causal=True, cross_attention=CrossAttention(n_heads=2))
        ),
        lora=lora,
    )


KINDS = {
    "encoder": encoder,
    "encoder-decoder": encoder_decoder,
    "two-tables": lambda lora: encoder_decoder(lora, 17),
}
TARGETS = {
    "encoder": ["q", "k", "v", "up", "pooler", "embedding"],
    "encoder-decoder": ["q", "k", "lm_head", "embedding"],
    "two-tables": ["embedding"],
}


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("kind", "target"), [(kind, target) for kind in KINDS for target in [*TARGETS[kind], "all_linear"]]
)
def test_training_costs_what_torch_counts(kind, target):
    spec = KINDS[kind](LoRA(rank=3, targets=(target,)))
    made = build_model(spec, device="meta", attention="eager")
    tokens = torch.zeros(2, 5, dtype=torch.int64, device="meta")
    with FlopCounterMode(display=False) as counter:
        out = made(*[tokens] * (1 if kind == "encoder" else 2))
        out.backward(torch.empty_like(out))
    assert train_pass(spec, 2, 5).flops(unmasked=True)[0] == counter.get_total_flops()
    assert train_pass(spec, 2, 5).params() == sum(parameter.numel() for parameter in made.parameters())


@pytest.mark.parametrize(
    "saved", [("lm_head",), ("embedding",), ("final_norm", "up", "lm_head", "embedding")]
)
def test_copies_that_are_trained_whole_are_built_and_counted(saved):
    spec = encoder_decoder(LoRA(rank=3, targets=("q",), saved=saved))
    made = build_model(spec, device="meta", attention="eager")
    tokens = torch.zeros(2, 5, dtype=torch.int64, device="meta")
    with FlopCounterMode(display=False) as counter:
        out = made(tokens, tokens)
        out.backward(torch.empty_like(out))
    assert train_pass(spec, 2, 5).flops(unmasked=True)[0] == counter.get_total_flops()
    counted = count_params(spec).totals
    assert counted["params"] == sum(parameter.numel() for parameter in made.parameters())
    trained = (parameter.numel() for parameter in made.parameters() if parameter.requires_grad)
    assert counted["trainable_params"] == sum(trained)
