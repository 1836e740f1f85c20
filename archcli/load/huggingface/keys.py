"""Names in a config.json: keys that change no count, keys of MLC, endings of class names."""

from __future__ import annotations

HEADS = (
    "ForCausalLM",
    "LMHeadModel",
    "MTModel",
    "DoubleHeadsModel",
    "ForConditionalGeneration",
    "ForPreTraining",
    "ForMaskedLM",
)
"""Endings of the names of classes that turn hidden states into logits over the vocabulary."""

FILE = """
    max_seq_len context_length max_context_length ignore_keys_at_rope_validation version
    _name_or_path name_or_path _commit_hash architectures model_type auto_map transformers_version
    torch_dtype dtype tokenizer_class prefix is_encoder_decoder cache_implementation output_past
    is_decoder summary_activation summary_type summary_use_proj summary_proj_to_labels summary_first_dropout
    type_vocab_size predict_special_tokens n_special unsloth_version
    unsloth_fixed transformers.js_config is_llama_config _from_model_config _comment comment license
    model_name model_path base_model sentence_transformers tokenizer tokenizer_type tokenizer_name
    tokenizer_path export_model_type author created_date language tags dataset
    base_model_name_or_path peft_type merge_method matryoshka_dimensions is_matryoshka lora_r
    device_map description chat_template conversation_template padding_side max_tokenizer_truncation
    org_vocab_size target_model_type modal_type system_message
"""
"""Keys about the file and the making of the model."""

RUNNING = """
    use_cache use_return_dict return_dict torchscript gradient_checkpointing pretraining_tp
    use_bfloat16 chunk_size_feed_forward attn_implementation _attn_implementation
    _attn_implementation_autoset experts_implementation output_attentions output_hidden_states
    output_scores return_dict_in_generate output_router_logits model_max_length max_sequence_length
    seq_length n_ctx dual_chunk_attention_config _attn_implementation_internal attention_backend
    use_flash_attention use_flash_attention_2 use_flash_attn use_sdpa max_cache_length linear_impl_type
    fuse_norm fuse_swiglu fuse_cross_entropy fuse_linear_cross_entropy bias_dropout_fusion params_dtype
    moe_router_dtype use_liger_kernel flash_attn fused_attention torch_compile load_in_4bit load_in_8bit
    softmax_in_fp32 onnx_safe fp16 bf16 fp32 logits_to_keep num_logits_to_keep kv_cache_quant_algo
    _flash_attn_2_enabled move_model_to_device keys_to_ignore_at_inference
"""
"""Keys about how the model runs: kernels, outputs, dtypes of steps."""

TOKENS = """
    bos_token eos_token pad_token bos_token_id eos_token_id pad_token_id _pad_token_id sep_token_id
    cls_token_id mask_token_id unk_token_id decoder_start_token_id forced_bos_token_id
    forced_eos_token_id bad_words_ids suppress_tokens begin_suppress_tokens image_token_index
    image_token_id boi_token_index boi_token_id eoi_token_index eoi_token_id mm_tokens_per_image
    boa_token_id boa_token_index eoa_token_id eoa_token_index audio_soft_tokens_per_image
    vision_soft_tokens_per_image im_start_id im_end_id im_newline_id text_start_id text_end_id pad_id
    mask_init_id
"""
"""Ids and texts of special tokens."""

TRAINING = """
    attention_dropout hidden_dropout hidden_dropout_prob attention_probs_dropout_prob
    classifier_dropout resid_pdrop embd_pdrop attn_pdrop residual_dropout embedding_dropout
    ffn_dropout dropout activation_dropout layerdrop initializer_range initializer_factor init_std
    init_method_std init_device router_aux_loss_coef router_z_loss_coef router_jitter_noise
    mtp_loss_scaling_factor aux_loss_alpha neftune_noise_alpha loss_type trainer global_step
    training_step z_loss_coeff embd_dropout seq_aux ep_size input_jitter_noise loss_decay_gamma
"""
"""Keys about training: dropout, initial values, losses."""

