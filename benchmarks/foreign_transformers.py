"""Models of transformers in small sizes, beyond those of foreign.py: each kind of mixer and of task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Made = tuple[Any, ...]
Maker = Callable[[], Made]
IDS = torch.arange(16)[None] % 7 + 4
SMALL = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 96,
    "pad_token_id": 0,
}
DECODER = {**SMALL, "num_key_value_heads": 2, "head_dim": 16}
PICTURE = torch.randn(1, 3, 64, 64)
QWEN3_NEXT = {
    **DECODER,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "layer_types": ["linear_attention", "full_attention"],
}
DEEPSEEK = {
    **SMALL,
    "num_key_value_heads": 4,
    "q_lora_rank": 32,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "v_head_dim": 16,
    "n_routed_experts": 8,
    "n_group": 2,
    "topk_group": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "first_k_dense_replace": 1,
}
JAMBA = {
    **DECODER,
    "num_hidden_layers": 4,
    "attn_layer_period": 2,
    "attn_layer_offset": 1,
    "expert_layer_period": 2,
    "expert_layer_offset": 1,
    "num_experts": 4,
    "use_mamba_kernels": False,
    "mamba_d_state": 8,
    "mamba_dt_rank": 8,
}
BART = {
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
    "vocab_size": 96,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": 2,
}
REFORMER = {
    "hidden_size": 32,
    "attention_head_size": 16,
    "num_attention_heads": 2,
    "feed_forward_size": 64,
    "axial_pos_embds_dim": [16, 16],
    "axial_pos_shape": [4, 4],
    "attn_layers": ["local", "lsh"],
    "lsh_attn_chunk_length": 4,
    "local_attn_chunk_length": 4,
    "num_buckets": 2,
    "vocab_size": 96,
    "is_decoder": True,
    "hash_seed": 0,
}
SEGFORMER = {
    "depths": [1, 1, 1, 1],
    "hidden_sizes": [16, 32, 32, 64],
    "num_attention_heads": [1, 2, 2, 4],
    "decoder_hidden_size": 32,
    "num_labels": 3,
}
DPT = {
    **SMALL,
    "image_size": 64,
    "patch_size": 16,
    "backbone_out_indices": [0, 1, 2, 3],
    "num_hidden_layers": 4,
    "neck_hidden_sizes": [16, 16, 16, 16],
    "fusion_hidden_size": 16,
    "reassemble_factors": [4, 2, 1, 0.5],
}
SPEECH = {
    **dict(SMALL),
    "layerdrop": 0.0,
    "conv_dim": [32, 32],
    "conv_kernel": [10, 3],
    "conv_stride": [5, 2],
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
    "mask_time_prob": 0.0,
}
ENCODEC = {
    "num_filters": 8,
    "hidden_size": 16,
    "codebook_dim": 16,
    "codebook_size": 32,
    "target_bandwidths": [15.0, 30.0],
    "upsampling_ratios": [4, 2],
}


def hugging(model: str, config: str, options: dict[str, Any], **inputs: Any) -> Maker:
    """A class of transformers with a config; its inputs are ids unless others are stated."""

    def make() -> Made:
        import transformers

        built = getattr(transformers, model)(getattr(transformers, config)(**options))
        return built, inputs or {"input_ids": IDS}

    return make


def causal(name: str, options: dict[str, Any], config: str = "") -> Maker:
    """A language model of transformers by the beginning of its class."""
    return hugging(f"{name}ForCausalLM", f"{config or name}Config", options)


def detr() -> Made:
    """DETR with a backbone of transformers, so that nothing is downloaded."""
    from transformers import DetrConfig, DetrForObjectDetection, ResNetConfig

    backbone = ResNetConfig(embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], out_features=["stage2"])
    sizes = {
        "d_model": 32,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 64,
        "decoder_ffn_dim": 64,
        "num_queries": 5,
    }
    config = DetrConfig(
        backbone_config=backbone,
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        backbone=None,
        num_labels=3,
        **sizes,
    )
    return DetrForObjectDetection(config), {"pixel_values": PICTURE}


def mask2former() -> Made:
    """Mask2Former: deformable attention over levels of a small Swin."""
    from transformers import Mask2FormerConfig, Mask2FormerModel, SwinConfig

    swin = SwinConfig(
        embed_dim=16,
        depths=[1, 1, 1, 1],
        num_heads=[1, 2, 2, 4],
        image_size=64,
        window_size=4,
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )
    config = Mask2FormerConfig(
        backbone_config=swin,
        hidden_dim=32,
        feature_size=32,
        mask_feature_size=32,
        encoder_layers=1,
        decoder_layers=2,
        num_attention_heads=4,
        dim_feedforward=64,
        encoder_feedforward_dim=64,
        num_queries=5,
        num_labels=3,
    )
    return Mask2FormerModel(config), {"pixel_values": PICTURE}


def sam() -> Made:
    """Segment Anything with a point."""
    from transformers import SamConfig, SamModel, SamVisionConfig

    picture = SamVisionConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=64,
        patch_size=16,
        output_channels=16,
        mlp_dim=64,
        window_size=2,
        global_attn_indexes=[1],
        num_pos_feats=8,
    )
    prompts = {"hidden_size": 16, "image_size": 64, "patch_size": 16, "mask_input_channels": 4}
    decoder = {"hidden_size": 16, "mlp_dim": 32, "num_attention_heads": 2, "iou_head_hidden_dim": 16}
    config = SamConfig(
        vision_config=picture.to_dict(), prompt_encoder_config=prompts, mask_decoder_config=decoder
    )
    return SamModel(config), {"pixel_values": PICTURE, "input_points": torch.rand(1, 1, 1, 2) * 60}


def clip() -> Made:
    """CLIP: both towers, and how alike they are."""
    from transformers import CLIPConfig, CLIPModel

    vision = {**SMALL, "image_size": 32, "patch_size": 8, "projection_dim": 32}
    text = {**SMALL, "projection_dim": 32, "eos_token_id": 2}
    config = CLIPConfig(text_config=text, vision_config=vision, projection_dim=32)
    return CLIPModel(config), {"input_ids": IDS, "pixel_values": torch.randn(1, 3, 32, 32)}


def whisper_generates() -> Made:
    """Whisper's generate, eight tokens: a loop around the model."""
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    model = WhisperForConditionalGeneration(WhisperConfig(**BART, max_source_positions=50))

    class Generates(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, features: Any) -> Any:
            return self.model.generate(features, max_new_tokens=8, do_sample=False, eos_token_id=None)

    return Generates(), (torch.randn(1, 80, 100),)


