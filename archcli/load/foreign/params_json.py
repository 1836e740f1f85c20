"""params.json of Meta, Mistral, executorch and llama2.c, read as the config.json of the same model.

DeepSeek's inference/configs are in deepseek.py. Sources of the rules: Meta's llama/model.py (the width of the
network), executorch's examples/models/llama/model_args.py, vLLM's transformers_utils/configs/mistral.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from archcli.load.foreign.deepseek import is_deepseek, of_deepseek
from archcli.load.foreign.renamed import Renamed
from archcli.load.huggingface.config import MOST_LAYERS, Config, short_repr
from archcli.load.huggingface.config_json import ConfigJson, ConfigValue

KEYS = frozenset(("dim", "n_layers"))
OF_TRANSFORMERS = frozenset(
    ("architectures", "transformers_version", "hidden_size", "n_embd", "activation_function", "tie_weights_")
)
"""Keys of a config.json; `dim` and `n_layers` are DistilBERT's and XLM's words, too."""

MULTIPLE_OF = 256
"""What the width of the network is rounded up to, where the file does not say: ModelArgs of all three."""
# bounds the integer that int() makes of a stranger's float
MOST_TIMES = 1000.0

REFUSED = {
    "moe_args": "Llama 4's experts",
    "vision_num_cross_attention_layers": "layers that attend to images",
    "layer_types": "layers of several kinds",
    "post_attention_norm": "a norm behind the attention",
    "post_ffn_norm": "a norm behind the network",
    "lora_args": "adapters",
    "target_modules": "adapters",
    "final_logit_softcapping": "capped logits",
    "attn_logit_softcapping": "capped scores",
}
"""Keys that say more than the architectures read here have, and what they stand for."""

HARMLESS = """
    max_batch_size max_context_len use_kv_cache use_sdpa_with_kv_cache_op use_hf_rope qk_norm_before_rope
    device enable_dynamic_shape generate_full_logits bos_idx eos_idx bos_count eos_count apply_embedding
    apply_output llama_4_scaling yarn causal rope_freq_base high_freq_factor n_special_tokens local_rope_theta
"""
HEADS = ("n_heads", "num_attention_heads", "num_heads", "n_head")
KV_HEADS = ("n_kv_heads", "num_key_value_heads", "num_kv_heads", "n_kv_head", "n_kv")
HEAD_WIDTHS = ("head_dim", "d_head", "head_size")
NETWORK_WIDTHS = (
    *(
        "hidden_dim",
        "intermediate_size",
        "ffn_dim",
        "ffn_hidden_size",
        "n_inner",
        "d_ff",
        "ff_dim",
        "mlp_dim",
    ),
    *("inter_dim", "inner_dim", "intermediate_dim", "ffn_hidden_dim"),
)
"""Words of other programs for a size, as tt-metal's params.json of Phi-4 has them."""
SIZE = re.compile(r"(^|_)(dims?|width|hidden|ffn|mlp|intermediate|inner|heads?|kv)(_|$)")
"""What a key that states a width or a number of heads is called."""
TIED = ("tied_embeddings", "tie_word_embeddings", "tie_embeddings", "weight_tying")
CODESTRAL_MAMBA = {"expand": 2, "head_dim": 64, "state_size": 128, "conv_kernel": 4}
"""What mistral-inference's Mamba leaves to the defaults of mamba_ssm's Mamba2, as no key states them."""


class Converted(NamedTuple):
    """A config.json made of another file, archcli's own keys beside it, and notes on the way."""

    config: ConfigJson
    known: Mapping[str, Any]
    notes: tuple[str, ...]


def is_params(data: Any) -> bool:
    """Whether a JSON object is a params.json; a model_type that Mistral's files state is none of a family."""
    return (
        KEYS.issubset(data)
        and OF_TRANSFORMERS.isdisjoint(data)
        and data.get("model_type") in (None, "transformer", "mamba")
    )


def as_config(file: ConfigJson, *, vocab_is_set: bool = False) -> Converted:
    """The config.json that a params.json stands for.

    `vocab_is_set`: the caller states the vocabulary, which Meta's files of Llama 1 and 2 leave to the
    tokenizer. ArchError for what the families read here do not have.
    """
    config = Config(file.data, file.places)
    data = Renamed(config)
    data["vocab_size"] = _vocabulary(config, is_set=vocab_is_set)
    if is_deepseek(config):
        of_deepseek(config, data)
    elif config.get("model_type", default=None) == "mamba":
        _of_mamba(config, data)
    else:
        _of_llama(config, data)
    config.ignore(*HARMLESS.split())
    _refuse_sizes(config)
    config.report_unread_keys()
    return Converted(data.as_json(), {"max_seq_len": data.longest}, tuple(config.notes))


def _refuse_sizes(config: Config) -> None:
    """ArchError for a width or a number of heads at a key that is not read: none is made up in its place."""
    for key in config.unread_keys():
        value = config.data[key]
        if type(value) is int and value > 1 and SIZE.search(key):
            what = f"{key} {value:,} is a size that is not read from a params.json"
            raise config.error(what, "give the model's config.json", config.place(key))