LABELS = "id2label label2id num_labels _num_labels problem_type task_specific_params finetuning_task"
SAMPLING = """
    max_length min_length max_new_tokens do_sample early_stopping num_beams num_beam_groups
    num_return_sequences temperature top_k top_p typical_p diversity_penalty repetition_penalty
    length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size
    exponential_decay_length_penalty remove_invalid_values
"""
# vocab_size and hidden_size: beside text_config they repeat it; a text model's importer reads them anyway
JOINING = """
    vocab_size hidden_size ignore_index image_grid_pinpoints image_seq_length image_text_hidden_size
    video_seq_length vision_start_token_id vision_end_token_id vision_token_id video_token_id
    video_token_index audio_token_id audio_token_index audio_bos_token_id audio_eos_token_id
    audio_start_token_id audio_end_token_id image_start_token_id image_end_token_id
    video_start_token_id video_end_token_id user_token_id position_id_per_seconds seconds_per_chunk
    downsample_factor alignment_intermediate_size max_value_projector_patch_to_query_dict
    projector_patch_to_query_dict projector_use_layernorm video_temporal_patch_size
    vision_hidden_size video_pruning_rate adapter_layer_norm_eps projector_hidden_size
    density_router_hidden_size density_router_threshold density_router_loss_weight vocabulary_map
    frame_start_token_id frame_end_token_id image_patch_id enable_audio_output im_start_token_id
    im_end_token_id system_token_id assistant_token_id tts_bos_token_id tts_eos_token_id
    tts_pad_token_id low_res_image_start_token_id image_size patch_size num_channels out_hidden_size
    latent_query_num timestamp_token_id visual_indicator_token_ids vision_feature_layer
    vision_feature_select_strategy vision_aspect_ratio vision_use_cls_token
    multimodal_projector_bias use_image_newline_parameter projection_dim projection_hidden_size
    merged_hidden_size projection_layer_norm_eps projector_bias projector_hidden_act
    projector_layernorm_eps projector_pooling_ratio spatial_merge_size spatial_pool_mode
    spatial_pool_stride scale_factor downsample_rate downsample_ratio num_query_tokens window_size
    image_size patch_size num_channels acoustic_tokenizer_chunk_size audio_chunk_size
    audio_frame_step audio_merge_size diffusion_loss_weight use_decoder_only_language_model
    num_image_tokens pixel_shuffle_factor initializer_cutoff_factor media_placeholder_token_id
    use_unified_vision_chunk video_placeholder ps_version select_layer template force_image_size
    do_image_splitting encoder_patch_size max_image_tokens max_pixels_tolerance max_tiles
    min_image_tokens min_tiles tile_size use_image_special_tokens dynamic_image_size use_thumbnail
    max_dynamic_patch min_dynamic_patch pad2square image_aspect_ratio mm_vision_tower
    mm_projector_type mm_hidden_size mm_use_im_start_end mm_use_im_patch_token
    mm_vision_select_layer mm_vision_select_feature mm_patch_merge_type use_mm_proj
    tune_mm_mlp_adapter freeze_mm_mlp_adapter unfreeze_mm_vision_tower tokenizer_model_max_length
    tokenizer_padding_side logit_scale_init_value downsample_mode insert_layer_id merge_kernel_size
    merger_times drop_vision_last_layer image_start_id image_end_id slice_start_id slice_end_id
    newline_id image_bos_token_id default_num_delay_tokens
"""
"""Keys of a model with towers about joining them to the language model."""

HARMLESS = frozenset(f"{FILE} {RUNNING} {TOKENS} {TRAINING} {LABELS} {SAMPLING} {JOINING}".split())
"""Keys that change no count: no note says that one is not read. A family may read one all the same."""

HARMLESS_ENDINGS = (
    *("_token_id", "_token_ids", "_token_index"),  # what a token stands for
    *("_eps", "_epsilon"),  # a constant within a norm
    *("_dropout", "_dropout_prob", "_dropout_rate", "_pdrop"),  # nothing is dropped in the passes counted
    *("_loss_coef", "_loss_weight", "_loss_alpha"),  # of terms of a loss
    *("rope_theta", "_emb_base"),  # the base of rotary angles, whose number it leaves
)
"""Endings of keys whose value changes neither parameters nor FLOPs nor the cache, whatever it is."""

OF_TOWERS = ("image_", "img_", "vision_", "video_", "audio_", "speech_", "projector_", "mm_", "tune_mm_")
"""Beginnings of keys about towers and their inputs, in the file of a model with towers."""

LENGTHS = """
    vocab_size padded_vocab_size max_position_embeddings n_positions n_ctx max_sequence_length seq_length
    max_seq_len max_seq_length model_max_length num_labels type_vocab_size
"""
NO_SHAPE = frozenset(LENGTHS.split())
"""Sizes that a tokenizer's file has too: they do not show that a file is a config.json."""

MLC_SIZES = {
    "context_window_size": "max_position_embeddings",
    "sliding_window_size": "sliding_window",
    "position_embedding_base": "rope_theta",
}
"""Key of an mlc-chat-config.json: the same in a config.json; -1 and 0 mean that none is set."""

MLC_ENGINE = (
    "prefill_chunk_size",
    "max_batch_size",
    "tensor_parallel_shards",
    "pipeline_parallel_stages",
    "attention_sink_size",
    "disaggregation",
    "weight_block_size",
    "kwargs",
)
"""Settings of MLC's engine in that file."""

THEIRS_ALONE = frozenset(("model_type", "architectures", "transformers_version"))
"""Keys by which a config.json is told from a YAML of archcli, which has none of them."""
