"""Seconds of sound in a prompt: windows, tokens and FLOPs are those of transformers' classes."""

import numpy as np
import pytest
import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

import archcli

RATE = 16_000
ENCODER = {
    "num_mel_bins": 80,
    "max_source_positions": 1500,
    "encoder_layers": 2,
    "encoder_attention_heads": 2,
    "encoder_ffn_dim": 128,
    "d_model": 32,
}
TEXT = {
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 24,
    "vocab_size": 100,
}
QWEN2_AUDIO = {
    "model_type": "qwen2_audio",
    "audio_config": {"model_type": "qwen2_audio_encoder", **ENCODER},
    "text_config": {"model_type": "qwen2", **TEXT},
    "audio_token_index": 90,
}
VOXTRAL = {
    "model_type": "voxtral",
    "audio_config": {
        "model_type": "voxtral_encoder",
        "num_mel_bins": 80,
        "max_source_positions": 1500,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 128,
        "hidden_size": 32,
    },
    "text_config": {"model_type": "llama", **TEXT},
    "audio_token_id": 90,
}


@pytest.fixture(scope="module")
def extractor():
    return transformers.WhisperFeatureExtractor(feature_size=80)


def counted(config, seconds):
    [medium] = archcli.count_flops(config, audio_seconds=seconds, seq_len=10).totals["media"]
    return medium


def built(config):
    made = transformers.AutoConfig.for_model(**config)
    return transformers.AutoModel.from_config(made, attn_implementation="eager").eval()


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("seconds", [1, 7, 30, 45])
def test_qwen2_audio_pads_or_cuts_to_a_window_and_reads_what_the_sound_fills(extractor, seconds):
    """The encoder reads 3,000 frames; the prompt has the tokens of frames that are no padding."""
    made = extractor(
        np.zeros(RATE * seconds),
        sampling_rate=RATE,
        padding="max_length",
        return_attention_mask=True,
        return_tensors="pt",
    )
    frames = int(made["attention_mask"].sum())
    model = built(QWEN2_AUDIO)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model.multi_modal_projector(model.audio_tower(made["input_features"]).last_hidden_state)
    medium = counted(QWEN2_AUDIO, seconds)
    # the lengths behind a convolution of stride 2 and means of two, as its processor writes them
    assert medium["tokens"] == ((frames - 1) // 2 + 1 - 2) // 2 + 1
    assert medium["matmul_flops"] == counter.get_total_flops()


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("seconds", [1, 30, 31, 90])
def test_voxtral_reads_whole_windows_as_many_as_the_sound_fills(extractor, seconds):
    processor = transformers.VoxtralProcessor
    options = {"padding": True, "truncation": False, "pad_to_multiple_of": 480_000, "return_tensors": "pt"}
    made = processor._retrieve_input_features(
        type("Asked", (), {"feature_extractor": extractor})(),
        [np.zeros(RATE * seconds)],
        max_source_positions=3000,
        sampling_rate=RATE,
        **options,
    )
    model = built(VOXTRAL)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        rows = model.get_audio_features(made).pooler_output
    medium = counted(VOXTRAL, seconds)
    assert medium["tokens"] == rows.shape[0] == 375 * -(-seconds // 30)
    assert medium["matmul_flops"] == counter.get_total_flops()


@pytest.mark.long
def test_every_command_reads_seconds():
    for config, tokens in ((QWEN2_AUDIO, 250), (VOXTRAL, 375)):
        for answer in (
            archcli.count_kv_cache(config, 10, audio_seconds=10),
            archcli.count_memory(config, "serve", seq_len=10, audio_seconds=10),
            archcli.predict(config, "h100-sxm", phase="prefill", seq_len=10, audio_seconds=10),
        ):
            assert answer.totals["prompt_tokens"] == 10 + tokens
