"""The built model prints as a nested tree of torch's own modules."""

import pytest

from archcli.wings.running.runtime.model.build import build_model
from sources import PAIRS
from zoo import ZOO


def test_it_prints_as_a_nested_tree():
    text = str(build_model(ZOO["llama"], device="meta"))
    assert text.startswith("Decoder(\n")
    for line in (
        "  (layers): ModuleList(",
        "    (0-1): 2 x PreNorm(",
        "      (attention_norm): RMSNorm((16,), eps=1e-06, elementwise_affine=True)",
        "        (q_proj): Linear(in_features=16, out_features=24, bias=False)",
        "  (lm_head): Linear(in_features=16, out_features=29, bias=False)",
    ):
        assert line in text


@pytest.mark.long
def test_an_encoder_decoder_prints_both_halves():
    text = str(build_model(PAIRS["whisper"], device="meta"))
    assert text.startswith("EncoderDecoder(\n")
    for line in (
        "  (encoder): EncoderStack(",
        "      (conv2): Conv1d(16, 16, kernel_size=(3,), stride=(2,), padding=(1,))",
        "      (0-1): 2 x PreNorm(",
        "  (decoder): DecoderStack(",
        "      (0-2): 3 x PreNorm(",
        "        (cross_attention): CrossAttention(",
    ):
        assert line in text