TRANSFORMERS: dict[str, Maker] = {
    "transformers:Qwen3ForCausalLM": causal("Qwen3", DECODER),
    "transformers:Qwen3NextForCausalLM": causal("Qwen3Next", QWEN3_NEXT),
    "transformers:DeepseekV3ForCausalLM": causal("DeepseekV3", DEEPSEEK),
    "transformers:Gemma3ForCausalLM": causal("Gemma3", {**DECODER, "sliding_window": 8}, "Gemma3Text"),
    "transformers:FalconMambaForCausalLM": causal(
        "FalconMamba", {"hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 96, "state_size": 8}
    ),
    "transformers:RwkvForCausalLM": causal(
        "Rwkv", {"hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 96, "context_length": 32}
    ),
    "transformers:JambaForCausalLM": causal("Jamba", JAMBA),
    "transformers:xLSTMForCausalLM": causal(
        "xLSTM",
        {
            "hidden_size": 64,
            "num_heads": 2,
            "num_hidden_layers": 2,
            "vocab_size": 96,
            "chunk_size": 16,
            "qk_dim_factor": 1.0,
            "v_dim_factor": 1.0,
        },
    ),
    "transformers:ModernBertForMaskedLM": hugging(
        "ModernBertForMaskedLM",
        "ModernBertConfig",
        {
            **SMALL,
            "num_hidden_layers": 4,
            "cls_token_id": 1,
            "sep_token_id": 2,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "local_attention": 8,
        },
    ),
    "transformers:BartForConditionalGeneration": hugging(
        "BartForConditionalGeneration", "BartConfig", BART, input_ids=IDS, decoder_input_ids=IDS
    ),
    "transformers:LongformerModel": hugging(
        "LongformerModel", "LongformerConfig", {**SMALL, "attention_window": 4}
    ),
    "transformers:BigBirdModel": hugging(
        "BigBirdModel",
        "BigBirdConfig",
        {**SMALL, "block_size": 4, "num_random_blocks": 1, "attention_type": "block_sparse"},
        input_ids=IDS.repeat(1, 4),
    ),
    "transformers:ReformerModelWithLMHead": hugging("ReformerModelWithLMHead", "ReformerConfig", REFORMER),
    "transformers:OlmoeForCausalLM": causal("Olmoe", {**DECODER, "num_experts": 4, "num_experts_per_tok": 2}),
    "transformers:PhiForCausalLM": causal("Phi", {**SMALL, "num_key_value_heads": 4}),
    "transformers:DebertaV2Model": hugging(
        "DebertaV2Model",
        "DebertaV2Config",
        {**SMALL, "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 8},
    ),
    "transformers:FNetModel": hugging("FNetModel", "FNetConfig", SMALL),
    "transformers:Mamba2ForCausalLM": causal(
        "Mamba2",
        {
            "hidden_size": 64,
            "num_hidden_layers": 2,
            "vocab_size": 96,
            "num_heads": 8,
            "head_dim": 16,
            "state_size": 16,
            "n_groups": 1,
            "chunk_size": 8,
        },
    ),
    "transformers:DetrForObjectDetection": detr,
    "transformers:SamModel": sam,
    "transformers:CLIPModel": clip,
    "transformers:SegformerForSemanticSegmentation": hugging(
        "SegformerForSemanticSegmentation", "SegformerConfig", SEGFORMER, pixel_values=PICTURE
    ),
    "transformers:Mask2Former": mask2former,
    "transformers:DPTForDepthEstimation": hugging(
        "DPTForDepthEstimation", "DPTConfig", DPT, pixel_values=PICTURE
    ),
    "transformers:Wav2Vec2ForCTC": hugging(
        "Wav2Vec2ForCTC",
        "Wav2Vec2Config",
        {**SPEECH, "mask_time_prob": 0.05},
        input_values=torch.randn(1, 1000),
    ),
    "transformers:HubertModel": hugging(
        "HubertModel", "HubertConfig", SPEECH, input_values=torch.randn(1, 1000)
    ),
    "transformers:EncodecModel": hugging(
        "EncodecModel", "EncodecConfig", ENCODEC, input_values=torch.randn(1, 1, 640)
    ),
    "transformers:SpeechT5ForSpeechToText": hugging(
        "SpeechT5ForSpeechToText",
        "SpeechT5Config",
        {
            **BART,
            "hidden_size": 64,
            "encoder_layerdrop": 0.0,
            "decoder_layerdrop": 0.0,
            "conv_dim": [32, 32],
            "conv_kernel": [10, 3],
            "conv_stride": [5, 2],
            "num_conv_pos_embeddings": 16,
            "num_conv_pos_embedding_groups": 4,
            "mask_time_prob": 0.0,
        },
        input_values=torch.randn(1, 1000),
        decoder_input_ids=IDS,
    ),
    "transformers:Whisper generates": whisper_generates,
}
"""Makers of (module, inputs) by `package:name`."""
