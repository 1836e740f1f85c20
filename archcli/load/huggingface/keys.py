"""Keys of a config.json that change no count, and class names that end in an output head."""

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
    _name_or_path name_or_path _commit_hash architectures model_type auto_map transformers_version
    torch_dtype dtype tokenizer_class prefix is_encoder_decoder cache_implementation
"""
RUNNING = """
    use_cache use_return_dict return_dict torchscript gradient_checkpointing pretraining_tp
    use_bfloat16 chunk_size_feed_forward attn_implementation _attn_implementation
    _attn_implementation_autoset experts_implementation output_attentions output_hidden_states
    output_scores return_dict_in_generate output_router_logits model_max_length max_sequence_length
    seq_length n_ctx
"""
TOKENS = """
    bos_token_id eos_token_id pad_token_id sep_token_id cls_token_id mask_token_id unk_token_id
    decoder_start_token_id forced_bos_token_id forced_eos_token_id bad_words_ids suppress_tokens
    begin_suppress_tokens image_token_index image_token_id boi_token_index boi_token_id
    eoi_token_index eoi_token_id mm_tokens_per_image
"""
TRAINING = """
    attention_dropout hidden_dropout hidden_dropout_prob attention_probs_dropout_prob
    classifier_dropout resid_pdrop embd_pdrop attn_pdrop residual_dropout embedding_dropout
    ffn_dropout dropout activation_dropout layerdrop initializer_range initializer_factor init_std
    init_method_std init_device router_aux_loss_coef router_z_loss_coef router_jitter_noise
    aux_loss_alpha seq_aux ep_size
"""
LABELS = "id2label label2id num_labels problem_type task_specific_params finetuning_task"
SAMPLING = """
    max_length min_length max_new_tokens do_sample early_stopping num_beams num_beam_groups
    num_return_sequences temperature top_k top_p typical_p diversity_penalty repetition_penalty
    length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size
    exponential_decay_length_penalty remove_invalid_values
"""

HARMLESS = frozenset(f"{FILE} {RUNNING} {TOKENS} {TRAINING} {LABELS} {SAMPLING}".split())
"""Keys that change no count. A family that needs one of them reads it all the same."""