def _size(
    config: Config, names: tuple[str, ...], default: ConfigValue[int] | None = None
) -> ConfigValue[int] | None:
    """The size under any of these keys. Raises ArchError where two of them disagree."""
    present = [name for name in names if config.data.get(name) is not None]
    if not present:
        return default
    first = config.size(*present)
    for name in present[1:]:
        if config.size(name).value != first.value:
            what = f"{present[0]} {first} and {name} {config.size(name)} state one size"
            raise config.error(what, "leave the wrong one out", config.place(name))
    return first


def _vocabulary(config: Config, *, is_set: bool) -> ConfigValue[int]:
    """The size of the vocabulary, which may stand in the tokenizer alone."""
    size = config.value("vocab_size", default=-1)
    if size.value != -1 or isinstance(size.value, bool):
        return config.size("vocab_size")
    if is_set:
        return size.derive(1)  # --set replaces it
    what = "the size of the vocabulary is not stated: the tokenizer beside the file has it"
    raise config.error(what, "--set vocab_size=32000 for Llama 1 and 2", config.place("vocab_size"))


def _of_mamba(config: Config, data: Renamed) -> None:
    """Codestral Mamba, of mistral-inference."""
    data.put("mamba2", hidden_size=config.size("dim"), num_hidden_layers=config.size("n_layers"))
    width = config.size("dim").value * CODESTRAL_MAMBA["expand"]
    data.update(CODESTRAL_MAMBA)
    data.update(num_heads=width // CODESTRAL_MAMBA["head_dim"], n_groups=config.size("n_groups", default=1))
    config.only("rms_norm", True, default=True)
    config.ignore("residual_in_fp32", "fused_add_norm", "pad_vocab_size_multiple")
    data["tie_word_embeddings"] = _tied(config)


def _of_llama(config: Config, data: Renamed) -> None:
    """Llama, and what differs from it by a key: Mistral, Mixtral, Qwen 2 and 3, SmolLM3, Phi-4-mini."""
    _refuse_others(config)
    heads = _size(config, HEADS) or config.size("n_heads")
    data.update(
        hidden_size=config.size("dim"),
        num_hidden_layers=config.size("n_layers"),
        num_attention_heads=heads,
        num_key_value_heads=_size(config, KV_HEADS, heads),
        intermediate_size=_network_width(config),
        rms_norm_eps=config.number("norm_eps", default=1e-5),
        rope_theta=config.number("rope_theta", "rope_freq_base", default=10000.0),
    )
    if head_dim := _size(config, HEAD_WIDTHS):
        data["head_dim"] = head_dim
    data["tie_word_embeddings"] = _tied(config)
    data.longest = config.optional_size("max_seq_len", "max_position_embeddings")
    _note_unread(config)
    _form(config, data)
    _of_kind(config, data)


def _refuse_others(config: Config) -> None:
    for key, only in {"norm_type": "rmsnorm", "attention_type": "mha", "act_fn": "silu"}.items():
        config.only(key, only, default=only)
    config.only("activation", "silu", default="silu")
    for key, about in REFUSED.items():
        if config.get(key, default=None):
            what = f"{key} stands for {about}, not read from a params.json"
            raise config.error(what, "give the model's config.json", config.place(key))
    if config.get("qk_nope_head_dim", "q_lora_rank", default=None):
        what = "latent attention of Mistral is not read from a params.json"
        raise config.error(what, "give the model's config.json", config.place("qk_nope_head_dim"))
    config.only("embedding_scale_factor", 1, 1.0, default=1)
    config.ignore(*REFUSED, "kv_lora_rank", "qk_rope_head_dim", "v_head_dim")


def _network_width(config: Config) -> ConfigValue[int]:
    """The width that the file states, else 8/3 of dim by the multiplier, rounded up to a multiple."""
    if size := _size(config, NETWORK_WIDTHS):
        config.ignore("multiple_of", "ffn_dim_multiplier")
        return size
    multiple = config.size("multiple_of", default=MULTIPLE_OF)
    # cut to a whole number twice, as FeedForward of Meta's model.py does: before and after the multiplier
    width, share = int(2 * (4 * config.size("dim").value) / 3), "8/3 of dim"
    if config.get("ffn_dim_multiplier", default=None) is not None:
        times = config.number("ffn_dim_multiplier")
        if not 0 < times.value <= MOST_TIMES:
            what = f"ffn_dim_multiplier {short_repr(times.value)} is beyond reason"
            raise config.error(what, f"more than 0 and at most {MOST_TIMES:,.0f} is read", times.place)
        width, share = int(times.value * width), f"{share} times {times.value:g}"
    whole = -(-width // multiple.value) * multiple.value
    config.note(f"the network's width is {whole:,}: {share}, rounded up to a multiple of {multiple.value:,}")
    return config.as_size("hidden_dim", ConfigValue(whole, config.place("multiple_of", "dim")))


def _tied(config: Config) -> ConfigValue[bool]:
    """Whether the head is the token table; llama2.c's files do not say that it always is."""
    if any(config.data.get(key) is not None for key in TIED):
        return config.flag(*TIED)
    is_llama2c = "dropout" in config.data and "max_seq_len" in config.data
    if not is_llama2c:
        config.note(
            "the file does not say whether the head is the token table: counted apart, --set "
            "embedding.tied=true counts it once"
        )
    return ConfigValue(is_llama2c, config.places.start)


def _note_unread(config: Config) -> None:
    """Note towers, which are not counted."""
    for key in ("vision_encoder", "multimodal"):
        if config.get(key, default=None):
            config.note(f"{key} is not counted: the language model is")


def _form(config: Config, data: Renamed) -> None:
    """How weights are stored: Mistral's fp8 with a scale a matrix; other forms are not known.

    `NO_SCALES` of `qscheme_act` leaves inputs without one (vllm/transformers_utils/configs/mistral.py).
    """
    for key in ("quantization", "quantization_args"):
        form_read = config.get(key, default=None)
        if not isinstance(form_read, dict):
            continue
        form = {"quant_method": f"{key} of a params.json", **form_read}
        if form_read.get("qformat_weight") == "fp8_e4m3":
            scheme = "dynamic" if form_read.get("qscheme_act") == "NO_SCALES" else "static"
            form = {"quant_method": "fp8", "weight_block_size": None, "activation_scheme": scheme}
        data["quantization_config"] = ConfigValue(form, config.place(key))


def _of_kind(config: Config, data: Renamed) -> None:
    """Tell the model_type by the keys that only one family has."""
    moe = config.get("moe", default=None)
    biased = config.flag("attention_qkv_bias", default=False).value
    normed = config.flag("use_qk_norm", default=False).value
    interval = config.optional_size("no_rope_layer_interval")
    share = config.number("partial_rotary_factor", default=1.0)
    window = config.get("sliding_window", default=None)
    kinds = {
        "mixtral": bool(moe),
        "qwen2": biased,
        "qwen3": normed,
        "smollm3": interval is not None,
        "phi3": share.value != 1,
        "mistral": window is not None,
    }
    chosen = [kind for kind, is_it in kinds.items() if is_it]
    # Mixtral may have a window
    if len(chosen) > 1 and chosen != ["mixtral", "mistral"]:
        what = f"keys of {' and '.join(chosen)} stand in one file, and no family here has them together"
        raise config.error(what, "give the model's config.json")
    data.put(chosen[0] if chosen else "llama")
    if moe:
        _experts(config, data, moe)
    if interval is not None:
        data["no_rope_layer_interval"] = interval
    if share.value != 1:
        data["partial_rotary_factor"] = share
    if window is not None:
        data.put("mistral" if not moe else "mixtral")
        _window(config, data)
    _scaled_rope(config, data)


def _experts(config: Config, data: Renamed, moe: Any) -> None:
    """Mixtral's experts: an object of Mistral's, or executorch's `moe: true`."""
    if isinstance(moe, dict):
        inner = config.inner("moe", {})
        if inner.get("num_shared_experts", "expert_hidden_dim", default=None):
            what = "experts of another width, and shared ones, are not read from a params.json"
            raise config.error(what, "give the model's config.json", config.place("moe"))
        data.update(
            num_local_experts=inner.size("num_experts"), num_experts_per_tok=inner.size("num_experts_per_tok")
        )
        return
    config.flag("moe")
    # the defaults of executorch's ModelArgs
    data.update(
        num_local_experts=config.size("num_experts", default=8),
        num_experts_per_tok=config.size("num_activated_experts", default=2),
    )


def _window(config: Config, data: Renamed) -> None:
    """Mistral's sliding window: one of all layers, or a list that repeats, null for full attention."""
    window = config.value("sliding_window")
    if not isinstance(window.value, list):
        data["sliding_window"] = config.size("sliding_window")
        return
    widths, layers = window.value, config.size("n_layers")
    if not widths or layers.value % len(widths) or len({*map(repr, widths)} - {"None"}) > 1:
        what = f"sliding_window {short_repr(widths)} does not repeat over {layers.value} layers"
        raise config.error(what, "a list of one width, and null for full attention", window.place)
    width = next((width for width in widths if width is not None), None)
    data["sliding_window"] = None if width is None else config.as_size("sliding_window", window.derive(width))
    if layers.value > MOST_LAYERS:
        raise config.error(f"n_layers {layers} is beyond reason", at=layers.place)
    kinds = ["full_attention" if width is None else "sliding_attention" for width in widths]
    data["layer_types"] = kinds * (layers.value // len(widths))


def _scaled_rope(config: Config, data: Renamed) -> None:
    """Llama 3.1's scaling of rotary angles, as Meta's apply_scaling has it."""
    factor = config.number("rope_scaling_factor", "rope_scale_factor", default=8.0)
    if not config.flag("use_scaled_rope", default=False).value:
        return
    data["rope_scaling"] = {
        "rope_type": "llama3",
        "factor": factor.value,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
